"""The tubes, their contents and their sessions, over RESP: TUBE.CREATE TUBE.DROP TUBE.TRUNCATE
TUBE.STATS TUBE.LIST TUBE.BROWSE TUBE.IDENTIFY.

Called by   server/dispatch.py, through COMMANDS.
Calls       tube_options.py.

Not here: tasks (tubes.py).
"""

from __future__ import annotations

from typing import Any, Final

from quinque.dialects.command import Command, Session, no_queues
from quinque.dialects.listings import NAME_A_TUBE, check_listing, seen_by
from quinque.dialects.options import PEEK_COUNT
from quinque.dialects.tube_options import TubeOptions, read_session, read_tube
from quinque.dialects.tubes import reply_number, reply_tasks
from quinque.errors import NoTube, TubeBusy, WrongArity, shown_session
from quinque.model.families import TUBES
from quinque.model.limits import COUNTS_MOST
from quinque.model.states import State
from quinque.model.tube_ops import (
    CALLS,
    FOREVER_MS,
    KINDS,
    BrowseTasks,
    DropTube,
    FindTubes,
    LookAtTube,
    MakeTube,
    TruncateTube,
    TubeSettings,
    TubeView,
)
from quinque.model.tube_terms import settings_unused
from quinque.wire.resp import OK, Value


def parse_create(argv: list[bytes]) -> MakeTube:
    """TUBE.CREATE tube kind [TEMPORARY] [IFNOTEXISTS] [TTL s] [TTR s] [PRI n] [CAPACITY n]
    [WIDTH n] [OPTION name value] ...

    Create a tube of the type fifo, fifottl, limfifottl, utube, utubettl or of a driver. TTL,
    TTR and PRI are the defaults of its tasks. Returns 1 if it is new; with IFNOTEXISTS, 0 if it
    exists.
    """
    queue, kind = read_tube(argv[1]), argv[2]
    ttl_ms, ttr_ms, pri, capacity, width = FOREVER_MS, None, 0, 0, 1
    is_temporary = is_idempotent = False
    options = TubeOptions("TUBE.CREATE", argv, 3)
    for word in options:
        match word:
            case b"TEMPORARY":
                is_temporary = True
            case b"IFNOTEXISTS":
                is_idempotent = True
            case b"TTL":
                ttl_ms = options.span(word)
            case b"TTR":
                ttr_ms = options.span(word)
            case b"PRI":
                pri = options.priority()
            case b"CAPACITY":
                capacity = options.whole(word)
            case b"WIDTH":
                width = options.whole(word, least=1)
            case b"OPTION":
                options.own()
            case _:
                raise options.refused()
    _refuse_unknown(kind, options)
    ttr_ms = ttl_ms if ttr_ms is None else ttr_ms
    packed = options.packed()
    settings = TubeSettings(ttl_ms, ttr_ms, pri, capacity, width, is_temporary, packed)
    return MakeTube(queue, kind, settings, is_idempotent)


def reply_create(is_new: bool) -> Value:
    """1 or 0"""
    return int(is_new)


def parse_drop(argv: list[bytes], session: Session) -> DropTube:
    """TUBE.DROP tube

    Delete the tube and its tasks. Refused while tasks of it are taken, or a client waits for
    one.
    """
    queue = read_tube(argv[1])
    if session.waiting_on(queue):
        raise TubeBusy("There are consumers connected the tube")
    return DropTube(queue)


def reply_drop(asked: DropTube, is_gone: bool, session: Session) -> Value:
    """OK, as a simple string."""
    return OK


def parse_truncate(argv: list[bytes]) -> TruncateTube:
    """TUBE.TRUNCATE tube

    Remove all tasks and restart the ids at 0. Returns the number of tasks.
    """
    return TruncateTube(read_tube(argv[1]))


def parse_stats(argv: list[bytes], session: Session) -> LookAtTube | FindTubes:
    """TUBE.STATS [tube]

    Return the number of tasks in each state and of calls of each command, for the tube or for
    all tubes, of which there may be 10000.
    """
    return _one_or_all("TUBE.STATS", argv, session)


def reply_stats(
    asked: LookAtTube | FindTubes, found: TubeView | list[TubeView] | None, session: Session
) -> Value:
    """{tasks: {state: number, …}, calls: {call: number, …}}; or {tube: these, …}"""
    if isinstance(found, list):
        check_tubes("the statistics of all tubes", found)
        return {tube.queue: statistics(tube) for tube in found if session.sees(tube.queue)}
    if found is None:
        assert isinstance(asked, LookAtTube)
        raise NoTube(asked.queue)
    return statistics(found)


def check_tubes(what: str, found: list[TubeView]) -> None:
    """Raise LimitReached if these are too many for one reply."""
    check_listing(what, len(found), [tube.queue for tube in found], NAME_A_TUBE)


