"""The changes that are due in work queues: messages that expire, return, or become ready.

Called by   stores, before an operation looks at a worklist and whenever the clock reaches
            `Queue.soonest_ms`.
Calls       nothing.

Not here: waking readers (server/waiters.py), the clock (server/ticker.py).
"""

from __future__ import annotations

from typing import Final

from quinque.engine.work.decide import is_over
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import DELAYED, LEASED, Worklist
from quinque.model.events import (
    DELAY_OVER,
    DIED,
    EXPIRED,
    EXPIRED_REASON,
    HELD,
    LAPSE,
    REQUEUED,
    Died,
    Expired,
    Held,
    Requeued,
    WorkEvent,
)
from quinque.model.limits import NEVER_MS, QUEUE_IDLE_MOST_MS
from quinque.model.own_events import MOVED_BACK, MovedBack

LAPSED: Final = b"lapsed"

# 20 times 500 reminders are a millisecond's work.
_LOOKS_MOST: Final = 20


def settle(queue: Worklist, now_ms: int, most: int, place: int = 0) -> list[WorkEvent]:
    """The events that time has made due: at most `most` messages of each kind, and at least one if
    there is one among _LOOKS_MOST times as many reminders that come to nothing. What goes to the
    back, if the family has it so, is at `place` and after it."""
    events: list[WorkEvent] = []
    over: list[WorkMessage] = []
    due: list[WorkMessage] = []
    for _ in range(_LOOKS_MOST):
        if over or due or queue.expiries.next_ms > now_ms:
            break
        for id in queue.expiries.take(now_ms, most):
            message = queue.find(id)
            if message is not None and is_over(message, now_ms):
                (due if _died_before(queue, message) else over).append(message)
    died = len(due)
    for _ in range(_LOOKS_MOST):
        if len(due) > died or len(over) > most or queue.dues.next_ms > now_ms:
            break
        for id in queue.dues.take(now_ms, most):
            message = queue.find(id)
            if message is None or (message.state != LEASED and message.state != DELAYED):
                continue
            # Settle the message at once: the limit of deliveries decides whether it died or
            # expired, and may have changed when the next reminder comes.
            if message.due_ms <= now_ms:
                is_gone = is_over(message, now_ms) and not _died_before(queue, message)
                (over if is_gone else due).append(message)
    # There may be several reminders of one.
    over = list(dict.fromkeys(over))
    gone = [message.id for message in over if not queue.keeps(message)]
    kept = [message.id for message in over if queue.keeps(message)] if queue.keeps_expired else []
    if gone:
        events.append(Expired(EXPIRED, queue.name, gone))
    if kept:
        events.append(Died(DIED, queue.name, now_ms, False, EXPIRED_REASON, kept))
    if due:
        events += come_back(queue, list(dict.fromkeys(due)), now_ms, place)
    rate = queue.rate
    if rate is not None and rate.refused_until_ms <= now_ms:
        rate.refused_until_ms = NEVER_MS
    return events


def is_idle(queue: Worklist, now_ms: int) -> bool:
    """Return whether the work queue has been empty, without settings, long enough to be removed."""
    return queue.is_vacant and queue.active_ms + QUEUE_IDLE_MOST_MS <= now_ms


def is_quiet(queue: Worklist, now_ms: int) -> bool:
    """Return whether the work queue is as good as idle for a scan: its messages are delayed or
    leased, and nothing has happened for the same time."""
    has_any = queue.ready.size or queue.dead.size
    return not has_any and queue.is_unset and queue.active_ms + QUEUE_IDLE_MOST_MS <= now_ms


def come_back(
    queue: Worklist, due: list[WorkMessage], now_ms: int, place: int = 0
) -> list[WorkEvent]:
    """Leases of these messages have ended, and delays are over; or they have expired, where such
    messages are kept."""
    events: list[WorkEvent] = []
    lapsed: list[bytes] = []
    ready: list[bytes] = []
    dead: list[bytes] = []
    expired: list[bytes] = []
    if queue.family.returns_to_back:
        due.sort(key=_due_ms)  # what was extended may have been reminded of before its time
    for message in due:
        retry_ms = message.terms.retry_ms
        is_leased = message.state == LEASED
        if is_over(message, now_ms) and not _died_before(queue, message):
            expired.append(message.id)
        elif is_leased and 0 < queue.limit_of(message) <= message.deliveries:
            dead.append(message.id)
        elif queue.is_paused_in and retry_ms:
            # As often as it takes: after a long stop several are past.
            times = (now_ms - message.due_ms) // retry_ms + 1
            due_ms = message.due_ms + times * retry_ms
            events.append(Held(HELD, queue.name, message.state, due_ms, [message.id]))
        else:
            (lapsed if is_leased else ready).append(message.id)
    if dead:
        events.append(Died(DIED, queue.name, now_ms, False, LAPSED, dead))
    if expired:
        events.append(Died(DIED, queue.name, now_ms, False, EXPIRED_REASON, expired))
    if lapsed and queue.family.returns_to_back:
        events.append(MovedBack(MOVED_BACK, queue.name, now_ms, place, lapsed))
    elif lapsed:
        events.append(Requeued(REQUEUED, queue.name, now_ms, LAPSE, 0, b"", lapsed))
    if ready:
        events.append(Requeued(REQUEUED, queue.name, now_ms, DELAY_OVER, 0, b"", ready))
    return events


def is_due(queue: Worklist, message: WorkMessage, now_ms: int) -> bool:
    """Whether time has made something of the message that is not settled yet, and it is not that
    it is gone."""
    if is_over(message, now_ms) and queue.keeps(message):
        return True
    if message.state != LEASED and message.state != DELAYED:
        return False
    return message.due_ms <= now_ms and (
        not is_over(message, now_ms) or _died_before(queue, message)
    )


def _due_ms(message: WorkMessage) -> int:
    return message.due_ms


def _died_before(queue: Worklist, message: WorkMessage) -> bool:
    """Return whether the message was dead before it expired, and so did not expire."""
    return (
        message.state == LEASED
        and message.due_ms < message.expires_ms
        and 0 < queue.limit_of(message) <= message.deliveries
    )
