"""Queues of items, read for a copy and written by one.

Called by   copy_out.py, copy_in.py.
Calls       the scripts copy_out_items and copy_in_items.

Redis Work Queue stores less than other stores: the ids in their order, the data, and when leases
end. It does not store when an item was added and how often it was delivered. A copy assumes that
items were added in the order of the queue, and that leased items were delivered once.

Not here: other worklists (copy_out.py, copy_in.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from quinque.errors import CopyRefused, printable
from quinque.model.events import WORK_KEPT, WorkKept
from quinque.model.families import ITEMS
from quinque.model.own_ops import ITEM_TERMS
from quinque.model.states import State
from quinque.stores.portable import CHUNK_MOST_BYTES, Chunk, Item
from quinque.stores.redis.calls import Arg, Call, Steps
from quinque.stores.redis.items import has_tag
from quinque.stores.redis.keys import slot_key, slot_of

_STATES: Final = {b"ready": State.READY, b"leased": State.LEASED}


def read_items(
    ask: Callable[..., Any], queue: bytes, after: int, chunk_most: int
) -> Iterator[Chunk]:
    """The items, those first that are leased first; `after` is how many ids have gone before."""
    seen: set[bytes] = set()  # an id may be in a list twice, or in both
    while True:
        looked, rows = ask("copy_out_items", queue, after, chunk_most, CHUNK_MOST_BYTES)
        if not looked:
            return
        items: list[Item] = []
        for row in rows:
            if row[0] not in seen:
                seen.add(row[0])
                items.append(_kept(queue, after + len(items) + 1, row))
        after += looked
        yield Chunk(queue, items, after)


def take_items(items: Sequence[WorkKept], at_ms: int) -> Steps:
    """The items, which are of one queue, are in Redis."""
    argv: list[Arg] = [at_ms, items[0].queue]
    for item in items:
        argv += [item.id, State(item.state).name.lower().encode(), item.due_ms, item.body]
    yield [Call("copy_in_items", [slot_key(slot_of(items[0].queue))], argv)]


def refuse_name(queue: bytes, is_cluster: bool) -> None:
    """Raises CopyRefused when a cluster would have its keys in many slots."""
    if is_cluster and not has_tag(queue):
        raise CopyRefused(
            f"items queue {printable(queue)} cannot be stored in a Redis Cluster: put a part of "
            f"its name in braces, {{like this}}"
        )


def refuse_claims(queue: bytes, family: int) -> None:
    """Raises CopyRefused: the keys of Redis Work Queue have no place for claims."""
    if family == ITEMS.code:
        raise CopyRefused(
            f"items of queue {printable(queue)} are claimed: drop the subscription first"
        )


def _kept(queue: bytes, place: int, row: Sequence[Any]) -> WorkKept:
    id, state, due_ms, data = row
    is_leased = _STATES[state] is State.LEASED
    return WorkKept(
        WORK_KEPT,
        queue,
        ITEMS.code,
        id,
        place,
        ITEM_TERMS.as_record(),
        None,
        int(_STATES[state]),
        0,
        due_ms,
        0,
        0,
        int(is_leased),
        True,
        b"",
        data,
    )
