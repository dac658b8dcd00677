"""The names of spans, after OpenTelemetry's conventions for messaging.

Called by   aio/traced_runner.py.
Calls       nothing.

    send       what adds messages         PRODUCER
    receive    what takes them            CLIENT
    settle     what ends or returns them  CLIENT

Not here: spans of handlers (worker/tracing.py).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from quinque.model.ops import Ack, Op, Put, Release, Reserve
from quinque.model.own_ops import AddItems, Complete, Recover
from quinque.model.tube_ops import AckTasks, BuryTasks, PutTasks, ReleaseTasks, TakeTasks
from quinque.model.work_ops import Add, Finish, Requeue, Take

SEND, RECEIVE, SETTLE = "send", "receive", "settle"

_TYPES: Final[dict[type[Op], str]] = {
    **dict.fromkeys((Add, Put, AddItems, PutTasks), SEND),
    **dict.fromkeys((Take, Reserve, Recover, TakeTasks), RECEIVE),
    **dict.fromkeys((Finish, Ack, Complete, AckTasks), SETTLE),
    **dict.fromkeys((Requeue, Release, ReleaseTasks, BuryTasks), SETTLE),
}


class Named(NamedTuple):
    name: str
    kind: str  # of opentelemetry.trace.SpanKind
    attributes: dict[str, str | int]


def span_of(op: Op) -> Named | None:
    """Return the span of an operation, or None if it has no span."""
    type_ = _TYPES.get(type(op))
    if type_ is None:
        return None
    told: Any = op
    name = type(op).__name__.lower()
    attributes: dict[str, str | int] = {
        "messaging.system": "quinque",
        "messaging.operation.name": name,
        "messaging.operation.type": type_,
    }
    # Jobs are settled by their ids alone, and may be taken from several queues.
    queues = [told.queue] if hasattr(told, "queue") else list(getattr(told, "queues", ()))
    where = ",".join(queue.decode("utf-8", "replace") for queue in queues)
    if where:
        attributes["messaging.destination.name"] = where
    messages = getattr(told, "bodies", None) or getattr(told, "message_ids", None)
    if messages:
        attributes["messaging.batch.message_count"] = len(messages)
    if getattr(told, "group", b""):
        attributes["messaging.consumer.group.name"] = told.group.decode("utf-8", "replace")
    kind = "PRODUCER" if type_ == SEND else "CLIENT"
    return Named(f"{name} {where}".rstrip(), kind, attributes)
