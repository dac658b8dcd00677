"""The events of queues in the journal: one event for each fact, one record for each event.

Called by   the engine (decide and due make them, apply carries them out), the journal.
Calls       nothing.

An event is a tuple whose first field is its kind, so that it is also the record: the journal packs
it as it is. Kinds and the order of fields never change. An event may be about many messages:
messages of one request are recorded together.

Not here: events of claims (model/claim_events.py) and of what is staged (model/stage_events.py),
which have their kinds from 23 to 43, those of worklists whose ids are their own
(model/own_events.py), from 44 to 49, and those of tubes (model/tube_events.py), from 50 to 57;
record framing (stores/embedded/records.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from quinque.model.claim_events import ClaimEvent
from quinque.model.own_events import AS_OWN_EVENT, Numbered, OwnEvent
from quinque.model.stage_events import StageEvent
from quinque.model.tube_events import AS_TUBE_EVENT, SessionEnded, TubeEvent

OPENED: Final = 0
STORED: Final = 1
LEASED: Final = 2
ACKED: Final = 3
RELEASED: Final = 4
LAPSED: Final = 5
EXPIRED: Final = 6
REMOVED: Final = 7
FLUSHED: Final = 8
KEPT: Final = 9
GROUP_KEPT: Final = 10
LOST: Final = 11
ADDED: Final = 12
TAKEN: Final = 13
REQUEUED: Final = 14
HELD: Final = 15
DIED: Final = 16
REDRIVEN: Final = 17
CONFIGURED: Final = 18
FORGOTTEN: Final = 19
WORK_KEPT: Final = 20
WORKLIST_KEPT: Final = 21
NAMED: Final = 22
EXTENDED: Final = 58


class Opened(NamedTuple):
    """First record of a segment. `stamp_us` is the newest position before it, and `previous_bytes`
    the length of the segment before it: so a missing part is noticed. `seal` is mixed into the
    checksums of all batches that follow; segments of version 1 do not have it."""

    kind: int
    version: int
    segment: int
    stamp_us: int
    previous_bytes: int
    seal: bytes = b""


class Stored(NamedTuple):
    """Messages were accepted, at places that follow each other from `place`. Without `ids` their
    ids are their places. `to_front` puts a message before all others, and names the groups that
    have come further: they may have it again, though they never had it."""

    kind: int
    queue: bytes
    family: int
    place: int
    expires_ms: int
    is_single: bool
    to_front: Sequence[bytes] | None
    ids: Sequence[bytes] | None
    bodies: Sequence[bytes]


class Leased(NamedTuple):
    """A group got messages, and has then come as far as `cursor`. Deadline 0: no ack is needed,
    they are done."""

    kind: int
    queue: bytes
    group: bytes
    deadline_ms: int
    cursor: int
    ids: Sequence[bytes]


class Acked(NamedTuple):
    """A group finished messages."""

    kind: int
    queue: bytes
    group: bytes
    ids: Sequence[bytes]


class Released(NamedTuple):
    """A consumer gave messages back; untried if `is_uncounted`, which older records have not."""

    kind: int
    queue: bytes
    group: bytes
    ids: Sequence[bytes]
    is_uncounted: bool = False


class Extended(NamedTuple):
    """A group has messages that it held until another deadline, later or sooner."""

    kind: int
    queue: bytes
    group: bytes
    deadline_ms: int
    ids: Sequence[bytes]


class Lapsed(NamedTuple):
    """Leases ended without an ack; the messages are available again."""

    kind: int
    queue: bytes
    group: bytes
    ids: Sequence[bytes]


class Expired(NamedTuple):
    """Messages reached the end of their life."""

    kind: int
    queue: bytes
    ids: Sequence[bytes]


FINISHED: Final = 0
DELETED: Final = 1
PURGED: Final = 2
NO_ACK: Final = 3


class Removed(NamedTuple):
    """Messages are removed for every group. `why` is FINISHED (by `group`, in an events queue),
    DELETED, PURGED, or NO_ACK: they were delivered and need no ack. Records without the last two
    fields are about finished ones."""

    kind: int
    queue: bytes
    ids: Sequence[bytes]
    why: int = FINISHED
    group: bytes = b""


class Flushed(NamedTuple):
    """Every message of the queue is removed. Running leases may still be acked."""

    kind: int
    queue: bytes


class Kept(NamedTuple):
    """Compaction wrote the whole message again, so that its older records can be deleted.

    `holds` has a row (group, deadline_ms, deliveries) for each group that holds it (deadline > 0)
    or may have it again (deadline 0). For a message that was put to the front, `past` names the
    groups that have come as far: their cursors alone do not show it.
    """

    kind: int
    queue: bytes
    family: int
    id: bytes
    place: int
    expires_ms: int
    is_single: bool
    past: Sequence[bytes] | None
    holds: Sequence[tuple[bytes, int, int]]
    body: bytes


class GroupKept(NamedTuple):
    """Compaction wrote a group's position again."""

    kind: int
    queue: bytes
    family: int
    group: bytes
    cursor: int


class Lost(NamedTuple):
    """A repair removed the records here and filled the room, so that all others stay in place."""

    kind: int
    room: bytes


