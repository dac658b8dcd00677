"""WorkQueue and its cleanings for asyncio programs. sync.py has the blocking versions.

Called by   programs that use the library.
Calls       working.py and cleaning.py for the steps, redis-py to carry them out.

`db` is a redis.asyncio.Redis or a redis.asyncio.RedisCluster. All else is as in sync.py.

Not here: the rules of the queue (working.py, cleaning.py), its settings (session.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from redis.asyncio import Redis, RedisCluster
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
    async def add_item(self, db: Db, item: Item) -> bool:
        """Add the item to the queue. Return False if an item with its id exists; nothing
        changes."""
        return await self._run(db, working.add(self.keys, item, is_checked=True))

    async def add_new_item(self, db: Db, item: Item) -> bool:
        """The same as add_item, under its name in the published package."""
        return await self.add_item(db, item)

    async def add_unique_item(self, db: Db, item: Item) -> None:
        """Add the item without a check. Its id must be new: an item with the same id would be
        queued twice and get the new data."""
        await self._run(db, working.add(self.keys, item, is_checked=False))

    async def lease(
        self, db: Db, lease_secs: float, block: bool = True, timeout: float = 0
    ) -> Item | None:
        """Lease the oldest queued item to this session for `lease_secs` seconds.

        If there is none, return None: at once without `block`, else after `timeout` seconds. A
        `timeout` of 0 blocks forever. Raises BadArgument.
        """
        return await self._run(db, self._lease(db, lease_secs, block, timeout))

    async def extend(self, db: Db, item: Item, lease_secs: float) -> bool:
        """Extend the lease to `lease_secs` from now. Return False if this session has no lease.

        Raises BadArgument.
        """
        return await self._run(db, self._extend(item, lease_secs))

    async def complete(self, db: Db, item: Item) -> bool:
        """Complete the item and remove it. Return True only for the call that removed it."""
        return await self._run(db, working.complete(self.keys, item))

    async def queue_len(self, db: Db) -> int:
        """Return the number of queued ids."""
        return await self._run(db, working.length(self.keys.queue))

    async def processing(self, db: Db) -> int:
        """Return the number of ids in processing, including those of abandoned items."""
        return await self._run(db, working.length(self.keys.processing))

    async def counts(self, db: Db) -> tuple[int, int]:
        """Return both lengths at the same moment."""
        return await self._run(db, working.counts(self.keys))

    async def shortest_lease_s(self, db: Db) -> float | None:
        """Return the shortest duration of the newest leases. None if there is none."""
        return await self._run(db, working.shortest_lease_s(self.keys))

    async def light_clean(
        self, db: Db, *, dry_run: bool = False, grace_s: float = GRACE_S
    ) -> CleanCounts:
        """Requeue items in processing that have no lease, and return the counts.

        Each such item is checked twice, `grace_s` apart: a worker of another client may be about to
        write its lease.
        """
        return await self._run(db, Cleaner(self.keys, dry_run=dry_run, grace_s=grace_s).light())

    async def deep_clean(
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
        return await self._run(db, steps, progress)

    async def _run(self, db: Db, steps: Steps[R], tell: Tell | None = None) -> R:
        self._check(db)
        answer = None
        try:
            while True:
                request = steps.send(answer)
                answer = await _answer(db, request)
                if tell is not None and isinstance(request, Progress):
                    tell(request)
        except StopIteration as done:
            result: R = done.value
            return result


class _Clean(Slices):
    async def step(self) -> bool:
        """Process one more slice, which takes some milliseconds. Return False if none was left."""
        while not self.is_done:
            try:
                request = self._steps.send(self._answer)
            except StopIteration:
                self.is_done = True
                break
            self._answer = await _answer(self._db, request)
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


async def _answer(db: Db, request: Request) -> Any:
    execute: Any = db.execute_command
    match request:
        case Call():
            in_cluster = isinstance(db, RedisCluster)
            try:
                return await _call(db, request, request.by_hash(in_cluster))
            except NoScriptError:
                return await _call(db, request, request.by_text(in_cluster))
        case Command(words):
            return await execute(*words, **_RAW)
        case Scan(key, cursor, pattern, most):
            name, server = _server_of(db, key)
            words = ("SCAN", cursor, "MATCH", pattern, "COUNT", most)
            following, keys = await server.execute_command(*words, **_RAW)
            return name, int(following), keys
        case Size(key):
            return await _server_of(db, key)[1].execute_command("DBSIZE")
        case Pause(seconds):
            await asyncio.sleep(seconds)
    return None


async def _call(db: Db, request: Call, words: tuple[Word, ...]) -> Any:
    execute: Any = db.execute_command
    if request.is_once and isinstance(db, RedisCluster):
        await db.initialize()
        # With a node that is named, redis-py follows redirections and repeats nothing.
        _, node = _server_of(db, request.prefix)
        return await execute(*words, target_nodes=node, **_RAW)
    if request.is_once and type(db) is Redis:
        return await _ask_once(db, words)
    return await execute(*words, **_RAW)


async def _ask_once(db: Redis, words: tuple[Word, ...]) -> Any:
    """The answer; the command is sent once, whatever retries the client is set to. redis-py closes
    a connection that fails here, or whose task is cancelled."""
    await db.initialize()
    connection: Any = db.connection
    if connection is not None:
        async with db._single_conn_lock:
            return await _exchange(connection, words)
    pool: Any = db.connection_pool
    connection = await pool.get_connection(*direct.NAMED)
    try:
        return await _exchange(connection, words)
    finally:
        await pool.release(connection)


async def _exchange(connection: Any, words: tuple[Word, ...]) -> Any:
    await connection.send_command(*words)
    return await connection.read_response(disable_decoding=True)


def _server_of(db: Any, key: bytes) -> tuple[str, Any]:
    """The server that has the key, and its name."""
    if not isinstance(db, RedisCluster):
        return "", db
    find: Any = db.get_node_from_key  # its annotation knows text only
    node = find(key)
    return node.name, node
