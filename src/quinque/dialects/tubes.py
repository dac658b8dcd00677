"""The tubes family over RESP, with the functions of Tarantool's queue: TUBE.PUT TUBE.TAKE TUBE.ACK
…

Called by   server/dispatch.py, through COMMANDS.
Calls       tube_options.py, quick_replies.py.

Options are arguments, a task is [id, state, data], and the reply is null if no task came in time.

    r  ready      t  taken (leased)     ~  delayed     !  buried (dead)     -  gone

A command for one task replies with that task or an error. A command for several replies with an
array, with null for each task that it did not change.

Not here: Tarantool's own protocol (tarantool.py), whole tubes and sessions (tube_catalog.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from quinque.dialects.args import read_int
from quinque.dialects.command import Command, Right, Session, Wait
from quinque.dialects.options import EXACT_MOST
from quinque.dialects.quick_replies import (
    encoded_task,
    encoded_tasks,
    reply_acked_task,
    reply_share_of_acked_tasks,
    reply_task,
)
from quinque.dialects.tube_options import (
    TubeOptions,
    read_ids,
    read_signed_seconds,
    read_timeout,
    read_tube,
)
from quinque.errors import NoTask, NotTaken, WrongArity
from quinque.model.families import TUBES
from quinque.model.limits import NEVER_MS
from quinque.model.task_bodies import MARK, from_plain
from quinque.model.tube_ops import (
    NO_LANE,
    AckTasks,
    BuryTasks,
    DeleteTasks,
    KickTasks,
    PeekTasks,
    PutTasks,
    ReleaseTasks,
    ReturnTasks,
    TakeTasks,
    TaskTerms,
    TaskView,
    TouchTasks,
)
from quinque.wire.resp import NULL_ARRAY, Encoded, Value

AS_TUBE: Final = TaskTerms()  # missing options have the values of the tube

# Clients that wait for the same event share a waiting list: for any task, for a lane, for room.
ANY_TASK: Final = b""
ROOM: Final = b"room"


def of_lane(lane: bytes) -> bytes:
    """Return the waiting list for tasks of the lane."""
    return b"lane:" + lane


def parse_put(argv: list[bytes], session: Session) -> PutTasks | Wait:
    """TUBE.PUT tube data [TTL s] [TTR s] [PRI n] [DELAY s] [UTUBE lane] [TIMEOUT s]
    [OPTION name value] ...

    Put a task. Tasks are taken in the order of priorities and ids. Returns null if the tube is
    full and there is no room within TIMEOUT.
    """
    put = PutTasks(read_tube(argv[1]), [from_plain(argv[2])], AS_TUBE)
    if len(argv) == 3:
        return put
    options = TubeOptions("TUBE.PUT", argv, 3)
    ttl_ms = ttr_ms = pri = timeout_ms = None
    delay_ms, lane = 0, NO_LANE
    for word in options:
        match word:
            case b"TTL":
                ttl_ms = options.span(word)
            case b"TTR":
                ttr_ms = options.span(word)
            case b"PRI":
                pri = options.priority()
            case b"DELAY":
                delay_ms = options.span(word)
            case b"UTUBE":
                lane = options.lane(word)
            case b"TIMEOUT":
                timeout_ms = read_timeout(options.text(word))
            case b"OPTION":
                options.own()
            case _:
                raise options.refused()
    put.terms = TaskTerms(ttl_ms, ttr_ms, pri, delay_ms, lane, options.packed())
    put.is_strict = True
    return put if timeout_ms is None else Wait(put, [put.queue], ROOM, timeout_ms)


def gather_put(request: PutTasks | Wait, data: list[bytes]) -> bool:
    """Merge requests for one tube with the same options."""
    put = request.op if isinstance(request, Wait) else request
    assert isinstance(put, PutTasks)
    put.bodies = [each if each[:1] != MARK else from_plain(each) for each in data]
    return True


def reply_put(asked: PutTasks | Wait, put: list[TaskView] | None, session: Session) -> Value:
    """[id, state, data]; or null."""
    return Encoded(encoded_task(put[0])) if put else NULL_ARRAY


def parse_mput(argv: list[bytes]) -> PutTasks:
    """TUBE.MPUT tube data [data ...]

    Put several tasks with the defaults of the tube. If the tube becomes full, only the first
    ones are put.
    """
    return PutTasks(read_tube(argv[1]), [from_plain(data) for data in argv[2:]], AS_TUBE)


def reply_tasks(tasks: list[TaskView]) -> Value:
    """[[id, state, data], …]"""
    return Encoded(encoded_tasks(tasks))


def parse_take(argv: list[bytes], session: Session) -> Wait:
    """TUBE.TAKE tube [timeout] [LANE lane] [COUNT n]

    Take the first ready task, or up to COUNT; with LANE, only of that lane. If there is none,
    block until one is ready: up to the given seconds, or forever without them.
    """
    take = TakeTasks(read_tube(argv[1]), b"")
    group, timeout_ms, is_many, at = ANY_TASK, NEVER_MS, False, 2
    if len(argv) > 2 and argv[2].upper() not in (b"LANE", b"COUNT"):
        timeout_ms = read_timeout(argv[2])
        at = 3
    options = TubeOptions("TUBE.TAKE", argv, at)
    for word in options:
        match word:
            case b"LANE":
                take.lane = options.lane(word)
                take.is_strict = True
                group = of_lane(take.lane)
            case b"COUNT":
                take.count = options.whole(word, least=1)
                is_many = True
            case _:
                raise options.refused()
    take.session = session.taking_session()
    return Wait(take, [take.queue], group, timeout_ms, detail=is_many)


def gather_take(wait: Wait, same: list[bytes]) -> bool:
    """Merge requests of a client for one task each."""
    take = wait.op
    assert isinstance(take, TakeTasks)
    if wait.detail:
        return False
    take.count = len(same)
    return True


def share_take(wait: Wait, sessions: list[bytes]) -> None:
    """Add the session that gets each task."""
    assert isinstance(wait.op, TakeTasks)
    wait.op.sessions = sessions


def reply_take(asked: Wait, taken: list[TaskView] | None, session: Session) -> Value:
    """[id, state, data]; or null. With COUNT, [[id, state, data], …]"""
    if asked.detail:
        return Encoded(encoded_tasks(taken or ()))
    return Encoded(encoded_task(taken[0])) if taken else NULL_ARRAY


def parse_ack(argv: list[bytes], session: Session) -> AckTasks:
    """TUBE.ACK tube id [id ...]

    Ack tasks that this session has taken and remove them.
    """
    queue, ids = read_tube(argv[1]), read_ids(argv[2:])
    return AckTasks(queue, session.taking_session(), ids)


def gather_ack(ack: AckTasks, ids: list[bytes]) -> bool:
    """Merge requests of a client for one tube."""
    ack.message_ids = read_ids(ids)
    return True


def share_ack(ack: AckTasks, sessions: list[bytes]) -> None:
    """Add the session that acks each task."""
    ack.sessions = sessions


def reply_held(
    asked: AckTasks | ReleaseTasks, found: list[TaskView | None], session: Session
) -> Value:
    """[id, state, data]; for several ids [[id, state, data], …], with null for each task that the
    session has not taken."""
    if len(asked.message_ids) > 1:
        return _each(found)
    if found[0] is None:
        raise NotTaken
    return Encoded(encoded_task(found[0]))


def parse_release(argv: list[bytes], session: Session) -> ReleaseTasks:
    """TUBE.RELEASE tube id [DELAY s] [PRI n] [TTL s] [DATA data] [OPTION name value] ...

    Make a task that this session has taken ready again, at its old position or after DELAY. The
    other options change its priority, its time to live from now, and its data.
    """
    queue, ids = read_tube(argv[1]), read_ids(argv[2:3])
    release = ReleaseTasks(queue, b"", ids, is_strict=len(argv) > 3)
    options = TubeOptions("TUBE.RELEASE", argv, 3)
    for word in options:
        match word:
            case b"DELAY":
                release.delay_ms = options.span(word)
            case b"PRI":
                release.pri = options.priority()
            case b"TTL":
                release.ttl_ms = options.span(word)
            case b"DATA":
                release.body = from_plain(options.text(word))
            case b"OPTION":
                options.own()
            case _:
                raise options.refused()
    release.options = options.packed()
    release.session = session.taking_session()
    return release


def parse_touch(argv: list[bytes], session: Session) -> TouchTasks:
    """TUBE.TOUCH tube id s

    Extend the ttr and ttl of a task that this session has taken by the given seconds. Returns
    null if that is 0 or less.
    """
    queue, ids = read_tube(argv[1]), read_ids(argv[2:3])
    by_ms = read_signed_seconds("touch", argv[3])
    return TouchTasks(queue, session.taking_session(), ids, by_ms)


def reply_touch(asked: TouchTasks, found: list[TaskView | None], session: Session) -> Value:
    """[id, state, data]; or null."""
    if found[0] is None:
        if asked.by_ms:
            raise NotTaken
        return NULL_ARRAY
    return Encoded(encoded_task(found[0]))


def parse_peek(argv: list[bytes], session: Session) -> PeekTasks:
    """TUBE.PEEK tube id

    Return the current state of a task of any session. Nothing changes.
    """
    return PeekTasks(read_tube(argv[1]), read_ids(argv[2:]))


def parse_bury(argv: list[bytes], session: Session) -> BuryTasks:
    """TUBE.BURY tube id

    Bury a task of any session: it is not taken until it is kicked.
    """
    return BuryTasks(read_tube(argv[1]), read_ids(argv[2:]))


def parse_delete(argv: list[bytes], session: Session) -> DeleteTasks:
    """TUBE.DELETE tube id [id ...]

    Remove tasks of any session, in any state.
    """
    return DeleteTasks(read_tube(argv[1]), read_ids(argv[2:]))


def reply_any(
    asked: PeekTasks | BuryTasks | DeleteTasks, found: list[TaskView | None], session: Session
) -> Value:
    """[id, state, data]; for several ids [[id, state, data], …], with null for each task that does
    not exist."""
    if len(asked.message_ids) > 1:
        return _each(found)
    if found[0] is None:
        raise NoTask(asked.message_ids[0])
    return Encoded(encoded_task(found[0]))


def parse_kick(argv: list[bytes]) -> KickTasks:
    """TUBE.KICK tube [count|IDS id ...]

    Make the first buried task ready, or the given number of them, or these tasks. Returns the
    number of tasks that were buried.
    """
    queue = read_tube(argv[1])
    is_of_ids = len(argv) > 2 and argv[2].upper() == b"IDS"
    if is_of_ids != (len(argv) > 3):
        raise WrongArity("TUBE.KICK")
    if is_of_ids:
        return KickTasks(queue, message_ids=read_ids(argv[3:]))
    count = read_int("count", argv[2], least=0, most=EXACT_MOST) if len(argv) == 3 else 1
    return KickTasks(queue, count)


def parse_releaseall(argv: list[bytes]) -> ReturnTasks:
    """TUBE.RELEASEALL tube

    Make all taken tasks of any session ready. Returns the number of tasks.
    """
    return ReturnTasks(read_tube(argv[1]))


def reply_number(number: int) -> Value:
    """The number of tasks."""
    return number


def _each(found: Sequence[TaskView | None]) -> Value:
    return [NULL_ARRAY if task is None else Encoded(encoded_task(task)) for task in found]


def _row(name: str, arity: int, parse: Callable[..., Any], reply: Callable[..., Value]) -> Command:
    """Make a row for a command whose reply depends on the request."""
    right: Right = "read" if parse is parse_peek else "write"
    return Command(name, _TUBES, right, arity, parse, reply, with_session=True)


_TUBES: Final = TUBES.name
COMMANDS: Final = [
    Command(
        "TUBE.PUT",
        _TUBES,
        "write",
        -3,
        parse_put,
        reply_put,
        with_session=True,
        gather=gather_put,
        reply_each=reply_task,
        varies=2,
        is_blocking=True,
    ),
    Command("TUBE.MPUT", _TUBES, "write", -3, parse_mput, reply_tasks),
    Command(
        "TUBE.TAKE",
        _TUBES,
        "write",
        -2,
        parse_take,
        reply_take,
        with_session=True,
        gather=gather_take,
        reply_each=reply_task,
        varies=0,
        share=share_take,
        is_blocking=True,
    ),
    Command(
        "TUBE.ACK",
        _TUBES,
        "write",
        -3,
        parse_ack,
        reply_held,
        with_session=True,
        gather=gather_ack,
        reply_each=reply_acked_task,
        reply_share=reply_share_of_acked_tasks,
        varies=2,
        varies_on=True,
        share=share_ack,
        none_is=NotTaken,
    ),
    _row("TUBE.RELEASE", -3, parse_release, reply_held),
    _row("TUBE.TOUCH", 4, parse_touch, reply_touch),
    _row("TUBE.PEEK", 3, parse_peek, reply_any),
    _row("TUBE.BURY", 3, parse_bury, reply_any),
    _row("TUBE.DELETE", -3, parse_delete, reply_any),
    Command("TUBE.KICK", _TUBES, "write", -2, parse_kick, reply_number),
    Command("TUBE.RELEASEALL", _TUBES, "write", 2, parse_releaseall, reply_number),
]
