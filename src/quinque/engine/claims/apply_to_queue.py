"""Apply events to the queues from which messages were claimed: acked or returned messages.

Called by   apply.py.
Calls       Worklist, Feed, Group.

Not here: the claim (apply.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from quinque.engine.claims.subscription import Subscription
from quinque.engine.feed.feed import Feed
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import DEAD, DELAYED, READY, Worklist
from quinque.model.claim_events import ClaimAcked, ClaimReleased, ClaimReturned, Why
from quinque.model.message import Message
from quinque.model.rows import WAS_READY
from quinque.model.work_ops import Terms


class Changed(NamedTuple):
    came: Sequence[Message]
    went: Sequence[Message]


NOTHING = Changed((), ())


def apply_acked(queue: Feed, event: ClaimAcked) -> Changed:
    """The group is done with the messages."""
    group = queue.groups.get(event.group)
    went: list[Message] = []
    if group is None:
        return NOTHING
    for id in event.ids:
        lease = group.held.get(id)
        if lease is None:
            group.take_delivered(id)
            continue
        message = queue.messages.get(id)
        if message is not lease.message:
            group.detached -= 1
        elif message.is_single:
            queue.remove(message)
            went.append(message)
            continue
        del group.held[id]
    group.trim_deadlines()
    if group.is_over and queue.in_order:
        queue.groups.pop(group.name, None)
    return Changed((), went)


def apply_released(queue: Feed, event: ClaimReleased) -> None:
    """The group may have the messages again."""
    group = queue.groups.get(event.group)
    if group is None:
        return
    for id in event.ids:
        lease = group.held.pop(id, None)
        if lease is None:
            continue
        if lease.message is queue.messages.get(id):
            if event.why == Why.SHRUNK and lease.deliveries:
                lease.deliveries -= 1
                group.fresh += lease.deliveries == 0
            group.give_again(lease)
        else:
            group.detached -= 1
    group.trim_deadlines()
    if group.is_over and queue.in_order:
        del queue.groups[group.name]


def apply_returned(
    found: Subscription | None, queue: Worklist, event: ClaimReturned, home: int
) -> Changed:
    """The messages are in the worklist as their rows say. `home` is where the store keeps the first
    one's body; the others follow it."""
    came: list[Message] = []
    went: list[Message] = []
    record: Sequence[int] | None = None
    terms = Terms(0)
    for row in event.rows:
        id, body, deliveries, place, expires_ms, state, due_ms = row[:7]
        nacks, requeues, reason, key, row_terms, flags = row[7:]
        if row_terms != record:
            record, terms = row_terms, Terms(*row_terms)
        old = queue.find(id)
        if old is not None:  # only when records were damaged
            queue.remove(old)
            went.append(old)
        message = WorkMessage(id, place, expires_ms, body, home, queue, terms, READY)
        message.nacks, message.requeues, message.deliveries = nacks, requeues, deliveries
        message.was_ready, message.reason, message.key = bool(flags & WAS_READY), reason, key
        queue.put(message)
        if state == DELAYED:
            queue.enter_delayed(message, due_ms)
        elif state == DEAD:
            queue.enter_dead(message, reason)
        else:
            queue.enter_ready(message)
        if key is not None:
            queue.claimed_keys.pop(key, None)
            holder = queue.keys.get(key)
            # Another may have the key only when the worklist was forgotten meanwhile. While a
            # journal is read, one that had expired may, because compaction wrote it again later.
            if holder is not None and not 0 < holder.expires_ms <= event.at_ms:
                message.key = None
            elif state != DEAD:
                queue.keys[key] = message
        if message.expires_ms:
            queue.expiries.add(message.expires_ms, id)
            queue.soonest_ms = min(queue.soonest_ms, message.expires_ms)
        came.append(message)
        home += 1
    queue.active_ms = event.at_ms
    if queue.in_order:
        queue.claimed -= len(came)
    claim = found.claims.get(event.number) if found is not None else None
    if claim is not None:
        claim.returned += len(came)
    return Changed(came, went)
