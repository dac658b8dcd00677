"""What may become of a message in a worklist.

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

From every state a message goes when it is finished, purged or expires; a dead one does not expire.
LEASED becomes DEAD when it would come back and has been delivered as often as it may.

Not here: messages of feeds, which have no state of their own (engine/feed/groups.py).
"""

from __future__ import annotations

from enum import IntEnum


class State(IntEnum):
    """The journal keeps these numbers."""

    READY = 0
    DELAYED = 1
    LEASED = 2
    DEAD = 3
