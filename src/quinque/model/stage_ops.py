"""The operations that add many messages exactly once, and their results.

Called by   dialects (make operations, read results), stores (carry them out).
Calls       nothing.

Many writers stage the rows of one batch, each its own part, in chunks; then one of them publishes
the batch. A batch is known by its sink, its run and its number; numbers of a run grow. The store
publishes a batch once, however often it is staged.

A chunk is packed (msgpack): a list of runs of messages that are alike,

    [ttl_ms, delay_ms, retry_ms, max_deliveries, name, bodies]

`name` is None; or for one body the id it is to have, in a feed or where producers choose ids, or
its key in another worklist: when that is there already, the message is left out. ttl_ms 0 and
retry_ms -1 are the family's defaults. A chunk has at most PUBLISH_MOST messages.

Not here: messages that are added without a stage (model/ops.py, model/work_ops.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from quinque.model.families import Family
from quinque.model.ops import Op


class Part(NamedTuple):
    """The chunks that one attempt of one writer staged, numbered from 0."""

    part: int
    attempt: int
    chunks: int


class Staged(NamedTuple):
    """`is_decided`: the batch is published or being published, and takes no more."""

    is_decided: bool
    messages: int  # staged by this attempt of this part so far


class Published(NamedTuple):
    """How many messages this call added to the queue, and how many are left."""

    messages: int
    left: int


@dataclass
class Stage(Op):
    """Stage the chunk for STAGE_KEPT_MS at most. The result is Staged.

    A chunk that is staged again under its number takes the place of the earlier one. A batch has
    one `writer` at a time: the first chunk of another one removes all that the one before staged,
    which is refused from then on. Raises BadArgument when the chunk is not as above, WrongType,
    OtherBatch when the writer was replaced.
    """

    family: Family
    queue: bytes
    sink: bytes
    run: bytes
    number: int
    part: int
    attempt: int
    chunk: int
    rows: bytes
    writer: bytes = b""


@dataclass
class Publish(Op):
    """Publish the batch, which consists of these parts: add about `count` more of its messages to
    the queue. The result is Published. Repeat it until no messages are left.

    The first call fixes the contents of the batch. The parts of later calls are ignored. If no call
    continues for STAGE_GOES_ON_MS, the store publishes the rest.

    When the batch, or one of a larger number of its run, has been published, nothing happens. The
    store remembers for `keep_ms` that it was published (0 = without end).

    `content` stands for what is in the batch, in any form; the store compares it to that of an
    earlier call. Raises OtherBatch when they differ, or when a batch of a larger number has been
    published; without `content` it does not compare.

    Raises NoStage when a part is not there as a whole, QueuePaused, NoReplicas.
    """

    family: Family
    queue: bytes
    sink: bytes
    run: bytes
    number: int
    parts: Sequence[Part]
    count: int
    keep_ms: int = 0
    content: bytes = b""


@dataclass
class DropStage(Op):
    """Remove the batch's staged chunks, unless the batch is decided; the result is how many chunks
    were removed. If another family has the name of the queue, the rest of a decided batch is
    removed too, and the batch counts as published."""

    queue: bytes
    sink: bytes
    run: bytes
    number: int


@dataclass
class StageView:
    """A batch that is staged, or half published."""

    queue: bytes
    sink: bytes
    run: bytes
    number: int
    is_decided: bool
    chunks: int
    body_bytes: int
    age_ms: int
    family: Family | None = None  # None where it is unknown


@dataclass
class FindStages(Op):
    """Return the StageViews of all batches that are not completely published; or of `only` that
    one, which is named by its queue, sink, run and number; with `sees`, only for queues for whose
    names it returns True.

    With `most`, they may be cut off, and be in any order, when there are more.
    """

    only: tuple[bytes, bytes, bytes, int] | None = None
    most: int = 0
    sees: Callable[[bytes], bool] | None = field(default=None, compare=False)
