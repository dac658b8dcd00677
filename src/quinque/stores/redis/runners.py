"""Which steps carry out an operation.

Called by   served.py.
Calls       the steps of all operations.

Not here: what the steps are, and how their calls travel (served.py).
"""

from __future__ import annotations

from typing import Final

from quinque.model.families import ITEMS, TUBES
from quinque.model.ops import Op
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
    tube_looks,
    tubes,
    whole_queues,
    worklists,
)
from quinque.stores.redis.calls import Runner, Steps
from quinque.stores.redis.edge import Edge

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
    if getattr(op, "family", None) is ITEMS:
        return ITEM_RUNNERS.get(type(op), items.refuse)(op, edge)
    if getattr(op, "family", None) is TUBES:
        return tube_looks.FAMILY_RUNNERS.get(type(op), tube_looks.refuse)(op, edge)
    return RUNNERS[type(op)](op, edge)
