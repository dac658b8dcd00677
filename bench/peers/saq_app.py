"""saq, without results; a job is in the list of those that are worked until it is done."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from saq import Queue

from bench.peers.noted import QUEUE, TASKS, URL
from bench.peers.noted import note as noted

queue = Queue.from_url(os.environ[URL], name=QUEUE)


async def note(context: Any, *, added_ns: int) -> None:
    noted(added_ns)


settings = {"queue": queue, "functions": [note], "concurrency": int(os.environ[TASKS])}

_loop = asyncio.new_event_loop()


def add(added_ns: int) -> None:
    _loop.run_until_complete(queue.enqueue("note", added_ns=added_ns, ttl=-1))
