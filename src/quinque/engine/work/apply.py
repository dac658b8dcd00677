"""Carry out events on worklists. The only code that changes their indexes.

Called by   stores/embedded/work_operations.py after journaling, and replay.py for each record.
Calls       Worklist.

While a journal is read back (`in_order` is False) an event about a message that is not there is
passed over: its first record was compacted away, and a WorkKept one comes later.

Not here: whether an event is right (decide.py, due.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quinque.engine.work.message import WorkMessage
from quinque.engine.work.rate import Rate
from quinque.engine.work.worklist import DEAD, DELAYED, LEASED, READY, Worklist
from quinque.model.events import (
    ADDED,
    CONFIGURED,
    DELAY_OVER,
    DIED,
    EXPIRED,
    FLUSHED,
    FORGOTTEN,
    HELD,
    LAPSE,
    NACK,
    REDRIVEN,
    REMOVED,
    REQUEUED,
    TAKEN,
    UNCOUNTED,
    WORK_KEPT,
    WORKLIST_KEPT,
    Added,
    Configured,
    Died,
    Expired,
    Flushed,
    Forgotten,
    Held,
    Redriven,
    Removed,
    Requeued,
    Taken,
    WorkKept,
    WorklistKept,
)
from quinque.model.limits import NEVER_MS
from quinque.model.own_events import (
    EXPIRY_SET,
    MOVED_BACK,
    RECOVERED,
    RENAMED,
    ExpirySet,
    MovedBack,
    Recovered,
    Renamed,
)
from quinque.model.work_ops import Terms


def apply_added(queue: Worklist, event: Added, home: int) -> list[WorkMessage]:
    """The messages are in the worklist, ready or delayed. `home` is where the store keeps the first
    one's body; the others follow it."""
    _, _, _, place, at_ms, record, key, ids, bodies = event
    terms = Terms(*record)
    expires_ms = at_ms + terms.ttl_ms if terms.ttl_ms else 0
    delay_ms = terms.delay_ms
    messages: list[WorkMessage] = []
    for id, body in zip(ids, bodies, strict=True):
        message = WorkMessage(id, place, expires_ms, body, home, queue, terms, READY)
        queue.put(message)
        messages.append(message)
        place += 1
        home += 1
    if delay_ms:
        for message in messages:
            message.was_ready = False
            queue.enter_delayed(message, at_ms + delay_ms)
    else:
        queue.came += len(messages)
        if queue.in_order:
            queue.ready.add_last(messages)
    if key is not None:
        messages[0].key = key
        queue.keys[key] = messages[0]
    queue.active_ms = at_ms
    queue.since_ms = min(queue.since_ms, at_ms)  # read back, it was made a little earlier
    if expires_ms:
        queue.expiries.add_all(expires_ms, ids)
        if expires_ms < queue.soonest_ms:
            queue.soonest_ms = expires_ms
    return messages


def apply_taken(queue: Worklist, event: Taken) -> None:
    """Deliver the messages."""
    _, _, at_ms, due_ms, ids, turn = event
    # A lease without an end: the number makes it another than any before (decide.py:lease_of).
    due_ms = due_ms or NEVER_MS + queue.went
    messages = queue.ready.first(len(ids))
    if [message.id for message in messages] == ids:  # as nearly always
        queue.ready.drop_first(len(ids))
    else:
        messages = [message for id in ids if (message := queue.find(id)) is not None]
        for message in messages:
            if message.state != READY:
                _make_up_for(queue, message)
            queue.leave(message)
    for message in messages:
        message.state = LEASED
        message.due_ms = due_ms
        message.deliveries += 1
    queue.leased += len(messages)
    if due_ms < NEVER_MS and messages:
        queue.dues.add_all(due_ms, ids)
        if due_ms < queue.soonest_ms:
            queue.soonest_ms = due_ms
    if turn is not None:
        queue.give_turns(ids, turn)
    queue.went += len(ids)
    queue.active_ms = at_ms
    if queue.rate is not None:
        queue.rate.take(len(ids), at_ms)


def apply_recovered(queue: Worklist, event: Recovered) -> None:
    """Deliver leased messages once more."""
    for id in event.ids:
        message = queue.find(id)
        if message is not None:
            queue.leave(message)
            message.deliveries += 1
            queue.enter_leased(message, message.due_ms or NEVER_MS)
    queue.give_turns(event.ids, event.turn)
    queue.went += len(event.ids)
    queue.active_ms = event.at_ms


