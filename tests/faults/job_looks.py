"""Look at every job and every queue of a broker that nobody else uses; work all of them off.

Called by   kill_loop.py, after each restart and in the end; tests of restarts.
Calls       load_jobs.py (how requests are written), tests/server/resp.py.

Not here: whether what is seen is right (job_checks.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from tests.faults.bodies import name_of
from tests.faults.job_history import JobOperation, JobView, QueueView, Snapshot, Verb
from tests.faults.load_jobs import KEYS, QUEUES, take_answer, words_of
from tests.server.broker import RunningBroker
from tests.server.resp import Client, Refusal, meaning, request

AT_ONCE = 200
ALL = 1 << 40


def look(broker: RunningBroker) -> Snapshot:
    """All there is."""
    with broker.connect() as client:
        snapshot = Snapshot(time.monotonic_ns(), 0)
        for view in show(client, all_ids(client)):
            snapshot.jobs[view.id] = view
        for queue in QUEUES:
            if (found := _look_at(client, queue)) is not None:
                snapshot.queues[queue] = found
            for key in KEYS[queue]:
                if (id := client.call("FINDJOB", queue, key)) is not None:
                    snapshot.keys[queue, key] = id.decode()
    snapshot.answered_ns = time.monotonic_ns()
    return snapshot


def drain(broker: RunningBroker) -> list[JobOperation]:
    """Every job that can be delivered is, and every job is acked; what was seen doing so."""
    history: list[JobOperation] = []
    with broker.connect() as client:
        for queue in QUEUES:
            history += _ask(client, "pause", [queue], options=["none"])
            unset = ["MAXDELIVERIES", "0", "RATE", "0", "0"]
            history += _ask(client, "set", [queue], options=unset)
        while ids := all_ids(client):
            for view in list(show(client, ids)):
                if view.status == "dead":
                    history += _ask(client, "redrive", ids=[view.id])
                elif view.status == "delayed" or (view.status == "active" and view.retry_s):
                    history += _ask(client, "enqueue", ids=[view.id])
                elif view.status == "active":
                    history += _ask(client, "ack", ids=[view.id], options=["ACKJOB"])
            for queue in QUEUES:
                history += _drain_queue(client, queue)
            if any(op.error for op in history):
                break
    return history


def show(client: Client, ids: Iterable[str]) -> Iterator[JobView]:
    """The jobs of these ids that are there."""
    wanted = list(ids)
    for at in range(0, len(wanted), AT_ONCE):
        some = wanted[at : at + AT_ONCE]
        sent_ns = time.monotonic_ns()
        client.send_bytes(b"".join(request("SHOW", id, "DETAILS") for id in some))
        for _ in some:
            shown = meaning(client.read())
            if shown is not None:
                yield _view(shown, sent_ns, time.monotonic_ns())


def all_ids(client: Client) -> list[str]:
    """The ids of all jobs, as JSCAN lists them."""
    found: list[str] = []
    cursor = b"0"
    while True:
        cursor, ids = client.call("JSCAN", cursor, "BUSYLOOP")
        found += [id.decode() for id in ids]
        if cursor == b"0":
            return found


def pairs(flat: list[Any] | dict[bytes, Any]) -> dict[str, Any]:
    """Names and values in turn, as a dictionary with texts."""
    items = flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
    return {
        name.decode(): value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for name, value in items.items()
    }


def _view(shown: list[Any], sent_ns: int, answered_ns: int) -> JobView:
    body = name_of(shown[shown.index(b"body") + 1])
    job = pairs(shown)
    return JobView(
        job["id"],
        job["queue"],
        body,
        job["status"],
        job["ctime"],
        job["delay"],
        job["retry"],
        job["ttl"],
        job["nacks"],
        job["additional-deliveries"],
        job["deliveries"],
        job["max-deliveries"],
        job["reason"] or "",
        job["key"] or "",
        job["next-requeue-within"],
        sent_ns,
        answered_ns,
    )


def _look_at(client: Client, queue: str) -> QueueView | None:
    stat = client.call("QSTAT", queue, "DETAILS")
    if stat is None or isinstance(stat, Refusal):
        return None
    found = pairs(stat)
    return QueueView(
        found["jobs-in"],
        found["jobs-out"],
        found["pause"],
        found["max-deliveries"],
        f"{found['rate-count']} {found['rate-seconds']}",
        [row[1].decode() for row in client.call("QPEEK", queue, ALL)],
    )


def _drain_queue(client: Client, queue: str) -> Iterator[JobOperation]:
    while True:
        (get,) = _ask(client, "get", [queue], options=["NOHANG", "COUNT", str(AT_ONCE)])
        yield get
        if not get.rows:
            return
        # One by one, so that it is known of each whether it was done.
        for row in get.rows:
            yield from _ask(client, "ack", ids=[row[1]], options=["ACKJOB"])


def _ask(
    client: Client,
    verb: Verb,
    queues: list[str] | None = None,
    *,
    ids: list[str] | None = None,
    options: list[str] | None = None,
) -> list[JobOperation]:
    sent_ns = time.monotonic_ns()
    op = JobOperation("drain", verb, queues or [], ids or [], "", options or [], sent_ns)
    take_answer(op, client.call(*words_of(op)))
    return [op]
