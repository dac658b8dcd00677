"""Many messages that were added at once, as events of some each.

Called by   items.py, stores/embedded/work_operations.py.
Calls       nothing.

A body that is only on the disk is read back with its whole record, so a record must not be large.

Not here: which messages are accepted (decide.py, items.py).
"""

from __future__ import annotations

from quinque.engine.claims.rows import chunk_sizes
from quinque.model.events import ADDED, Added
from quinque.model.limits import TOGETHER_MOST, TOGETHER_MOST_BYTES


def in_lots(event: Added) -> list[Added]:
    """Split the event into events that are small enough."""
    _, queue, family, place, at_ms, terms, key, ids, bodies = event
    sizes = chunk_sizes(bodies, TOGETHER_MOST, TOGETHER_MOST_BYTES)
    if len(sizes) == 1:
        return [event]
    lots: list[Added] = []
    at = 0
    for size in sizes:
        end = at + size
        lots.append(
            Added(
                *(ADDED, queue, family, place + at, at_ms, terms, key, ids[at:end], bodies[at:end])
            )
        )
        at = end
    return lots