def _make_up_for(queue: Worklist, message: WorkMessage) -> None:
    """Only what is ready is taken: that the lease had lapsed, or the delay was over, is not on
    record, because the disk was full."""
    message.requeues += message.state == LEASED and message.was_ready
    message.was_ready = True
    queue.came += 1


def apply_requeued(queue: Worklist, event: Requeued) -> None:
    """The messages are ready, or delayed."""
    _, _, at_ms, why, due_ms, reason, ids = event
    for id in ids:
        message = queue.find(id)
        if message is None:
            queue.came += 0 if due_ms else 1  # that it came is the queue's, and nowhere else
            continue
        if message.state == READY and (why == LAPSE or why == DELAY_OVER):
            # Read back: there was no room for this record until compaction had made some, and by
            # then the message was written again as it is.
            continue
        if why == UNCOUNTED and message.state == LEASED and message.deliveries:
            message.deliveries -= 1
        queue.leave(message)
        if why == NACK:
            message.nacks += 1
            message.reason = reason
        elif why != DELAY_OVER and why != UNCOUNTED and message.was_ready:
            message.requeues += 1
        if due_ms:
            queue.enter_delayed(message, due_ms)
        else:
            queue.enter_ready(message)
    queue.active_ms = at_ms
    queue.trim()


def apply_moved_back(queue: Worklist, event: MovedBack) -> None:
    """The messages are ready, behind all others."""
    place = event.place
    for id in event.ids:
        message = queue.find(id)
        if message is None:
            queue.came += 1  # that it came is the queue's, and nowhere else
        elif message.state != READY:  # else it was written again before this, as in apply_requeued
            queue.leave(message)
            message.requeues += 1
            message.place = place
            queue.enter_ready(message)
        place += 1
    queue.active_ms = event.at_ms
    queue.trim()


def apply_held(queue: Worklist, event: Held) -> None:
    """The messages are leased, or delayed, until then."""
    for id in event.ids:
        message = queue.find(id)
        if message is None:
            continue
        queue.leave(message)
        if event.state == DELAYED:
            queue.enter_delayed(message, event.due_ms)
        else:
            queue.enter_leased(message, event.due_ms or NEVER_MS)
    queue.trim()


def apply_died(queue: Worklist, event: Died) -> None:
    """The messages are dead, and are kept."""
    for id in event.ids:
        message = queue.find(id)
        if message is not None:
            queue.leave(message)
            message.nacks += event.is_nack
            queue.enter_dead(message, event.reason)
    queue.trim()


def apply_redriven(queue: Worklist, event: Redriven) -> None:
    """The messages are ready, with a whole life before them."""
    for id in event.ids:
        message = queue.find(id)
        if message is None:
            queue.came += 1
            continue
        queue.leave(message)
        message.nacks = message.requeues = message.deliveries = 0
        message.reason = b""
        if message.terms.ttl_ms:
            message.expires_ms = event.at_ms + message.terms.ttl_ms
            queue.expiries.add(message.expires_ms, id)
            queue.soonest_ms = min(queue.soonest_ms, message.expires_ms)
        if id in event.keyless:
            message.key = None
        elif message.key is not None:
            queue.keys[message.key] = message
        queue.enter_ready(message)
    queue.active_ms = event.at_ms
    queue.trim()


def apply_removed(queue: Worklist, event: Removed | Expired) -> list[WorkMessage]:
    """Remove the messages. Return those that existed."""
    gone: list[WorkMessage] = []
    for id in event.ids:
        message = queue.find(id)
        if message is not None:
            queue.remove(message)
            gone.append(message)
    queue.trim()
    return gone


def apply_flushed(queue: Worklist, event: Flushed | Forgotten) -> list[WorkMessage]:
    """Remove every message. Return those that existed."""
    return queue.clear()


def apply_configured(queue: Worklist, event: Configured) -> None:
    """Set the settings of the work queue."""
    queue.since_ms = min(queue.since_ms, event.at_ms)
    queue.active_ms = event.at_ms
    queue.is_paused_in = event.is_paused_in
    queue.is_paused_out = event.is_paused_out
    queue.max_deliveries = event.max_deliveries
    queue.keeps_expired = event.keeps_expired
    rate = queue.rate
    if rate is None or (rate.count, rate.span_ms) != (event.rate_count, event.rate_ms):
        queue.rate = Rate(event.rate_count, event.rate_ms) if event.rate_count else None


