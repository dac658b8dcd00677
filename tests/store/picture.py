"""All that a store knows, as plain values: two stores that look alike will answer alike.

Called by   the tests beside this file, tests/unit/test_check.py.
Calls       nothing; it looks into the queues.
"""

from __future__ import annotations

from typing import Any

from quinque.stores.embedded.store import EmbeddedStore


def picture_of(store: EmbeddedStore) -> dict[bytes, Any]:
    """Queues with their messages in order, and for each group what it holds, may have again and
    has done.

    A group that did nothing is left out: it is the same as one that never was. So are leases on
    messages that were flushed: compaction and a restart may forget them.
    """
    queues: dict[bytes, Any] = {}
    for name, queue in sorted(store.queues.items()):
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
        if messages:
            queues[name] = (queue.family.name, messages, groups)
    return queues


def messages_of(store: EmbeddedStore) -> dict[bytes, list[bytes]]:
    """The bodies of each queue, in order."""
    return {name: [row[1] for row in rows[1]] for name, rows in picture_of(store).items()}
