"""The operations on worklists that number their messages, as steps: complete, recover, undeliver
and inspect.

Called by   runners.py.
Calls       the scripts complete, recover, undeliver and inspect.

Such a worklist lies only in the slot of its name: ids are numbered slot by slot, so an id alone
does not say where to look.

Not here: adding and handing out, which are as in all worklists (worklists.py, taking.py); what is
about a queue as a whole (whole_queues.py).
"""

from __future__ import annotations

from typing import Final

from quinque.errors import QuinqueError
from quinque.model.limits import RESERVE_MOST, RESERVE_MOST_BYTES, SETTLE_MOST_COUNTING
from quinque.model.ops import Op
from quinque.model.own_ops import Complete, Inspect, Inspected, Recover, Undeliver
from quinque.model.work_ops import WorkDelivery
from quinque.stores.redis.calls import Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import slot_key, slot_of
from quinque.stores.redis.worklists import about_queue

_TOGETHER_MOST: Final = 2_500  # messages that one call is about: 5 to 10 ms
_UNDELIVER_MOST: Final = 1_000  # messages that one call makes ready: some 10 ms
_START_MOST: Final = 1 << 53  # a worklist has fewer messages


def complete(op: Complete, edge: Edge) -> Steps:
    ids = list(dict.fromkeys(op.message_ids))
    flags: list[int] = []
    for at in range(0, len(ids) or 1, _TOGETHER_MOST):
        some = ids[at : at + _TOGETHER_MOST]
        argv = [*about_queue(op.family, op.queue, edge), int(op.is_leased), *some]
        (reply,) = yield [Call("complete", [_home(op.queue)], argv)]
        if reply is None and not at:
            return None
        flags += reply or [0] * len(some)
    if len(ids) == len(op.message_ids):  # none twice, as mostly
        return [is_done == 1 for is_done in flags]
    done = {id for id, is_done in zip(ids, flags, strict=True) if is_done}
    results: list[bool] = []
    for id in op.message_ids:
        results.append(id in done)
        done.discard(id)
    return results


def recover(op: Recover, edge: Edge) -> Steps:
    most, room_bytes = max(0, min(op.count, RESERVE_MOST)), RESERVE_MOST_BYTES
    given: list[WorkDelivery] = []
    while True:
        asked = min(most - len(given), _TOGETHER_MOST)
        argv = [*about_queue(op.family, op.queue, edge), asked, op.elapsed_ms, room_bytes]
        # Messages that were taken before are delivered, even if a later call fails.
        (row,) = yield [Call("recover", [_home(op.queue)], argv, may_fail=bool(given))]
        if row is None and not given:
            return None
        if row is None or isinstance(row, QuinqueError):
            return given
        for at in range(0, len(row), 4):
            given.append(WorkDelivery(op.queue, *row[at : at + 4]))
            room_bytes -= len(row[at + 1])
        if len(row) < 4 * asked or len(given) == most or room_bytes <= 0:
            return given


def undeliver(op: Undeliver, edge: Edge) -> Steps:
    calls = []
    for queue in dict.fromkeys(delivery.queue for delivery in op.deliveries):
        some = [delivery for delivery in op.deliveries if delivery.queue == queue]
        for at in range(0, len(some), _UNDELIVER_MOST):
            argv = about_queue(op.family, queue, edge)
            for delivery in some[at : at + _UNDELIVER_MOST]:
                argv += [delivery.message_id, delivery.lease]
            calls.append(Call("undeliver", [_home(queue)], argv))
    replies = yield calls
    return sum(replies)


def inspect(op: Inspect, edge: Edge) -> Steps:
    start = max(-_START_MOST, min(op.start, _START_MOST))
    most, room_bytes = max(0, min(op.count, RESERVE_MOST)), RESERVE_MOST_BYTES
    found: list[Inspected] = []
    while True:
        asked = min(most - len(found), _TOGETHER_MOST)
        argv = about_queue(op.family, op.queue, edge, SETTLE_MOST_COUNTING)
        argv += [int(op.is_leased), start + len(found), asked, room_bytes]
        (row,) = yield [Call("inspect", [_home(op.queue)], argv)]
        if row is None:
            return found or None
        for at in range(0, len(row), 4):
            found.append(Inspected(*row[at : at + 4]))
            room_bytes -= len(row[at + 1])
        is_end = start < 0 <= start + len(found)  # it counts from the end, and has come there
        if is_end or len(row) < 4 * asked or len(found) == most or room_bytes <= 0:
            return found


def _home(queue: bytes) -> bytes:
    return slot_key(slot_of(queue))


RUNNERS: Final[dict[type[Op], Runner]] = {
    Complete: complete,
    Recover: recover,
    Undeliver: undeliver,
    Inspect: inspect,
}
