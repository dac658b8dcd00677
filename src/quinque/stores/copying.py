"""Carry all queues of one store into another, and see that they are the same there.

Called by   cli/copy.py.
Calls       the reader of one store and the writer of another (stores/portable.py).

A copy that was interrupted is begun again with the same two stores, and goes on where it was. Then
both sides are read and compared, queue by queue: how many items there are of each kind, and a sum
over all of them. The mark on the target is removed when they are the same.

Not here: what is carried (stores/portable.py), words for people (cli/copy.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import msgpack

from quinque.errors import CopyDiffers, printable
from quinque.model.events import Kept, WorkKept
from quinque.model.families import ITEMS
from quinque.model.stage_events import PublishedKept
from quinque.model.states import State
from quinque.model.tube_events import TaskKept
from quinque.stores.portable import Chunk, Detached, Item, Partitions, Reader, Writer

_NAMED_MOST: Final = 10  # queues that differ, in one error
_SUM_BITS: Final = 128

Tell = Callable[[int], None]  # the number of messages since the last call


@dataclass
class Tally:
    """The items of a queue: how many of each kind, and the sum of their hashes. So the order in
    which they were read does not matter."""

    counts: Counter[str] = field(default_factory=Counter)
    sum: int = 0

    def add(self, item: Item) -> None:
        self.counts[kind_of(item)] += 1
        if isinstance(item, WorkKept) and item.family == ITEMS.code:
            item = _bare(item, self.counts[kind_of(item)])
        elif isinstance(item, TaskKept):
            item = _bare_task(item)
        digest = blake2b(msgpack.packb(item), digest_size=_SUM_BITS // 8).digest()
        self.sum = (self.sum + int.from_bytes(digest, "big")) % (1 << _SUM_BITS)


def carry(source: Reader, target: Writer, tell: Tell) -> bool:
    """Copy everything into the target; return whether a part of it was there before.

    Raises CopyRefused. After any other error it can be called again, and goes on.
    """
    counts = source.queues()
    begun = target.begin(source.identity, source.facts, list(counts))
    for name, count in counts.items():
        told = 0
        if begun is None or begun.queue <= name:
            after = begun.after if begun is not None and name == begun.queue else 0
            for chunk in source.read(name, after):
                target.write(chunk)
                some = _messages_in(chunk)
                told += some
                tell(some)
        tell(max(0, count - told))  # those that were there before
    return begun is not None


def compare(source: Reader, target: Reader, tell: Tell) -> dict[bytes, Tally]:
    """Return the tally of each queue, which is the same in both. Raises CopyDiffers."""
    tallies: dict[bytes, Tally] = {}
    differences: list[str] = []
    there = target.queues()
    at_ms = max(source.facts.at_ms, target.facts.at_ms)
    for name in source.queues():
        tallies[name] = tally(source, name, tell, at_ms)
        if name not in there:
            if not tallies[name].counts:
                continue  # only marks of published batches were left of it, and they have expired
            differences.append(f"queue {printable(name)} is missing in {target.identity}")
            continue
        found = tally(target, name, tell, at_ms)
        if found != tallies[name]:
            differences.append(
                f"queue {printable(name)} differs: {_difference(tallies[name], found)}"
            )
    if differences:
        more = len(differences) - _NAMED_MOST
        if more > 0:
            differences[_NAMED_MOST:] = [f"and {more} more queues"]
        raise CopyDiffers("\n".join(differences))
    return tallies


def tally(reader: Reader, queue: bytes, tell: Tell, at_ms: int) -> Tally:
    """Tally the queue's items, without marks of published batches that expire by `at_ms`."""
    found = Tally()
    for chunk in reader.read(queue, 0):
        for item in chunk.items:
            is_over = isinstance(item, PublishedKept) and 0 < item.until_ms <= at_ms
            if not isinstance(item, Partitions) and not is_over:
                found.add(item)
        tell(_messages_in(chunk))
    return found


def kind_of(item: Item) -> str:
    """The word for it in counts: the state of a message of a worklist, or what else it is."""
    if isinstance(item, WorkKept | TaskKept):
        return State(item.state).name.lower()
    if isinstance(item, Kept):
        return "event"
    if isinstance(item, Detached):
        return "flushed lease"
    return type(item).__name__.removesuffix("Kept").lower()


def _bare(item: WorkKept, number: int) -> WorkKept:
    """An item of the family `items`, with its `number` in its state, without what Redis has no
    place for: when it was added, its counters, and the millisecond in which its lease ends."""
    is_ready = item.state == State.READY
    return item._replace(
        place=number if is_ready else 0,
        due_ms=0,
        nacks=0,
        requeues=0,
        deliveries=0,
        was_ready=True,
        reason=b"",
    )


def _bare_task(item: TaskKept) -> TaskKept:
    """A task without what Redis has no place for: how often it was taken, and, of one that is taken
    and ends before its time to run does, when that is over."""
    is_taken = item.state == State.LEASED
    ends_ms = item.created_ms + item.ttl_ms
    is_cut = is_taken and (not item.due_ms or item.due_ms >= ends_ms)
    return item._replace(deliveries=0, due_ms=0 if is_cut else item.due_ms)


def _messages_in(chunk: Chunk) -> int:
    return sum(isinstance(item, Kept | WorkKept | TaskKept) for item in chunk.items)


def _difference(source: Tally, target: Tally) -> str:
    """In words: which counts are not the same, or that only the contents are not."""
    kinds = sorted(source.counts.keys() | target.counts.keys())
    rows = [
        f"{target.counts[kind]} of {source.counts[kind]} {kind}"
        for kind in kinds
        if source.counts[kind] != target.counts[kind]
    ]
    return ", ".join(rows) or "the number of messages is equal, but their contents differ"
