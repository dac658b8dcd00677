"""When time next brings something about, the slow and obvious way: every message is looked at.

Called by   pair.py.
Calls       nothing; it looks into the queues of an embedded store.
"""

from __future__ import annotations

from quinque.engine.feed.feed import Feed
from quinque.engine.work.worklist import Worklist
from quinque.model.limits import NEVER_MS, QUEUE_IDLE_MOST_MS, STAGE_KEPT_MS
from quinque.stores.embedded.store import EmbeddedStore


def exact_due_ms(store: EmbeddedStore) -> int:
    """The first of all instants at which something expires, comes back, or goes.

    When a queue that somebody waits on is looked at, which does not go, is up to the store; so is
    when a rate is looked at, unless somebody was refused because of it: see spent_until_ms().
    """
    instants = [NEVER_MS]
    for queue in store.queues.values():
        if isinstance(queue, Worklist):
            instants += _instants_of_worklist(queue)
            if queue.is_vacant and queue.name not in store.watched:
                instants.append(queue.active_ms + QUEUE_IDLE_MOST_MS)
        elif isinstance(queue, Feed):
            instants += _instants_of_feed(queue)
    instants += [found.due_ms() for found in store.subscriptions.all()]
    batches, marks = store.stages.batches.values(), store.stages.published.values()
    instants += [it.began_ms + STAGE_KEPT_MS for it in batches if not it.is_decided]
    instants += [mark.until_ms for mark in marks if mark.until_ms]
    return min(instants)


def spent_until_ms(store: EmbeddedStore, name: bytes) -> int:
    """When the rate of the worklist lets it hand out what is ready, 0 if it does so now; NEVER_MS
    if there is nothing to hand out, or no rate."""
    queue = store.queues.get(name)
    if not isinstance(queue, Worklist) or queue.rate is None:
        return NEVER_MS
    if not queue.ready.size or queue.is_paused_out:
        return NEVER_MS
    return 0 if queue.rate.room(store.now_ms()) else queue.rate.next_ms()


def _instants_of_feed(queue: Feed) -> list[int]:
    expiries = [it.expires_ms for it in queue.messages.values() if it.expires_ms]
    return expiries + [
        lease.deadline_ms for group in queue.groups.values() for lease in group.held.values()
    ]


def _instants_of_worklist(queue: Worklist) -> list[int]:
    messages = queue.all()
    instants = [it.expires_ms for it in messages if it.expires_ms]
    return instants + [it.due_ms for it in messages if it.due_ms]
