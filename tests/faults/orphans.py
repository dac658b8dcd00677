"""A broker dies while its clients hold messages and others wait: they come back at another broker.

Called by   redis_faults.py (its table).
Calls       load_events.py and load_jobs.py (how requests are written).

    holders ══▶ broker A ✗         every message was given out at A, and A is killed
    readers ══▶ A, B               who waited at A waits on at B; each message comes to one of them,
                                   when its lease is over, and is acked there

Not here: the load of the other faults (redis_run.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from tests.faults import load_events, load_jobs
from tests.faults.job_history import JobOperation
from tests.faults.redis_run import Stage
from tests.faults.total_queue import Operation
from tests.server.broker import RunningBroker
from tests.server.resp import TIMEOUT_S, Client

MESSAGES: Final = 8  # of each family
READERS: Final = 4  # of each family, half of them at each broker
FEED, GROUP, LEASE_S = "one", "careful", 1.0
WORKLIST, RETRY_S, JITTER_S = "brisk", 1, 0.25
WAIT_S: Final = 20  # at most, for one message


def orphan_leases(stage: Stage) -> None:
    """All that was held at one broker came back at the other, and was acked."""
    lost, kept = stage.chance.sample(stage.brokers, 2)
    name = f"strike{stage.counts['strikes']}"
    with lost.connect() as holder:
        for number in range(MESSAGES):
            _event(stage, holder, "add", key=f"{name}-{number}-64", span_s=load_events.LIFE_S)
            options = ["RETRY", str(RETRY_S), "TTL", str(load_jobs.DAY_S)]
            _job(stage, holder, "add", [WORKLIST], body=f"{name}-{number}-64", options=options)
        for _ in range(MESSAGES):
            _event(stage, holder, "get", span_s=LEASE_S)
            _job(stage, holder, "get", [WORKLIST], options=["NOHANG", "COUNT", "1"])
        held_ns = time.monotonic_ns()
        readers = [
            threading.Thread(target=read, args=(stage, (lost, kept)[number % 2], kept))
            for read in (_read_events, _read_jobs)
            for number in range(READERS)
        ]
        for reader in readers:
            reader.start()
        lost.kill()
    stage.counts["brokers killed"] += 1
    stage.counts["messages held there"] += 2 * MESSAGES
    for reader in readers:
        reader.join(TIMEOUT_S)
    late_ms = round((time.monotonic_ns() - held_ns) / 1e6 - 1000 * (RETRY_S + JITTER_S))
    latest = "last back, ms after the last lease was over"
    stage.counts[latest] = max(stage.counts[latest], late_ms)
    lost.restart()


def _read_events(stage: Stage, broker: RunningBroker, other: RunningBroker) -> None:
    def read(client: Client) -> bool:
        client.call("QNOTIFY", GROUP, WAIT_S, FEED)
        get = _event(stage, client, "get", span_s=load_events.LEASES_S[-1])
        if get.id:
            _event(stage, client, "ack", key=get.id)
        return bool(get.id)

    _read_all(read, broker, other)


def _read_jobs(stage: Stage, broker: RunningBroker, other: RunningBroker) -> None:
    def read(client: Client) -> bool:
        options = ["TIMEOUT", str(1000 * WAIT_S), "COUNT", "1"]
        get = _job(stage, client, "get", [WORKLIST], options=options)
        for row in get.rows:
            _job(stage, client, "ack", ids=[row[1]], options=["ACKJOB"])
        return bool(get.rows)

    _read_all(read, broker, other)


def _read_all(read: Callable[[Client], bool], broker: RunningBroker, other: RunningBroker) -> None:
    """A reader's share was read; at the other broker, once the first is gone."""
    left, ends_s = MESSAGES // READERS, time.monotonic() + TIMEOUT_S
    while left and time.monotonic() < ends_s:
        try:
            with broker.connect() as client:
                while left and time.monotonic() < ends_s:
                    left -= read(client)
        except (OSError, EOFError):
            broker = other


def _event(
    stage: Stage, client: Client, verb: Any, *, key: str = "", span_s: float = 0.0
) -> Operation:
    group = "" if verb == "add" else GROUP
    name = threading.current_thread().name
    op = Operation(name, verb, FEED, group, key, span_s, time.monotonic_ns())
    stage.history["events"].append(op)
    client.send(*load_events.words_of(op))
    load_events.take_answer(op, client.value())
    return op


def _job(
    stage: Stage,
    client: Client,
    verb: Any,
    queues: list[str] | None = None,
    *,
    ids: list[str] | None = None,
    body: str = "",
    options: list[str] | None = None,
) -> JobOperation:
    name = threading.current_thread().name
    op = JobOperation(name, verb, queues or [], ids or [], body, options or [], time.monotonic_ns())
    stage.history["jobs"].append(op)
    client.send(*load_jobs.words_of(op))
    load_jobs.take_answer(op, client.value())
    return op
