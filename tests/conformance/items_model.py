"""What a queue of items answers, in the plainest words: lists, and a look through all of them.

Called by   test_items_random.py.
Calls       nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class ItemsModel:
    """`queued` are lots: those of one lot, whose leases ended in the same millisecond, may come in
    any order."""

    data: dict[bytes, bytes] = field(default_factory=dict)
    queued: list[list[bytes]] = field(default_factory=list)
    leases: dict[bytes, int] = field(default_factory=dict)  # when they end, by id

    def settle(self, now_ms: int) -> None:
        """Every item whose lease has ended is behind all others."""
        for end_ms in sorted({end for end in self.leases.values() if end <= now_ms}):
            lot = [id for id, end in self.leases.items() if end == end_ms]
            self.queued.append(lot)
            for id in lot:
                del self.leases[id]

    def add(
        self, ids: Sequence[bytes], bodies: Sequence[bytes], *, is_known_new: bool
    ) -> list[bool]:
        are_new: list[bool] = []
        for id, body in zip(ids, bodies, strict=True):
            is_new = id not in self.data
            are_new.append(is_new)
            if is_new:
                self.queued.append([id])
            if is_new or is_known_new:
                self.data[id] = body
        return are_new

    def check_leased(self, given: Sequence[tuple[bytes, bytes]], count: int, end_ms: int) -> None:
        """These are the items that a worker may be given now; they are leased."""
        assert len(given) == min(count, sum(map(len, self.queued)))
        for id, body in given:
            lot = self.queued[0]
            assert id in lot, f"{id!r} came before its turn"
            assert body == self.data[id]
            lot.remove(id)
            if not lot:
                del self.queued[0]
            self.leases[id] = end_ms

    def complete(self, ids: Sequence[bytes]) -> list[bool]:
        were_there: list[bool] = []
        for id in ids:
            were_there.append(self.data.pop(id, None) is not None)
            self.leases.pop(id, None)
            self.queued = [left for lot in self.queued if (left := [it for it in lot if it != id])]
        return were_there

    def extend(self, ids: Sequence[bytes], end_ms: int) -> list[bool]:
        are_so = [id in self.leases for id in ids]
        for id in ids:
            if id in self.leases:
                self.leases[id] = end_ms
        return are_so

    def lengths(self) -> tuple[int, int]:
        return sum(map(len, self.queued)), len(self.leases)
