"""The microseconds that this broker may use as ids of events, and which slot uses which of them.

Called by   edge.py (keeps them), event_ids.py and feeds.py (each addition of events).
Calls       nothing.

A share is every `step`-th microsecond from a `first` one. Shares with different numbers have no
microsecond in common, and lanes divide a share in the same way:

    broker number 0      0   2   4   6   8  10  12  14  16  …
    its lane 0           0       4       8      12      16
    its common lane          2              10               the slots that have no lane
    its lanes 1 to 4                 6                       6 mod 16, in 4 parts
    its lanes 5 to 20                               14       14 mod 16, in 16 parts

Not here: why they are divided, and the owner of each number (event_ids.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_BROKERS: Final = (1, 2, 4, 16, 128)  # that share a half, a quarter, … and all the rest
_LANES: Final = (1, 1, 4, 16)
_COMMON: Final = 1  # the number of the lane of slots that have none of their own
BROKERS_MOST: Final = sum(_BROKERS)
# An addition of which no answer came may still be carried out: for how long is not known exactly,
# but a connection to Redis is closed before that.
REST_MS: Final = 60_000


class Share(NamedTuple):
    first: int
    step: int


def shares_of(counts: Sequence[int]) -> Iterator[Share]:
    """As many shares as the counts say: the first ones have a half of all numbers together, the
    next a quarter, and so on; the last have what is left."""
    for power, count in enumerate(counts):
        first = (1 << power) - 1
        step = 1 << (power if power == len(counts) - 1 else power + 1)
        yield from (Share(first + step * number, step * count) for number in range(count))


class Lane:
    __slots__ = ("first", "is_common", "rests_until_ms", "slot", "step", "users")

    def __init__(self, first: int, step: int, is_common: bool) -> None:
        self.first = first
        self.step = step
        self.is_common = is_common  # several slots use it, so ids must not be moved on in it
        self.slot = -1  # the slot that uses it, or was the last
        self.users = 0  # additions under way
        self.rests_until_ms = 0  # an addition may be under way until then


class Entered(NamedTuple):
    """An addition: its lane, and its first id if the slot is not further ahead."""

    lane: Lane
    first_us: int


class EventLanes:
    def __init__(self, token: bytes) -> None:
        self.token = token  # by which Redis knows this broker
        self.number = -1  # none
        self.kept_ms = 0  # when Redis last confirmed it
        self._lanes: list[Lane] = []
        self._common: Lane | None = None
        self._by_slot: dict[int, Lane] = {}

    def divide(self, number: int) -> None:
        """The broker has this number from here on."""
        self.number = number
        self._lanes, self._common, self._by_slot = [], None, {}
        if number < 0:
            return
        share = list(shares_of(_BROKERS))[number]
        for at, part in enumerate(shares_of(_LANES)):
            first = share.first + share.step * part.first
            lane = Lane(first, share.step * part.step, at == _COMMON)
            if lane.is_common:
                self._common = lane
            else:
                self._lanes.append(lane)

    def enter(self, slot: int, from_us: int, count: int, now_ms: int) -> Entered:
        """The lane of the slot, or the free one in which `count` ids from `from_us` on end first,
        or else the common one."""
        lane = self._by_slot.get(slot)
        if lane is None or not (lane.users or lane.rests_until_ms > now_ms):
            lane = self._find(from_us, count, now_ms)
            if not lane.is_common:
                if self._by_slot.get(lane.slot) is lane:
                    del self._by_slot[lane.slot]
                lane.slot = slot
                self._by_slot[slot] = lane
        lane.users += 1
        return Entered(lane, from_us + (lane.first - from_us) % lane.step)

    def leave(self, lane: Lane) -> None:
        """The addition was carried out, or never will be."""
        lane.users -= 1

    def leave_unknown(self, lane: Lane, now_ms: int) -> None:
        """The addition may still be carried out."""
        lane.users -= 1
        lane.rests_until_ms = now_ms + REST_MS

    def is_idle(self, now_ms: int) -> bool:
        """Whether no addition is under way."""
        return not any(it.users or it.rests_until_ms > now_ms for it in self._all())

    def _all(self) -> list[Lane]:
        return self._lanes if self._common is None else [*self._lanes, self._common]

    def _find(self, from_us: int, count: int, now_ms: int) -> Lane:
        best, best_us = self._common, 0
        for lane in self._lanes:
            if lane.users or lane.rests_until_ms > now_ms:
                continue
            wait_us = (lane.first - from_us) % lane.step
            last_us = wait_us + (count - 1) * lane.step
            if best is None or best.is_common or last_us < best_us:
                best, best_us = lane, last_us
            # The following lanes have steps that are at least as long.
            if 4 * wait_us <= lane.step or (count - 1) * lane.step > best_us:
                break
        assert best is not None, "a broker without a number makes no ids"
        return best
