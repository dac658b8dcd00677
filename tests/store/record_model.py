"""Does the record tell what the store holds? The rows are played, and the outcome is compared.

Called by   test_record.py, test_record_crash.py.
Calls       the store it is handed.
"""

from __future__ import annotations

from typing import Final

import msgpack

from quinque.engine.feed.feed import Feed
from quinque.engine.tubes.tube import Tube
from quinque.engine.work.worklist import Worklist
from quinque.model.families import EVENTS
from quinque.model.lifecycle import Kind, Reason
from quinque.model.states import State
from quinque.stores.embedded.store import EmbeddedStore
from tests.conformance.record_words import Row, rows

Name = tuple[bytes, bytes]  # of a queue, and of a message in it: some are known only there

_STATES: Final = {
    Kind.ADDED: State.READY,
    Kind.RETURNED: State.READY,
    Kind.DELAYED: State.DELAYED,
    Kind.DELIVERED: State.LEASED,
    Kind.HELD: State.LEASED,
    Kind.DEAD: State.DEAD,
}


def check_record(store: EmbeddedStore) -> list[Row]:
    """The rows, of which none is missing and none is there twice; they say what the store says."""
    found = rows(store)
    states: dict[Name, State | None] = {
        (queue.name, message.id): State(message.state)
        for queue in store.queues.values()
        if isinstance(queue, Worklist)
        and not (isinstance(queue, Tube) and queue.settings.is_temporary)
        for message in queue.all()
    }
    for subscription in store.subscriptions.all():
        if subscription.family.is_worklist:
            for claim in subscription.held_claims():
                for chunk in claim.to_close():
                    for id in msgpack.unpackb(chunk.ids):
                        states[subscription.queue, id] = None
    assert worklist_states(found) == states
    for name in {row.queue for row in found if row.family == EVENTS.code}:
        _check_feed(store, name, [row for row in found if row.queue == name])
    return found


def worklist_states(found: list[Row]) -> dict[Name, State | None]:
    """What became of each message of a worklist that is still there; None if it is in a claim."""
    states: dict[Name, State | None] = {}
    for row in found:
        if row.family == EVENTS.code:
            continue
        id, kind = (row.queue, row.seen.id), row.seen.kind
        assert (kind == Kind.ADDED) == (id not in states), "it comes once, and first"
        if kind == Kind.DELIVERED and row.seen.reason == Reason.CLAIMED:
            states[id] = None
        elif kind in _STATES:
            states[id] = _STATES[kind]
        else:
            del states[id]
    return states


def _check_feed(store: EmbeddedStore, name: bytes, found: list[Row]) -> None:
    """The messages are those that came and did not go; a group holds what it was given last.

    An ack without a group is the end of a message for everyone.
    """
    alive: set[bytes] = set()
    held: set[tuple[bytes, bytes]] = set()
    for row in found:
        id, kind, group = row.seen.id, row.seen.kind, row.seen.group
        if row.family != EVENTS.code:
            continue
        if kind == Kind.ADDED:
            assert id not in alive, "it comes once"
            alive.add(id)
        elif kind in (Kind.EXPIRED, Kind.REMOVED) or (kind == Kind.ACKED and not group):
            assert id in alive
            alive.discard(id)
        elif kind == Kind.DELIVERED:
            assert id in alive
            held.add((group, id))
        elif kind == Kind.HELD:
            assert (group, id) in held, "a lease that goes on was given"
        else:
            assert kind == Kind.ACKED or kind == Kind.RETURNED
            held.discard((group, id))
    queue = store.queues.get(name)
    messages = set(queue.messages) if isinstance(queue, Feed) else set()
    assert messages == alive
    groups = queue.groups.values() if isinstance(queue, Feed) else ()
    assert {(group.name, id) for group in groups for id in group.held} <= held
