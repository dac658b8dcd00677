"""The states of a message in a work queue.

Called by   the engine, the dialects (which have their own words for them).
Calls       nothing.

         Add, with a delay                      Add
               │                                 │
               ▼          its time comes         ▼        Take, Hold, Extend
           DELAYED ──────────────────────────► READY ◄──────────────────────► LEASED
               ▲                                 ▲     lapsed, given back       │ │
               │                                 │                              │ │
               │                                 └─────── Redrive ─── DEAD ◄────┘ │
               └──────────────── given back with a delay ─────────────────────────┘

In every state a message is removed when it is finished, purged or expires; a dead one does not
expire. LEASED becomes DEAD when the message returns and has reached its maximum number of
deliveries.

Not here: events, whose state belongs to a group (engine/feed/groups.py).
"""

from __future__ import annotations

from enum import IntEnum


class State(IntEnum):
    """The journal keeps these numbers."""

    READY = 0
    DELAYED = 1
    LEASED = 2
    DEAD = 3
