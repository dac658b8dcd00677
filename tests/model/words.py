"""What two stores call the same thing, and what of their answers is compared.

Called by   pair.py.
Calls       nothing.

The embedded store's words are used throughout: operations are turned into those of the Redis store,
and its answers back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import is_dataclass, replace
from typing import Any

from quinque.errors import Superseded, printable
from quinque.model.claim_ops import ClaimView, MarkClaim, SubscriptionView
from quinque.model.ops import Ack, Delivery, Op, Put, QueueCount, Release
from quinque.model.own_ops import ExtendLeases
from quinque.model.work_ops import Add, NodeView, WorkDelivery, WorkView


class Words:
    """What the two call the same thing. Ids in feeds are of their queue, those of jobs of all."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.message_ids: list[bytes] = []
        self._to_redis: dict[tuple[bytes | None, bytes], bytes] = {}
        self._to_embedded: dict[tuple[bytes | None, bytes], bytes] = {}
        # Of a queue and a subscription, epochs of the embedded store -> those of Redis.
        self._epochs: dict[tuple[bytes, bytes, int], int] = {}

    def learn(self, op: Put | Add, expected: list[bytes], found: list[bytes]) -> None:
        """These are the ids that the two gave to the same messages."""
        assert len(found) == len(expected), op
        queue = op.queue if isinstance(op, Put) else None
        self.learn_pairs(queue, zip(expected, found, strict=True))
        if isinstance(op, Add) and op.key is not None and op.key not in self.keys:
            self.keys.append(op.key)

    def learn_pairs(self, queue: bytes | None, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """These are ids, of the embedded store and of Redis, of the same messages."""
        for one, other in pairs:
            known = self._to_redis.setdefault((queue, one), other)
            assert (known, self._to_embedded.setdefault((queue, other), one)) == (other, one)
            if queue is None and one not in self.message_ids:
                self.message_ids.append(one)

    def learn_epochs(self, expected: SubscriptionView, found: SubscriptionView) -> None:
        self._epochs[expected.queue, expected.subscription, expected.epoch] = found.epoch

    def id_of_redis(self, id: bytes, queue: bytes | None = None) -> bytes:
        return self._to_embedded.get((queue, id), id)

    def id_of_embedded(self, id: bytes, queue: bytes | None = None) -> bytes:
        return self._to_redis.get((queue, id), id)

    def is_of_redis(self, id: bytes) -> bool:
        return (None, id) in self._to_embedded

    def to_redis(self, op: Op) -> Op:
        some: Any = op
        queue = some.queue if isinstance(op, Ack | Release | ExtendLeases | MarkClaim) else None
        if hasattr(some, "message_ids"):
            ids = [self.id_of_embedded(id, queue) for id in some.message_ids]
            if isinstance(op, MarkClaim):  # of either family
                ids = [self.id_of_embedded(id) for id in ids]
            some = replace(some, message_ids=ids)
        elif hasattr(some, "message_id") and not isinstance(op, Put):
            some = replace(some, message_id=self.id_of_embedded(some.message_id))
        if getattr(some, "epoch", 0):  # 0 = any
            known = some.queue, some.subscription, some.epoch
            some = replace(some, epoch=self._epochs.get(known, -1))
        assert isinstance(some, Op)
        return some

    def to_embedded(self, op: Op, found: Any) -> Any:
        if isinstance(found, list):
            queue = op.queue if isinstance(op, Put) else None
            return [
                self.id_of_redis(each, queue)
                if isinstance(each, bytes)
                else self.to_embedded(op, each)
                for each in found
            ]
        if isinstance(found, bytes):
            return self.id_of_redis(found)
        if isinstance(found, Delivery):
            return replace(found, message_id=self.id_of_redis(found.message_id, found.queue))
        if isinstance(found, WorkDelivery | WorkView):
            return replace(found, message_id=self.id_of_redis(found.message_id))
        if isinstance(found, tuple) and isinstance(found[1], str):  # an error
            kind, text = found
            for (_, theirs), ours in self._to_embedded.items():
                text = text.replace(printable(theirs), printable(ours))
            return kind, text
        return found


def plain(value: Any) -> Any:
    """What is compared: without places, the ids of nodes, epochs, the order of groups, and in how
    many chunks a claim lies."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, WorkView):
        return replace(value, place=0)
    if isinstance(value, NodeView):
        return value.is_leaving
    if isinstance(value, QueueCount):
        return replace(value, groups=sorted(value.groups, key=lambda group: group.group))
    if isinstance(value, ClaimView):
        return replace(value, chunks=0)
    if isinstance(value, SubscriptionView):
        claims = [replace(claim, chunks=0) for claim in value.claims]
        return replace(value, epoch=0, stamp_us=0, created_us=0, oldest_ms=0, claims=claims)
    if isinstance(value, tuple) and value[0] is Superseded:
        return Superseded  # the text has epochs
    assert value is None or is_dataclass(value) or isinstance(value, int | bytes | tuple)
    return value
