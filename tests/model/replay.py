"""What a record says of how many messages are where, now.

Called by   tests/redis/test_records.py; fit for any store.
Calls       nothing.

Not here: reading the record (tests/conformance/record_words.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from quinque.model.lifecycle import Kind
from quinque.model.states import State
from tests.conformance.record_words import Row

_STATES: Final = {
    Kind.ADDED: State.READY,
    Kind.DELIVERED: State.LEASED,
    Kind.RETURNED: State.READY,
    Kind.DELAYED: State.DELAYED,
    Kind.DEAD: State.DEAD,
    Kind.HELD: State.LEASED,
}


def states_of_work(rows: Iterable[Row]) -> dict[bytes, Counter[State]]:
    """How many messages of each worklist are in each state."""
    living: dict[tuple[bytes, bytes], State] = {}
    for row in rows:
        key = row.queue, row.seen.id
        assert (key in living) == (row.seen.kind != Kind.ADDED), row
        living.pop(key, None)
        if row.seen.kind in _STATES:
            living[key] = _STATES[row.seen.kind]
    found: dict[bytes, Counter[State]] = {}
    for (queue, _), state in living.items():
        found.setdefault(queue, Counter())[state] += 1
    return found


def events_of_feeds(rows: Iterable[Row]) -> dict[bytes, set[bytes]]:
    """The ids in each feed."""
    found: dict[bytes, set[bytes]] = {}
    for row in rows:
        ids = found.setdefault(row.queue, set())
        if row.seen.kind == Kind.ADDED:
            assert row.seen.id not in ids, row
            ids.add(row.seen.id)
        elif not row.seen.group:
            assert row.seen.id in ids, row
            ids.remove(row.seen.id)
    return found


def leases_of_feeds(rows: Iterable[Row]) -> Counter[tuple[bytes, bytes]]:
    """How many messages each group of each feed has in hand, of those that are in it."""
    held: dict[tuple[bytes, bytes], set[bytes]] = {}
    for row in rows:
        ids = held.setdefault((row.queue, row.seen.group), set())
        if not row.seen.group:
            for (queue, _), others in held.items():
                if queue == row.queue:
                    others.discard(row.seen.id)
        elif row.seen.kind == Kind.DELIVERED:
            ids.add(row.seen.id)
        else:
            ids.discard(row.seen.id)
    return Counter({key: len(ids) for key, ids in held.items() if ids})