class Added(NamedTuple):
    """Messages were accepted into a worklist, at places that follow each other from `place`.
    `terms` are as model/work_ops.py has them: ttl, delay, retry (ms), max_deliveries, replicas."""

    kind: int
    queue: bytes
    family: int
    place: int
    at_ms: int
    terms: tuple[int, int, int, int, int]
    key: bytes | None
    ids: Sequence[bytes]
    bodies: Sequence[bytes]


class Taken(NamedTuple):
    """Ready messages were delivered; due 0: they do not return. In a family that keeps the order of
    deliveries, `turn` is that of the first, and the others follow it. In other families it is None,
    not 0: a batch that ends with a zero looks like an incomplete one."""

    kind: int
    queue: bytes
    at_ms: int
    due_ms: int
    ids: Sequence[bytes]
    turn: int | None = None


LAPSE: Final = 0
NACK: Final = 1
ENQUEUE: Final = 2
DELAY_OVER: Final = 3
UNCOUNTED: Final = 4  # as ENQUEUE, and the delivery is not counted


class Requeued(NamedTuple):
    """Leased or delayed messages are ready, or delayed until `due_ms` if that is not 0; `why` is
    LAPSE, NACK, ENQUEUE, DELAY_OVER or UNCOUNTED."""

    kind: int
    queue: bytes
    at_ms: int
    why: int
    due_ms: int
    reason: bytes
    ids: Sequence[bytes]


class Held(NamedTuple):
    """Messages are leased without a consumer, stay leased, or are delayed (by `state`), until
    `due_ms`; 0 = without end."""

    kind: int
    queue: bytes
    state: int
    due_ms: int
    ids: Sequence[bytes]


EXPIRED_REASON: Final = b"expired"


class Died(NamedTuple):
    """Messages were delivered as often as they may be, and did not end well; or, with
    EXPIRED_REASON and without a nack, they expired in a worklist that keeps such messages."""

    kind: int
    queue: bytes
    at_ms: int
    is_nack: bool
    reason: bytes
    ids: Sequence[bytes]


class Redriven(NamedTuple):
    """Dead messages are ready, as if they were new; `keyless` are those whose key another has."""

    kind: int
    queue: bytes
    at_ms: int
    keyless: Sequence[bytes]
    ids: Sequence[bytes]


class Configured(NamedTuple):
    """All settings of a worklist. Records without the last field are of one that deletes expired
    messages."""

    kind: int
    queue: bytes
    family: int
    at_ms: int
    is_paused_in: bool
    is_paused_out: bool
    max_deliveries: int
    rate_count: int
    rate_ms: int
    keeps_expired: bool = False


class Forgotten(NamedTuple):
    """A work queue is removed, with its messages, counts and settings."""

    kind: int
    queue: bytes


class WorkKept(NamedTuple):
    """Compaction wrote a whole message of a worklist again. In a family that keeps the order of
    deliveries, `due_ms` of a leased message is its turn."""

    kind: int
    queue: bytes
    family: int
    id: bytes
    place: int
    terms: tuple[int, int, int, int, int]
    key: bytes | None
    state: int
    expires_ms: int
    due_ms: int
    nacks: int
    requeues: int
    deliveries: int
    was_ready: bool
    reason: bytes
    body: bytes


class WorklistKept(NamedTuple):
    """Compaction wrote again what was counted and set for a worklist; `rate_full_us` is how far its
    rate is used up. Records without the last fields are of one that stays, and that deletes
    expired messages."""

    kind: int
    queue: bytes
    family: int
    since_ms: int
    active_ms: int
    came: int
    went: int
    is_paused_in: bool
    is_paused_out: bool
    max_deliveries: int
    rate_count: int
    rate_ms: int
    rate_full_us: int
    ends_ms: int = 0
    keeps_expired: bool = False


class Named(NamedTuple):
    """The node's id, and whether it is leaving."""

    kind: int
    node_id: bytes
    is_leaving: bool


GroupEvent = Leased | Acked | Released | Extended | Lapsed
FeedEvent = Stored | GroupEvent | Expired | Removed | Flushed | Kept | GroupKept
WorkEvent = (
    Added
    | Taken
    | Requeued
    | Held
    | Died
    | Redriven
    | Configured
    | Forgotten
    | Expired
    | Removed
    | Flushed
    | WorkKept
    | WorklistKept
    | OwnEvent
    | TubeEvent
)
Event = FeedEvent | WorkEvent | Named | Numbered | SessionEnded | ClaimEvent | StageEvent

# A record read back, as the event it is. Those with bodies are taken apart as they are.
AS_EVENT: Final[dict[int, Callable[[Any], Event]]] = {
    LEASED: Leased._make,
    ACKED: Acked._make,
    RELEASED: lambda record: Released(*record),
    EXTENDED: Extended._make,
    LAPSED: Lapsed._make,
    EXPIRED: Expired._make,
    REMOVED: lambda record: Removed(*record),
    FLUSHED: Flushed._make,
    GROUP_KEPT: GroupKept._make,
    TAKEN: lambda record: Taken(*record),
    REQUEUED: Requeued._make,
    HELD: Held._make,
    DIED: Died._make,
    REDRIVEN: Redriven._make,
    CONFIGURED: lambda record: Configured(*record),
    FORGOTTEN: Forgotten._make,
    WORKLIST_KEPT: lambda record: WorklistKept(*record),
    **AS_OWN_EVENT,
    **AS_TUBE_EVENT,
}
