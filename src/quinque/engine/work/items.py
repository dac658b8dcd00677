"""Decide about messages whose ids their producers chose. No I/O, no clock, no mutation.

Called by   stores/embedded/item_operations.py, stages.py.
Calls       nothing; it reads the Worklist it is handed.

Not here: rules of all work queues (decide.py), due changes (due.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from quinque.engine.work.lots import in_lots
from quinque.engine.work.worklist import LEASED, Worklist
from quinque.errors import QueuePaused
from quinque.model.events import ADDED, HELD, Added, Held
from quinque.model.own_ops import ITEM_TERMS, AddItems, ExtendLeases


class Sorted(NamedTuple):
    """The result of an addition: bodies by id of new messages and of those that get another body,
    and for each named id whether it is new."""

    new: dict[bytes, bytes]
    other: dict[bytes, bytes]
    are_new: list[bool]


def sort_items(queue: Worklist, op: AddItems, claimed: Collection[bytes]) -> Sorted:
    """Return which of the messages are new. Those in `claimed` also belong to the queue, and are
    not changed.

    Raises QueuePaused.
    """
    if queue.is_paused_in:
        raise QueuePaused(queue.name)
    known = queue.directory.by_id
    new: dict[bytes, bytes] = {}
    other: dict[bytes, bytes] = {}
    are_new: list[bool] = []
    for id, body in zip(op.message_ids, op.bodies, strict=True):
        is_new = id not in new and id not in known and id not in claimed
        are_new.append(is_new)
        if is_new:
            new[id] = body
        elif op.is_known_new:
            if id in new:
                new[id] = body
            elif id in known:
                other[id] = body
    return Sorted(new, other, are_new)


def add(queue: Worklist, new: Mapping[bytes, bytes], now_ms: int, place: int) -> list[Added]:
    """Accept the messages, which are new."""
    if not new:
        return []
    family, terms = queue.family.code, ITEM_TERMS.as_record()
    ids, bodies = list(new), list(new.values())
    return in_lots(Added(ADDED, queue.name, family, place, now_ms, terms, None, ids, bodies))


def extend(queue: Worklist, op: ExtendLeases, now_ms: int) -> Held | None:
    """Let those of the leases that still run end `lease_ms` from now; None when there are none."""
    ids = dict.fromkeys(op.message_ids)
    running = [id for id in ids if _is_running(queue, id, now_ms, op.deadline_ms)]
    return Held(HELD, queue.name, LEASED, now_ms + op.lease_ms, running) if running else None


def _is_running(queue: Worklist, id: bytes, now_ms: int, deadline_ms: int) -> bool:
    message = queue.find(id)
    if message is not None and 0 < deadline_ms != message.due_ms:
        return False
    # More may be due than was settled.
    return message is not None and message.state == LEASED and message.due_ms > now_ms
