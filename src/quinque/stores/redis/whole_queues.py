"""The operations on a queue as a whole, as steps: what it is, deleting, renaming, its expiry.

Called by   runners.py, ticks.py (sweep).
Calls       the scripts find_families, delete_queues, rename_queue, set_expiry, look_at_expiry,
            sweep and tube_sweep.

A queue that goes is gone at once, however much is in it: of very many messages those that are left
are out of everybody's sight, and ticks remove them some at a time.

Not here: operations on messages (worklists.py, reliable.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from quinque.errors import LimitReached, NoQueue, WrongType, printable
from quinque.model.families import BY_CODE, TUBES
from quinque.model.limits import SETTLE_MOST
from quinque.model.ops import Op
from quinque.model.queue_ops import (
    DeleteQueues,
    FindFamilies,
    LookAtExpiry,
    RenameQueue,
    SetExpiry,
)
from quinque.stores.redis.calls import Arg, Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import slot_key, slot_of
from quinque.stores.redis.worklists import about_queue

_RENAME_MOST: Final = 10_000  # messages: Redis stands still for some 45 ms
_NAMES_MOST: Final = 250  # queues that one call is about: some 10 ms
_SWEEP_MOST: Final = 2_000  # messages by one call: some 3 ms


def find_families(op: FindFamilies, edge: Edge) -> Steps:
    codes = yield from _codes(op.queues, edge)
    return [BY_CODE[codes[name]] if codes[name] else None for name in op.queues]


def delete_queues(op: DeleteQueues, edge: Edge) -> Steps:
    slots: dict[int, list[bytes]] = {}
    for name in dict.fromkeys(op.queues):
        slots.setdefault(slot_of(name), []).append(name)
    parts = [(slot, some) for slot, names in slots.items() for some in _parts(names)]
    if len(parts) > 1:
        # Before any of them is gone: a name of another family refuses them all.
        codes: dict[bytes, int] = yield from _codes(op.queues, edge)
        for name in op.queues:
            if codes[name] and codes[name] != op.family.code:
                raise WrongType.of_queue(name, BY_CODE[codes[name]].name)
    begin: list[Arg] = [op.family.code, edge.now_ms(), SETTLE_MOST]
    counts = yield [
        Call("delete_queues", [slot_key(slot)], [*begin, *names]) for slot, names in parts
    ]
    return sum(counts)


def rename_queue(op: RenameQueue, edge: Edge) -> Steps:
    old_slot, new_slot = slot_of(op.queue), slot_of(op.new_name)
    if edge.is_cluster and old_slot != new_slot:
        raise LimitReached(
            f"on a Redis Cluster, '{printable(op.queue)}' and '{printable(op.new_name)}' are in "
            "different slots: to rename the queue, both names must have the same text in "
            f"braces, {{like this}}"
        )
    argv: list[Arg] = [op.family.code, edge.now_ms(), op.queue, slot_key(old_slot), SETTLE_MOST]
    argv += [op.new_name, int(op.only_free), _RENAME_MOST]
    (word,) = yield [Call("rename_queue", [slot_key(new_slot)], argv, makes=True)]
    if word == b"missing":
        raise NoQueue
    if word == b"held":
        raise LimitReached(
            f"'{printable(op.new_name)}' has open claims: settle or release them before another "
            "queue gets this name"
        )
    if word in _WHY_NOT_RENAMED:
        raise LimitReached(f"queue '{printable(op.queue)}' {_WHY_NOT_RENAMED[word]}")
    return word != b"taken"


def set_expiry(op: SetExpiry, edge: Edge) -> Steps:
    argv = [*about_queue(op.family, op.queue, edge), op.expires_ms]
    (is_so,) = yield [Call("set_expiry", [slot_key(slot_of(op.queue))], argv)]
    return is_so == 1


def look_at_expiry(op: LookAtExpiry, edge: Edge) -> Steps:
    argv = about_queue(op.family, op.queue, edge)
    (ends_ms,) = yield [Call("look_at_expiry", [slot_key(slot_of(op.queue))], argv)]
    return ends_ms


def sweep(slot: bytes, edge: Edge) -> Steps:
    """Remove what is left of removed queues of the slot."""
    is_more = 1
    while is_more:
        (is_more,) = yield [Call("sweep", [slot], [edge.now_ms(), _SWEEP_MOST])]


def sweep_tubes(slot: bytes, edge: Edge) -> Steps:
    """Remove what is left of tubes of the slot that were removed or emptied."""
    is_more = 1
    while is_more:
        argv: list[Arg] = [TUBES.code, edge.now_ms(), _SWEEP_MOST]
        (is_more,) = yield [Call("tube_sweep", [slot], argv)]


def _codes(queues: Iterable[bytes], edge: Edge) -> Steps:
    """The code of each queue's family, 0 where there is no such queue."""
    slots: dict[int, list[bytes]] = {}
    for name in dict.fromkeys(queues):
        for slot in edge.spread.read_slots(name):
            slots.setdefault(slot, []).append(name)
    parts = [(slot, some) for slot, names in slots.items() for some in _parts(names)]
    calls = []
    for slot, names in parts:
        argv: list[Arg] = [edge.now_ms(), SETTLE_MOST]
        for name in names:
            argv += [name, int(name in edge.watched)]
        calls.append(Call("find_families", [slot_key(slot)], argv))
    replies = yield calls
    codes: dict[bytes, int] = {}
    for (_, names), row in zip(parts, replies, strict=True):
        for name, code in zip(names, row, strict=True):
            codes[name] = codes.get(name, 0) or int(code or 0)
    return codes


def _parts(names: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """The same names, in parts that one call is about."""
    for at in range(0, len(names), _NAMES_MOST):
        yield names[at : at + _NAMES_MOST]


# The reasons in the answer of rename_queue.lua, which changed nothing.
_WHY_NOT_RENAMED: Final = {
    b"claimed": "has open claims: settle or release them before renaming it",
    b"large": f"has more than {_RENAME_MOST} messages: that is too many to rename",
    b"mixed": "cannot have that name: another queue of its slot has messages with the same ids",
    b"beside": "cannot have that name: another queue of its slot has open claims; settle or "
    "release them first",
}
RUNNERS: Final[dict[type[Op], Runner]] = {
    FindFamilies: find_families,
    DeleteQueues: delete_queues,
    RenameQueue: rename_queue,
    SetExpiry: set_expiry,
    LookAtExpiry: look_at_expiry,
}
