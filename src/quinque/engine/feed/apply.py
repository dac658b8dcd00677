"""Carry out events. The only code that changes an index.

Called by   stores/embedded/feed_operations.py after journaling, and replay.py for each record.
Calls       Feed and Group.

While a journal is read back (`queue.in_order` is False) an event about a message that is not there
is passed over: in a compacted journal, the records between a message's first one (gone) and its
Kept one still stand. Kept and GroupKept events are applied only then.

Not here: whether an event is right (decide.py, due.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from quinque.engine.feed.feed import Feed
from quinque.model.events import (
    ACKED,
    EXPIRED,
    EXTENDED,
    FLUSHED,
    GROUP_KEPT,
    KEPT,
    LAPSED,
    LEASED,
    RELEASED,
    REMOVED,
    STORED,
    Acked,
    Expired,
    Extended,
    Flushed,
    GroupKept,
    Kept,
    Lapsed,
    Leased,
    Released,
    Removed,
    Stored,
)
from quinque.model.limits import NEVER_MS
from quinque.model.message import FeedMessage, Lease


def apply_stored(queue: Feed, event: Stored, home: int) -> list[FeedMessage]:
    """The messages are in the queue, at their places. `home` is where the store keeps the first
    one's body; the others follow it."""
    _, _, _, place, expires_ms, is_single, to_front, ids, bodies = event
    if ids is None:
        ids = [b"%d" % number for number in range(place, place + len(bodies))]
    else:
        queue.has_chosen_ids = True
    known = queue.messages
    messages: list[FeedMessage] = []
    is_last = queue.in_order and to_front is None
    for id, body in zip(ids, bodies, strict=True):
        message = FeedMessage(id, place, expires_ms, is_single, body, home)
        known[id] = message
        messages.append(message)
        if is_last:
            queue.link_last(message)
        place += 1
        home += 1
    if to_front is not None:
        _put_before_all(queue, messages[0], to_front)
    if expires_ms:
        queue.expiries.add_all(expires_ms, ids)
        if expires_ms < queue.soonest_ms:
            queue.soonest_ms = expires_ms
    return messages


def _put_before_all(queue: Feed, message: FeedMessage, past: Sequence[bytes]) -> None:
    queue.has_front = True
    queue.front_until = max(queue.front_until, message.place)
    if not queue.in_order:
        _mark_past(queue, message.place, past)
        _drop_ended(queue, past)
    for name in past:
        # The group is past the front: it gets the message as a redelivery.
        group = queue.groups[name]
        group.passed += 1
        group.fresh += 1
        group.give_again(Lease(message, 0, 0))
        if group.at is None:
            group.at = message
        if not queue.in_order:
            queue.holding[name] = group
    if queue.in_order:
        queue.link_first(message)


def _mark_past(queue: Feed, place: int, past: Sequence[bytes]) -> None:
    """These groups have come as far as `place`, and no others have.

    For a journal that is read, where a group's cursor may be unknown so far, or be that of an ended
    group of the same name.
    """
    here = set(past)
    for name in past:
        group = queue.group(name)
        group.cursor = max(group.cursor, place)
    for group in queue.groups.values():
        if group.cursor >= place and group.name not in here:
            group.cursor = place - 1


def _drop_ended(queue: Feed, past: Sequence[bytes]) -> None:
    """Of the groups that a journal has named so far, drop those that had ended when a message was
    put before all: a group that had not, and held nothing, was past it."""
    here = set(past)
    over = [
        group.name
        for group in queue.groups.values()
        if group.name not in here and not group.held and not group.again
    ]
    for name in over:
        del queue.groups[name]


def apply_leased(queue: Feed, event: Leased) -> list[int]:
    """The group has the messages until the deadline; how often each was delivered by now."""
    _, _, group_name, deadline_ms, cursor, ids = event
    group = queue.groups.get(group_name) or queue.group(group_name)
    counts: list[int] = []
    for id in ids:
        message = queue.messages.get(id)
        lease = group.take_again(id) if group.again else None
        held = group.held.pop(id, None)
        if held is not None:
            if held.message is message:
                lease = held
            else:
                # Held since before a flush; this is another message with the same id.
                group.detached -= 1
        deliveries = 1
        if lease is not None:
            deliveries = lease.deliveries + 1
        elif message is not None and queue.in_order:
            group.pass_by(message, queue.head)
        counts.append(deliveries)
        # A message that is not there: its first record is gone; if it lives, its Kept one comes.
        if deadline_ms and message is not None:
            group.held[id] = Lease(message, deadline_ms, deliveries)
            if not queue.in_order:
                queue.holding[group_name] = group
    if cursor > group.cursor:
        group.cursor = cursor
    if 0 < deadline_ms < NEVER_MS:
        group.deadlines.add_all(deadline_ms, ids)
        if deadline_ms < queue.soonest_ms:
            queue.soonest_ms = deadline_ms
    return counts


