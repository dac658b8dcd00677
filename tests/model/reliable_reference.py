"""What a store must answer about queues of the reliable family, the slow and obvious way.

Called by   test_random_reliable.py.
Calls       nothing of the engine.

A queue is two lists. All queues of a reference share one sequence of ids, as those of one slot do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from quinque.errors import NoQueue


@dataclass
class Element:
    id: bytes
    body: bytes
    delivered_ms: int = 0
    deliveries: int = 0

    def deliver(self, now_ms: int) -> None:
        self.delivered_ms = now_ms
        self.deliveries += 1

    @property
    def shown(self) -> tuple[bytes, bytes, int, int]:
        return self.id, self.body, self.delivered_ms, self.deliveries


@dataclass
class Queue:
    waiting: list[Element] = field(default_factory=list)
    delivered: list[Element] = field(default_factory=list)
    expires_ms: int = 0


@dataclass
class ReliableReference:
    now_ms: int
    queues: dict[bytes, Queue] = field(default_factory=dict)
    last_id: tuple[int, int] = (0, 0)

    def pass_time(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._forget()

    def push(self, name: bytes, bodies: Sequence[bytes]) -> list[bytes]:
        queue = self.queues.setdefault(name, Queue())
        added = [Element(self._new_id(), body) for body in bodies]
        queue.waiting += added
        return [element.id for element in added]

    def pop(self, names: Sequence[bytes], count: int) -> list[tuple[bytes, bytes, bytes]]:
        given: list[tuple[bytes, bytes, bytes]] = []
        for name in names:
            queue = self.queues.get(name)
            while queue is not None and queue.waiting and len(given) < count:
                element = queue.waiting.pop(0)
                element.deliver(self.now_ms)
                queue.delivered.append(element)
                given.append((name, element.id, element.body))
        return given

    def ack(self, name: bytes, ids: Sequence[bytes]) -> list[bool] | None:
        queue = self.queues.get(name)
        if queue is None:
            return None
        were_so = []
        for id in ids:
            before = len(queue.delivered)
            queue.delivered = [element for element in queue.delivered if element.id != id]
            were_so.append(len(queue.delivered) < before)
        return were_so

    def recover(self, name: bytes, count: int, elapsed_ms: int) -> list[bytes] | None:
        queue = self.queues.get(name)
        if queue is None:
            return None
        old = [it for it in queue.delivered if self.now_ms - it.delivered_ms >= elapsed_ms][:count]
        for element in old:
            queue.delivered.remove(element)
            queue.delivered.append(element)
            element.deliver(self.now_ms)
        return [element.id for element in old]

    def inspect(
        self, name: bytes, is_leased: bool, start: int, count: int
    ) -> list[tuple[bytes, bytes, int, int]] | None:
        queue = self.queues.get(name)
        if queue is None:
            return None
        listed = queue.delivered if is_leased else queue.waiting
        start += len(listed) if start < 0 else 0
        return [element.shown for element in listed[start : start + count]] if start >= 0 else []

    def lengths(self, name: bytes) -> tuple[int, int] | None:
        queue = self.queues.get(name)
        return None if queue is None else (len(queue.waiting), len(queue.delivered))

    def delete(self, names: Sequence[bytes]) -> int:
        return sum(self.queues.pop(name, None) is not None for name in names)

    def rename(self, name: bytes, new_name: bytes, only_free: bool) -> bool:
        if name not in self.queues:
            raise NoQueue
        if only_free and new_name in self.queues:
            return False
        self.queues[new_name] = self.queues.pop(name)
        return True

    def set_expiry(self, name: bytes, expires_ms: int) -> bool:
        queue = self.queues.get(name)
        if queue is None:
            return False
        was_to_go, queue.expires_ms = queue.expires_ms > 0, expires_ms
        self._forget()
        return was_to_go if not expires_ms else True

    def expiry(self, name: bytes) -> int | None:
        queue = self.queues.get(name)
        return None if queue is None else queue.expires_ms

    def _forget(self) -> None:
        for name, queue in list(self.queues.items()):
            if 0 < queue.expires_ms <= self.now_ms:
                del self.queues[name]

    def _new_id(self) -> bytes:
        ms, number = self.last_id
        self.last_id = (self.now_ms, 1) if self.now_ms > ms else (ms, number + 1)
        return b"%d-%d" % self.last_id
