"""Cleaning queues of items: what workers abandoned comes back.

Called by   ticks.py (what time made due), runners.py.
Calls       the scripts settle_items and items_clean.

When a lease ends that a broker gave, the queue's alarm says so. Workers also take leases by
themselves, which brokers do not notice. So the broker whose turn it is looks at every queue that
brokers know, once in a while. A script hands out the turns, one at a time; two would do no harm.

Not here: deep cleaning (deep_cleaning.py), what is done with an id (scripts/lib/items_lapse.lua).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quinque.model.families import ITEMS
from quinque.model.limits import SETTLE_MOST
from quinque.model.ops import Op
from quinque.model.own_ops import Cleaned, CleanItems
from quinque.stores.redis.calls import Arg, Call, Runner, Steps
from quinque.stores.redis.deep_cleaning import DeepCleaning
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.items import items_call

_DEEP_MOST: Final = 4  # unfinished deep cleanings kept: each knows all ids of its queue
_SLICE_MOST: Final = 500  # ids looked at by one call: 1 to 2 ms


def settle_items(slot: bytes, names: Sequence[bytes], edge: Edge) -> Steps:
    """Carry out what is due in these queues, or a part of it."""
    argv: list[Arg] = [ITEMS.code, edge.now_ms(), SETTLE_MOST]
    for name in names:
        argv += [name, int(name in edge.watched)]
    (unclean,) = yield [Call("settle_items", [slot], argv)]
    for name in unclean:
        skipped = 0
        while skipped >= 0:
            reply = yield from _slice(name, skipped, _SLICE_MOST, edge, is_patient=True)
            skipped = reply[0]


def clean(op: CleanItems, edge: Edge) -> Steps:
    return (yield from (_clean_deeply if op.is_deep else _clean_lightly)(op, edge))


def _clean_deeply(op: CleanItems, edge: Edge) -> Steps:
    """A cursor is the stamp of the end of the slice before."""
    cleaning = edge.deep_cleanings.pop(op.cursor, None)
    if not isinstance(cleaning, DeepCleaning) or cleaning.queue != op.queue:
        cleaning = DeepCleaning(op.queue, edge)
    done, is_end = yield from cleaning.go_on(op.count)
    if not is_end:
        done.cursor = edge.take_stamps(1)
        edge.deep_cleanings[done.cursor] = cleaning
        if len(edge.deep_cleanings) > _DEEP_MOST:
            del edge.deep_cleanings[min(edge.deep_cleanings)]
    return done


def _clean_lightly(op: CleanItems, edge: Edge) -> Steps:
    """A cursor is how many ids are skipped, and one more: 0 is the beginning, and the end."""
    done = Cleaned(max(1, op.cursor), 0, 0, 0, 0)
    while done.cursor and done.looked_at < op.count:
        most = min(op.count - done.looked_at, _SLICE_MOST)
        reply = yield from _slice(op.queue, done.cursor - 1, most, edge, is_patient=False)
        skipped, looked_at, returned, dropped, doubled = reply
        done.cursor = skipped + 1
        done.looked_at += looked_at
        done.returned += returned
        done.dropped += dropped
        done.doubled += doubled
    return done


def _slice(queue: bytes, skipped: int, count: int, edge: Edge, *, is_patient: bool) -> Steps:
    call = items_call("items_clean", queue, edge, skipped, count, int(is_patient))
    (reply,) = yield [call]
    return reply if reply is not None else (-1, 0, 0, 0, 0)


RUNNERS: Final[dict[type[Op], Runner]] = {CleanItems: clean}
