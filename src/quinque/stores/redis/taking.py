"""Handing out messages of worklists: Take, as steps.

Called by   runners.py.
Calls       the scripts take, takeable and find_busy; spread.py.

From one slot, messages are taken at once. From several, all are asked at the same time how much
they have, and then each for its share, so that one comes from each worklist in turn. What somebody
else took in between is missing then; when it was all, they are asked again. Where one worklist is
to be drained before the next, the first is drained at once, and then those that have something, one
after the other.

Not here: waiting for something to take (server/waiters.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from quinque.errors import Leaving, QuinqueError
from quinque.model.glob import compile_glob
from quinque.model.limits import RESERVE_MOST, RESERVE_MOST_BYTES, SETTLE_MOST
from quinque.model.ops import Op
from quinque.model.work_ops import NodeView, Take, WorkDelivery
from quinque.stores.redis.calls import Arg, Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import slot_key
from quinque.stores.redis.nodes import known_node
from quinque.stores.redis.slots import known_slots

_ALARMS_MOST: Final = 100  # worklists of a slot settled at once, most of them with little to do
_AGAIN_MOST: Final = 3  # times that others may have been quicker


class Spot(NamedTuple):
    """A worklist in a slot."""

    slot: int
    queue: bytes


def take(op: Take, edge: Edge) -> Steps:
    node: NodeView = yield from known_node(edge)
    makes = op.is_waiting and not (node.is_leaving or op.patterns or op.family.is_lasting)
    names: Sequence[bytes] = op.queues
    if op.patterns:
        names = yield from _matching(op, edge)
    given: list[WorkDelivery] = []
    if len(names) == 1 and not edge.spread.is_spread(names[0]):
        spots = [Spot(edge.spread.read_slots(names[0])[0], names[0])]
        is_cut = True
        while is_cut and not given:  # others have their turn in between
            found = yield _calls(op, edge, spots, [min(op.count, RESERVE_MOST)], makes)
            given = _deliveries(found[0])
            is_cut = bool(found[0][2])
    elif op.is_drained:
        given = yield from _drain(op, edge, names)
    elif names:
        given = yield from _take_from_many(op, edge, names, makes)
    if not given and op.is_waiting and node.is_leaving:
        raise Leaving
    return given


def _drain(op: Take, edge: Edge, names: Sequence[bytes]) -> Steps:
    given: list[WorkDelivery] = []
    most, room_bytes = min(op.count, RESERVE_MOST), RESERVE_MOST_BYTES
    found_in = (Spot(slot, name) for name in names for slot in edge.spread.read_slots(name))
    spots = list(dict.fromkeys(found_in))
    counts: dict[Spot, Any] = dict.fromkeys(spots[:1], most)
    for at, spot in enumerate(spots):
        if len(given) == most or room_bytes <= 0:
            break
        if at == 1:
            counts = yield from _takeable(op, edge, spots[1:], may_fail=True)
        count, some = counts[spot], []
        if isinstance(count, QuinqueError) and not given:
            raise count
        if not isinstance(count, QuinqueError) and count > 0:
            found = yield _calls(op, edge, [spot], [most - len(given)], makes=False)
            some = _deliveries(found[0])
        given += some
        room_bytes -= sum(len(delivery.body) for delivery in some)
    return given


def _take_from_many(op: Take, edge: Edge, names: Sequence[bytes], makes: bool) -> Steps:
    given: list[WorkDelivery] = []
    if len(names) == 1:
        given = yield from _take_where_believed(op, edge, names[0])
    spots = [Spot(slot, name) for name in names for slot in edge.spread.read_slots(name)]
    for _ in range(_AGAIN_MOST if not given else 0):
        counts = yield from _takeable(op, edge, spots)
        shares, visited = _share(counts, min(op.count, RESERVE_MOST))
        for spot, count in counts.items():
            if count > shares[spot]:
                edge.spread.believe(spot.queue, [spot.slot])
        wanted = [spot for spot in visited if shares[spot] or (makes and counts[spot] < 0)]
        given = yield from _take_shares(op, edge, wanted, shares, makes)
        if given or not any(shares.values()):
            break
    return given


def _take_where_believed(op: Take, edge: Edge, queue: bytes) -> Steps:
    """From one partition after the other where something is believed to be, until it is enough."""
    most = min(op.count, RESERVE_MOST)
    given: list[WorkDelivery] = []
    while len(given) < most and (slot := edge.spread.next_believed(queue)) is not None:
        count = most - len(given)
        found = yield _calls(op, edge, [Spot(slot, queue)], [count], makes=False)
        some = _deliveries(found[0])
        given += some
        if not some or not found[0][1]:  # nothing, or nothing left
            edge.spread.doubt(queue, slot)
    return given


def _takeable(op: Take, edge: Edge, spots: Sequence[Spot], *, may_fail: bool = False) -> Steps:
    """How many each could hand out; -1 for one that is not there, and if it `may_fail` the error of
    one that cannot be asked."""
    groups: dict[object, list[Spot]] = {}
    for spot in spots:
        groups.setdefault(spot if may_fail else spot.slot, []).append(spot)
    calls = []
    most = min(op.count, RESERVE_MOST)
    for some in groups.values():
        argv: list[Arg] = [op.family.code, edge.now_ms(), SETTLE_MOST, most]
        for spot in some:
            argv += [spot.queue, int(spot.queue in edge.watched)]
        calls.append(Call("takeable", [slot_key(some[0].slot)], argv, may_fail=may_fail))
    replies = yield calls
    counted: dict[Spot, Any] = {}
    for some, row in zip(groups.values(), replies, strict=True):
        is_error = isinstance(row, QuinqueError)
        counted.update((spot, row if is_error else row[at]) for at, spot in enumerate(some))
    return {spot: counted[spot] for spot in spots}


def _share(counts: dict[Spot, int], most: int) -> tuple[dict[Spot, int], list[Spot]]:
    """How many come from each, one of each in turn; and who was looked at, had it been done so."""
    shares = dict.fromkeys(counts, 0)
    visited: list[Spot] = []
    left = list(counts)
    taken = 0
    while left and taken < most:
        still = []
        for spot in left:
            if taken == most:
                break
            if not shares[spot]:
                visited.append(spot)
            if counts[spot] > shares[spot]:
                shares[spot] += 1
                taken += 1
                still.append(spot)
        left = still
    return shares, list(dict.fromkeys(visited))


def _take_shares(
    op: Take, edge: Edge, spots: Sequence[Spot], shares: dict[Spot, int], makes: bool
) -> Steps:
    """What is still there of these shares, one of each worklist in turn."""
    if not spots:
        return []
    found = yield _calls(op, edge, spots, [shares[spot] for spot in spots], makes)
    failures = [reply for reply in found if isinstance(reply, QuinqueError)]
    rows: dict[bytes, deque[WorkDelivery]] = {spot.queue: deque() for spot in spots}
    for reply in found:
        if not isinstance(reply, QuinqueError):
            for delivery in _deliveries(reply):
                rows[delivery.queue].append(delivery)
    given: list[WorkDelivery] = []
    while any(rows.values()):
        given += [row.popleft() for row in rows.values() if row]
    if failures and not given:
        raise failures[0]
    return given


def _calls(
    op: Take, edge: Edge, spots: Sequence[Spot], mosts: Sequence[int], makes: bool
) -> list[Call]:
    """A call for each slot. Of several, one may fail: what the others gave is delivered."""
    argvs: dict[int, list[Arg]] = {}
    for spot, most in zip(spots, mosts, strict=True):
        argv = argvs.setdefault(spot.slot, [])
        argv += [spot.queue, int(spot.queue in edge.watched), most]
    begin: list[Arg] = [
        *(op.family.code, edge.now_ms(), max(1, RESERVE_MOST_BYTES // len(argvs))),
        *(edge.chance.jitter_ms(), SETTLE_MOST, int(makes)),
        edge.take_stamps(1) if op.patterns else 0,
        int(edge.follows),
    ]
    return [
        Call("take", [slot_key(slot)], begin + argv, makes=makes, may_fail=len(argvs) > 1)
        for slot, argv in argvs.items()
    ]


def _matching(op: Take, edge: Edge) -> Steps:
    """The worklists of these patterns that have something ready, the last read from last."""
    slots: Sequence[int] = yield from known_slots(edge)
    argv = [op.family.code, edge.now_ms(), SETTLE_MOST, _ALARMS_MOST]
    replies = yield [Call("find_busy", [slot_key(slot)], argv) for slot in slots]
    tests = [compile_glob(pattern) for pattern in op.patterns]
    found: dict[bytes, int] = {}
    for reply in replies:
        for name, turn_us in zip(reply[::2], reply[1::2], strict=True):
            if any(test.fullmatch(name) for test in tests):
                found[name] = min(turn_us, found.get(name, turn_us))
    return sorted(found, key=lambda name: (found[name], name))


def _deliveries(reply: Sequence[Any]) -> list[WorkDelivery]:
    if isinstance(reply, QuinqueError):
        raise reply
    given = reply[0]
    return [WorkDelivery(*given[at : at + 5]) for at in range(0, len(given), 5)]


RUNNERS: Final[dict[type[Op], Runner]] = {Take: take}
