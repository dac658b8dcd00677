"""redis-py, the newest, drives the jobs family: every command of it, in RESP2 and in RESP3."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.server.broker import RunningBroker, wait_until

JOB_ID = re.compile(r"D-[0-9a-f]{8}-[A-Za-z0-9+/]{24}-[0-9a-f]{4}")
UNKNOWN = "D-dcb833cf-8YL1NT17e9+wsA/09NqxscQI-05a1"

Call = Callable[..., Any]


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def connected(broker: RunningBroker, request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    """A client for each protocol; replies are text."""
    with redis.Redis(port=broker.port, protocol=request.param, decode_responses=True) as client:
        yield client


@pytest.fixture
def call(connected: redis.Redis) -> Call:
    """Send a command, and give its reply."""
    return connected.execute_command


def pairs(reply: list[Any]) -> dict[str, Any]:
    """A flat reply of names and values, which is flat in RESP3 too."""
    return dict(zip(reply[::2], reply[1::2], strict=True))


def test_every_command_is_driven_here(connected: redis.Redis) -> None:
    docs = connected.execute_command("COMMAND DOCS")
    described = docs if isinstance(docs, dict) else pairs(docs)
    groups = {
        name.upper(): (row if isinstance(row, dict) else pairs(row))["group"]
        for name, row in described.items()
    }
    here = Path(__file__).read_text()
    words = [name for name, group in groups.items() if group == "jobs"]

    assert {"ADDJOB", "QSET", "WAITJOB"} <= set(words)
    assert [word for word in words if f'"{word}"' not in here] == []


def test_a_job_goes_round(call: Call, queue: str) -> None:
    id = call("ADDJOB", queue, "grüße", 0)

    assert JOB_ID.fullmatch(id)
    assert call("QLEN", queue) == 1
    assert call("GETJOB", "FROM", queue) == [[queue, id, "grüße"]]
    assert call("ACKJOB", id) == 1
    assert call("ACKJOB", id) == 0
    assert call("SHOW", id) is None


def test_bodies_are_any_bytes(broker: RunningBroker, queue: str) -> None:
    body = bytes(range(256)) * 300

    with redis.Redis(port=broker.port) as binary:
        id = binary.execute_command("ADDJOB", queue, body, 0)

        assert binary.execute_command("GETJOB", "FROM", queue) == [[queue.encode(), id, body]]


def test_what_was_asked_for_is_shown(call: Call, queue: str) -> None:
    options = ("REPLICATE", 1, "DELAY", 60, "RETRY", 30, "TTL", 3600, "MAXLEN", 9, "ASYNC")

    id = call("ADDJOB", queue, "x", 100, *options, "MAXDELIVERIES", 4, "ID", "order-1")

    shown = pairs(call("SHOW", id, "DETAILS"))
    assert (shown["id"], shown["queue"], shown["body"]) == (id, queue, "x")
    assert (shown["state"], shown["status"]) == ("active", "delayed")
    assert (shown["repl"], shown["delay"], shown["retry"]) == (1, 60, 30)
    assert (shown["nacks"], shown["additional-deliveries"]) == (0, 0)
    assert (shown["deliveries"], shown["max-deliveries"]) == (0, 4)
    assert shown["key"] == "order-1"
    assert len(call("SHOW", id)) == 30


def test_nothing_there(call: Call, queue: str) -> None:
    assert call("GETJOB", "NOHANG", "FROM", queue) is None
    assert call("GETJOB", "TIMEOUT", 1, "COUNT", 2, "WITHCOUNTERS", "FROM", queue) is None
    assert call("SHOW", UNKNOWN) is None
    assert call("QLEN", queue + "?") == 0
    assert call("QPEEK", queue + "?", 5) == []
    assert call("QSTAT", queue + "?") is None
    assert call("FINDJOB", queue, "no-such-key") is None
    for word in ("ACKJOB", "FASTACK", "DELJOB", "NACK", "ENQUEUE", "DEQUEUE", "REDRIVE"):
        assert call(word, UNKNOWN) == 0


def test_jobs_of_several_queues_come_in_turn(call: Call, queue: str) -> None:
    first, second = queue + "1", queue + "2"
    for body in ("a", "b", "c"):
        call("ADDJOB", first, body, 0)
    call("ADDJOB", second, "x", 0)

    jobs = call("GETJOB", "COUNT", 3, "WITHCOUNTERS", "FROM", first, second)

    assert [(row[0], row[2]) for row in jobs] == [(first, "a"), (second, "x"), (first, "b")]
    assert {tuple(row[3:]) for row in jobs} == {("nacks", 0, "additional-deliveries", 0)}


def test_queues_can_be_named_by_a_pattern(call: Call, queue: str) -> None:
    stem = re.sub(r"\W", "_", queue)
    id = call("ADDJOB", stem + ":mail", "x", 0)

    assert call("GETJOB", "NOHANG", "MATCH", stem + ":?", stem + ":m*") == [
        [stem + ":mail", id, "x"]
    ]


def test_a_job_is_given_back_taken_out_put_back_and_kept(call: Call, queue: str) -> None:
    id = call("ADDJOB", queue, "x", 0, "RETRY", 40)
    call("GETJOB", "FROM", queue)

    assert call("WORKING", id) == 40
    assert call("NACK", id) == 1
    assert call("DEQUEUE", id) == 1
    assert call("ENQUEUE", id) == 1
    call("GETJOB", "FROM", queue)
    assert call("UNGETJOB", id) == 1
    ((*_, nacks, _, others),) = call("GETJOB", "WITHCOUNTERS", "FROM", queue)
    assert (nacks, others) == (1, 1)
    assert call("NACK", id, "DELAY", 60, "REASON", "busy") == 1
    shown = pairs(call("SHOW", id, "DETAILS"))
    assert (shown["status"], shown["reason"], shown["nacks"]) == ("delayed", "busy", 2)
    assert call("FASTACK", id) == 1


def test_a_queue_can_be_looked_at(call: Call, queue: str) -> None:
    old, new = call("ADDJOB", queue, "old", 0), call("ADDJOB", queue, "new", 0)
    later = call("ADDJOB", queue, "later", 0, "DELAY", 60)

    counted = pairs(call("QSTAT", queue, "DETAILS"))

    assert (counted["name"], counted["len"], counted["pause"]) == (queue, 2, "none")
    assert (counted["delayed"], counted["active"], counted["dead"]) == (1, 0, 0)
    assert counted["import-from"] == []
    assert len(call("QSTAT", queue)) == 20
    assert call("QPEEK", queue, 1) == [[queue, old, "old"]]
    assert call("QPEEK", queue, -1) == [[queue, new, "new"]]
    ((*row, due_within_ms),) = call("QPEEK", queue, 9, "STATE", "delayed")
    assert row == [queue, later, "later", "nacks", 0, "additional-deliveries", 0, "due-within"]
    assert 50_000 < due_within_ms <= 60_000


def test_queues_and_jobs_are_scanned(call: Call, queue: str) -> None:
    id = call("ADDJOB", queue, "x", 0)

    cursor, queues = call("QSCAN", "COUNT", 1000, "BUSYLOOP", "MINLEN", 1, 0)

    assert cursor == "0"
    assert queue in queues
    assert call("JSCAN", 0, "BUSYLOOP", "QUEUE", queue, "STATE", "queued") == ["0", [id]]
    assert call("JSCAN", "BUSYLOOP", "QUEUE", queue, "STATE", "delayed") == ["0", []]
    _, (row,) = call("JSCAN", 0, "BUSYLOOP", "QUEUE", queue, "REPLY", "all")
    assert pairs(row)["body"] == "x"


def test_a_queue_is_paused(call: Call, queue: str) -> None:
    call("ADDJOB", queue, "x", 0)

    assert call("PAUSE", queue, "out") == "out"
    assert call("GETJOB", "NOHANG", "FROM", queue) is None
    assert call("PAUSE", queue, "state") == "out"
    assert call("PAUSE", queue, "none") == "none"
    assert len(call("GETJOB", "FROM", queue)) == 1


def test_a_job_that_came_too_often_is_dead_and_can_live_again(call: Call, queue: str) -> None:
    id = call("ADDJOB", queue, "x", 0, "MAXDELIVERIES", 1)
    call("GETJOB", "FROM", queue)
    call("NACK", id, "REASON", "no such file")

    ((_, dead_id, *_, word, reason),) = call("QPEEK", queue, 5, "STATE", "dead")
    assert (dead_id, word, reason) == (id, "reason", "no such file")
    assert pairs(call("SHOW", id, "DETAILS"))["status"] == "dead"
    assert call("JSCAN", 0, "BUSYLOOP", "QUEUE", queue, "STATE", "dead") == ["0", [id]]
    assert call("REDRIVE", id) == 1
    call("GETJOB", "FROM", queue)
    call("NACK", id)
    assert call("QREDRIVE", queue, "COUNT", 1) == 1
    assert call("QLEN", queue) == 1


def test_a_queue_has_defaults_and_a_rate(call: Call, queue: str) -> None:
    call("QSET", queue, "MAXDELIVERIES", 3, "RATE", 1, 3600)
    first = call("ADDJOB", queue, "first", 0)
    call("ADDJOB", queue, "second", 0)

    assert [row[1] for row in call("GETJOB", "NOHANG", "COUNT", 2, "FROM", queue)] == [first]
    assert call("GETJOB", "NOHANG", "FROM", queue) is None
    counted = pairs(call("QSTAT", queue, "DETAILS"))
    assert counted["max-deliveries"] == 3
    assert (counted["rate-count"], counted["rate-seconds"]) == (1, 3600)


def test_a_queue_can_be_emptied(call: Call, queue: str) -> None:
    call("ADDJOB", queue, "a", 0)
    call("ADDJOB", queue, "b", 0, "DELAY", 60)

    assert call("QPURGE", queue, "STATE", "delayed") == 1
    assert call("QPURGE", queue) == 1
    assert call("QLEN", queue) == 0


def test_a_key_names_one_living_job(call: Call, queue: str) -> None:
    id = call("ADDJOB", queue, "x", 0, "ID", "invoice 7")

    assert call("ADDJOB", queue, "y", 0, "ID", "invoice 7") == id
    assert call("FINDJOB", queue, "invoice 7") == id
    assert call("DELJOB", id) == 1
    assert call("FINDJOB", queue, "invoice 7") is None


def test_one_can_wait_for_a_job_to_be_done(connected: redis.Redis, call: Call, queue: str) -> None:
    id = call("ADDJOB", queue, "x", 0)
    assert call("WAITJOB", 1, id) is None
    waiting = connected.connection_pool.get_connection()
    waiting.send_command("WAITJOB", 0, id, UNKNOWN)
    wait_until(lambda: connected.info("clients")["blocked_clients"] == 1)

    call("ACKJOB", id)

    assert waiting.read_response() == 2
    connected.connection_pool.release(waiting)


def test_a_worker_waits(connected: redis.Redis, call: Call, queue: str) -> None:
    waiting = connected.connection_pool.get_connection()
    waiting.send_command("GETJOB", "COUNT", 5, "FROM", queue + "?", queue)
    wait_until(lambda: connected.info("clients")["blocked_clients"] == 1)
    # It makes the queue it waits on, which a store that answers later may still be about to do.
    wait_until(lambda: call("QSTAT", queue) is not None)
    assert pairs(call("QSTAT", queue))["blocked"] == 1

    id = call("ADDJOB", queue, "x", 0)

    assert waiting.read_response() == [[queue, id, "x"]]
    connected.connection_pool.release(waiting)


def test_the_node_tells_about_itself(call: Call, broker: RunningBroker) -> None:
    version, node_id, node = call("HELLO")

    assert version == 1
    assert re.fullmatch(r"[0-9a-f]{40}", node_id)
    assert (node[0], *node[2:]) == (node_id, str(broker.port), "1")
    assert call("CLUSTER", "MYID") == node_id
    assert re.fullmatch(
        rf"{node_id} \S*:{broker.port} myself \d+ \d+ connected\n", call("CLUSTER", "NODES")
    )
    assert "cluster_known_nodes:1\r\n" in call("CLUSTER", "INFO")
    assert call("CLUSTER", "SAVECONFIG") == "OK"
    assert call("CLUSTER", "LEAVING") == "no"


def test_a_leaving_node_lets_nobody_wait(call: Call, queue: str) -> None:
    assert call("CLUSTER", "LEAVING", "yes") == "OK"
    try:
        assert call("HELLO")[2][3] == "100"
        with pytest.raises(redis.ResponseError, match=r"^LEAVING "):
            call("GETJOB", "FROM", queue)
        assert call("GETJOB", "NOHANG", "FROM", queue) is None
    finally:
        assert call("CLUSTER", "LEAVING", "no") == "OK"


@pytest.mark.parametrize("words", [("DEBUG", "FLUSHALL"), ("CLUSTER", "RESET", "HARD")])
def test_everything_can_be_forgotten(call: Call, queue: str, words: tuple[str, ...]) -> None:
    id = call("ADDJOB", queue, "x", 0)

    assert call(*words) == "OK"

    assert call("SHOW", id) is None
    assert call("QSCAN", "BUSYLOOP") == ["0", []]


def test_latency_events_can_be_asked_for(connected: redis.Redis) -> None:
    assert connected.execute_command("LATENCY", "LATEST") == []
    assert connected.execute_command("LATENCY", "HISTORY", "command") == []
    assert connected.execute_command("LATENCY", "RESET") == 0


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("BADID", ("ACKJOB", UNKNOWN, "D-short")),
        ("NOJOB", ("WORKING", UNKNOWN)),
        ("NOREPL", ("ADDJOB", "q", "x", 0, "REPLICATE", 9)),
    ],
)
def test_an_error_begins_with_its_code(call: Call, code: str, words: tuple[object, ...]) -> None:
    with pytest.raises(redis.ResponseError, match=f"^{code} "):
        call(*words)


def test_a_full_or_paused_queue_refuses(call: Call, queue: str) -> None:
    call("ADDJOB", queue, "x", 0)

    with pytest.raises(redis.ResponseError, match=r"^MAXLEN Queue is already longer than the "):
        call("ADDJOB", queue, "y", 0, "MAXLEN", 1)
    call("PAUSE", queue, "in")
    with pytest.raises(redis.ResponseError, match=r"^PAUSED "):
        call("ADDJOB", queue, "y", 0)


def test_the_queue_of_another_family_is_refused(call: Call, queue: str) -> None:
    call("QADD", queue, 60, "event")

    with pytest.raises(redis.ResponseError, match=r"^WRONGTYPE "):
        call("ADDJOB", queue, "x", 0)


def test_a_pipeline_gives_every_reply_in_order(connected: redis.Redis, queue: str) -> None:
    pipeline = connected.pipeline(transaction=False)
    for number in range(300):
        pipeline.execute_command("ADDJOB", queue, number, 0)
    for _ in range(300):
        pipeline.execute_command("GETJOB", "FROM", queue)

    replies = pipeline.execute()

    acks = connected.pipeline(transaction=False)
    for id in replies[:300]:
        acks.execute_command("ACKJOB", id)
    assert replies[300:] == [[[queue, id, str(n)]] for n, id in enumerate(replies[:300])]
    assert acks.execute() == [1] * 300
