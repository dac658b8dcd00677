"""Operations on reliable and items queues, as RQ.* and WQ.* requests.

Called by   broker.py, through CALLS; work_calls.py, for operations that all work queues share.
Calls       calls.py for the shape of a row, tube_calls.py.

Not here: the other families (work_calls.py), what a command takes (dialects/redisrq.py,
workqueue.py, keys.py).
"""

from __future__ import annotations

from typing import Any, Final

from quinque.client.calls import Call, Request, as_map, asks, seconds
from quinque.client.parts import parts
from quinque.client.tube_calls import CALLS as TUBE_CALLS
from quinque.errors import BadArgument, EmptyKey
from quinque.model.families import BY_NAME, EVENTS, ITEMS, JOBS, RELIABLE, TUBES, Family
from quinque.model.ops import Op
from quinque.model.own_ops import (
    RELIABLE_TERMS,
    AddItems,
    Complete,
    ExtendLeases,
    Inspect,
    Inspected,
    Recover,
    Undeliver,
)
from quinque.model.queue_ops import DeleteQueues, FindFamilies
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    Browse,
    LookAt,
    QueueView,
    ScanQueues,
    Show,
    Take,
    WorkDelivery,
    WorkView,
)

_TYPES: Final = {JOBS: JOBS.name, RELIABLE: "RELIABLEQ", ITEMS: ITEMS.name, TUBES: TUBES.name}
_FAMILIES: Final = {"RELIABLEQ": RELIABLE, **BY_NAME}
_ITEM_STATES: Final = {State.READY: "queued", State.LEASED: "processing"}
_LONG_MS: Final = 30_000  # a lease of this length still runs when the request is sent again
_NO_LIMIT: Final = 1 << 62  # means no limit in ScanQueues


def add(op: Add) -> list[Request]:
    """Make RQ.PUSH or WQ.ADD. Only elements are added without an id."""
    _is_of(op, op.family, RELIABLE)
    if op.terms != RELIABLE_TERMS or op.key is not None or op.max_length:
        raise BadArgument("RQ.PUSH takes no terms, no key and no limit")
    return [["RQ.PUSH", op.queue, *some] for some in parts(op.bodies)]


def added(op: Add, replies: list[list[bytes]]) -> list[bytes]:
    return [id for ids in replies for id in ids]


def take(op: Take, wait_ms: int) -> Request:
    """Make RQ.POP or WQ.LEASE."""
    block: Request = ["BLOCK", wait_ms] if wait_ms else []
    if op.patterns:
        raise BadArgument(f"queues of the family {op.family.name} are named, not matched")
    if op.family is RELIABLE:
        if len(op.queues) > 1 and not op.is_drained:
            raise BadArgument("RQ.POP drains one queue after the other")
        # The broker could read three names as BLOCK, its number and a name, unless BLOCK is given.
        block = ["BLOCK", wait_ms] if len(op.queues) > 2 else block
        return ["RQ.POP", "COUNT", op.count, *block, *op.queues]
    if len(op.queues) != 1:
        raise BadArgument("WQ.LEASE is for one queue")
    return ["WQ.LEASE", op.queues[0], op.lease_ms, "COUNT", op.count, *block]


def taken(op: Take, reply: Any) -> list[WorkDelivery]:
    if op.family is RELIABLE:
        return [WorkDelivery(queue, id, body, 0, 0) for queue, id, body in reply or ()]
    return [WorkDelivery(op.queues[0], id, body, 0, 0) for id, body in reply or ()]


def look_at(op: LookAt) -> Request:
    return ["RQ.INFO" if op.family is RELIABLE else "WQ.LEN", op.queue]


def looked_at(op: LookAt, reply: Any) -> QueueView | None:
    """Read the number of ready and leased messages. These families have no other state and no
    settings. Values that the reply does not have are None."""
    if reply is None:
        return None
    ready, leased = as_map(reply).values()
    return QueueView(
        op.queue,
        ready,
        delayed=0,
        leased=leased,
        dead=0,
        age_ms=None,
        idle_ms=None,
        came=None,
        went=None,
        is_paused_in=False,
        is_paused_out=False,
        max_deliveries=0,
        rate_count=0,
        rate_ms=0,
    )


def peek(op: Browse) -> Request:
    _is_of(op, op.family, ITEMS)
    if op.count < 1 or op.state not in _ITEM_STATES:
        raise BadArgument("WQ.PEEK is for the first items, ready or leased")
    return ["WQ.PEEK", op.queue, "STATE", _ITEM_STATES[op.state], "COUNT", op.count]


def show(op: Show) -> Request:
    _is_of(op, op.family, ITEMS)
    return ["WQ.SHOW", op.queue, op.message_id]


def item_view(queue: bytes, reply: Any) -> WorkView:
    """Read the reply of WQ.PEEK or WQ.SHOW. Values that it does not have are None."""
    id, word, left_ms, data = reply
    state = State.LEASED if word == b"processing" else State.READY
    return WorkView(
        queue,
        id,
        data,
        state,
        place=None,
        terms=None,
        ttl_left_ms=None,
        due_within_ms=left_ms,
        nacks=None,
        requeues=None,
        deliveries=None,
        max_deliveries=None,
        reason=b"",
        key=None,
    )


