"""Many messages that were stored at once, as events of some each.

A body that is only on the disk is read back with its whole record, so a record must not be large.

Not here: which messages are accepted (decide.py), the same for worklists (work/lots.py).
"""

from __future__ import annotations

from quinque.engine.claims.rows import chunk_sizes
from quinque.model.events import Stored
from quinque.model.limits import TOGETHER_MOST, TOGETHER_MOST_BYTES


def in_lots(event: Stored) -> list[Stored]:
    """Split the event into events that are small enough. Only messages whose ids are their
    positions can be many."""
    if len(event.bodies) <= 1:
        return [event]
    lots: list[Stored] = []
    at = 0
    for size in chunk_sizes(event.bodies, TOGETHER_MOST, TOGETHER_MOST_BYTES):
        lots.append(event._replace(place=event.place + at, bodies=event.bodies[at : at + size]))
        at += size
    return lots
