"""The events of staged batches in the journal.

Called by   stores/embedded/stages.py (makes them), stores/embedded/staged.py (carries them out),
            the journal.
Calls       nothing.

As in model/events.py, an event is also its record: kinds and the order of fields never change.
A batch is known by its queue, sink, run and number.

Not here: events of queues (model/events.py), of claims (model/claim_events.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

STAGED: Final = 38
STAGE_DECIDED: Final = 39
STAGE_MOVED: Final = 40
STAGE_DROPPED: Final = 41
STAGE_KEPT: Final = 42
PUBLISHED_KEPT: Final = 43
STAGED_BY: Final = 61


class Staged(NamedTuple):
    """A chunk of a part of a batch lies ready; it takes the place of an earlier one of its number.
    Compaction writes it again as it is."""

    kind: int
    queue: bytes
    family: int
    sink: bytes
    run: bytes
    number: int
    part: int
    attempt: int
    chunk: int
    at_ms: int
    rows: bytes


class StagedBy(NamedTuple):
    """As Staged, by a writer that has a name: the chunk also takes the place of all that another
    writer staged for the batch. The rows come last, where the store finds them again."""

    kind: int
    queue: bytes
    family: int
    sink: bytes
    run: bytes
    number: int
    part: int
    attempt: int
    chunk: int
    at_ms: int
    writer: bytes
    rows: bytes


class StageDecided(NamedTuple):
    """The batch consists of these parts, (part, attempt, chunks) each, and of nothing else.
    `content` stands for what is in them; empty if it was not given. That the batch was published is
    remembered for `keep_ms` (0 = without end) if the store finishes it."""

    kind: int
    queue: bytes
    family: int
    sink: bytes
    run: bytes
    number: int
    at_ms: int
    parts: Sequence[tuple[int, int, int]]
    content: bytes = b""
    keep_ms: int = 0


class StageMoved(NamedTuple):
    """The first `done` chunks of the batch are in the queue; those that this brought there are in
    the `records` Added or Stored ones that come next. When nothing is left, the batch is
    published. What is remembered of the run from then on: the batch `newest`, its `content`, until
    `until_ms` (0 = without end). Where `newest` is -1, it is this batch, with the content that was
    decided."""

    kind: int
    queue: bytes
    sink: bytes
    run: bytes
    number: int
    done: int
    records: int
    is_last: bool
    until_ms: int
    content: bytes = b""
    newest: int = -1


class StageDropped(NamedTuple):
    """The batch's staged chunks are removed."""

    kind: int
    queue: bytes
    sink: bytes
    run: bytes
    number: int


class StageKept(NamedTuple):
    """Compaction wrote again what was decided of a batch and how far it is."""

    kind: int
    queue: bytes
    family: int
    sink: bytes
    run: bytes
    number: int
    began_ms: int
    parts: Sequence[tuple[int, int, int]]
    done: int
    content: bytes = b""
    keep_ms: int = 0


class PublishedKept(NamedTuple):
    """Compaction wrote again that the batch was published."""

    kind: int
    queue: bytes
    sink: bytes
    run: bytes
    number: int
    until_ms: int
    content: bytes = b""


StageEvent = (
    Staged | StagedBy | StageDecided | StageMoved | StageDropped | StageKept | PublishedKept
)

# A record read back, as the event it is.
AS_STAGE_EVENT: Final[dict[int, Callable[[Any], StageEvent]]] = {
    STAGED: Staged._make,
    STAGE_DECIDED: lambda record: StageDecided(*record),
    STAGE_MOVED: lambda record: StageMoved(*record),
    STAGE_DROPPED: StageDropped._make,
    STAGE_KEPT: lambda record: StageKept(*record),
    PUBLISHED_KEPT: lambda record: PublishedKept(*record),
    STAGED_BY: StagedBy._make,
}
