"""The steps of each operation.

Called by   served.py.
Calls       the steps of all operations.

Not here: what the steps are, and how their calls travel (served.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quinque.model.families import ITEMS, TUBES
from quinque.model.limits import SETTLE_MOST, SETTLE_MOST_COUNTING
from quinque.model.look_ops import BrowsePlaces, DividePlaces
from quinque.model.ops import Count, Op
from quinque.model.own_ops import Inspect
from quinque.model.tube_ops import BrowseTasks, FindTubes, LookAtTube
from quinque.model.work_ops import Browse, LookAt, ScanMessages, ScanQueues
from quinque.stores.redis import (
    claims,
    cleaning,
    feeds,
    items,
    looks,
    measures,
    nodes,
    pages,
    records,
    reliable,
    sessions,
    stages,
    taking,
    ticks,
    tube_looks,
    tubes,
    whole_queues,
    worklists,
)
from quinque.stores.redis.calls import Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import slot_key

# Looks at all of a queue, or at many queues, which are to find what is due settled.
_COUNTING: Final = frozenset(
    {
        *(Browse, LookAt, ScanQueues, ScanMessages, Count, Inspect),
        *(BrowsePlaces, DividePlaces, BrowseTasks, FindTubes, LookAtTube),
    }
)
_SETTLES_MOST: Final = SETTLE_MOST_COUNTING // SETTLE_MOST

RUNNERS: Final[dict[type[Op], Runner]] = {
    **feeds.RUNNERS,
    **taking.RUNNERS,
    **worklists.RUNNERS,
    **looks.RUNNERS,
    **nodes.RUNNERS,
    **claims.RUNNERS,
    **stages.RUNNERS,
    **pages.RUNNERS,
    **records.RUNNERS,
    **measures.RUNNERS,
    **reliable.RUNNERS,
    **whole_queues.RUNNERS,
    **tubes.RUNNERS,
    **tube_looks.RUNNERS,
    **sessions.RUNNERS,
}
# And what is about queues of items, which lie in other keys.
ITEM_RUNNERS: Final[dict[type[Op], Runner]] = {**items.RUNNERS, **cleaning.RUNNERS}


def steps_of(op: Op, edge: Edge) -> Steps:
    """The steps of the operation, none of which is taken yet."""
    runner = _runner_of(op)
    return _look(runner, op, edge) if type(op) in _COUNTING else runner(op, edge)


def _runner_of(op: Op) -> Runner:
    if getattr(op, "family", None) is ITEMS:
        return ITEM_RUNNERS.get(type(op), items.refuse)
    if getattr(op, "family", None) is TUBES:
        return tube_looks.FAMILY_RUNNERS.get(type(op), tube_looks.refuse)
    return RUNNERS[type(op)]


def _look(runner: Runner, op: Op, edge: Edge) -> Steps:
    """The result of a look, in which SETTLE_MOST_COUNTING due messages are settled. A script
    settles fewer, so where something is still due it is settled by several calls, and looked at
    again."""
    result = yield from runner(op, edge)
    is_changed = False
    for _ in range(_SETTLES_MOST):
        due = next(
            (key for key in _slots_of(op, edge) if edge.alarms.is_due(key, edge.now_ms())), None
        )
        if due is None:
            break
        _, has_settled = yield from ticks.settle_queues(due, edge, is_look=True)
        if not has_settled:
            break
        is_changed = True
    return (yield from runner(op, edge)) if is_changed else result


def _slots_of(op: Op, edge: Edge) -> Iterable[bytes]:
    """The keys of the slots that the operation looks at."""
    queue = getattr(op, "queue", None)
    queues = [queue] if queue is not None else getattr(op, "queues", ())
    slots = {slot for name in queues for slot in edge.spread.read_slots(name)}
    return map(slot_key, slots or edge.slots)
