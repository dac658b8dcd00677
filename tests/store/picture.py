"""All that a store knows, as plain values: two stores that look alike will answer alike.

Called by   the tests beside this file, tests/model, tests/unit/test_check.py.
Calls       nothing; it looks into the queues.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from quinque.engine.claims.subscription import Claim
from quinque.engine.feed.feed import Feed
from quinque.engine.tubes.task import Task
from quinque.engine.tubes.tube import Tube
from quinque.engine.work.remains import WorkRemains
from quinque.engine.work.worklist import Worklist
from quinque.model.limits import NEVER_MS
from quinque.model.message import Message
from quinque.stores.embedded.books import Leaving
from quinque.stores.embedded.store import EmbeddedStore
from tests.engine.invariants import check_invariants
from tests.engine.tubes.invariants import check_sessions, check_tube
from tests.engine.work.invariants import check_directory, check_worklist, in_order


def picture_of(store: EmbeddedStore) -> dict[bytes, Any]:
    """Queues with their messages in order, and what is known of them beside."""
    queues: dict[bytes, Any] = {}
    for name, queue in sorted(store.queues.items()):
        if isinstance(queue, Tube):
            picture: Any = _picture_of_tube(store, queue)
        elif isinstance(queue, Worklist):
            picture = _picture_of_worklist(store, queue)
        else:
            assert isinstance(queue, Feed)
            picture = _picture_of_feed(store, queue)
        if picture is not None:
            queues[name] = picture
    return queues


def messages_of(store: EmbeddedStore) -> dict[bytes, list[bytes]]:
    """The bodies of each queue, in order."""
    return {name: [row[1] for row in rows[1]] for name, rows in picture_of(store).items()}


def feed_of(store: EmbeddedStore, name: bytes) -> Feed:
    """The queue, which is a feed."""
    queue = store.queues[name]
    assert isinstance(queue, Feed)
    return queue


def check_indexes(store: EmbeddedStore) -> None:
    """Every index of every queue says the same as every other."""
    now_ms = store.now_ms()
    for name, queue in store.queues.items():
        assert queue.name == name
        if isinstance(queue, Tube):
            check_tube(queue, now_ms)
        elif isinstance(queue, Worklist):
            check_worklist(queue, now_ms)
        else:
            assert isinstance(queue, Feed)
            assert not queue.is_empty, "an empty queue is dropped"
            check_invariants(queue, now_ms)
    check_directory(store.directory)
    check_sessions(store.sessions, [it for it in store.queues.values() if isinstance(it, Tube)])
    _check_claimed(store)
    for message in store.directory.by_id.values():
        if not message.is_gone:
            assert store.queues.get(message.queue.name) is message.queue, "its queue is gone"
    messages = every_message(store)
    in_memory = [it.body for it in messages if it.body is not None]
    assert store.bodies.count == len(messages)
    assert store.bodies.in_memory == sum(map(len, in_memory))
    assert store.bodies.on_disk == len(messages) - len(in_memory)
    assert store.bodies.total_bytes == sum(map(store.bodies.size_of, messages))


def every_message(store: EmbeddedStore) -> list[Message]:
    """All but those of temporary tubes."""
    messages: list[Message] = [message for it in store.leaving for message in _left(it)]
    for queue in store.queues.values():
        if isinstance(queue, Tube) and queue.settings.is_temporary:
            continue
        if isinstance(queue, Worklist):
            messages += queue.all()
        else:
            assert isinstance(queue, Feed)
            messages += queue.messages.values()
    for found in store.subscriptions.all():
        for claim in found.claims.values():
            messages += claim.chunks.values()
    for batch in store.stages.batches.values():
        assert batch.messages == sum(chunk.messages for chunk in batch.chunks.values())
        messages += batch.chunks.values()
    return messages


def _left(leaving: Leaving) -> list[Message]:
    """What is left of a queue that was emptied."""
    found: list[Message] = []
    remains: Any = leaving.remains
    step = remains.newest if isinstance(remains, WorkRemains) else remains.head
    while step is not None:
        found.append(step)
        step = step.before if isinstance(remains, WorkRemains) else step.after
    assert len(found) == remains.size
    return found if leaving.is_kept else []


def picture_of_claims(store: EmbeddedStore) -> object:
    """Subscriptions with their claims, batches that are staged, and what was published."""
    subscriptions = [
        (
            (it.queue, it.name, it.family.name, it.group),
            (it.epoch, it.settled, it.lease_ms, it.release_ms),
            [_picture_of_claim(store, it.claims[number]) for number in sorted(it.claims)],
        )
        for it in store.subscriptions.all()
    ]
    batches = [
        (
            name,
            batch.family.name,
            batch.is_decided or batch.writer,
            batch.content,
            batch.done,
            [[*part] for part in batch.parts],
            {at: (store.bodies.of(it), it.messages) for at, it in sorted(batch.chunks.items())},
        )
        for name, batch in sorted(store.stages.batches.items())
    ]
    published = {
        run: (it.number, it.until_ms, it.content)
        for run, it in store.stages.published.items()
        if not 0 < it.until_ms <= store.now_ms()
    }
    return subscriptions, store.subscriptions.last_epoch, batches, published


def _picture_of_claim(store: EmbeddedStore, claim: Claim) -> object:
    return (
        (claim.number, claim.state, claim.plays, claim.began_ms, claim.ended_ms),
        (claim.is_closing, claim.is_closing and claim.why, claim.closed),
        (claim.messages, claim.body_bytes),
        {id: (it.outcome, it.delay_ms, it.reason) for id, it in claim.marks.items()},
        [
            (it.place, store.bodies.of(it), it.ids, it.messages, it.least_place, it.most_place)
            for it in claim.in_order()
        ],
    )


def _check_claimed(store: EmbeddedStore) -> None:
    """Every worklist knows what of it is in open claims."""
    claimed: Counter[bytes] = Counter()
    keys: dict[bytes, dict[bytes, bytes]] = {}
    for found in store.subscriptions.all():
        for claim in found.held_claims():
            assert claim.messages == sum(it.messages for it in claim.chunks.values()) > 0
            assert claim.returned == 0
            assert claim.done == sum(
                it.messages for it in claim.chunks.values() if it.place < claim.closed
            )
            if found.family.is_worklist:
                for chunk in claim.to_close():
                    claimed[found.queue] += chunk.messages
                    keys.setdefault(found.queue, {}).update(chunk.keys)
    for name, queue in store.queues.items():
        if isinstance(queue, Worklist):
            assert queue.claimed == claimed.pop(name, 0)
            assert queue.claimed_keys == keys.get(name, {})
    assert not claimed, "a worklist whose messages are claimed is there"


def _picture_of_feed(store: EmbeddedStore, queue: Feed) -> object:
    """The messages, and for each group what it holds, may have again and has done.

    A group that did nothing is left out: it is the same as one that never was. So are leases on
    messages that were flushed: compaction and a restart may forget them.
    """
    messages = []
    step = queue.head
    while step is not None:
        body = store.bodies.of(step)
        messages.append((step.id, body, step.place, step.expires_ms, step.is_single))
        step = step.after
    groups = {}
    for group in queue.groups.values():
        held = {
            id: (it.deadline_ms, it.deliveries)
            for id, it in group.held.items()
            if it.message is queue.messages.get(id)
        }
        again = {id: it.deliveries for id, it in group.again.items() if it.deliveries}
        done = [
            id
            for id, _, place, _, _ in messages
            if place <= group.cursor and id not in held and id not in group.again
        ]
        if held or again or done:
            groups[group.name] = (held, again, done)
    return (queue.family.name, messages, groups) if messages else None


def _picture_of_tube(store: EmbeddedStore, tube: Tube) -> object:
    """The tasks and what is set; of a temporary tube only that."""
    tasks = [] if tube.settings.is_temporary else in_order(tube.all())
    messages = [
        (
            it.id,
            store.bodies.of(it),
            it.place,
            (it.created_ms, it.expires_ms, it.ttl_ms, it.ttr_ms),
            it.lane,
            it.state,
            it.due_ms,
            it.deliveries,
            it.holder.id if it.holder is not None else b"",
        )
        for it in tasks
        if isinstance(it, Task)
    ]
    number = 0 if tube.settings.is_temporary else tube.number
    return tube.family.name, messages, tube.kind, tube.settings, tube.order, number


def _picture_of_worklist(store: EmbeddedStore, queue: Worklist) -> object:
    """The messages, what was counted and what is set.

    A worklist with nothing in it, for which nothing is set, is left out: that somebody asked for it
    may be forgotten. So may be since when it was there before the first message.
    """
    messages = [
        (
            it.id,
            store.bodies.of(it),
            it.place,
            it.expires_ms,
            it.terms,
            it.state,
            min(it.due_ms, NEVER_MS),  # which delivery it was is not kept of a lease without an end
            (it.nacks, it.requeues, it.deliveries, it.was_ready),
            it.reason,
            it.key,
        )
        for it in in_order(queue.all())
    ]
    rate = queue.rate and (queue.rate.count, queue.rate.span_ms, queue.rate.full_us)
    settings = (queue.is_paused_in, queue.is_paused_out, queue.max_deliveries, rate, queue.ends_ms)
    counts = (queue.came, queue.went, queue.active_ms)
    turns = None if queue.turns is None else list(queue.turns.items())
    is_bare = not queue.size and not queue.has_settings and not queue.family.is_lasting
    return None if is_bare else (queue.family.name, messages, counts, settings, turns)
