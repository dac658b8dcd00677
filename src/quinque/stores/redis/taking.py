"""Handing out messages of worklists: Take, as steps.

Called by   runners.py.
Calls       the scripts take, takeable and find_busy; spread.py.

From one slot, messages are taken at once. From several, all are asked at the same time how much
they have, and then each for its share, so that one comes from each worklist in turn. Messages that
another client took in between are missing then; if that was all, they are asked again. Where one
worklist is to be drained before the next, the first is drained at once, and then those that have
something, one after the other.

One call takes a part of very many messages, from a part of very many worklists; and one that has
removed as many expired messages as it may, and found none that lives, is made again.

Not here: waiting for something to take (server/waiters.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from quinque.errors import Leaving, QuinqueError, StoreUnavailable
from quinque.model.glob import matcher
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
_TAKE_MOST: Final = 1_000  # messages that one call hands out: 2 to 15 ms
_SPOTS_MOST: Final = 250  # worklists that one call is about: 5 to 10 ms


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
        spot = Spot(edge.spread.read_slots(names[0])[0], names[0])
        given = yield from _take_from(
            op, edge, spot, min(op.count, RESERVE_MOST), makes, RESERVE_MOST_BYTES
        )
    elif op.is_drained:
        given = yield from _drain(op, edge, names)
    elif names:
        given = yield from _take_from_many(op, edge, names, makes)
    if not given and op.is_waiting and node.is_leaving:
        raise Leaving
    return given


def _take_from(
    op: Take,
    edge: Edge,
    spot: Spot,
    most: int,
    makes: bool,
    room_bytes: int,
    may_fail: bool = False,
) -> Steps:
    """Up to `most` messages of one worklist; no messages if its call fails and `may_fail`. Other
    clients have their turn between the calls."""
    given: list[WorkDelivery] = []
    settles = most
    while True:
        asked = min(most - len(given), _TAKE_MOST)
        (call,) = _calls(op, edge, [(spot, asked)], makes, room_bytes, settles)
        settles -= _TAKE_MOST
        # Messages that were taken before are delivered, even if a later call fails.
        (reply,) = yield [call._replace(may_fail=may_fail or bool(given))]
        if isinstance(reply, QuinqueError):
            break
        some = _deliveries(reply)
        given += some
        room_bytes -= sum(len(delivery.body) for delivery in some)
        is_full = len(given) >= most or room_bytes <= 0
        if is_full or (len(some) < asked and not reply[2]):
            break
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
            counts, _ = yield from _takeable(op, edge, spots[1:], may_fail=True)
        count, some = counts[spot], []
        if isinstance(count, QuinqueError) and not given:
            raise count
        if not isinstance(count, QuinqueError) and count > 0:
            left = most - len(given)
            # Messages that were taken before are delivered, even if a later queue fails.
            some = yield from _take_from(op, edge, spot, left, False, room_bytes, bool(given))
        given += some
        room_bytes -= sum(len(delivery.body) for delivery in some)
    return given


def _take_from_many(op: Take, edge: Edge, names: Sequence[bytes], makes: bool) -> Steps:
    given: list[WorkDelivery] = []
    if len(names) == 1:
        given = yield from _take_where_believed(op, edge, names[0])
    spots = [Spot(slot, name) for name in names for slot in edge.spread.read_slots(name)]
    tries = 0
    while not given and tries < _AGAIN_MOST:
        counts, is_cut = yield from _takeable(op, edge, spots)
        shares, visited = _share(counts, min(op.count, RESERVE_MOST))
        for spot, count in counts.items():
            if count > shares[spot]:
                edge.spread.believe(spot.queue, [spot.slot])
        wanted = [spot for spot in visited if shares[spot] or (makes and counts[spot] < 0)]
        given, was_cut = yield from _take_shares(op, edge, wanted, shares, makes)
        if not any(shares.values()) and not is_cut:
            break
        # A call that was cut has removed what was in the way: that is not a try.
        tries += not (is_cut or was_cut)
    return given


def _take_where_believed(op: Take, edge: Edge, queue: bytes) -> Steps:
    """From one partition after the other where something is believed to be, until it is enough."""
    most, room_bytes = min(op.count, RESERVE_MOST), RESERVE_MOST_BYTES
    given: list[WorkDelivery] = []
    while len(given) < most and room_bytes > 0:
        slot = edge.spread.next_believed(queue)
        if slot is None:
            break
        asked = min(most - len(given), _TAKE_MOST)
        (call,) = _calls(op, edge, [(Spot(slot, queue), asked)], False, room_bytes)
        (reply,) = yield [call._replace(may_fail=bool(given))]
        if isinstance(reply, QuinqueError):  # what others gave is not lost with it
            edge.spread.doubt(queue, slot)
            break
        some = _deliveries(reply)
        given += some
        room_bytes -= sum(len(delivery.body) for delivery in some)
        if not reply[2] and (not some or not reply[1]):  # nothing, or nothing left
            edge.spread.doubt(queue, slot)
    return given


def _takeable(op: Take, edge: Edge, spots: Sequence[Spot], *, may_fail: bool = False) -> Steps:
    """Return how many messages each could deliver: -1 for a queue that does not exist, and with
    `may_fail` the error of one that cannot be read. Return also whether more is due than was
    settled."""
    by_slot: dict[object, list[Spot]] = {}
    for spot in spots:
        by_slot.setdefault(spot if may_fail else spot.slot, []).append(spot)
    groups = [
        some[at : at + _SPOTS_MOST]
        for some in by_slot.values()
        for at in range(0, len(some), _SPOTS_MOST)
    ]
    calls = []
    most = min(op.count, RESERVE_MOST)
    for some in groups:
        argv: list[Arg] = [op.family.code, edge.now_ms(), SETTLE_MOST, most]
        for spot in some:
            argv += [spot.queue, int(spot.queue in edge.watched)]
        calls.append(Call("takeable", [slot_key(some[0].slot)], argv, may_fail=may_fail))
    replies = yield calls
    counted: dict[Spot, Any] = {}
    is_cut = False
    for some, row in zip(groups, replies, strict=True):
        is_error = isinstance(row, QuinqueError)
        counted.update((spot, row if is_error else row[at]) for at, spot in enumerate(some))
        is_cut |= not is_error and row[len(some)] == 1
    return {spot: counted[spot] for spot in spots}, is_cut


def _share(counts: dict[Spot, int], most: int) -> tuple[dict[Spot, int], list[Spot]]:
    """Return how many messages come from each spot, one of each in turn; and the spots that these
    turns visit."""
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
    """Take the messages of these shares that still exist, one of each work queue in turn. Return
    also whether a call gave up among expired messages, and must be repeated."""
    if not spots:
        return [], False
    found = yield _calls(
        op, edge, [(spot, shares[spot]) for spot in spots], makes, RESERVE_MOST_BYTES
    )
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
        # An unknown outcome of one server outweighs a refusal of another.
        raise next((it for it in failures if isinstance(it, StoreUnavailable)), failures[0])
    return given, any(reply[2] for reply in found if not isinstance(reply, QuinqueError))


def _calls(
    op: Take,
    edge: Edge,
    shares: Sequence[tuple[Spot, int]],
    makes: bool,
    room_bytes: int,
    settles: int = 0,
) -> list[Call]:
    """Calls that take these shares, each of one slot. If there are several, one may fail: the
    messages of the others are delivered."""
    by_slot: dict[int, list[tuple[Spot, int]]] = {}
    for spot, share in shares:
        by_slot.setdefault(spot.slot, []).append((spot, share))
    parts = [(slot, part) for slot, some in by_slot.items() for part in _parts(some)]
    begin: list[Arg] = [
        *(op.family.code, edge.now_ms(), max(1, room_bytes // len(parts))),
        *(edge.chance.jitter_ms(), SETTLE_MOST, int(makes)),
        edge.take_stamps(1) if op.patterns else 0,
        int(edge.follows),
        settles,
    ]
    calls = []
    for slot, part in parts:
        argv = list(begin)
        for spot, share in part:
            argv += [spot.queue, int(spot.queue in edge.watched), share]
        calls.append(Call("take", [slot_key(slot)], argv, makes=makes, may_fail=len(parts) > 1))
    return calls


def _parts(shares: Sequence[tuple[Spot, int]]) -> Iterator[list[tuple[Spot, int]]]:
    """The same shares, in parts that one call may take."""
    part: list[tuple[Spot, int]] = []
    room = _TAKE_MOST
    for spot, share in shares:
        left = share
        while True:
            some = min(left, room)
            part.append((spot, some))
            left, room = left - some, room - some
            if room == 0 or len(part) == _SPOTS_MOST:
                yield part
                part, room = [], _TAKE_MOST
            if left == 0:
                break
    if part:
        yield part


def _matching(op: Take, edge: Edge) -> Steps:
    """The worklists of these patterns that have something ready, the last read from last."""
    slots: Sequence[int] = yield from known_slots(edge)
    if op.is_waiting:  # a client that waits looks again
        slots = [slot for slot in slots if slot not in edge.empty.believed]
    argv = [op.family.code, edge.now_ms(), SETTLE_MOST, _ALARMS_MOST]
    replies = yield [Call("find_busy", [slot_key(slot)], argv) for slot in slots]
    matches = matcher(op.patterns)
    found: dict[bytes, int] = {}
    for reply in replies:
        for name, turn_us in zip(reply[::2], reply[1::2], strict=True):
            if matches(name):
                found[name] = min(turn_us, found.get(name, turn_us))
    return sorted(found, key=lambda name: (found[name], name))


def _deliveries(reply: Sequence[Any]) -> list[WorkDelivery]:
    if isinstance(reply, QuinqueError):
        raise reply
    given = reply[0]
    return [WorkDelivery(*given[at : at + 6]) for at in range(0, len(given), 6)]


RUNNERS: Final[dict[type[Op], Runner]] = {Take: take}
