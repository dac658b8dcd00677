"""Adding, leasing and completing items, as steps.

Called by   sync.py, aio.py.
Calls       the scripts add, lease, complete, extend, counts, lease_times.

Each is one round trip. Only a lease that waits is more: it asks, waits in Redis for an id to be
moved to `processing`, and asks for that one.

Not here: what becomes of items whose lease ended (cleaning.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Literal, Protocol

from quinque.errors import BadArgument
from quinque.workqueue.item import Item
from quinque.workqueue.keys import Keys, raw_id
from quinque.workqueue.steps import Command, Steps, Word, call, call_once

Writes = Literal["new", "old", "both"]
WRITES: Final = ("new", "old", "both")

_MORE: Final = 1  # the reply of lease.lua when it has skipped enough for one call
_LEASES_LOOKED_AT: Final = 100
_LONGEST_LEASE_S: Final = 100 * 366 * 86_400  # a hundred years


class Pipeline(Protocol):
    """The common methods of redis-py's pipelines."""

    def execute_command(self, *words: Word) -> object: ...


def add(keys: Keys, item: Item, *, is_checked: bool) -> Steps[bool]:
    """The item waits; False if it `is_checked` and an item has its id, and nothing changed."""
    id = raw_id(item.id())
    added = yield call_once("add", keys.prefix, id, item.data(), int(is_checked))
    return bool(added)


def add_to_pipeline(keys: Keys, pipeline: Pipeline, item: Item) -> None:
    """Add the item to a pipeline. It is queued when the pipeline is executed."""
    id = raw_id(item.id())
    # The data first: another client may come between the commands of a plain pipeline.
    pipeline.execute_command("SET", keys.item + id, item.data())
    pipeline.execute_command("LPUSH", keys.queue, id)


def lease(
    keys: Keys,
    session: str,
    writes: Writes,
    lease_ms: int,
    *,
    wait_s: float | None,
    longest_wait_s: float | None,
    now_s: Callable[[], float] = time.monotonic,
) -> Steps[Item | None]:
    """Lease the oldest item to the session. Return None if no item came within `wait_s`.

    A `wait_s` of 0 does not wait, and None waits without a limit. `longest_wait_s` limits one wait
    in Redis, because the client closes a connection that does not answer for longer.
    """
    end_s = None if wait_s is None else now_s() + wait_s
    popped: tuple[bytes, ...] = ()
    while True:
        found = yield call("lease", keys.prefix, session, lease_ms, writes, *popped)
        if isinstance(found, list):
            id, data = found
            return Item(data, id)
        popped = ()
        if found == _MORE:
            continue
        left_s = None if end_s is None else end_s - now_s()
        if left_s is not None and left_s <= 0:
            return None
        timeout_s = _shortest(left_s, longest_wait_s)
        words = ("BLMOVE", keys.queue, keys.processing, "RIGHT", "LEFT", timeout_s)
        id = yield Command(words)
        popped = () if id is None else (id,)


def complete(keys: Keys, item: Item) -> Steps[bool]:
    """Remove the item. Return True for the one call that completed it."""
    ended = yield call_once("complete", keys.prefix, raw_id(item.id()))
    return bool(ended)


def extend(keys: Keys, session: str, writes: Writes, item: Item, lease_ms: int) -> Steps[bool]:
    """The session holds the item for `lease_ms` from now; False if it does not hold it."""
    id = raw_id(item.id())
    is_held = yield call("extend", keys.prefix, id, session, lease_ms, writes)
    return bool(is_held)


def length(key: bytes) -> Steps[int]:
    count: int = yield Command(("LLEN", key))
    return count


def counts(keys: Keys) -> Steps[tuple[int, int]]:
    """Return how many ids are queued and how many are in progress, at one moment."""
    waiting, processing = yield call("counts", keys.prefix)
    return waiting, processing


def shortest_lease_s(keys: Keys) -> Steps[float | None]:
    """Return the duration of the shortest of the newest leases, or up to a second less."""
    times_ms: list[int] = yield call("lease_times", keys.prefix, _LEASES_LOOKED_AT)
    return min(times_ms) / 1000 if times_ms else None


def lease_ms_of(lease_secs: float) -> int:
    """Return the lease in milliseconds. Raises BadArgument if it is out of bounds."""
    if not 0.001 <= lease_secs <= _LONGEST_LEASE_S:
        raise BadArgument(f"lease {lease_secs} s must be between 0.001 and {_LONGEST_LEASE_S} s")
    return round(lease_secs * 1000)


def wait_s_of(block: bool, timeout_s: float) -> float | None:
    """Return how long a lease waits: 0 means not at all, None without a limit. Raises
    BadArgument."""
    if not timeout_s >= 0:
        raise BadArgument(f"timeout {timeout_s} s must be 0 or more")
    if not block:
        return 0
    return timeout_s or None


def check_writes(writes: Writes) -> Writes:
    """Raise BadArgument if it is not a type of leases."""
    if writes not in WRITES:
        raise BadArgument(f"writes is {writes!r} but must be one of {', '.join(WRITES)}")
    return writes


def _shortest(left_s: float | None, longest_wait_s: float | None) -> float:
    """A timeout as Redis takes it: 0 means without a limit."""
    given = [span_s for span_s in (left_s, longest_wait_s) if span_s is not None]
    return round(max(0.001, min(given)), 3) if given else 0
