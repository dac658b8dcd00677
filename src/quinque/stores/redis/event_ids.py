"""Ids of events: microseconds that no other broker, and no other queue, gives out.

Called by   feeds.py and stages.py (each addition of events), served.py (opens, renews, closes).
Calls       the scripts event_share and open.

An id is a time in microseconds and is unique in the whole store. A slot knows only its own last
id, and a script uses only one slot, so the microseconds are divided. Each broker has a share of
them, by a number that Redis leases to it:

    number        microseconds         ids per second
    0             0 mod 2                     500,000
    1 to 2        1 mod 4, in 2 parts         125,000
    3 to 6        3 mod 8, in 4 parts          31,250
    7 to 22       7 mod 16, in 16 parts         3,906
    23 to 150     15 mod 16, in 128 parts         488

An id is later than the last id of its slot, which the broker does not know: a script moves ids on
if another broker was in the slot. So a broker does not use the same microseconds for two slots at
once. It divides its share again, into lanes. A slot with an addition under way has a lane for
itself, in which its script may move ids on. When all lanes are in use, the other slots use one more
lane together: there, ids that were moved on can be equal in two slots. To refuse such an addition
and to make it again would change the order of events.

Not here: how a script makes the ids (scripts/lib/feed_put_in.lua).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from quinque.errors import LimitReached, QuinqueError, StoreUnavailable
from quinque.stores.redis.calls import Arg, Call, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.event_lanes import BROKERS_MOST, REST_MS, Lane
from quinque.stores.redis.keys import EVENT_IDS, slot_key
from quinque.stores.redis.slots import known_slots

_KEEP_EVERY_MS: Final = 15_000
# After this time without an answer the broker makes no ids: additions under way are over by the end
# of the lease, after which another broker may get the number. The lease is as short as that allows,
# because the number of a broker that was killed is in use until then.
_USED_MOST_MS: Final = 60_000


def join(edge: Edge, *, may_fail: bool = False) -> Steps:
    """This broker has a number, if one is free. The last places of all slots are to be read after
    this, because another broker may have had the number before. If it `may_fail`, because Redis is
    full for example, the first addition of events asks for the number."""
    lanes = edge.event_lanes
    asked_ms = edge.now_ms()
    # By the clock of Redis, from now on.
    lease_ms = _USED_MOST_MS + max(REST_MS, edge.timeout_ms)
    argv: list[Arg] = [lanes.token, lease_ms, BROKERS_MOST]
    (number,) = yield [Call("event_share", [EVENT_IDS], argv, may_fail=may_fail)]
    if isinstance(number, QuinqueError):
        return
    lanes.kept_ms = asked_ms
    if number != lanes.number:
        lanes.divide(number)


def keep(edge: Edge) -> Steps:
    """The number is this broker's for longer. Called once a second, and does this now and then."""
    if edge.now_ms() - edge.event_lanes.kept_ms > _KEEP_EVERY_MS:
        yield from _join_again(edge)


def leave(edge: Edge) -> Steps:
    """Give the number back, unless an addition may be under way: then its lease ends by itself."""
    lanes = edge.event_lanes
    if lanes.number >= 0 and lanes.is_idle(edge.now_ms()):
        yield [Call("event_share", [EVENT_IDS], [lanes.token, 0, BROKERS_MOST])]


def add_in_lane(edge: Edge, slot: int, count: int, make: Callable[[int, Lane], Call]) -> Steps:
    """The lane in which `count` events were added, and the reply of the call that added them.
    `make` gets the first id and the lane.

    Raises LimitReached when all numbers are leased to other brokers.
    """
    lanes = edge.event_lanes
    if lanes.number < 0 or edge.now_ms() - lanes.kept_ms > _USED_MOST_MS:
        yield from _join_again(edge)
        if lanes.number < 0:
            raise LimitReached(
                f"{BROKERS_MOST} brokers use this store already: this one cannot add events"
            )
    from_us = max(edge.now_us(), edge.stamp_us + 1)
    lane, first_us = lanes.enter(slot, from_us, count, edge.now_ms())
    # In a lane of its own, the slot decides where the others are.
    before_us = edge.stamp_us
    edge.stamp_us = last_us = first_us + (count - 1) * lane.step * lane.is_common
    try:
        (reply,) = yield [make(first_us, lane)]
    except StoreUnavailable:
        lanes.leave_unknown(lane, edge.now_ms())
        raise
    except QuinqueError:
        lanes.leave(lane)
        if edge.stamp_us == last_us:  # no later ones are in use
            edge.stamp_us = before_us
        raise
    lanes.leave(lane)
    return lane, reply


def lane_words(first_us: int, lane: Lane | None) -> list[Arg]:
    """The arguments of a script that adds events: the first place, the step to the next id."""
    return [first_us, 1 if lane is None else lane.step]


def _join_again(edge: Edge) -> Steps:
    before = edge.event_lanes.number
    yield from join(edge)
    if edge.event_lanes.number not in (before, -1):
        slots: Sequence[int] = yield from known_slots(edge)
        rows = yield [Call("open", [slot_key(slot)], []) for slot in slots]
        edge.stamp_us = max([edge.stamp_us, *(row[1] for row in rows)])
