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
so many tasks of a lane are taken at a time as the tube's width says, which is one unless somebody
chose otherwise. Every other kind is that of a driver, which a user wrote.

Not here: what an operation does (engine/tubes/), the letters of states on the wire (dialects/).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from quinque.model.ops import Op
from quinque.model.states import State

# As Tarantool has it: whatever lasts 100 years or more lasts for ever.
FOREVER_MS: Final = 100 * 365 * 24 * 3600 * 1000
# An exact number in a double, which is how Redis orders by it.
PRIORITY_MOST: Final = (1 << 53) - 1
# Tasks of a session that come back within the operation that ends it; the clock brings the others.
RETURNED_AT_ONCE_MOST: Final = 10_000
SESSION_MOST_BYTES: Final = 255


@dataclass(frozen=True)
class Kind:
    """What holds in tubes of that kind. With `ends_taken` a task whose time is over goes though it
    is taken; else it goes when it is not taken any more."""

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

# The lane of a task of which nobody said it, as in Tarantool, where all of them share one.
NO_LANE: Final = b"nil"


@dataclass(frozen=True)
class TubeSettings:
    """What was said when the tube was made. `ttl_ms`, `ttr_ms` and `pri` are for tasks that do not
    say it; a tube of `capacity` tasks is full (0 = never); `options` are for a driver, packed with
    msgpack. Of a temporary tube only these survive a restart, and not its tasks."""

    ttl_ms: int = FOREVER_MS
    ttr_ms: int = FOREVER_MS
    pri: int = 0
    capacity: int = 0
    width: int = 1
    is_temporary: bool = False
    options: bytes = b""


@dataclass(frozen=True)
class TaskTerms:
    """What a task's producer said of it; None is as the tube has it. A ttl of 0 ends at once."""

    ttl_ms: int | None = None
    ttr_ms: int | None = None
    pri: int | None = None
    delay_ms: int = 0
    lane: bytes = NO_LANE
    options: bytes = b""  # for a driver, packed with msgpack: all that was said


@dataclass(init=False)
class TaskView:
    """A task as it is now; with no state it is gone."""

    message_id: bytes
    state: State | None
    body: bytes

    # mypyc compiles this one, and not the one that dataclass would make: a third of the time, for
    # what every reply about a task is made of.
    def __init__(self, message_id: bytes, state: State | None, body: bytes) -> None:
        self.message_id = message_id
        self.state = state
        self.body = body


# What is counted of a tube since the broker started, in the order in which it is told.
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
    each of CALLS. A tube that is asleep has a driver that is not there."""

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
    """There is a tube of that name and kind; the result says whether it is new.

    Raises TubeExists, unless `is_idempotent`: then one that is there stays as it is, whatever its
    kind. Raises NoKind when no driver has that name, WrongType when another family has the name.
    """

    queue: bytes
    kind: bytes
    settings: TubeSettings
    is_idempotent: bool = False


@dataclass
class DropTube(Op):
    """The tube is gone, with all that is in it; the result is True.

    Raises NoTube, and TubeBusy while tasks of it are taken.
    """

    queue: bytes


@dataclass
class FindTubes(Op):
    """The TubeViews of all tubes, in the order they were made."""


@dataclass
class LookAtTube(Op):
    """The TubeView; None when there is no such tube."""

    queue: bytes


# -- tasks: all of these raise NoTube, and DriverMissing when the tube is asleep ------------------


@dataclass
class PutTasks(Op):
    """Store tasks; the result is their TaskViews, of the first ones only when the tube is full."""

    queue: bytes
    bodies: Sequence[bytes]
    terms: TaskTerms
    is_strict: bool = False  # see refuse_unknown_terms


@dataclass
class TakeTasks(Op):
    """Up to `count` ready tasks are taken by the session, which is known: those of a lane if one is
    named. Their TaskViews; fewer when there are no more, or when they are large.

    With `sessions` the first of them takes the first task, the second the next, and so on. Raises
    BadRequest then, before anything is changed, where it is a driver who hands out.
    """

    queue: bytes
    session: bytes
    count: int = 1
    lane: bytes | None = None
    is_strict: bool = False  # see refuse_unknown_terms
    sessions: Sequence[bytes] = ()


@dataclass
class AckTasks(Op):
    """Tasks that the session has taken are done, and gone; for each its TaskView, or None when the
    session has not taken it. With `sessions`, as TakeTasks: of each task, the one that acks it."""

    queue: bytes
    session: bytes
    message_ids: Sequence[bytes]
    sessions: Sequence[bytes] = ()


@dataclass
class ReleaseTasks(Op):
    """Tasks that the session has taken are ready, at their old place, or delayed, by which their
    lives are longer; as AckTasks otherwise.

    What is not None is so from here on: the priority, how long it lives from now, its data.
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
    """The time of tasks that the session has taken, to run and to live, is longer by `by_ms`; as
    AckTasks otherwise. With 0 the result has None for each.

    Raises TouchRefused where there are no times.
    """

    queue: bytes
    session: bytes
    message_ids: Sequence[bytes]
    by_ms: int


@dataclass
class PeekTasks(Op):
    """For each task its TaskView, or None."""

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
    """Tasks are buried, whatever their state and whoever has taken them; as PeekTasks."""

    queue: bytes
    message_ids: Sequence[bytes]


@dataclass
class DeleteTasks(Op):
    """Tasks are gone, whatever their state and whoever has taken them; as PeekTasks."""

    queue: bytes
    message_ids: Sequence[bytes]


@dataclass
class KickTasks(Op):
    """The first `count` buried tasks are ready, or with `message_ids` those of them that are
    buried; the result is how many.

    Raises BadRequest when the tube is of a driver that kicks by count only, and ids are given.
    """

    queue: bytes
    count: int = 1
    message_ids: Sequence[bytes] | None = None


@dataclass
class ReturnTasks(Op):
    """All taken tasks of the tube are ready, whoever has taken them; the result is how many."""

    queue: bytes


@dataclass
class TruncateTube(Op):
    """All tasks are gone, and ids begin at 0 again; the result is how many went."""

    queue: bytes


# -- sessions ------------------------------------------------------------------------------------


@dataclass
class JoinSession(Op):
    """One more connection of this broker is of the session; the result is None.

    Raises NoSession, unless `is_new`, when nobody is of it and it is not kept either.
    """

    session: bytes
    is_new: bool = False


@dataclass
class LeaveSession(Op):
    """One connection fewer of this broker is of the session; the result is None. If it was the last
    anywhere, its tasks are ready: at once, or when nobody has joined it again for `keep_ms`."""

    session: bytes
    keep_ms: int = 0


@dataclass
class LeaveSessions(Op):
    """Of the sessions that a store was opened with nobody is any more, as if each had been left
    just now; the result is how many there are."""

    keep_ms: int = 0
