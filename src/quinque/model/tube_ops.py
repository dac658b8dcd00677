"""The operations on tubes and on the sessions that take from them, and the result of each.

Called by   dialects (make operations, read results), stores (carry them out).
Calls       nothing.

A tube is a worklist of tasks. Its kind says which rules hold, as data:

                has times   has lanes   is bounded
    fifo            -           -           -
    fifottl        yes          -           -
    limfifottl     yes          -          yes
    utube           -          yes          -
    utubettl       yes         yes          -

Where there are no times, a task has neither priority nor delay nor an end. Where there are lanes,
the tube's width says how many tasks of a lane may be taken at a time. Default: 1. Every other kind
is that of a driver, which a user wrote.

Not here: what an operation does (engine/tubes/), the letters of states on the wire (dialects/).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from quinque.model.ops import Op
from quinque.model.states import State

# As in Tarantool: a duration of 100 years or more means without end.
FOREVER_MS: Final = 100 * 365 * 24 * 3600 * 1000
# An exact number in a double, which is how Redis orders by it.
PRIORITY_MOST: Final = (1 << 53) - 1
# Tasks of a session that come back within the operation that ends it; the clock brings the others.
RETURNED_AT_ONCE_MOST: Final = 10_000
SESSION_MOST_BYTES: Final = 255


@dataclass(frozen=True)
class Kind:
    """The rules for tubes of that kind. With `ends_taken` an expired task is removed though it is
    taken; else it is removed when it is no longer taken."""

    name: bytes
    has_times: bool = False
    has_lanes: bool = False
    is_bounded: bool = False
    ends_taken: bool = False


FIFO: Final = Kind(b"fifo")
FIFOTTL: Final = Kind(b"fifottl", has_times=True, ends_taken=True)
LIMFIFOTTL: Final = Kind(b"limfifottl", has_times=True, is_bounded=True, ends_taken=True)
UTUBE: Final = Kind(b"utube", has_lanes=True)
UTUBETTL: Final = Kind(b"utubettl", has_times=True, has_lanes=True)

KINDS: Final = {kind.name: kind for kind in (FIFO, FIFOTTL, LIMFIFOTTL, UTUBE, UTUBETTL)}
KIND_NAMES: Final = f"{', '.join(name.decode() for name in KINDS)} or a driver"  # in an error

# The lane of tasks that name none: they all share one, as in Tarantool.
NO_LANE: Final = b"nil"


@dataclass(frozen=True)
class TubeSettings:
    """The settings given when the tube was made. `ttl_ms`, `ttr_ms` and `pri` are the defaults of
    its tasks; a tube of `capacity` tasks is full (0 = never); `options` are for a driver, packed
    with msgpack. A temporary tube keeps only its settings over a restart, and not its tasks."""

    ttl_ms: int = FOREVER_MS
    ttr_ms: int = FOREVER_MS
    pri: int = 0
    capacity: int = 0
    width: int = 1
    is_temporary: bool = False
    options: bytes = b""


@dataclass(frozen=True)
class TaskTerms:
    """The options of a task; None = the default of the tube. A ttl of 0 ends at once."""

    ttl_ms: int | None = None
    ttr_ms: int | None = None
    pri: int | None = None
    delay_ms: int = 0
    lane: bytes = NO_LANE
    options: bytes = b""  # for a driver, packed with msgpack: all options


@dataclass(init=False)
class TaskView:
    """The current state of a task. Without a state, it was removed."""

    message_id: bytes
    state: State | None
    body: bytes

    # mypyc compiles this one, and not the one that dataclass would make: a third of the time, for
    # what every reply about a task is made of.
    def __init__(self, message_id: bytes, state: State | None, body: bytes) -> None:
        self.message_id = message_id
        self.state = state
        self.body = body


# The calls that a tube counts since the broker started, in the order of the reply.
CALLS: Final = (
    "put",
    "take",
    "ack",
    "release",
    "bury",
    "kick",
    "delete",
    "touch",
    "ttl",
    "ttr",
    "delay",
)
CALL_PUT: Final = CALLS.index("put")
CALL_TAKE: Final = CALLS.index("take")
CALL_ACK: Final = CALLS.index("ack")
CALL_RELEASE: Final = CALLS.index("release")
CALL_BURY: Final = CALLS.index("bury")
CALL_KICK: Final = CALLS.index("kick")
CALL_DELETE: Final = CALLS.index("delete")
CALL_TOUCH: Final = CALLS.index("touch")
CALL_TTL: Final = CALLS.index("ttl")
CALL_TTR: Final = CALLS.index("ttr")
CALL_DELAY: Final = CALLS.index("delay")


@dataclass
class TubeView:
    """A tube as it is now. `done` counts tasks acked, deleted and ended; `calls` has a number for
    each of CALLS. The driver of a tube that is asleep is not registered."""

    queue: bytes
    kind: bytes
    settings: TubeSettings
    ready: int
    taken: int
    delayed: int
    buried: int
    done: int
    calls: list[int] = field(default_factory=lambda: [0] * len(CALLS))
    is_asleep: bool = False


# -- tubes ---------------------------------------------------------------------------------------


@dataclass
class MakeTube(Op):
    """Create a tube of that name and type. The result says whether it is new.

    Raises TubeExists, unless `is_idempotent`: then an existing tube is not changed, whatever its
    kind. Raises NoKind when no driver has that name, WrongType when another family has the name.
    """

    queue: bytes
    kind: bytes
    settings: TubeSettings
    is_idempotent: bool = False


@dataclass
class DropTube(Op):
    """Remove the tube, with all that is in it; the result is True.

    Raises NoTube, and TubeBusy while tasks of it are taken.
    """

    queue: bytes


@dataclass
class FindTubes(Op):
    """Return the TubeViews of all tubes, in the order of their creation; with `sees`, only those
    for whose names it returns True.

    With `most`, they may be cut off, and be in any order, when there are more.
    """

    most: int = 0
    sees: Callable[[bytes], bool] | None = field(default=None, compare=False)


@dataclass
class LookAtTube(Op):
    """Return the TubeView, or None if the tube does not exist."""

    queue: bytes


# -- tasks: all of these raise NoTube, and DriverMissing when the tube is asleep ------------------


@dataclass
class PutTasks(Op):
    """Store tasks. The result is their TaskViews, or those of the first ones if the tube becomes
    full."""

    queue: bytes
    bodies: Sequence[bytes]
    terms: TaskTerms
    is_strict: bool = False  # see refuse_unknown_terms


@dataclass
class TakeTasks(Op):
    """Take up to `count` ready tasks for the session, which is known: those of a lane if one is
    named. The result is their TaskViews; fewer when there are no more, or when they are large.

    With `sessions` the first of them takes the first task, the second the next, and so on. Raises
    BadRequest then, before anything is changed, if the tube is that of a driver.
    """

    queue: bytes
    session: bytes
    count: int = 1
    lane: bytes | None = None
    is_strict: bool = False  # see refuse_unknown_terms
    sessions: Sequence[bytes] = ()


@dataclass
class AckTasks(Op):
    """Finish and remove tasks that the session has taken; the result has for each its TaskView, or
    None when the session has not taken it. `sessions`, as in TakeTasks, has the one for each."""

    queue: bytes
    session: bytes
    message_ids: Sequence[bytes]
    sessions: Sequence[bytes] = ()


@dataclass
class ReleaseTasks(Op):
    """Make tasks that the session has taken ready, at their old place, or delayed, which prolongs
    their time to live by the delay; otherwise as AckTasks.

    An argument that is not None sets the priority, the time to live from now, or the data.
    """

    queue: bytes
    session: bytes
    message_ids: Sequence[bytes]
    delay_ms: int = 0
    pri: int | None = None
    ttl_ms: int | None = None
    body: bytes | None = None
    options: bytes = b""  # for a driver, packed with msgpack
    is_strict: bool = False  # see refuse_unknown_terms


@dataclass
class TouchTasks(Op):
    """Add `by_ms` to the time to run and to live of tasks that the session has taken; otherwise as
    AckTasks. With 0 the result has None for each.

    Raises TouchRefused where there are no times.
    """

    queue: bytes
    session: bytes
    message_ids: Sequence[bytes]
    by_ms: int


@dataclass
class PeekTasks(Op):
    """Return the TaskView of each task, or None."""

    queue: bytes
    message_ids: Sequence[bytes]


@dataclass
class BrowseTasks(Op):
    """The TaskViews of the first `count` tasks in that state, fewer when they are large or very
    many. Changes nothing.

    They are in the order of priorities and ids. Where there are lanes, ready tasks of those that
    have room come first, and the others are in no order; nor are those that are taken.
    """

    queue: bytes
    state: State
    count: int


@dataclass
class BuryTasks(Op):
    """Bury tasks of any state, taken by any session; as PeekTasks."""

    queue: bytes
    message_ids: Sequence[bytes]


@dataclass
class DeleteTasks(Op):
    """Remove tasks of any state, taken by any session; as PeekTasks."""

    queue: bytes
    message_ids: Sequence[bytes]


@dataclass
class KickTasks(Op):
    """Make the first `count` buried tasks ready, or with `message_ids` those of them that are
    buried; the result is how many.

    Raises BadRequest when the tube is of a driver that kicks by count only, and ids are given.
    """

    queue: bytes
    count: int = 1
    message_ids: Sequence[bytes] | None = None


@dataclass
class ReturnTasks(Op):
    """Make all taken tasks of the tube ready, of all sessions; the result is how many."""

    queue: bytes


@dataclass
class TruncateTube(Op):
    """Remove all tasks, and start ids at 0 again; the result is how many were removed."""

    queue: bytes


# -- sessions ------------------------------------------------------------------------------------


@dataclass
class JoinSession(Op):
    """Add one connection of this broker to the session; the result is None.

    Raises NoSession when the session has no connection and is not kept, unless `is_new`.
    """

    session: bytes
    is_new: bool = False


@dataclass
class LeaveSession(Op):
    """Remove one connection of this broker from the session; the result is None. If it was the last
    anywhere, its tasks are ready: at once, or when no connection joins it within `keep_ms`."""

    session: bytes
    keep_ms: int = 0


@dataclass
class LeaveSessions(Op):
    """Treat the sessions that a store was opened with as if the last connection of each had left
    just now; the result is how many there are."""

    keep_ms: int = 0
