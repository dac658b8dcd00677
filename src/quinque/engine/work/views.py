"""Make the views of messages and work queues. Nothing changes.

Called by   stores/embedded/work_operations.py.
Calls       nothing.

Not here: replies (dialects/).
"""

from __future__ import annotations

from itertools import islice

from quinque.engine.work.decide import is_over
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import DELAYED, LEASED, READY, TURN_BITS, Worklist
from quinque.model.limits import NEVER_MS
from quinque.model.states import State
from quinque.model.work_ops import QueueView, WorkView


def message_view(
    queue: Worklist, message: WorkMessage, body: bytes | None, now_ms: int
) -> WorkView:
    """The message as it is now."""
    due_ms: int | None = None
    if (message.state == LEASED or message.state == DELAYED) and message.due_ms < NEVER_MS:
        due_ms = max(0, message.due_ms - now_ms)
    return WorkView(
        queue.name,
        message.id,
        body,
        State(message.state),
        message.place,
        message.terms,
        max(0, message.expires_ms - now_ms),
        due_ms,
        message.nacks,
        message.requeues,
        message.deliveries,
        queue.limit_of(message),
        message.reason,
        message.key,
    )


def queue_view(queue: Worklist, now_ms: int) -> QueueView:
    """The worklist as it is now."""
    rate = queue.rate
    return QueueView(
        queue.name,
        queue.ready.size,
        queue.delayed.size,
        queue.leased,
        queue.dead.size,
        max(0, now_ms - queue.since_ms),
        max(0, now_ms - queue.active_ms),
        queue.came,
        queue.went,
        queue.is_paused_in,
        queue.is_paused_out,
        queue.max_deliveries,
        rate.count if rate is not None else 0,
        rate.span_ms if rate is not None else 0,
        keeps_expired=queue.keeps_expired,
    )


def browse(queue: Worklist, state: State, count: int, now_ms: int) -> list[WorkMessage]:
    """Return the first messages in that state, or the last ones, last first, if `count` is
    negative. Leased messages have no order."""
    if state == LEASED:
        return _leased(queue, abs(count), now_ms)
    order = queue.dead
    if state == READY:
        order = queue.ready
    elif state == DELAYED:
        order = queue.delayed
    found = order.first(count) if count >= 0 else order.last(-count)
    return [message for message in found if not is_over(message, now_ms)]


def _leased(queue: Worklist, most: int, now_ms: int) -> list[WorkMessage]:
    """Leased messages whose leases end. Reminders are gone through, not messages: there are about
    as many as leases and delays, however many messages wait."""
    found: dict[bytes, WorkMessage] = {}
    for id in queue.dues:
        if len(found) == most:
            break
        message = queue.find(id)
        if message is not None and message.state == LEASED and message.due_ms > now_ms:
            found[id] = message
    return list(found.values())


def delivered_ms(queue: Worklist, message: WorkMessage, now_ms: int) -> int:
    """Return when a leased message was last delivered, 0 for another. A turn may lie a little ahead
    of the clock, but the result never does."""
    turns = queue.turns
    return min(turns.get(message.id, 0) >> TURN_BITS, now_ms) if turns is not None else 0


def inspect(queue: Worklist, start: int, count: int, *, is_leased: bool) -> list[WorkMessage]:
    """Return messages from index `start` on: the ready ones in their order, or the leased ones in
    that of their turns."""
    size = queue.ready.size
    if is_leased:
        size = 0 if queue.turns is None else len(queue.turns)
    if start < 0:
        start += size
    count = min(count, size - start)
    if start < 0 or count <= 0:
        return []
    if not is_leased or queue.turns is None:
        return queue.ready.slice(start, count)
    by_id = queue.directory.by_id
    if start <= size - start - count:
        return [by_id[id] for id in islice(queue.turns, start, start + count)]
    # From the nearer end, because the messages on the way are passed one by one.
    back = size - start - count
    found = [by_id[id] for id in islice(reversed(queue.turns), back, back + count)]
    found.reverse()
    return found
