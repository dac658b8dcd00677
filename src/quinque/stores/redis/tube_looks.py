"""The operations on a tube as a whole, as steps: making, dropping, emptying, looking.

Called by   runners.py.
Calls       the scripts tube_make, tube_drop, tube_look and tube_scan.

Not here: tasks (tubes.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from quinque.errors import NoKind, TubeBusy, TubeExists
from quinque.model.families import TUBES
from quinque.model.limits import SCAN_MOST, SETTLE_MOST_COUNTING
from quinque.model.ops import Op
from quinque.model.tube_ops import (
    FOREVER_MS,
    KIND_NAMES,
    KINDS,
    DropTube,
    FindTubes,
    LookAtTube,
    MakeTube,
    TruncateTube,
    TubeSettings,
    TubeView,
)
from quinque.model.work_ops import ScanQueues
from quinque.stores.no_tubes import refuse_tubes
from quinque.stores.redis import sessions
from quinque.stores.redis.calls import Arg, Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import slot_key, slot_of
from quinque.stores.redis.looks import scan_slots
from quinque.stores.redis.tubes import ask, tube_call

_FOUND_AT_ONCE: Final = 500  # worklists that one script looks at: some 10 ms
_NO_DRIVERS: Final = "; drivers need an embedded store"


def make(op: MakeTube, edge: Edge) -> Steps:
    if op.kind not in KINDS:
        view: TubeView | None = yield from look_at(LookAtTube(op.queue), edge)
        if view is None or not op.is_idempotent:
            if view is not None:
                raise TubeExists(op.queue)
            raise NoKind(op.kind, KIND_NAMES, _NO_DRIVERS)
        return False
    argv: list[Arg] = [TUBES.code, edge.now_ms(), op.queue, int(op.is_idempotent)]
    argv += [edge.take_stamps(1), b"kind", op.kind]
    for name, value in settings_kept(op.settings):
        argv += [name, value]
    call = Call("tube_make", [slot_key(slot_of(op.queue))], argv, makes=True)
    try:
        (is_new,) = yield [call]
    except TubeExists as error:
        raise TubeExists(op.queue) from error
    return is_new == 1


def drop(op: DropTube, edge: Edge) -> Steps:
    try:
        yield from ask("tube_drop", op.queue, edge, 0)
    except TubeBusy as error:
        raise TubeBusy("There are taken tasks in the tube") from error
    return True


def truncate(op: TruncateTube, edge: Edge) -> Steps:
    return (yield from ask("tube_drop", op.queue, edge, 1))


def look_at(op: LookAtTube, edge: Edge) -> Steps:
    yield from sessions.settled(edge)
    (row,) = yield [tube_call("tube_look", op.queue, edge, settle_most=SETTLE_MOST_COUNTING)]
    return None if row is None else tube_view(row)[1]


def find(op: FindTubes, edge: Edge) -> Steps:
    yield from sessions.settled(edge)
    found: list[tuple[int, TubeView]] = []
    cursor = 0
    while True:
        cursor, some = yield from _scan(cursor, _FOUND_AT_ONCE, edge)
        found += [it for it in some if op.sees is None or op.sees(it[1].queue)]
        if not cursor or 0 < op.most < len(found):
            return [view for _, view in sorted(found, key=lambda it: (it[0], it[1].queue))]


def scan_queues(op: ScanQueues, edge: Edge) -> Steps:
    cursor, found = yield from _scan(op.cursor, min(op.count, SCAN_MOST), edge)
    return cursor, [view.queue for _, view in found if op.least <= view.ready <= op.most]


def refuse(op: Op, edge: Edge) -> Steps:
    """Raises BadRequest: what is asked is for other families."""
    yield from ()
    refuse_tubes(TUBES)


def settings_kept(settings: TubeSettings) -> list[tuple[bytes, Arg]]:
    """The fields in which a tube has its settings."""
    return [
        (b"ttl_ms", min(settings.ttl_ms, FOREVER_MS)),
        (b"ttr_ms", min(settings.ttr_ms, FOREVER_MS)),
        (b"pri", settings.pri),
        (b"capacity", settings.capacity),
        (b"width", settings.width),
        (b"is_temporary", int(settings.is_temporary)),
        (b"options", settings.options),
    ]


def tube_view(row: Sequence[Any]) -> tuple[int, TubeView]:
    """Read a tube in the format of lib/tube_view.lua. Its number among all tubes comes first."""
    ttl_ms, ttr_ms, pri, capacity, width, is_temporary = map(int, row[2:8])
    settings = TubeSettings(ttl_ms, ttr_ms, pri, capacity, width, is_temporary == 1, row[8])
    ready, taken, delayed, buried, done, *calls = map(int, row[10:])
    view = TubeView(row[0], row[1], settings, ready, taken, delayed, buried, done, calls)
    return int(row[9]), view


def _scan(cursor: int, count: int, edge: Edge) -> Steps:
    """The tubes among the next `count` worklists, with their numbers; the cursor to go on with."""
    found: list[tuple[int, TubeView]] = []

    def make(from_number: int, count: int) -> list[Arg]:
        return [TUBES.code, edge.now_ms(), SETTLE_MOST_COUNTING, from_number, count]

    def read(rows: list[list[Any]]) -> None:
        found.extend(map(tube_view, rows))

    cursor = yield from scan_slots("tube_scan", cursor, count, edge, make, read)
    return cursor, found


RUNNERS: Final[dict[type[Op], Runner]] = {
    MakeTube: make,
    DropTube: drop,
    TruncateTube: truncate,
    LookAtTube: look_at,
    FindTubes: find,
}
# Operations on queues of any family.
FAMILY_RUNNERS: Final[dict[type[Op], Runner]] = {ScanQueues: scan_queues}
