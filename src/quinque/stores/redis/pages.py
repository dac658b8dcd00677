"""A queue in the order of places, page by page: BrowsePlaces and DividePlaces, as steps.

Called by   runners.py.
Calls       the scripts browse_places, leased_places and divide_places.

A page is made of chunks, one by each call of a script, so that Redis never stands still for long.

Leased messages lie in the order in which their leases end. Where they are wanted, the places of all
of them are asked for first, and they are sorted here.

Not here: what a row holds (model/rows.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgpack

from quinque.errors import BadArgument
from quinque.model.limits import SETTLE_MOST_COUNTING
from quinque.model.look_ops import BrowsePlaces, DividePlaces, Page, Places
from quinque.model.ops import Op
from quinque.model.rows import CHUNK_ROWS_MOST
from quinque.model.states import State
from quinque.stores.redis.calls import Arg, Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import slot_key, slot_of

_PAGE_MOST: Final = 10_000
_PAGE_MOST_BYTES: Final = 4 << 20
_LEASED_MOST: Final = 5_000  # places of leased messages asked for by one call: some 10 ms
_SAMPLES: Final = (
    16  # places that are looked at, for each part, if there are messages of many states
)

_BY_PLACE: Final = {State.READY: b"ready", State.DELAYED: b"delayed", State.DEAD: b"dead"}


def browse_places(op: BrowsePlaces, edge: Edge) -> Steps:
    slot = _slot(op, edge)
    leased: list[tuple[int, bytes]] = yield from _leased(op, slot, edge)
    packed: list[bytes] = []
    count = size_bytes = 0
    after, is_last = op.after, False
    most = min(op.count, _PAGE_MOST)
    while count < most and size_bytes < _PAGE_MOST_BYTES and not is_last:
        wanted = min(CHUNK_ROWS_MOST, most - count)
        leased = [row for row in leased if row[0] > after]
        argv = [*_about(op, edge), after, op.until or b"+inf", wanted, _words(op)]
        ids = [id for _, id in leased[:wanted]]
        (reply,) = yield [Call("browse_places", [slot], [*argv, *ids])]
        rows, came, after, is_last = reply
        is_last = is_last == 1 and len(ids) == len(leased)
        packed.append(rows)
        count += came
        size_bytes += len(rows)
    header = msgpack.Packer().pack_array_header(count)
    return Page(b"".join([header, *packed]), count, after, is_last)


def divide_places(op: DividePlaces, edge: Edge) -> Steps:
    slot = _slot(op, edge)
    kinds = _words(op).split(b",") if _words(op) else []
    has_leased = op.family.is_worklist and State.LEASED in op.states
    several = len(kinds) + has_leased > 1
    argv = [*_about(op, edge), op.parts * (_SAMPLES if several else 1), *kinds]
    (reply,) = yield [Call("divide_places", [slot], argv)]
    rows, leased, due, newest = reply
    counts = [row[0] for row in rows]
    samples = [(place, row[0] / len(row[1:])) for row in rows for place in row[1:]]
    if has_leased and leased:
        step = -(-due // _LEASED_MOST)
        ((found, _),) = yield [Call("leased_places", [slot], [op.queue, 0, _LEASED_MOST, step])]
        samples += [(place, leased / (len(found) / 2)) for place in found[1::2]]
        samples += [(newest, 0.0)] if step > 1 else []
        counts.append(leased)
    return Places(
        sum(counts), len(_slots(op, edge)), list(dict.fromkeys(_bounds(sorted(samples), op.parts)))
    )


def _bounds(samples: Sequence[tuple[int, float]], parts: int) -> Iterator[int]:
    """Places of which each has about the same weight before it, back to the one before; the last
    is the last of all."""
    whole = sum(weight for _, weight in samples)
    before, cut = 0.0, 1
    for place, weight in samples[:-1]:
        before += weight
        # Less than the rounding of what was added up.
        if cut < parts and before > whole * cut / parts - 1e-6:
            yield place
            cut = int(before / whole * parts + 1e-6) + 1
    if samples:
        yield samples[-1][0]


def _leased(op: BrowsePlaces, slot: bytes, edge: Edge) -> Steps:
    """Place and id of each leased message that is to be shown, in the order of places."""
    found: list[tuple[int, bytes]] = []
    is_all = not (op.family.is_worklist and State.LEASED in op.states)
    start = 0
    while not is_all:
        (reply,) = yield [Call("leased_places", [slot], [op.queue, start, _LEASED_MOST, 1])]
        row, is_all = reply
        found += zip(row[1::2], row[::2], strict=True)
        start += _LEASED_MOST
    until = op.until or float("inf")
    return sorted(row for row in dict.fromkeys(found) if op.after < row[0] <= until)


def _about(op: BrowsePlaces | DividePlaces, edge: Edge) -> list[Arg]:
    """Return the start of ARGV."""
    is_waited: Arg = int(op.queue in edge.watched) if op.family.is_worklist else b""
    return [op.family.code, edge.now_ms(), op.queue, is_waited, SETTLE_MOST_COUNTING]


def _words(op: BrowsePlaces | DividePlaces) -> bytes:
    """The kinds of keys that have the messages by place."""
    if not op.family.is_worklist:
        return b"order"
    return b",".join(word for state, word in _BY_PLACE.items() if state in op.states)


def _slots(op: BrowsePlaces | DividePlaces, edge: Edge) -> Sequence[int]:
    return edge.spread.read_slots(op.queue) if op.family.is_worklist else [slot_of(op.queue)]


def _slot(op: BrowsePlaces | DividePlaces, edge: Edge) -> bytes:
    """The key of the slot that the operation is about. Raises BadArgument."""
    slots = _slots(op, edge)
    if not 0 <= op.shard < len(slots):
        raise BadArgument(f"no shard {op.shard}: the number of shards is {len(slots)}")
    return slot_key(slots[op.shard])


RUNNERS: Final[dict[type[Op], Runner]] = {
    BrowsePlaces: browse_places,
    DividePlaces: divide_places,
}