def apply_renamed(queue: Worklist, event: Renamed) -> None:
    """The worklist has the other name."""
    queue.name = event.new_name


def apply_expiry_set(queue: Worklist, event: ExpirySet) -> None:
    """The worklist goes then, or stays."""
    queue.ends_ms = event.ends_ms or NEVER_MS
    queue.set_soonest()


def apply_work_kept(queue: Worklist, event: WorkKept, home: int) -> list[WorkMessage]:
    """Add the message with the contents of the record, unless it exists."""
    if queue.find(event[3]) is not None:
        # Its first record is still there, so all is known already, but where its body is.
        return []
    kept = WorkKept._make(event)  # read back, it is a plain tuple
    id, state, due_ms = kept.id, kept.state, kept.due_ms
    terms = Terms(*kept.terms)
    message = WorkMessage(id, kept.place, kept.expires_ms, kept.body, home, queue, terms, state)
    message.nacks, message.requeues, message.deliveries = kept.nacks, kept.requeues, kept.deliveries
    message.was_ready, message.reason, message.key = kept.was_ready, kept.reason, kept.key
    queue.put(message)
    if state == LEASED and queue.turns is not None:
        queue.enter_leased(message, NEVER_MS)
        queue.give_turns([id], due_ms)
    elif state == LEASED:
        queue.enter_leased(message, due_ms or NEVER_MS)
    elif state == DELAYED:
        queue.enter_delayed(message, due_ms)
    elif state == DEAD:
        queue.enter_dead(message, kept.reason)
    if kept.key is not None and state != DEAD:
        # Compaction may write an expired message behind the one that has the key now. Of two with
        # one key, the one that expires first has expired, or the key would not have been free.
        holder = queue.keys.get(kept.key)
        if holder is None or (holder.expires_ms or NEVER_MS) < (kept.expires_ms or NEVER_MS):
            queue.keys[kept.key] = message
    if kept.expires_ms:
        queue.expiries.add(kept.expires_ms, id)
    return [message]


def apply_replaced(
    queue: Worklist, event: WorkKept, home: int
) -> tuple[list[WorkMessage], WorkMessage]:
    """Replace the body of the message by that of the event. Return the previous one, if it
    existed."""
    old = queue.find(event[3])
    if old is not None:
        queue.remove(old)
    (message,) = apply_work_kept(queue, event, home)
    if message.state == READY and queue.in_order:
        queue.ready.add(message)
    queue.trim()
    return [] if old is None else [old], message


def apply_worklist_kept(queue: Worklist, event: WorklistKept) -> None:
    """Set the counts and the settings of the work queue."""
    queue.since_ms, queue.active_ms = event.since_ms, event.active_ms
    queue.came, queue.went = event.came, event.went
    queue.is_paused_in, queue.is_paused_out = event.is_paused_in, event.is_paused_out
    queue.max_deliveries = event.max_deliveries
    queue.keeps_expired = event.keeps_expired
    queue.ends_ms = event.ends_ms or NEVER_MS
    queue.rate = None
    if event.rate_count:
        queue.rate = Rate(event.rate_count, event.rate_ms)
        queue.rate.full_us = event.rate_full_us


APPLY: Final[dict[int, Callable[[Worklist, Any], Any]]] = {
    TAKEN: apply_taken,
    REQUEUED: apply_requeued,
    MOVED_BACK: apply_moved_back,
    RECOVERED: apply_recovered,
    HELD: apply_held,
    DIED: apply_died,
    REDRIVEN: apply_redriven,
    CONFIGURED: apply_configured,
    RENAMED: apply_renamed,
    EXPIRY_SET: apply_expiry_set,
    FORGOTTEN: apply_flushed,
    WORKLIST_KEPT: apply_worklist_kept,
    EXPIRED: apply_removed,
    REMOVED: apply_removed,
    FLUSHED: apply_flushed,
}
APPLY_WITH_BODY: Final[dict[int, Callable[[Worklist, Any, int], list[WorkMessage]]]] = {
    ADDED: apply_added,
    WORK_KEPT: apply_work_kept,
}
