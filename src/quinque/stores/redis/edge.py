"""The facts that an operation needs from outside Redis: the time, random values, the name of the
node, blocked clients.

Called by   the steps of operations (feeds.py, worklists.py, looks.py), store.py.
Calls       the clock and the chance it is handed.

Not here: what is in Redis.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection
from typing import Final

from quinque.model.work_ops import NodeView, Terms
from quinque.stats.tally import Tally
from quinque.stores.base import Fsync
from quinque.stores.chance import Chance, id_tail
from quinque.stores.clock import Clock
from quinque.stores.consumers import Consumers
from quinque.stores.id_slots import ID_RANDOM_BYTES, make_ids
from quinque.stores.keeping import Keeping
from quinque.stores.redis.alarms import SlotAlarms
from quinque.stores.redis.empty_slots import EmptySlots
from quinque.stores.redis.event_lanes import EventLanes
from quinque.stores.redis.foreign import Foreign
from quinque.stores.redis.own_sessions import OwnSessions
from quinque.stores.redis.spread import Spread
from quinque.stores.stuck_batches import StuckBatches

log = logging.getLogger("quinque.redis")

_TOKEN_BYTES: Final = 16  # two brokers never have the same


class SharedConsumers:
    """The consumers that this broker last reported to the others, and when; None: nothing yet."""

    def __init__(self) -> None:
        self.packed: bytes | None = None
        self.at_ms = 0


class Edge:
    def __init__(self, clock: Clock, chance: Callable[[int], bytes], node: str) -> None:
        self.clock = clock
        self.node_name = node
        self.node: NodeView | None = None  # once it is known
        self.named_ms = 0  # when that was last kept for later
        self.follows = False  # whether that clock follows the one of Redis
        self.is_cluster = False
        self.timeout_ms = 0  # how long a call may be under way
        self.watched: Collection[bytes] = ()
        self.slots: set[int] = set()  # that have, or had, a queue, as far as is known
        self.unnoted_slots: set[int] = set()  # of these, those that Redis does not list yet
        self.empty = EmptySlots()  # of these, those that are visited rarely
        self.spread = Spread()
        self.alarms = SlotAlarms()
        self.sessions = OwnSessions()
        self.foreign = Foreign()
        self.stuck = StuckBatches(log)
        self.deep_cleanings: dict[int, object] = {}  # unfinished ones, by the cursor to go on with
        self.stamp_us = 0  # the newest this broker has given out
        self.event_lanes = EventLanes(os.urandom(_TOKEN_BYTES).hex().encode())
        self.fsync: Fsync = "always"  # this broker's setting; what Redis does is set there
        self.keeping = Keeping()  # the record of what became of messages
        self.tally = Tally()  # what this broker's calls made of messages, if it is counted
        self.chance = Chance(chance)
        self.consumers = Consumers()
        self.shared_consumers = SharedConsumers()

    def now_us(self) -> int:
        return self.clock.now_us()

    def now_ms(self) -> int:
        return self.clock.now_us() // 1000

    def take_stamps(self, count: int) -> int:
        """The first of `count` stamps (µs) that follow each other, later than all before: about
        now. A slot may put them later still, if another broker was there."""
        first = max(self.clock.now_us(), self.stamp_us + 1)
        self.stamp_us = first + count - 1
        return first

    def new_ids(self, slot: int, count: int, terms: Terms, node_id: bytes) -> list[bytes]:
        """Make ids that no message has and that contain their slot; drawn in stores/id_slots.py.
        The last four digits are how long they live, in minutes, odd if they may come back."""
        random = self.chance.take(ID_RANDOM_BYTES * count)
        return make_ids(random, slot, node_id, id_tail(terms.ttl_ms, terms.retry_ms))
