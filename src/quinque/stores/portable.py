"""What a store holds, in a form that every store can give and take.

Called by   copying.py (carries it over), copy_out.py and copy_in.py of each store (give, take).
Calls       nothing.

A queue is a row of items: first what is known of it as a whole, then its messages. They are the
events that compaction writes (model/events.py), for those already are all that is known of a
message, a group or a worklist. Instants are absolute, so nothing shifts while a copy is made.

    feed       GroupKept for each group, in the order they came; Detached for each lease on a
               message that was flushed; Kept for each message, in the order of places
    worklist   WorklistKept; Partitions, if it is spread; WorkKept for each message, in the order
               their lives end
    tube       TubeKept; TaskKept for each task, in the same order; of a temporary one no task

Between what is known of it and its messages come its subscriptions: SubscriptionKept for each, in
the order of their names, followed by ChunkKept for each chunk of its claims; then PublishedKept for
each run of a sink, in their order. A queue may have these and nothing else. What is staged is not
carried over, and what is half published is refused.

The messages of a worklist come in that order because of their keys: of two that have the same one,
the later to end is the one that lives under it.

An item is taken any number of times with the effect of one, so that a copy that was interrupted
can go on a little before the place where it stopped.

Not here: how an item is kept (stores/embedded/, stores/redis/).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from quinque.model.claim_events import ChunkKept, SubscriptionKept
from quinque.model.events import GroupKept, Kept, WorkKept, WorklistKept
from quinque.model.stage_events import PublishedKept
from quinque.model.tube_events import TaskKept, TubeKept

# What travels together: as much as a store can take at once without making others wait.
CHUNK_MOST: Final = 1_000
CHUNK_MOST_BYTES: Final = 1 << 20


class Detached(NamedTuple):
    """A group holds a message that was flushed; the lease can be acked until it ends."""

    queue: bytes
    family: int
    group: bytes
    id: bytes
    deadline_ms: int
    expires_ms: int


class Partitions(NamedTuple):
    """A worklist is spread over so many slots of a cluster: `written` get new messages. Only a
    store of many servers knows of it, so it is not compared."""

    queue: bytes
    written: int
    read: int


Head = GroupKept | Detached | WorklistKept | TubeKept | Partitions
Claim = SubscriptionKept | ChunkKept | PublishedKept
Item = Head | Claim | Kept | WorkKept | TaskKept


class Facts(NamedTuple):
    """Of a store as a whole: the latest time and the newest stamp it knows, and what its node is
    called, if it has one of its own."""

    at_ms: int
    stamp_us: int
    node_id: bytes
    is_leaving: bool


class Chunk(NamedTuple):
    """Items of one queue, and how far that is: a number to go on after."""

    queue: bytes
    items: Sequence[Item]
    after: int


class Progress(NamedTuple):
    """All queues before this one have been carried over, and this one as far as `after`."""

    queue: bytes
    after: int


class Reader(Protocol):
    identity: str
    """The store, as it is called in messages and as a marker in a target names it."""

    facts: Facts

    def queues(self) -> Mapping[bytes, int]:
        """How many messages each queue has, in the order of their names."""

    def read(self, queue: bytes, after: int) -> Iterator[Chunk]:
        """All that is known of the queue, in chunks; messages only from `after` on."""

    def close(self) -> None: ...


class Writer(Protocol):
    identity: str

    def begin(self, source: str, facts: Facts, queues: Sequence[bytes]) -> Progress | None:
        """The target is marked as one that `source` is copied into; how far that has come, if it
        was so marked before.

        Raises CopyRefused when it holds one of the queues, or is marked with another source.
        """

    def write(self, chunk: Chunk) -> None:
        """The items are in the target, durably, and the mark says so."""

    def reader(self) -> Reader:
        """What is in the target now; nothing more is written."""

    def finish(self) -> None:
        """The mark is gone: this is a store like any other."""

    def close(self) -> None: ...
