"""Decide what an operation does to a queue. No I/O, no clock, no mutation.

Called by   stores/embedded/feed_operations.py, once per operation.
Calls       nothing; it reads the Feed it is handed.

Every function takes the queue, the operation and now_ms, and returns the events that make the
operation true. The store journals those events, then hands them to apply().
Recovery applies the same events, so a rule written here is written only once.

Time may have made more due than the store has settled yet (a million leases may lapse in one
millisecond), so everything read here is checked against now_ms.

Not here: argument checking (dialects/args.py), waking readers (server/waiters.py).
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from quinque.engine.feed.feed import Feed
from quinque.engine.feed.groups import Group
from quinque.errors import Duplicate, WrongType
from quinque.model.events import (
    ACKED,
    EXPIRED,
    EXTENDED,
    FINISHED,
    FLUSHED,
    LEASED,
    RELEASED,
    REMOVED,
    STORED,
    Acked,
    Event,
    Expired,
    Extended,
    Flushed,
    Leased,
    Released,
    Removed,
    Stored,
)
from quinque.model.limits import NEVER_MS, SETTLE_MOST
from quinque.model.message import FeedMessage
from quinque.model.ops import Ack, Flush, GroupCount, Peek, Put, QueueCount, Release, Reserve
from quinque.model.own_ops import ExtendLeases


def free_stamp(
    queue: Feed, op: Put, stamp_us: int, coming: AbstractSet[bytes] = frozenset()
) -> int:
    """The first stamp from `stamp_us` on whose ids no producer has chosen in this queue, and that
    are not `coming`."""
    if op.message_id is not None or not (queue.has_chosen_ids or coming):
        return stamp_us
    count = len(op.bodies)
    free_us = stamp_us  # the ids from stamp_us up to this one are free
    at_us = stamp_us + count - 1
    # Backwards: what is behind a chosen id is known by then, and is not looked at again.
    while at_us >= free_us:
        id = b"%d" % at_us
        if id in queue.messages or id in coming:
            free_us, stamp_us = stamp_us + count, at_us + 1
            at_us += count
        else:
            at_us -= 1
    return stamp_us


def put(queue: Feed, op: Put, now_ms: int, stamp_us: int) -> Stored:
    """Store the messages. `stamp_us` is a new stamp: the first one's place, and its id unless the
    caller chose.

    Raises Duplicate when the caller's id is in the queue, WrongType.
    """
    if queue.family is not op.family:
        raise WrongType.of_queue(queue.name, queue.family.name)
    id = op.message_id
    if id is not None and id in queue.messages:
        raise Duplicate(id)
    place = stamp_us
    past: list[bytes] | None = None
    if op.to_front:
        if queue.head is not None:
            place = queue.head.place - 1
        past = [group.name for group in queue.groups.values() if place <= group.cursor]
        id = id or b"%d" % stamp_us
    return Stored(
        STORED,
        queue.name,
        op.family.code,
        place,
        now_ms + op.ttl_ms if op.ttl_ms else 0,
        op.is_single,
        past,
        None if id is None else [id],
        op.bodies,
    )


def reserve(
    queue: Feed, op: Reserve, now_ms: int, most: int, *, removes: bool = True
) -> Leased | Expired | None:
    """Lease the next messages: what the group may have again before what it has not seen.

    Lease at most `most`. If the result is Expired, apply it and call this again. None means that
    there are no messages. Without `removes`, expired messages are skipped one by one.
    """
    deadline_ms = now_ms + op.lease_ms if op.lease_ms else 0
    group = queue.groups.get(op.group)
    if group is not None and group.again:
        back = group.some_again(most)
        is_over = 0 < back[0].expires_ms <= now_ms
        if is_over and removes:
            over = group.some_again(removals_most(queue, SETTLE_MOST))
            gone = [message.id for message in over if 0 < message.expires_ms <= now_ms]
            return Expired(EXPIRED, queue.name, gone)
        if is_over:
            living = group.first_again(now_ms)
            back = [] if living is None else [living]
        ids = [message.id for message in back if not 0 < message.expires_ms <= now_ms]
        if ids:
            return Leased(LEASED, queue.name, op.group, deadline_ms, group.cursor, ids)
    message = queue.next_for(group, now_ms)
    if message is None:
        return None
    ids = [message.id]
    cursor = message.place
    while len(ids) < most and (message := message.after) is not None:
        if 0 < message.expires_ms <= now_ms:
            break
        ids.append(message.id)
        cursor = message.place
    return Leased(LEASED, queue.name, op.group, deadline_ms, cursor, ids)


def removals_most(queue: Feed, most: int) -> int:
    """Return how many messages to remove at once, at least one. `most` is the number without
    groups: each group has to forget a removed message, and twenty groups double the work."""
    return max(1, most * 20 // (20 + len(queue.groups)))


def ack(queue: Feed, op: Ack, now_ms: int) -> tuple[list[Event], list[bool]]:
    """Finish what the group holds; a single message is then gone for everyone."""
    group = queue.groups.get(op.group)
    done: list[bytes] = []
    gone: list[bytes] = []
    results: list[bool] = []
    seen: set[bytes] = set()
    for id in op.message_ids:
        message = _held(group, id, now_ms)
        if message is None and not op.held_only:
            message = queue.messages.get(id)
            if message is not None and not message.is_single:
                message = None
        if message is None or id in seen:
            results.append(False)
            continue
        results.append(True)
        seen.add(id)
        # If the message was flushed while it was held, only its lease is left to end.
        is_here = message.is_single and queue.messages.get(id) is message
        (gone if is_here else done).append(id)
    events: list[Event] = []
    if done:
        events.append(Acked(ACKED, queue.name, op.group, done))
    if gone:
        events.append(Removed(REMOVED, queue.name, gone, FINISHED, op.group))
    return events, results


def release(queue: Feed, op: Release, now_ms: int) -> tuple[list[Event], list[bool]]:
    """Return messages that the group leases. With `is_uncounted`, their delivery is not counted."""
    group = queue.groups.get(op.group)
    back: dict[bytes, None] = {}
    results: list[bool] = []
    for id in op.message_ids:
        is_held = id not in back and _leased(group, id, now_ms, op.deadline_ms)
        results.append(is_held)
        if is_held:
            back[id] = None
    if not back:
        return [], results
    return [Released(RELEASED, queue.name, op.group, list(back), op.is_uncounted)], results


def extend(queue: Feed, op: ExtendLeases, now_ms: int) -> Extended | None:
    """Let those of the group's leases that still run end `lease_ms` from now; None when there are
    none."""
    group = queue.groups.get(op.group)
    if group is None:
        return None
    ids = [id for id in dict.fromkeys(op.message_ids) if _leased(group, id, now_ms)]
    if not ids:
        return None
    return Extended(EXTENDED, queue.name, op.group, now_ms + op.lease_ms, ids)


def flush(queue: Feed, op: Flush) -> Flushed:
    """Forget every message."""
    return Flushed(FLUSHED, queue.name)


def peek(queue: Feed, op: Peek, now_ms: int) -> FeedMessage | None:
    """Return the message that reserve() would return next, or last of all."""
    group = queue.groups.get(op.group)
    if not op.last:
        message = group.first_again(now_ms) if group is not None else None
        return message or queue.next_for(group, now_ms)
    message = queue.last_living(now_ms)
    if message is not None and (group is None or message.place > group.cursor):
        return message
    return group.last_again(now_ms) if group is not None else None


def has_work(queue: Feed, group_name: bytes, now_ms: int) -> bool:
    """Return whether reserve() would return a message."""
    group = queue.groups.get(group_name)
    if group is not None and group.first_again(now_ms) is not None:
        return True
    return queue.next_for(group, now_ms) is not None


def count(queue: Feed) -> QueueCount:
    """Count messages by state, for every group."""
    total = len(queue.messages)
    groups = [count_group(queue, group) for group in queue.groups.values() if group.passed]
    return QueueCount(queue.name, total, groups)


def count_group(queue: Feed, group: Group) -> GroupCount:
    """Return the view of one group."""
    total = len(queue.messages)
    leased = len(group.held) - group.detached
    return GroupCount(
        group.name,
        total,
        leased,
        redo=len(group.again) - group.fresh,
        done=group.passed - leased - len(group.again),
        available=total - group.passed + group.fresh,
    )


def _leased(group: Group | None, id: bytes, now_ms: int, deadline_ms: int = 0) -> bool:
    """Return whether the group leases the message. A message in a claim is held without a deadline,
    and is not leased."""
    if group is None or _held(group, id, now_ms, deadline_ms) is None:
        return False
    return group.held[id].deadline_ms < NEVER_MS


def _held(group: Group | None, id: bytes, now_ms: int, deadline_ms: int = 0) -> FeedMessage | None:
    """The message, if the group holds it and its lease has not run out; with `deadline_ms`, if it
    is the lease that ends then."""
    lease = group.held.get(id) if group is not None else None
    if lease is None or lease.deadline_ms <= now_ms or 0 < deadline_ms != lease.deadline_ms:
        return None
    message = lease.message
    return None if 0 < message.expires_ms <= now_ms else message
