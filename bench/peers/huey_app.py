"""huey, without results; a task is gone from the queue before it is done."""

from __future__ import annotations

import os

from huey import RedisHuey

from bench.peers.noted import QUEUE, URL, note

huey = RedisHuey(QUEUE, results=False, url=os.environ[URL])
add = huey.task()(note)