def statistics(tube: TubeView) -> dict[bytes | str, Value]:
    """Return the counts of a tube, as Tarantool has them."""
    states: dict[bytes | str, Value] = {
        "ready": tube.ready,
        "taken": tube.taken,
        "delayed": tube.delayed,
        "buried": tube.buried,
        "done": tube.done,
        "total": tube.ready + tube.taken + tube.delayed + tube.buried,
    }
    calls: dict[bytes | str, Value] = dict(zip(CALLS, tube.calls, strict=True))
    return {"tasks": states, "calls": calls}


def parse_list(argv: list[bytes], session: Session) -> LookAtTube | FindTubes:
    """TUBE.LIST [tube]

    Return the tube with its settings, or all tubes in the order of their creation. There may be
    10000.
    """
    return _one_or_all("TUBE.LIST", argv, session)


def reply_list(
    asked: LookAtTube | FindTubes, found: TubeView | list[TubeView] | None, session: Session
) -> Value:
    """[{name, kind, temporary, asleep, and what tubes of the kind have}, …]"""
    if isinstance(found, list):
        check_tubes("all tubes", found)
        return [_described(tube) for tube in found if session.sees(tube.queue)]
    return [] if found is None else [_described(found)]


def parse_browse(argv: list[bytes]) -> BrowseTasks:
    """TUBE.BROWSE tube [STATE state] [COUNT n]

    Return the first ready tasks, or those in STATE, up to COUNT (10), in the order in which
    they would be taken. STATE is ready, taken, delayed or buried. Nothing changes.
    """
    browse = BrowseTasks(read_tube(argv[1]), State.READY, PEEK_COUNT)
    options = TubeOptions("TUBE.BROWSE", argv, 2)
    for word in options:
        match word:
            case b"STATE":
                browse.state = options.state(_STATES)
            case b"COUNT":
                browse.count = options.whole(word, least=1)
            case _:
                raise options.refused()
    return browse


def run_identify(session: Session, argv: list[bytes]) -> Any:
    """TUBE.IDENTIFY [session]

    Return the session that takes tasks on this connection. With an argument, the connection
    joins that session: a UUID must be an existing session, any other text creates the session
    if it is new.
    """
    if len(argv) > 2:
        raise WrongArity("TUBE.IDENTIFY")
    if len(argv) == 1:
        return shown_session(session.taking_session()).encode()
    wanted = read_session(argv[1])
    shown = shown_session(wanted).encode() if len(wanted) == 16 else wanted
    return session.join_session(wanted, shown)


def _one_or_all(command: str, argv: list[bytes], session: Session) -> LookAtTube | FindTubes:
    """Return the tube that the request names, or all that the user may see."""
    if len(argv) > 2:
        raise WrongArity(command)
    if len(argv) == 2:
        return LookAtTube(read_tube(argv[1]))
    return FindTubes(COUNTS_MOST, seen_by(session))


def _described(tube: TubeView) -> Value:
    settings, kind = tube.settings, KINDS.get(tube.kind)
    shown: dict[bytes | str, Value] = {
        "name": tube.queue,
        "kind": tube.kind,
        "temporary": int(settings.is_temporary),
        "asleep": int(tube.is_asleep),
    }
    if kind is None:
        shown["options"] = settings.options
        return shown
    if kind.has_times:
        shown["ttl"] = _seconds(settings.ttl_ms)
        shown["ttr"] = _seconds(settings.ttr_ms)
        shown["pri"] = settings.pri
    if kind.is_bounded:
        shown["capacity"] = settings.capacity
    if kind.has_lanes:
        shown["width"] = settings.width
    return shown


def _seconds(span_ms: int) -> Value:
    """Return seconds. Null means no limit."""
    return None if span_ms >= FOREVER_MS else span_ms / 1000


def _refuse_unknown(kind_name: bytes, options: TubeOptions) -> None:
    if kind_name in KINDS:
        options.refuse(kind_name, *settings_unused(kind_name))


_TUBES: Final = TUBES.name
_STATES: Final = {
    b"ready": State.READY,
    b"taken": State.LEASED,
    b"delayed": State.DELAYED,
    b"buried": State.DEAD,
}
COMMANDS: Final = [
    Command("TUBE.CREATE", _TUBES, "write", -3, parse_create, reply_create),
    Command("TUBE.DROP", _TUBES, "write", 2, parse_drop, reply_drop, with_session=True),
    Command("TUBE.TRUNCATE", _TUBES, "write", 2, parse_truncate, reply_number),
    Command("TUBE.STATS", _TUBES, "read", -1, parse_stats, reply_stats, with_session=True),
    Command("TUBE.LIST", _TUBES, "read", -1, parse_list, reply_list, with_session=True),
    Command("TUBE.BROWSE", _TUBES, "read", -2, parse_browse, reply_tasks),
    Command("TUBE.IDENTIFY", _TUBES, "write", -1, run=run_identify, queues=no_queues),
]
