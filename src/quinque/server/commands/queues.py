"""QUEUES: how much is in each queue and what became of its messages, all queues at once.

Called by   dispatch.py, through COMMANDS.
Calls       measuring.py, which asks the store some queues at a time, and others are served
            meanwhile.

Each broker counts for itself what becomes of messages, starting with the first request for it.

Not here: the same for Prometheus (metrics.py), names only (dialects/keys.py: SCAN), what a family
shows for one queue (its dialect).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from quinque.dialects.args import check_count
from quinque.dialects.command import Command
from quinque.dialects.keys import GROUP, of_any
from quinque.dialects.options import read_any_queue
from quinque.errors import NotDone
from quinque.model.lifecycle import Kind
from quinque.model.measure_ops import QueueMeasure
from quinque.server.connection import Connection
from quinque.server.measuring import Reading, measure
from quinque.server.metric_reads import NO_CAUSE
from quinque.stores.pending import Pending
from quinque.wire.resp import Value

_RETURNED: Final = "returned"  # not if it was not delivered: a delay began, or was over
# The counts of each queue, and the changes that each of them sums up.
COUNTED: Final = {
    "added": (Kind.ADDED,),
    "delivered": (Kind.DELIVERED,),
    "acked": (Kind.ACKED,),
    _RETURNED: (Kind.RETURNED, Kind.DELAYED),
    "died": (Kind.DEAD,),
    "expired": (Kind.EXPIRED,),
    "removed": (Kind.REMOVED,),
}
# Readings that are not finished: the loop itself would let go of them.
_UNDER_WAY: Final[set[asyncio.Task[Reading]]] = set()


def run_queues(connection: Connection, argv: list[bytes]) -> Pending:
    """QUEUES [queue ...]

    Return the message counts of each queue, or of these, and what happened to its messages
    since the first QUEUES request to this broker. The reply is the number of queues left out,
    because other queues have more messages, and a map for each of the others. Queues of families
    that the user may not use do not count.
    """
    check_count("queues", argv[1:])
    names = frozenset(read_any_queue(name) for name in argv[1:])
    answer = Pending()
    broker = connection.broker

    def sees(found: QueueMeasure) -> bool:
        return connection.sees_family(found.family.name) and connection.sees(found.queue)

    task = broker.loop.create_task(measure(broker, names, sees))
    _UNDER_WAY.add(task)
    task.add_done_callback(partial(_settle, answer))
    return answer


def _settle(answer: Pending, task: asyncio.Task[Reading]) -> None:
    _UNDER_WAY.discard(task)
    if task.cancelled():
        answer.fail(NotDone("the broker is stopping"))
        return
    reading = task.result()
    if not reading.has_asked:
        answer.fail(NotDone(reading.store.trouble or "the store has not reported all its queues"))
        return
    queues: list[Value] = [_queue(found, reading.now_ms) for found in reading.queues]
    answer.settle([reading.queues_left_out, queues])


def _queue(found: QueueMeasure, now_ms: int) -> Value:
    oldest_ms = None if found.first_ms is None else max(0, now_ms - found.first_ms)
    told: dict[bytes | str, Value] = {
        "name": found.queue,
        "family": found.family.name.encode(),
        "ready": found.ready,
        "leased": found.leased,
        "delayed": found.delayed,
        "dead": found.dead,
        "claimed": found.claimed,
        "kept": found.kept,
        "oldest-ms": oldest_ms,
    }
    for word, kinds in COUNTED.items():
        told[word] = sum(
            number
            for code, number in found.changes.items()
            if code >> 8 in kinds and (word != _RETURNED or code & 0xFF not in NO_CAUSE)
        )
    told["groups"] = [
        {"name": group.name, "ready": group.ready, "leased": group.leased} for group in found.groups
    ]
    return told


COMMANDS: Final = [
    Command(
        "QUEUES",
        GROUP,
        "read",
        -1,
        run=run_queues,
        queues=lambda argv: argv[1:],
        family=of_any,
        in_multi="refused",  # other clients are served before it has its answer
    )
]
