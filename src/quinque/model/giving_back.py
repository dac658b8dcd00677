"""What a store handed out for somebody who was gone by then goes back.

Called by   server/ (dispatch.py and its neighbours), where an answer may come late;
            client/aio/broker.py and local.py, whose callers may be interrupted.
Calls       nothing.

Otherwise it would be nobody's until its lease has ended. A job that is worked at most once comes
back too where the store is asked directly; over the wire, ENQUEUE refuses it. So does an element of
RedisRQ's; over the wire it stays delivered, and comes back when a consumer recovers it.

Not here: messages that a client got and did not ack (the store's clock brings those back).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from quinque.model.ops import Op, Release, Reserve
from quinque.model.own_ops import ExtendLeases, Undeliver
from quinque.model.tube_ops import ReleaseTasks, TakeTasks
from quinque.model.work_ops import Requeue, Take

HANDING_OUT: Final = (Take, Reserve, TakeTasks)


def giving_back(op: Op, handed_out: Sequence[Any], session: bytes = b"") -> Op | None:
    """The operation that gives back what this one handed out, to that session if it was for more
    than one; None if it hands out nothing."""
    if not handed_out:
        return None
    if isinstance(op, Take):
        ids = [delivery.message_id for delivery in handed_out]
        if op.family.has_chosen_ids:  # the lease is over at once
            return ExtendLeases(op.family, handed_out[0].queue, ids, 1)
        if op.family.owns_ids:
            return Undeliver(op.family, handed_out)
        return Requeue(op.family, ids, is_nack=False, is_undelivered=True, is_uncounted=True)
    if isinstance(op, Reserve):
        ids = [delivery.message_id for delivery in handed_out]
        return Release(op.family, op.queue, op.group, ids, is_uncounted=True)
    if isinstance(op, TakeTasks):
        ids = [task.message_id for task in handed_out]
        return ReleaseTasks(op.queue, session or op.session, ids)
    return None
