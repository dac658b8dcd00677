"""WorkQueue and its cleanings for blocking programs. aio.py has the asyncio versions.

Called by   programs that use the library, cli/clean.py.
Calls       working.py and cleaning.py for the steps, redis-py to carry them out.

`db` is a redis.Redis or a redis.RedisCluster, with or without decode_responses. Errors are those
of redis-py. Invalid arguments raise BadArgument and change nothing.

Not here: the rules of the queue (working.py, cleaning.py), its settings (session.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from redis import Redis, RedisCluster
from redis.client import NEVER_DECODE
from redis.exceptions import NoScriptError

from quinque.workqueue import direct, working
from quinque.workqueue.cleaning import GRACE_S, Cleaner
from quinque.workqueue.counts import CleanCounts, Progress
from quinque.workqueue.item import Item
from quinque.workqueue.session import Session, Slices
from quinque.workqueue.steps import Call, Command, Pause, R, Request, Scan, Size, Steps, Word

Db = Redis | RedisCluster
Tell = Callable[[Progress], object]

_RAW: Final[dict[str, Any]] = {NEVER_DECODE: []}  # answers are bytes, whatever the client's setting


class WorkQueue(Session):
    def add_item(self, db: Db, item: Item) -> bool:
        """Add the item to the queue. Return False if an item with its id exists; nothing
        changes."""
        return self._run(db, working.add(self.keys, item, is_checked=True))

    def add_new_item(self, db: Db, item: Item) -> bool:
        """The same as add_item, under its name in the published package."""
        return self.add_item(db, item)

    def add_unique_item(self, db: Db, item: Item) -> None:
        """Add the item without a check. Its id must be new: an item with the same id would be
        queued twice and get the new data."""
        self._run(db, working.add(self.keys, item, is_checked=False))

    def lease(
        self, db: Db, lease_secs: float, block: bool = True, timeout: float = 0
    ) -> Item | None:
        """Lease the oldest queued item to this session for `lease_secs` seconds.

        If there is none, return None: at once without `block`, else after `timeout` seconds. A
        `timeout` of 0 blocks forever. Raises BadArgument.
        """
        return self._run(db, self._lease(db, lease_secs, block, timeout))

    def extend(self, db: Db, item: Item, lease_secs: float) -> bool:
        """Extend the lease to `lease_secs` from now. Return False if this session has no lease.

        Raises BadArgument.
        """
        return self._run(db, self._extend(item, lease_secs))

    def complete(self, db: Db, item: Item) -> bool:
        """Complete the item and remove it. Return True only for the call that removed it."""
        return self._run(db, working.complete(self.keys, item))

    def queue_len(self, db: Db) -> int:
        """Return the number of queued ids."""
        return self._run(db, working.length(self.keys.queue))

    def processing(self, db: Db) -> int:
        """Return the number of ids in processing, including those of abandoned items."""
        return self._run(db, working.length(self.keys.processing))

    def counts(self, db: Db) -> tuple[int, int]:
        """Return both lengths at the same moment."""
        return self._run(db, working.counts(self.keys))

    def shortest_lease_s(self, db: Db) -> float | None:
        """Return the shortest duration of the newest leases. None if there is none."""
        return self._run(db, working.shortest_lease_s(self.keys))

    def light_clean(
        self, db: Db, *, dry_run: bool = False, grace_s: float = GRACE_S
    ) -> CleanCounts:
        """Requeue items in processing that have no lease, and return the counts.

        Each such item is checked twice, `grace_s` apart: a worker of another client may be about to
        write its lease.
        """
        return self._run(db, Cleaner(self.keys, dry_run=dry_run, grace_s=grace_s).light())

    def deep_clean(
        self,
        db: Db,
        progress: Tell | None = None,
        *,
        dry_run: bool = False,
        grace_s: float = GRACE_S,
    ) -> CleanCounts:
        """Clean like light_clean, but check all items and repair the lists. `progress` is called
        between slices."""
        steps = Cleaner(self.keys, dry_run=dry_run, grace_s=grace_s).deep()
        return self._run(db, steps, progress)

    def _run(self, db: Db, steps: Steps[R], tell: Tell | None = None) -> R:
        self._check(db)
        answer = None
        try:
            while True:
                request = steps.send(answer)
                answer = _answer(db, request)
                if tell is not None and isinstance(request, Progress):
                    tell(request)
        except StopIteration as done:
            result: R = done.value
            return result


class _Clean(Slices):
    def step(self) -> bool:
        """Process one more slice, which takes some milliseconds. Return False if none was left."""
        while not self.is_done:
            try:
                request = self._steps.send(self._answer)
            except StopIteration:
                self.is_done = True
                break
            self._answer = _answer(self._db, request)
            if isinstance(request, Progress):
                self.progress = request
                return True
        return False


class LightClean(_Clean):
    """WorkQueue.light_clean in slices."""

    def _begin(self, cleaner: Cleaner) -> Steps[CleanCounts]:
        return cleaner.light()


class DeepClean(_Clean):
    """WorkQueue.deep_clean in slices."""

    def _begin(self, cleaner: Cleaner) -> Steps[CleanCounts]:
        return cleaner.deep()


def _answer(db: Db, request: Request) -> Any:
    execute: Any = db.execute_command
    match request:
        case Call():
            in_cluster = isinstance(db, RedisCluster)
            try:
                return _call(db, request, request.by_hash(in_cluster))
            except NoScriptError:
                return _call(db, request, request.by_text(in_cluster))
        case Command(words):
            return execute(*words, **_RAW)
        case Scan(key, cursor, pattern, most):
            name, server = _server_of(db, key)
            words = ("SCAN", cursor, "MATCH", pattern, "COUNT", most)
            following, keys = server.execute_command(*words, **_RAW)
            return name, int(following), keys
        case Size(key):
            return _server_of(db, key)[1].execute_command("DBSIZE")
        case Pause(seconds):
            time.sleep(seconds)
    return None


def _call(db: Db, request: Call, words: tuple[Word, ...]) -> Any:
    execute: Any = db.execute_command
    if isinstance(db, RedisCluster):
        # With a node that is named, redis-py follows redirections and repeats nothing.
        to = {"target_nodes": db.get_node_from_key(request.prefix)} if request.is_once else {}
        return execute(*words, **to, **_RAW)
    if request.is_once and type(db) is Redis:
        return direct.ask_once(db, words)
    if direct.has_way(db):
        return direct.ask(db, words)
    return execute(*words, **_RAW)


def _server_of(db: Any, key: bytes) -> tuple[str, Any]:
    """The server that has the key, and its name."""
    if not isinstance(db, RedisCluster):
        return "", db
    node: Any = db.get_node_from_key(key)
    return node.name, db.get_redis_connection(node)
