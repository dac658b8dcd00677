"""The contents of a store in a form that every store can export and import.

Called by   copying.py (carries it over), copy_out.py and copy_in.py of each store (give, take).
Calls       nothing.

A queue is a row of items: first the queue as a whole, then its messages. The items are the events
that compaction writes (model/events.py), because each holds a whole message, group or worklist.
Instants are absolute, so nothing shifts while a copy is made.

    feed       GroupKept for each group, in the order they came; Detached for each lease on a
               message that was flushed; Kept for each message, in the order of places
    worklist   WorklistKept; Partitions, if it is spread; WorkKept for each message, in the order
               their lives end
    tube       TubeKept; TaskKept for each task, in the same order; of a temporary one no task

Between what is known of it and its messages come its subscriptions: SubscriptionKept for each, in
the order of their names, followed by ChunkKept for each chunk of its claims; then PublishedKept for
each run of a sink, in their order. A queue may have these and nothing else. Staged batches are not
carried over. A copy with a half published batch is refused.

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

# The size of a chunk: as much as a store can take at once without a delay for others.
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
    """A worklist is spread over `read` slots of a cluster, of which `written` get new messages.
    Only a store of many servers has this, so it is not compared."""

    queue: bytes
    written: int
    read: int


Head = GroupKept | Detached | WorklistKept | TubeKept | Partitions
Claim = SubscriptionKept | ChunkKept | PublishedKept
Item = Head | Claim | Kept | WorkKept | TaskKept


class Facts(NamedTuple):
    """The store as a whole: the latest time and the newest stamp it knows, and the id of its node,
    if it has one of its own."""

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
    """The name of the store in messages, and in the mark of a target."""

    facts: Facts

    def queues(self) -> Mapping[bytes, int]:
        """Return the number of messages of each queue, in the order of their names."""

    def read(self, queue: bytes, after: int) -> Iterator[Chunk]:
        """All items of the queue, in chunks; messages only from `after` on."""

    def close(self) -> None: ...


class Writer(Protocol):
    identity: str

    def begin(self, source: str, facts: Facts, queues: Sequence[bytes]) -> Progress | None:
        """Mark the target as a copy of `source`; return how far the copy has come, if the target
        already had this mark.

        Raises CopyRefused when it holds one of the queues, or is marked with another source.
        """

    def write(self, chunk: Chunk) -> None:
        """Write the items to the target, durably, and update the mark."""

    def reader(self) -> Reader:
        """Return a reader of the target; nothing more is written."""

    def finish(self) -> None:
        """Remove the mark: this is a store like any other."""

    def close(self) -> None: ...
