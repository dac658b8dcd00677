"""The slots in use, which operations on all queues visit.

Called by   the steps of such operations (feeds.py, taking.py, worklists.py, looks.py, ticks.py),
            store.py (before a queue is made).
Calls       the scripts find_slots and note_slots.

A slot is noted before its first queue is made, by whichever broker makes it, and stays noted: a
broker may have messages on their way to it that another one knows nothing of.

Not here: which slot a queue lies in (keys.py, spread.py), which slots are empty (empty_slots.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from quinque.errors import QuinqueError
from quinque.stores.redis.calls import Call, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import ALL_SLOTS, slot_of_key, slot_of_tag, tags

_NOTED_MOST: Final = 1_000  # by one call


def known_slots(edge: Edge) -> Steps:
    """All slots in use, sorted, with those that other brokers have begun."""
    yield from look_at_slots(edge)
    return sorted(edge.slots)


def look_at_slots(edge: Edge) -> Steps:
    """The slots in use are known; the result is the time at Redis (µs)."""
    known = len(edge.slots) - len(edge.unnoted_slots)
    (reply,) = yield [Call("find_slots", [ALL_SLOTS], [known])]
    seconds, micros, found = reply
    if found is not None:
        there = {slot_of_tag(tag) for tag in found}
        # Not noted when a queue was made there, or Redis was emptied since.
        edge.unnoted_slots = edge.slots - there
        edge.slots |= there
    for some in _slices(sorted(edge.unnoted_slots)):
        (error,) = yield [note_call(some)._replace(may_fail=True)]
        if not isinstance(error, QuinqueError):
            edge.unnoted_slots -= set(some)
    return seconds * 1_000_000 + micros


def unknown_slots(calls: Sequence[Call], edge: Edge) -> set[int]:
    """Slots where these calls may make the first queue."""
    made = {slot_of_key(call.keys[0]) for call in calls if call.makes}
    return made - edge.slots


def note_call(slots: Sequence[int]) -> Call:
    """Everybody finds these slots."""
    return Call("note_slots", [ALL_SLOTS], [tags()[slot] for slot in slots])


def _slices(slots: Sequence[int]) -> Iterator[Sequence[int]]:
    for at in range(0, len(slots), _NOTED_MOST):
        yield slots[at : at + _NOTED_MOST]
