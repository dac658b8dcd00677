"""rq, without results; it finds the jobs of a dead worker in a registry of started jobs."""

from __future__ import annotations

import os
from functools import partial

from redis import Redis
from rq import Queue

from bench.peers.noted import QUEUE, URL, note

add = partial(Queue(QUEUE, connection=Redis.from_url(os.environ[URL])).enqueue, note, result_ttl=0)
