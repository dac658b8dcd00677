"""dramatiq, with the middleware that it has by default; a message is acked when it is done."""

from __future__ import annotations

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers.noted import QUEUE, URL, note

dramatiq.set_broker(RedisBroker(url=os.environ[URL]))
add = dramatiq.actor(note, queue_name=QUEUE).send
