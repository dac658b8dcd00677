"""Write a copy into a store on Redis.

Called by   cli/copy.py, as the target.
Calls       the scripts copy_in_… and set_partitions, copy_mark.py, store.py.

A message of a worklist lies in the slot that its id tells, or its worklist if ids are its own. What
an id tells is the slot of its worklist, or of a partition of it, unless the id was made before ids
told a slot: then it is refused.

Not here: what the items are (stores/portable.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

from quinque.errors import CopyRefused, printable
from quinque.model.claim_events import ChunkKept, SubscriptionKept
from quinque.model.events import GroupKept, Kept, WorkKept, WorklistKept
from quinque.model.families import BY_CODE, ITEMS
from quinque.model.limits import PARTITIONS_MOST
from quinque.model.stage_events import PublishedKept
from quinque.model.states import State
from quinque.model.tube_events import TaskKept, TubeKept
from quinque.stores.portable import (
    CHUNK_MOST,
    Chunk,
    Detached,
    Facts,
    Item,
    Partitions,
    Progress,
)
from quinque.stores.redis import copy_mark
from quinque.stores.redis.calls import Arg, Call, Steps
from quinque.stores.redis.copy_claims import ClaimWriter
from quinque.stores.redis.copy_items import refuse_claims, refuse_name, take_items
from quinque.stores.redis.copy_out import RedisReader, connect, identity_of
from quinque.stores.redis.copy_tubes import take_tasks, take_tube
from quinque.stores.redis.keys import PARTITIONS, SLOTS, slot_key, slot_of, slot_of_id
from quinque.stores.redis.spread import slot_of_partition
from quinque.stores.redis.urls import parse_store_url

T = TypeVar("T")


class RedisWriter:
    """As stores/portable.py says."""

    def __init__(self, url: str, *, is_live: bool = False) -> None:
        """Raises CopyRefused when brokers run on it, unless it `is_live`; StoreUnavailable,
        NotDone, BadSetting."""
        self.identity = identity_of(url)
        self._url = url
        self._is_cluster = parse_store_url(url).kind == "cluster"
        self._store = connect(url, is_live=is_live)
        self._source = ""
        self._facts = Facts(0, 0, b"", False)
        self._head: WorklistKept | None = None  # of the worklist that is written
        self._known = 0  # its partitions that are there
        self._claims = ClaimWriter()

    def begin(self, source: str, facts: Facts, queues: Sequence[bytes]) -> Progress | None:
        self._source, self._facts = source, facts
        marked, progress = self._store.finish(copy_mark.read())
        if marked and marked != source:
            raise CopyRefused(
                f"{self.identity} contains an unfinished copy of {marked}: finish that copy, or "
                "empty the store"
            )
        if marked:
            return cast(Progress, progress)
        there = self.reader().queues()
        for name in queues:
            if name in there:
                raise CopyRefused(
                    f"{self.identity} already has a queue {printable(name)}: remove it there, "
                    "or use another target"
                )
        self._set_mark(Progress(b"", 0))
        return None

    def write(self, chunk: Chunk) -> None:
        self._store.finish(self._take(chunk))
        self._set_mark(Progress(chunk.queue, chunk.after))

    def reader(self) -> RedisReader:
        return RedisReader(self._store, self._url, CHUNK_MOST, is_owner=False)

    def finish(self) -> None:
        self._store.finish(copy_mark.remove())

    def close(self) -> None:
        self._store.close()

    def _set_mark(self, progress: Progress) -> None:
        self._store.finish(copy_mark.write(self._source, progress))

    def _take(self, chunk: Chunk) -> Steps:
        """The items are in Redis. Those of a kind are neighbours."""
        items = chunk.items
        for head in _those(WorklistKept, items):
            if head.family == ITEMS.code:
                refuse_name(head.queue, self._is_cluster)
            self._head, self._known = head, 0
            yield from self._make_partitions(1)
        for tube in _those(TubeKept, items):
            yield from take_tube(tube, self._facts)
        for spread in _those(Partitions, items):
            yield from self._make_partitions(spread.read)
            yield [Call("set_partitions", [PARTITIONS], [spread.queue, spread.written])]
        yield from self._take_groups(_those(GroupKept, items))
        yield from self._take_detached(_those(Detached, items))
        claims = [
            it for it in items if isinstance(it, SubscriptionKept | ChunkKept | PublishedKept)
        ]
        for subscription in _those(SubscriptionKept, items):
            refuse_claims(subscription.queue, subscription.family)
        yield from self._claims.take(claims, self._facts, self._store.now_ms())
        yield from self._take_feed(_those(Kept, items))
        tasks = _those(TaskKept, items)
        if tasks:
            yield from take_tasks(tasks, self._facts.at_ms)
        work = _those(WorkKept, items)
        if work and work[0].family == ITEMS.code:
            yield from take_items(work, self._facts.at_ms)
        else:
            yield from self._take_work(work)

    def _begin(self, item: WorklistKept | GroupKept | Kept) -> list[Arg]:
        """Return the start of ARGV for most of the scripts."""
        return [item.family, self._facts.at_ms, item.queue, self._facts.stamp_us]

    def _make_partitions(self, count: int) -> Steps:
        """Make `count` partitions of the worklist; the first has all counters."""
        head = self._head
        assert head is not None
        for number in range(self._known, count):
            if number:
                head = head._replace(came=0, went=0)
            argv = self._begin(head)
            for name, value in zip(head._fields[3:], head[3:], strict=True):
                if value:
                    argv += [name.encode(), int(value)]
            slot = slot_of_partition(head.queue, number)
            yield [Call("copy_in_worklist", [slot_key(slot)], argv, makes=True)]
        self._known = max(self._known, count)
        if count > 1:
            yield [Call("set_partitions", [PARTITIONS], [head.queue, count])]
            argv = [*self._begin(head), b"is_spread", 1]
            yield [Call("copy_in_worklist", [slot_key(slot_of(head.queue))], argv, makes=True)]

    def _take_groups(self, items: Sequence[GroupKept]) -> Steps:
        if items:
            argv = self._begin(items[0])
            for item in items:
                argv += [item.group, item.cursor]
            yield [Call("copy_in_groups", [_home(items[0].queue)], argv, makes=True)]

    def _take_detached(self, items: Sequence[Detached]) -> Steps:
        if items:
            argv: list[Arg] = [items[0].queue]
            for item in items:
                argv += [item.group, item.id, item.deadline_ms, item.expires_ms]
            yield [Call("copy_in_detached", [_home(items[0].queue)], argv)]

    def _take_feed(self, items: Sequence[Kept]) -> Steps:
        if items:
            argv = self._begin(items[0])
            for it in items:
                argv += [it.id, it.place, it.expires_ms, int(it.is_single), it.body, len(it.holds)]
                for hold in it.holds:
                    argv += hold
            yield [Call("copy_in_feed", [_home(items[0].queue)], argv, makes=True)]

    def _take_work(self, items: Sequence[WorkKept]) -> Steps:
        slots: dict[int, list[Arg]] = {}
        for it in items:
            number = _partition_of(it)
            if number >= self._known:
                yield from self._make_partitions(number + 1)
            slot = slot_of_partition(it.queue, number)
            argv = slots.setdefault(slot, [self._facts.at_ms, it.queue])
            argv += [it.id, it.place, *it.terms, int(it.key is not None), it.key or b""]
            argv += [State(it.state).name.lower().encode(), it.expires_ms, it.due_ms]
            argv += [it.nacks, it.requeues, it.deliveries, int(not it.was_ready)]
            argv += [it.reason, it.body]
        if slots:
            calls = [Call("copy_in_work", [slot_key(slot)], argv) for slot, argv in slots.items()]
            taken = yield calls
            for id in taken:
                if id is not None:
                    raise CopyRefused(
                        f"queue {printable(items[0].queue)} and another queue of its slot both "
                        f"have a message {printable(id)}: rename one of them before the copy"
                    )


def _partition_of(item: WorkKept) -> int:
    """The partition whose slot the id tells; 0 is home. Raises CopyRefused when there is none."""
    if BY_CODE[item.family].owns_ids:
        return 0
    offset = (slot_of_id(item.id) - slot_of(item.queue)) % SLOTS
    number = int(f"{offset:014b}"[::-1], 2)  # as spread.slot_of_partition makes it
    if number >= PARTITIONS_MOST:
        raise CopyRefused(
            f"message {printable(item.id)} of queue {printable(item.queue)} has an id of an "
            "older version, without its slot: finish the message before the copy"
        )
    return number


def _home(queue: bytes) -> bytes:
    return slot_key(slot_of(queue))


def _those(kind: type[T], items: Iterable[Item]) -> list[T]:
    return [item for item in items if isinstance(item, kind)]
