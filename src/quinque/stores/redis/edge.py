"""What an operation needs from outside Redis: time, chance, the node's name, who waits.

Called by   the steps of operations (feeds.py, worklists.py, looks.py), store.py.
Calls       the clock and the chance it is handed.

Not here: what is in Redis.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Final

from quinque.model.limits import JITTER_MS
from quinque.model.work_ops import NodeView, Terms
from quinque.stores.base import Fsync
from quinque.stores.clock import Clock
from quinque.stores.redis.keys import with_slot

_TTL_MOST_MINUTES: Final = 0xFFFF
_POOL_BYTES: Final = 4096  # asked of the system at once: a call costs more than the bytes


class Edge:
    def __init__(self, clock: Clock, chance: Callable[[int], bytes], node: str) -> None:
        self.clock = clock
        self.node_name = node
        self.node: NodeView | None = None  # once it is known
        self.watched: Collection[bytes] = ()
        self.slots: set[int] = set()  # that have, or had, a queue, as far as is known
        self.stamp_us = 0  # the newest this broker has given out
        self.fsync: Fsync = "always"  # as this broker was told; what Redis does is set there
        self._chance = chance
        self._pool = b""
        self._pool_at = 0

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

    def random(self, count: int) -> bytes:
        """So many random bytes."""
        at = self._pool_at
        if at + count > len(self._pool):
            self._pool = self._chance(max(count, _POOL_BYTES))
            at = 0
        self._pool_at = at + count
        return self._pool[at : at + count]

    def jitter_ms(self) -> int:
        pair = self.random(2)
        return (pair[0] << 8 | pair[1]) % (2 * JITTER_MS) - JITTER_MS

    def new_node_id(self) -> bytes:
        return self.random(20).hex().encode()

    def new_id(self, slot: int, terms: Terms, node_id: bytes) -> bytes:
        """An id nobody has, which tells its slot; drawn in keys.py. The last four digits are its
        life in minutes, odd if it may come back."""
        text = b2a_base64(with_slot(self.random(18), slot), newline=False)
        return b"D-%b-%b-%b" % (node_id[:8], text, _id_tail(terms.ttl_ms, terms.retry_ms))


@lru_cache(maxsize=1024)
def _id_tail(ttl_ms: int, retry_ms: int) -> bytes:
    minutes = min(ttl_ms // 60_000, _TTL_MOST_MINUTES)
    return b"%04x" % (minutes | 1 if retry_ms else minutes & ~1)
