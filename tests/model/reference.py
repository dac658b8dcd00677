"""What a store must answer, the slow and obvious way: lists, loops, and nothing remembered twice.

Called by   the tests beside this file.
Calls       nothing of the engine.

A queue is a list of items in order. What a group did with an item is one word on the item; an
item without a word has not been seen by the group. Nothing is ever settled: whether an item has
expired or a lease has lapsed is asked of the clock each time somebody looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Counts = dict[bytes, tuple[int, dict[bytes, tuple[int, int, int, int]]]]


@dataclass
class Hold:
    """A group had the item `deliveries` times; until `deadline_ms`, or for good when it is done."""

    deliveries: int
    deadline_ms: int
    is_done: bool = False


@dataclass
class Item:
    id: bytes
    body: bytes
    expires_ms: int
    is_single: bool
    holds: dict[bytes, Hold] = field(default_factory=dict)


@dataclass
class Reference:
    now_ms: int = 0
    last_id: int = 0
    queues: dict[bytes, list[Item]] = field(default_factory=dict)
    # Leases on items that were flushed, by queue, group and id.
    flushed: dict[tuple[bytes, bytes, bytes], tuple[Item, Hold]] = field(default_factory=dict)

    def put(
        self,
        queue: bytes,
        items: Sequence[tuple[bytes, bytes]],
        ttl_ms: int = 0,
        is_single: bool = False,
        to_front: bool = False,
    ) -> None:
        expires_ms = self.now_ms + ttl_ms if ttl_ms else 0
        added = [Item(id, body, expires_ms, is_single) for id, body in items]
        live = self.live(queue)
        self.queues[queue] = added + live if to_front else live + added

    def reserve(
        self, queue: bytes, group: bytes, lease_ms: int, count: int
    ) -> list[tuple[bytes, bytes, int]]:
        given = []
        for item in self.waiting(queue, group)[:count]:
            deliveries = item.holds[group].deliveries + 1 if group in item.holds else 1
            item.holds[group] = Hold(deliveries, self.now_ms + lease_ms, is_done=not lease_ms)
            # The same consumer group cannot hold one id twice: the newer lease is the one meant.
            self.flushed.pop((queue, group, item.id), None)
            if item.is_single and not lease_ms:
                self.queues[queue].remove(item)
            given.append((item.id, item.body, deliveries))
        return given

    def ack(self, queue: bytes, group: bytes, ids: Sequence[bytes], held_only: bool) -> list[bool]:
        results = []
        for at, id in enumerate(ids):
            item = self.find(queue, id)
            if id in ids[:at]:
                results.append(False)
            elif item is not None and self.is_held(item, group):
                item.holds[group].is_done = True
                if item.is_single:
                    self.queues[queue].remove(item)
                results.append(True)
            elif self.end_flushed(queue, group, id):
                results.append(True)
            elif item is not None and item.is_single and not held_only:
                self.queues[queue].remove(item)
                results.append(True)
            else:
                results.append(False)
        return results

    def release(self, queue: bytes, group: bytes, ids: Sequence[bytes]) -> list[bool]:
        results = []
        for at, id in enumerate(ids):
            item = self.find(queue, id)
            if id in ids[:at]:
                results.append(False)
            elif item is not None and self.is_held(item, group):
                item.holds[group].deadline_ms = self.now_ms
                results.append(True)
            else:
                results.append(self.end_flushed(queue, group, id))
        return results

    def extend(self, queue: bytes, group: bytes, ids: Sequence[bytes], lease_ms: int) -> list[bool]:
        results = []
        for id in ids:
            hold = self.running(queue, group, id)
            if hold is not None:
                hold.deadline_ms = self.now_ms + lease_ms
            results.append(hold is not None)
        return results

    def running(self, queue: bytes, group: bytes, id: bytes) -> Hold | None:
        """The group's lease of the item, or of one of that id that was flushed."""
        item = self.find(queue, id)
        if item is not None and self.is_held(item, group):
            return item.holds[group]
        item, hold = self.flushed.get((queue, group, id), (None, None))
        if item is None or hold is None or self.is_over(item.expires_ms):
            return None
        return hold if hold.deadline_ms > self.now_ms else None

    def flush(self, queue: bytes) -> None:
        for item in self.live(queue):
            for group, hold in item.holds.items():
                if self.is_held(item, group):
                    self.flushed[queue, group, item.id] = (item, hold)
        self.queues[queue] = []

    def peek(self, queue: bytes, group: bytes, last: bool) -> tuple[bytes, bytes] | None:
        waiting = self.waiting(queue, group)
        if not waiting:
            return None
        item = waiting[-1] if last else waiting[0]
        return item.id, item.body

    def count(self) -> Counts:
        """For each queue its total, and for each group that did something: leased, redo, done,
        available."""
        counts: Counts = {}
        for queue in self.queues:
            live = self.live(queue)
            groups = {}
            for group in {group for item in live for group in item.holds}:
                leased = sum(self.is_held(item, group) for item in live)
                done = sum(group in item.holds and item.holds[group].is_done for item in live)
                redo = sum(group in item.holds for item in live) - leased - done
                groups[group] = (leased, redo, done, len(live) - leased - redo - done)
            if live:
                counts[queue] = (len(live), groups)
        return counts

    def live(self, queue: bytes) -> list[Item]:
        return [item for item in self.queues.get(queue, []) if not self.is_over(item.expires_ms)]

    def waiting(self, queue: bytes, group: bytes) -> list[Item]:
        """What the group may have, in order: everything it neither holds nor has done."""
        return [
            item
            for item in self.live(queue)
            if not self.is_held(item, group)
            and not (group in item.holds and item.holds[group].is_done)
        ]

    def find(self, queue: bytes, id: bytes) -> Item | None:
        return next((item for item in self.live(queue) if item.id == id), None)

    def is_held(self, item: Item, group: bytes) -> bool:
        hold = item.holds.get(group)
        return hold is not None and not hold.is_done and hold.deadline_ms > self.now_ms

    def end_flushed(self, queue: bytes, group: bytes, id: bytes) -> bool:
        item, hold = self.flushed.pop((queue, group, id), (None, None))
        if item is None or hold is None:
            return False
        return hold.deadline_ms > self.now_ms and not self.is_over(item.expires_ms)

    def is_over(self, expires_ms: int) -> bool:
        return 0 < expires_ms <= self.now_ms
