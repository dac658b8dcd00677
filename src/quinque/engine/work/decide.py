"""Decide what an operation does to a worklist. No I/O, no clock, no mutation.

Called by   stores/embedded/work_operations.py, once per operation and worklist.
Calls       nothing; it reads the Worklist it is handed.

Time may have made more due than the store has settled yet, so everything read here is checked
against now_ms.

Not here: what time alone does (due.py), looking without touching (views.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import DEAD, DELAYED, LEASED, READY, Worklist
from quinque.errors import QueueFull, QueuePaused, TooLate
from quinque.model.events import (
    ADDED,
    CONFIGURED,
    DELETED,
    DIED,
    ENQUEUE,
    FINISHED,
    HELD,
    NACK,
    PURGED,
    REDRIVEN,
    REMOVED,
    REQUEUED,
    TAKEN,
    UNCOUNTED,
    Added,
    Configured,
    Died,
    Held,
    Redriven,
    Removed,
    Requeued,
    Taken,
    WorkEvent,
)
from quinque.model.limits import SETTLE_MOST_COUNTING
from quinque.model.own_events import RECOVERED, Recovered
from quinque.model.work_ops import Add, Configure, Extend, Requeue, WorkDelivery

NACKED = b"nacked"


def key_holder(queue: Worklist, key: bytes, now_ms: int) -> WorkMessage | None:
    """The message that lives under that key."""
    message = queue.keys.get(key)
    return None if message is None or is_over(message, now_ms) else message


def holder_id(queue: Worklist, key: bytes, now_ms: int) -> bytes | None:
    """The id of the message that lives under that key, in the worklist or in a claim."""
    message = key_holder(queue, key, now_ms)
    return message.id if message is not None else queue.claimed_keys.get(key)


def add(queue: Worklist, op: Add, now_ms: int, place: int, ids: Sequence[bytes]) -> Added:
    """Accept the messages.

    Raises QueueFull, QueuePaused.
    """
    if op.max_length and queue.ready.size >= op.max_length:
        ready = queue.ready.size
        if queue.expiries.next_ms <= now_ms and op.max_length <= SETTLE_MOST_COUNTING:
            ready = len(queue.ready.living(op.max_length, now_ms))
        if ready >= op.max_length:
            raise QueueFull
    if queue.is_paused_in:
        raise QueuePaused(queue.name)
    return Added(
        ADDED,
        queue.name,
        op.family.code,
        place,
        now_ms,
        op.terms.as_record(),
        op.key,
        ids,
        op.bodies,
    )


def room_to_take(queue: Worklist, most: int, now_ms: int) -> int:
    """Return how many of `most` messages the work queue could deliver, if that many are ready."""
    if queue.is_paused_out:
        return 0
    return most if queue.rate is None else min(most, queue.rate.room(now_ms))


def take(
    queue: Worklist,
    messages: Sequence[WorkMessage],
    now_ms: int,
    jitter_ms: int,
    lease_ms: int = 0,
) -> list[Taken]:
    """Hand out these ready messages, for `lease_ms` or as their terms say; those whose leases end
    together are one event."""
    if lease_ms:
        ids = [message.id for message in messages]
        return [Taken(TAKEN, queue.name, now_ms, now_ms + lease_ms, ids)]
    events: list[Taken] = []
    turn = queue.next_turn(now_ms) if queue.turns is not None else None
    start = 0
    for at in range(1, len(messages) + 1):
        retry_ms = messages[start].terms.retry_ms
        if at == len(messages) or messages[at].terms.retry_ms != retry_ms:
            ids = [message.id for message in messages[start:at]]
            due_ms = lease_end(retry_ms, now_ms, jitter_ms)
            events.append(Taken(TAKEN, queue.name, now_ms, due_ms, ids, turn))
            if turn is not None:
                turn += len(ids)
            start = at
    return events


def recover(queue: Worklist, messages: Sequence[WorkMessage], now_ms: int) -> Recovered:
    """Hand out these leased messages once more."""
    ids = [message.id for message in messages]
    return Recovered(RECOVERED, queue.name, now_ms, queue.next_turn(now_ms), ids)


def finish(queue: Worklist, ids: Sequence[bytes], *, is_ack: bool = True) -> Removed:
    """Remove the messages."""
    return Removed(REMOVED, queue.name, ids, FINISHED if is_ack else DELETED)


def requeue(
    queue: Worklist, op: Requeue, messages: Sequence[WorkMessage], now_ms: int
) -> tuple[list[WorkEvent], set[bytes]]:
    """Make leased and delayed messages ready, or delayed; a nack too many, or one with
    `is_dead`, makes them dead.

    Also the ids of the messages that change. A message that is worked at most once comes back only
    if no consumer can have seen it: it has never been ready, or the delivery is known to be lost.
    """
    back: list[bytes] = []
    dead: list[bytes] = []
    is_dead = op.is_nack and op.is_dead
    for message in messages:
        if message.state != LEASED and message.state != DELAYED:
            continue
        if op.lease is not None:
            if message.state != LEASED or op.lease not in (0, lease_of(message)):
                continue
        elif not is_dead and not message.terms.retry_ms and message.was_ready:
            continue
        is_spent = 0 < queue.limit_of(message) <= message.deliveries
        is_last = op.is_nack and (is_dead or is_spent)
        (dead if is_last else back).append(message.id)
    events: list[WorkEvent] = []
    if back:
        why = NACK if op.is_nack else UNCOUNTED if op.is_uncounted else ENQUEUE
        due_ms = now_ms + op.delay_ms if op.delay_ms else 0
        events.append(Requeued(REQUEUED, queue.name, now_ms, why, due_ms, op.reason, back))
    if dead:
        events.append(Died(DIED, queue.name, now_ms, True, op.reason or NACKED, dead))
    return events, {*back, *dead}


def undeliver(queue: Worklist, deliveries: Sequence[WorkDelivery], now_ms: int) -> Requeued | None:
    """Make those messages ready that were not delivered again since. The delivery does not
    count."""
    ids: list[bytes] = []
    for delivery in deliveries:
        message = queue.find(delivery.message_id)
        if message is None or message.state != LEASED:
            continue
        is_last = lease_of(message) == delivery.lease
        if is_last or (not delivery.lease and message.deliveries == 1):
            ids.append(message.id)
    return Requeued(REQUEUED, queue.name, now_ms, UNCOUNTED, 0, b"", ids) if ids else None


def hold(
    queue: Worklist, messages: Sequence[WorkMessage], now_ms: int, jitter_ms: int
) -> tuple[list[Held], set[bytes]]:
    """Lease ready messages without a consumer. Return also the ids of these messages."""
    ready = [message for message in messages if message.state == READY]
    events = [
        Held(
            HELD,
            queue.name,
            LEASED,
            lease_end(message.terms.retry_ms, now_ms, jitter_ms),
            [message.id],
        )
        for message in ready
    ]
    return events, {message.id for message in ready}


def extend(
    queue: Worklist, message: WorkMessage, op: Extend, now_ms: int, jitter_ms: int
) -> Held | None:
    """Restart the message's lease; None when there is nothing to change.

    Raises TooLate when more than half of its life is over, unless the operation is for any time.
    """
    ttl_ms, retry_ms = message.terms.ttl_ms, message.terms.retry_ms
    if not op.is_anytime and 2 * (now_ms - (message.expires_ms - ttl_ms)) > ttl_ms:
        raise TooLate(message.id)
    if not retry_ms and message.state != READY:
        return None
    due_ms = lease_end(retry_ms, now_ms, jitter_ms)
    return Held(HELD, queue.name, LEASED, due_ms, [message.id])


def configure(queue: Worklist, op: Configure, now_ms: int) -> Configured:
    """Set the named settings, and leave the others unchanged."""
    rate = op.rate
    if rate is None:
        rate = (queue.rate.count, queue.rate.span_ms) if queue.rate is not None else (0, 0)
    return Configured(
        CONFIGURED,
        queue.name,
        op.family.code,
        now_ms,
        queue.is_paused_in if op.is_paused_in is None else op.is_paused_in,
        queue.is_paused_out if op.is_paused_out is None else op.is_paused_out,
        queue.max_deliveries if op.max_deliveries is None else op.max_deliveries,
        rate[0],
        rate[1],
        queue.keeps_expired if op.keeps_expired is None else op.keeps_expired,
    )


def redrive(queue: Worklist, messages: Sequence[WorkMessage], now_ms: int) -> Redriven | None:
    """Make the dead messages among them ready."""
    dead = [message for message in messages if message.state == DEAD]
    keyless: list[bytes] = []
    taken: set[bytes] = set()
    for message in dead:
        if message.key is None:
            continue
        if message.key in taken or holder_id(queue, message.key, now_ms) is not None:
            keyless.append(message.id)
        taken.add(message.key)
    ids = [message.id for message in dead]
    return Redriven(REDRIVEN, queue.name, now_ms, keyless, ids) if dead else None


def purge(queue: Worklist, ids: list[bytes]) -> Removed:
    """Remove the messages."""
    return Removed(REMOVED, queue.name, ids, PURGED)


def lease_of(message: WorkMessage) -> int:
    """Return the number that distinguishes the last delivery of the message, as in WorkDelivery."""
    turns = message.queue.turns
    return message.due_ms if turns is None else turns.get(message.id, 0)


def lease_end(retry_ms: int, now_ms: int, jitter_ms: int) -> int:
    """Return when a lease that starts now ends; 0: never."""
    return now_ms + retry_ms + jitter_ms if retry_ms else 0


def is_over(message: WorkMessage, now_ms: int) -> bool:
    """Return whether its time to live is over. It may not have been removed yet."""
    return 0 < message.expires_ms <= now_ms
