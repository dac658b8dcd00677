"""Random values: bytes, the ids of nodes, the variation of a lease.

Called by   stores.
Calls       the source of random bytes it is handed.

Not here: ids in feeds, which are places (engine/feed/apply.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from quinque.model.limits import JITTER_MS

_POOL_BYTES: Final = 4096  # asked of the source at once: a call costs more than the bytes
_TTL_MOST_MINUTES: Final = 0xFFFF


class Chance:
    def __init__(self, source: Callable[[int], bytes]) -> None:
        self._source = source
        self._pool = b""
        self._at = 0

    def take(self, count: int) -> bytes:
        """Random bytes, `count` of them."""
        at = self._at
        if at + count > len(self._pool):
            self._pool = self._source(max(count, _POOL_BYTES))
            at = 0
        self._at = at + count
        return self._pool[at : at + count]

    def node_id(self) -> bytes:
        """40 hexadecimal digits."""
        return self.take(20).hex().encode()

    def jitter_ms(self) -> int:
        """From -JITTER_MS to just below JITTER_MS."""
        pair = self.take(2)
        return (pair[0] << 8 | pair[1]) % (2 * JITTER_MS) - JITTER_MS


@lru_cache(maxsize=1024)
def id_tail(ttl_ms: int, retry_ms: int) -> bytes:
    """Return the end of the id of a job: its time to live in minutes, odd if it may be delivered
    again."""
    minutes = min(ttl_ms // 60_000, _TTL_MOST_MINUTES)
    return b"%04x" % (minutes | 1 if retry_ms else minutes & ~1)
