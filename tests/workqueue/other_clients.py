"""The clients that others wrote for these keys, each with the same few calls.

Called by   the tests beside this file.
Calls       the published packages redis-work-queue and @mevitae/redis-work-queue; Node.js.

    python   PyPI redis-work-queue 0.1.5: the old generation
    node     npm @mevitae/redis-work-queue 0.1.5: the old generation
    new      the commands that the documentation of the generation 0.3 gives, which no registry of
             Python or Node.js has

Not here: ours (stage.py).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import redis
import redis_work_queue

from quinque.workqueue import Item, KeyPrefix, WorkQueue

_PACKAGES = Path(__file__).parents[2] / ".tools" / "node" / "node_modules"


class Client(Protocol):
    """What every client can do with a queue; an item is its id and its data, as text."""

    def add(self, id: str, data: str) -> None: ...

    def lease(self, lease_s: int = 60) -> tuple[str, str] | None: ...

    def complete(self, id: str) -> bool: ...

    def clean(self) -> None: ...


class Ours:
    def __init__(self, db: Any, prefix: str, **settings: Any) -> None:
        self._db = db
        self._queue = WorkQueue(KeyPrefix(prefix), **settings)

    def add(self, id: str, data: str) -> None:
        assert self._queue.add_item(self._db, Item(data, id=id))

    def lease(self, lease_s: int = 60) -> tuple[str, str] | None:
        item = self._queue.lease(self._db, lease_s, block=False)
        return None if item is None else (item.id(), item.data().decode())

    def complete(self, id: str) -> bool:
        return self._queue.complete(self._db, Item("", id=id))

    def clean(self) -> None:
        self._queue.light_clean(self._db, grace_s=0)


class PublishedPython:
    def __init__(self, db: Any, prefix: str) -> None:
        self._db = db
        self._queue = redis_work_queue.WorkQueue(redis_work_queue.KeyPrefix(prefix))

    def add(self, id: str, data: str) -> None:
        self._queue.add_item(self._db, redis_work_queue.Item(data, id=id))

    def lease(self, lease_s: int = 60) -> tuple[str, str] | None:
        item = self._queue.lease(self._db, lease_s, block=False)
        return None if item is None else (item.id(), item.data().decode())

    def complete(self, id: str) -> bool:
        return bool(self._queue.complete(self._db, redis_work_queue.Item("", id=id)))

    def clean(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()):  # it says what it cleans
            self._queue.light_clean(self._db)


class NewGeneration:
    """Each method is the commands of the documentation, in their order."""

    def __init__(self, db: redis.Redis, prefix: str) -> None:
        self._db: Any = db
        self._prefix = prefix

    def add(self, id: str, data: str) -> None:
        if self._db.setnx(f"{self._prefix}:item:{id}", data):
            self._db.lpush(f"{self._prefix}:queue", id)

    def lease(self, lease_s: int = 60) -> tuple[str, str] | None:
        id = self._db.rpoplpush(f"{self._prefix}:queue", f"{self._prefix}:processing")
        data = None if id is None else self._db.get(f"{self._prefix}:item:{id.decode()}")
        if data is None:
            return None
        self._db.execute_command(
            "SETEX", f"{self._prefix}:lease:{id.decode()}", lease_s, "a session"
        )
        return id.decode(), data.decode()

    def complete(self, id: str) -> bool:
        ended = self._db.delete(f"{self._prefix}:item:{id}")
        self._db.lrem(f"{self._prefix}:processing", 0, id)
        self._db.delete(f"{self._prefix}:lease:{id}")
        return bool(ended)

    def clean(self) -> None:
        for id in self._db.lrange(f"{self._prefix}:processing", 0, -1):
            if self._db.exists(f"{self._prefix}:lease:{id.decode()}"):
                continue
            is_there = self._db.exists(f"{self._prefix}:item:{id.decode()}")
            self._db.lrem(f"{self._prefix}:processing", 0, id)
            if is_there:
                self._db.lpush(f"{self._prefix}:queue", id)


class NodeProcess:
    """A process of Node.js that works queues; of any prefix, one call at a time."""

    def __init__(self, socket_path: str) -> None:
        self._process = subprocess.Popen(
            ["node", str(Path(__file__).with_name("node_worker.js")), socket_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "NODE_PATH": str(_PACKAGES)},
        )

    def call(self, **words: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"node ended with {self._process.wait()}"
        return json.loads(line)

    def close(self) -> None:
        self._process.communicate(timeout=30)


class PublishedNode:
    def __init__(self, process: NodeProcess, prefix: str) -> None:
        self._call: Callable[..., Any] = lambda **words: process.call(prefix=prefix, **words)

    def add(self, id: str, data: str) -> None:
        self._call(verb="add", id=id, data=data)

    def lease(self, lease_s: int = 60) -> tuple[str, str] | None:
        item = self._call(verb="lease", lease_s=lease_s)
        return None if item is None else (item["id"], item["data"])

    def complete(self, id: str) -> bool:
        return bool(self._call(verb="complete", id=id, data=""))

    def clean(self) -> None:
        self._call(verb="clean")