def apply_acked(queue: Feed, event: Acked) -> None:
    """The group is done with the messages."""
    group = queue.groups.get(event.group)
    if group is None:
        return
    for id in event.ids:
        lease = group.held.pop(id, None)
        if lease is None:
            group.take_delivered(id)
        elif group.detached and lease.message is not queue.messages.get(id):
            group.detached -= 1
    group.trim_deadlines()
    if group.is_over and queue.in_order:
        del queue.groups[group.name]


def apply_given_back(queue: Feed, event: Released | Lapsed) -> None:
    """The group may have the messages again."""
    group = queue.groups.get(event.group)
    if group is None:
        return
    is_uncounted = isinstance(event, Released) and event.is_uncounted
    for id in event.ids:
        lease = group.held.pop(id, None)
        if lease is None:
            continue
        if lease.message is queue.messages.get(id):
            if is_uncounted:
                lease.deliveries -= 1
                group.fresh += lease.deliveries == 0
            group.give_again(lease)
        else:
            group.detached -= 1
    group.trim_deadlines()
    if group.is_over and queue.in_order:
        del queue.groups[group.name]


def apply_extended(queue: Feed, event: Extended) -> None:
    """Let the group's leases of these messages end at the deadline."""
    group = queue.groups.get(event.group)
    if group is None:
        return
    deadline_ms = event.deadline_ms
    held: list[bytes] = []
    for id in event.ids:
        lease = group.held.get(id)
        if lease is not None:
            lease.deadline_ms = deadline_ms
            held.append(id)
    if held:
        group.deadlines.add_all(deadline_ms, held)
        group.trim_deadlines()
        if deadline_ms < queue.soonest_ms:
            queue.soonest_ms = deadline_ms


def apply_removed(queue: Feed, event: Removed | Expired) -> list[FeedMessage]:
    """Remove the messages for all groups; return those that existed."""
    gone: list[FeedMessage] = []
    for id in event.ids:
        message = queue.messages.get(id)
        if message is not None:
            queue.remove(message)
            gone.append(message)
    return gone


def apply_flushed(queue: Feed, event: Flushed) -> list[FeedMessage]:
    """Remove every message. Return the removed ones."""
    gone = list(queue.messages.values())
    queue.clear().drop_some(len(gone))
    return gone


def apply_kept(queue: Feed, event: Kept, home: int) -> list[FeedMessage]:
    """The message is in the queue, its groups hold what the record says; none if it was there."""
    _, _, _, id, place, expires_ms, is_single, past, holds, body = event
    message = queue.messages.get(id)
    if message is not None:
        # Its first record is still there, so all is known already, but where its body is.
        return []
    message = FeedMessage(id, place, expires_ms, is_single, body, home)
    queue.messages[id] = message
    if id != b"%d" % place:
        queue.has_chosen_ids = True
    if expires_ms:
        queue.expiries.add(expires_ms, id)
    if past is not None:
        queue.has_front = True
        queue.front_until = max(queue.front_until, place)
        _mark_past(queue, place, past)
    for group_name, deadline_ms, deliveries in holds:
        group = queue.group(group_name)
        # How far the group has come may be on record only after this; it has come this far.
        group.cursor = max(group.cursor, place)
        queue.holding[group_name] = group
        lease = Lease(message, deadline_ms, deliveries)
        if deadline_ms:
            group.held[id] = lease
            if deadline_ms < NEVER_MS:
                group.deadlines.add(deadline_ms, id)
        else:
            group.fresh += deliveries == 0
            group.give_again(lease)
    return [message]


def apply_group_kept(queue: Feed, event: GroupKept) -> None:
    """The group has come at least this far."""
    group = queue.group(event.group)
    group.cursor = max(group.cursor, event.cursor)


APPLY: Final[dict[int, Callable[[Feed, Any], Any]]] = {
    LEASED: apply_leased,
    ACKED: apply_acked,
    RELEASED: apply_given_back,
    EXTENDED: apply_extended,
    LAPSED: apply_given_back,
    EXPIRED: apply_removed,
    REMOVED: apply_removed,
    FLUSHED: apply_flushed,
    GROUP_KEPT: apply_group_kept,
}
APPLY_WITH_BODY: Final[dict[int, Callable[[Feed, Any, int], list[FeedMessage]]]] = {
    STORED: apply_stored,
    KEPT: apply_kept,
}
