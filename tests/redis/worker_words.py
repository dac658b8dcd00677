"""What clients of Redis Work Queue do, with the very commands they send.

Called by   the tests of items beside this file.
Calls       Redis.

Not here: those clients themselves (tests/workqueue/other_clients.py).
"""

from __future__ import annotations

import redis

from quinque.stores.redis.store import RedisStore
from tests.conformance.item_words import ITEMS_QUEUE

QUEUE, PROCESSING = ITEMS_QUEUE + b":queue", ITEMS_QUEUE + b":processing"
NEW, OLD = b":lease:", b":leased_by_session:"
Foreign = redis.Redis


def push(foreign: Foreign, *ids: bytes, data: bytes = b"data") -> None:
    """As AddItem does."""
    for id in ids:
        if foreign.setnx(ITEMS_QUEUE + b":item:" + id, data):
            foreign.lpush(QUEUE, id)


def hold(foreign: Foreign, id: bytes, lease_s: int = 60, kind: bytes = NEW) -> None:
    foreign.execute_command("SETEX", ITEMS_QUEUE + kind + id, lease_s, b"session")


def pull(foreign: Foreign, lease_s: int | None = 60, *, kind: bytes = NEW) -> bytes | None:
    """As Lease does; without a lease, by a worker that dies in the middle of it."""
    id: bytes | None = foreign.execute_command("RPOPLPUSH", QUEUE, PROCESSING)
    if id is not None and lease_s is not None:
        hold(foreign, id, lease_s, kind)
    return id


def finish(foreign: Foreign, id: bytes) -> bool:
    """As Complete does."""
    gone = foreign.delete(ITEMS_QUEUE + b":item:" + id)
    foreign.execute_command("LREM", PROCESSING, 0, id)
    foreign.delete(ITEMS_QUEUE + NEW + id)
    return gone == 1


def items_keys(foreign: Foreign) -> set[bytes]:
    """All keys that are not a broker's own."""
    return {key for key in foreign.scan_iter("*") if not key.startswith(b"quinque:")}


def ticks(store: RedisStore) -> None:
    """Everything is done that time has made due."""
    for _ in range(100):
        if store.next_due_ms() > store.now_ms():
            return
        store.tick()
    raise AssertionError("there is no end to it")
