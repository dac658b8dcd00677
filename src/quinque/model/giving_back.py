"""Return messages that a store delivered for a client that was gone by then.

Called by   server/ (dispatch.py and its neighbours), where an answer may come late;
            client/aio/broker.py and local.py, whose callers may be interrupted.
Calls       nothing.

Otherwise no consumer could get them until their leases end, or longer for a job that is delivered
at most once and for an element. If the store is called directly, a message returns unless it was
delivered again since. Over the wire its lease is not known: a job returns whichever consumer has it
by then, and an element only if it was delivered once.

Not here: messages that a client got and did not ack (their leases end).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from quinque.model.ops import Op, Release, Reserve
from quinque.model.own_ops import ExtendLeases, Undeliver
from quinque.model.tube_ops import ReleaseTasks, TakeTasks
from quinque.model.work_ops import Requeue, Take, WorkDelivery

HANDING_OUT: Final = (Take, Reserve, TakeTasks)


def giving_back(op: Op, handed_out: Sequence[Any], session: bytes = b"") -> list[Op]:
    """Return the operations that return the delivered messages of this one, to that session if
    there are several. Empty if the operation delivers no messages.

    A message is returned only under the lease of its delivery, as far as that is known. If the
    lease has ended meanwhile, another consumer may have the message.
    """
    if not handed_out:
        return []
    if isinstance(op, Take):
        if op.family.has_chosen_ids:  # the lease is over at once
            queue = handed_out[0].queue
            return [
                ExtendLeases(op.family, queue, ids, 1, deadline_ms=lease)
                for lease, ids in _by(_lease, handed_out)
            ]
        if op.family.owns_ids:
            return [Undeliver(op.family, handed_out)]
        return [
            Requeue(op.family, ids, is_nack=False, lease=lease, is_uncounted=True)
            for lease, ids in _by(_lease, handed_out)
        ]
    if isinstance(op, Reserve):
        return [
            Release(op.family, op.queue, op.group, ids, deadline_ms, is_uncounted=True)
            for deadline_ms, ids in _by(_deadline, handed_out)
        ]
    if isinstance(op, TakeTasks):
        ids = [task.message_id for task in handed_out]
        return [ReleaseTasks(op.queue, session or op.session, ids)]
    return []


def _deadline(delivery: Any) -> int:
    return int(delivery.deadline_ms)


def _lease(delivery: WorkDelivery) -> int:
    return delivery.lease


def _by(key: Callable[[Any], int], handed_out: Sequence[Any]) -> Iterable[tuple[int, list[bytes]]]:
    """The ids of the messages that have a key in common, by that key."""
    found: dict[int, list[bytes]] = {}
    for delivery in handed_out:
        found.setdefault(key(delivery), []).append(delivery.message_id)
    return found.items()