def has_limits(op: ScanQueues) -> bool:
    """Return whether the request selects queues by the number of their ready messages."""
    return op.least > 0 or op.most != _NO_LIMIT


def scan(op: ScanQueues) -> Request:
    if has_limits(op):
        raise BadArgument("SCAN does not look at how many messages are ready")
    return ["SCAN", op.cursor, "COUNT", op.count, "TYPE", _TYPES[op.family]]


def _complete(op: Complete) -> list[Request]:
    if op.is_leased != (op.family is RELIABLE):
        raise BadArgument("RQ.ACK is for what is leased, and WQ.COMPLETE for all there is")
    word = "RQ.ACK" if op.family is RELIABLE else "WQ.COMPLETE"
    if op.family is RELIABLE:
        return [[word, op.queue, *some] for some in parts(op.message_ids)]
    return [[word, op.queue, id] for id in op.message_ids]


def _completed(op: Complete, replies: list[Any]) -> list[bool] | None:
    if op.family is ITEMS:
        return [bool(reply) for reply in replies]
    if None in replies:
        return None
    done = {id for ids in replies for id in ids}
    were_so = []
    for id in op.message_ids:
        were_so.append(id in done)
        done.discard(id)
    return were_so


def _recover(op: Recover) -> Request:
    _is_of(op, op.family, RELIABLE)
    return ["RQ.RECOVER", op.queue, op.count, op.elapsed_ms]


def _recovered(op: Recover, replies: list[Any]) -> list[WorkDelivery] | None:
    [reply] = replies
    if reply is None:
        return None
    return [WorkDelivery(op.queue, id, body, 0, 0) for id, body in reply or ()]


def _undeliver(op: Undeliver) -> list[Request]:
    _is_of(op, op.family, RELIABLE)
    by_queue: dict[bytes, list[bytes]] = {}
    for delivery in op.deliveries:
        by_queue.setdefault(delivery.queue, []).append(delivery.message_id)
    return [["RQ.UNPOP", queue, *some] for queue, ids in by_queue.items() for some in parts(ids)]


def _undelivered(op: Undeliver, replies: list[int]) -> int:
    return sum(replies)


def _inspect(op: Inspect) -> Request:
    _is_of(op, op.family, RELIABLE)
    pending = ["PENDING"] if op.is_leased else []
    return ["RQ.INSPECT", op.queue, *pending, op.start, op.count]


def _inspected(op: Inspect, replies: list[Any]) -> list[Inspected] | None:
    [reply] = replies
    if reply is None:
        return None
    if not op.is_leased:
        return [Inspected(id, body, 0, 0) for id, body in reply or ()]
    return [Inspected(id, body, at_ms, deliveries) for id, body, at_ms, _, deliveries in reply]


def _add_items(op: AddItems) -> list[Request]:
    word = "WQ.ADDUNIQUE" if op.is_known_new else "WQ.ADD"
    pairs = zip(op.message_ids, op.bodies, strict=True)
    return [[word, op.queue, id, body] for id, body in pairs]


def _extend(op: ExtendLeases) -> list[Request]:
    if op.family is EVENTS:
        words: Request = ["QEXTEND", op.queue, op.group, seconds(op.lease_ms)]
        return [[*words, id] for id in op.message_ids]
    return [["WQ.EXTEND", op.queue, op.lease_ms, id] for id in op.message_ids]


def _each_whether(op: Op, replies: list[Any]) -> list[bool]:
    """Read the reply of WQ.ADDUNIQUE, which does not report each item: assume that each was
    added."""
    return [bool(reply) for reply in replies]


def _find_families(op: FindFamilies) -> list[Request]:
    return [["TYPE", queue] for queue in op.queues]


def _families(op: FindFamilies, replies: list[bytes]) -> list[Family | None]:
    return [_FAMILIES.get(reply.decode()) for reply in replies]


def _delete(op: DeleteQueues) -> Request:
    _is_of(op, op.family, RELIABLE)
    return ["DEL", *op.queues]


def _is_of(op: Op, family: Family, only: Family) -> None:
    if family is not only:
        raise BadArgument(f"{type(op).__name__} has no words for the family {family.name}")


CALLS: Final[dict[type[Op], Call]] = {
    # Items that are finished already are not changed, and reported as missing.
    Complete: Call(_complete, _completed, is_safe=True),
    # A repeat would deliver more messages than requested.
    Recover: Call(lambda op: [_recover(op)], _recovered, is_safe=False),
    # Another consumer may hold the element by then.
    Undeliver: Call(_undeliver, _undelivered, is_safe=False),
    # An existing item is not changed.
    AddItems: Call(_add_items, _each_whether, is_safe=True),
    # The lease is extended again. A short lease may have ended, and another consumer may have the
    # item.
    ExtendLeases: Call(_extend, _each_whether, is_safe=lambda op: op.lease_ms >= _LONG_MS),
    # Another client may have created the queue again.
    DeleteQueues: asks(_delete, int, is_safe=False),
    # The other operations change nothing.
    Inspect: Call(lambda op: [_inspect(op)], _inspected, is_safe=True, absent=EmptyKey),
    FindFamilies: Call(_find_families, _families, is_safe=True),
    **TUBE_CALLS,
}
