"""pydisque, Disque's client for Python, unchanged: every method, over the newest redis-py."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from pydisque.client import Client

from tests.server.broker import RunningBroker, wait_until

JOB_ID = re.compile(rb"D-[0-9a-f]{8}-[A-Za-z0-9+/]{24}-[0-9a-f]{4}")
UNKNOWN = b"D-dcb833cf-8YL1NT17e9+wsA/09NqxscQI-05a1"

SHOWN = [
    *(b"id", b"queue", b"state", b"repl", b"ttl", b"ctime", b"delay", b"retry", b"nacks"),
    *(b"additional-deliveries", b"nodes-delivered", b"nodes-confirmed"),
    *(b"next-requeue-within", b"next-awake-within", b"body"),
]
STATISTICS = [
    *(b"name", b"len", b"age", b"idle", b"blocked", b"import-from", b"import-rate"),
    *(b"jobs-in", b"jobs-out", b"pause"),
]


@pytest.fixture
def disque(broker: RunningBroker) -> Iterator[Client]:
    """A connected client with its own settings; redis-py then speaks RESP3."""
    client = Client([f"127.0.0.1:{broker.port}"])
    client.connect()
    yield client
    client.get_connection().close()


def test_every_method_is_driven_here() -> None:
    methods = dict(inspect.getmembers(Client, inspect.isfunction))
    here = Path(__file__).read_text()

    assert len(methods) > 20
    assert [m for m in methods if not m.startswith("_") and f".{m}(" not in here] == []


def test_the_connection_speaks_resp3(disque: Client) -> None:
    assert disque.get_connection().client_info()["resp"] == "3"


def test_hello_names_this_node(disque: Client, broker: RunningBroker) -> None:
    version, node_id, *nodes = disque.hello()

    assert version == 1
    assert re.fullmatch(rb"[0-9a-f]{40}", node_id)
    assert [(id, port, priority) for id, _, port, priority in nodes] == [
        (node_id, b"%d" % broker.port, b"1")
    ]
    assert disque.connected_node.node_id == node_id


def test_info_counts_jobs_and_queues(disque: Client, queue: str) -> None:
    before = disque.info()

    disque.add_job(queue, "x")

    after = disque.info()
    assert after["registered_jobs"] == before["registered_jobs"] + 1
    assert after["registered_queues"] == before["registered_queues"] + 1
    assert after["loading"] == 0
    assert "disque_version" in after


def test_a_job_goes_round(disque: Client, queue: str) -> None:
    body = bytes(range(256))

    id = disque.add_job(queue, body)

    assert JOB_ID.fullmatch(id)
    assert disque.get_job([queue]) == [(queue.encode(), id, body)]
    assert disque.ack_job(id) is None
    assert disque.show(id) is None


def test_what_was_asked_for_is_what_show_tells(disque: Client, queue: str) -> None:
    id = disque.add_job(
        queue,
        "later",
        timeout=100,
        replicate=1,
        delay=600,
        retry=30,
        ttl=3600,
        maxlen=5,
        asynchronous=True,
    )

    shown = disque.show(id, return_dict=True)

    assert list(shown) == SHOWN
    assert shown[b"id"] == id
    assert shown[b"queue"] == queue.encode()
    assert shown[b"state"] == b"active"
    assert shown[b"repl"] == 1
    assert shown[b"delay"] == 600
    assert shown[b"retry"] == 30
    assert 3590 < shown[b"ttl"] <= 3600
    assert 590_000 < shown[b"next-requeue-within"] <= 600_000
    assert shown[b"body"] == b"later"


def test_show_is_pairs_unless_a_dictionary_is_asked_for(disque: Client, queue: str) -> None:
    id = disque.add_job(queue, "x")

    assert disque.show(id)[:6] == [b"id", id, b"queue", queue.encode(), b"state", b"queued"]


def test_a_job_of_at_most_one_delivery_says_so_in_its_id(disque: Client, queue: str) -> None:
    id = disque.add_job(queue, "once", retry=0)

    disque.get_job([queue])
    disque.nack_job(id)

    assert id.endswith(b"-05a0")
    assert disque.get_job([queue], nohang=True) == []


def test_nothing_there_is_an_empty_list(disque: Client, queue: str) -> None:
    assert disque.get_job([queue], nohang=True) == []
    assert disque.get_job([queue], timeout=1) == []
    assert disque.get_job([queue], timeout=1, count=3, withcounters=True) == []


def test_several_jobs_of_several_queues_come_in_turn(disque: Client, queue: str) -> None:
    first, second = queue + "1", queue + "2"
    for body in ("a", "b", "c"):
        disque.add_job(first, body)
    disque.add_job(second, "x")

    jobs = disque.get_job([first, second], count=3)

    assert [(name.decode(), body) for name, _, body in jobs] == [
        (first, b"a"),
        (second, b"x"),
        (first, b"b"),
    ]


def test_a_nack_brings_the_job_back_and_is_counted(disque: Client, queue: str) -> None:
    id = disque.add_job(queue, "x")
    assert disque.get_job([queue], withcounters=True) == [(queue.encode(), id, b"x", 0, 0)]

    disque.nack_job(id)

    assert disque.get_job([queue], withcounters=True) == [(queue.encode(), id, b"x", 1, 0)]


def test_a_job_can_be_taken_out_of_its_queue_and_put_back(disque: Client, queue: str) -> None:
    id = disque.add_job(queue, "x")

    assert disque.dequeue(id) == 1
    assert disque.dequeue(id) == 0
    assert disque.qlen(queue) == 0
    assert disque.enqueue(id) == 1
    assert disque.enqueue(id) == 0
    assert disque.get_job([queue], withcounters=True) == [(queue.encode(), id, b"x", 0, 1)]


def test_working_answers_the_time_to_the_next_retry(disque: Client, queue: str) -> None:
    id = disque.add_job(queue, "x", retry=40)
    disque.get_job([queue])

    assert disque.working(id) == 40


def test_fast_ack_and_del_job_end_jobs(disque: Client, queue: str) -> None:
    acked, deleted = disque.add_job(queue, "a"), disque.add_job(queue, "b")

    assert disque.fast_ack(acked) is None
    assert disque.del_job(deleted, UNKNOWN) == 1

    assert disque.qlen(queue) == 0
    assert disque.show(acked) is None
    assert disque.show(deleted) is None


def test_qpeek_looks_from_either_end(disque: Client, queue: str) -> None:
    name = queue.encode()
    old, new = disque.add_job(queue, "old"), disque.add_job(queue, "new")

    assert disque.qpeek(queue, 1) == [[name, old, b"old"]]
    assert disque.qpeek(queue, -2) == [[name, new, b"new"], [name, old, b"old"]]
    assert disque.qpeek(queue + "?", 1) == []
    assert disque.qlen(queue) == 2


def test_qstat_counts(disque: Client, queue: str) -> None:
    disque.add_job(queue, "a")
    disque.add_job(queue, "b")
    disque.get_job([queue])

    counted = disque.qstat(queue, return_dict=True)

    assert list(counted) == STATISTICS
    assert counted[b"name"] == queue.encode()
    assert (counted[b"len"], counted[b"jobs-in"], counted[b"jobs-out"]) == (1, 2, 1)
    assert (counted[b"import-from"], counted[b"import-rate"]) == ([], 0)
    assert counted[b"pause"] == b"none"
    assert disque.qstat(queue)[:4] == [b"name", queue.encode(), b"len", 1]
    assert disque.qstat(queue + "?") is None


def test_a_queue_is_paused_in_each_direction(disque: Client, queue: str) -> None:
    disque.add_job(queue, "x")

    assert disque.pause(queue, kw_out=True) == b"out"
    assert disque.get_job([queue], nohang=True) == []
    assert disque.pause(queue, kw_in=True, kw_bcast=True) == b"in"
    with pytest.raises(redis.ResponseError, match=r"^PAUSED "):
        disque.add_job(queue, "y")
    assert disque.pause(queue, kw_in=True, kw_out=True) == b"all"
    assert disque.pause(queue, kw_state=True) == b"all"
    assert disque.pause(queue, kw_none=True) == b"none"
    assert disque.pause(queue, kw_all=True) == b"all"
    assert disque.pause(queue, kw_none=True) == b"none"
    assert len(disque.get_job([queue])) == 1


def test_qscan_finds_queues_by_their_length(disque: Client, queue: str) -> None:
    for number in (1, 2):
        for _ in range(number):
            disque.add_job(f"{queue}{number}", "x")
    one, two = f"{queue}1".encode(), f"{queue}2".encode()

    cursor, found = disque.qscan(count=1000, busyloop=True)

    assert cursor == b"0"
    assert {one, two} <= set(found)
    assert one not in disque.qscan(count=1000, minlen=2)[1]
    assert two not in disque.qscan(count=1000, maxlen=1)[1]
    assert disque.qscan(busyloop=True, importrate=1) == [b"0", []]


def test_qscan_goes_through_all_of_many(disque: Client, queue: str) -> None:
    added = {f"{queue}{number}".encode() for number in range(30)}
    for name in added:
        disque.add_job(name, "x")

    cursor, found = disque.qscan(count=10)
    while int(cursor):
        cursor, more = disque.qscan(cursor, count=10)
        found += more

    assert added <= set(found)


def test_jscan_finds_jobs_by_queue_and_state(disque: Client, queue: str) -> None:
    taken, queued = disque.add_job(queue, "a"), disque.add_job(queue, "b")
    disque.get_job([queue])

    def found(*states: str) -> set[bytes]:
        cursor, ids = disque.jscan(busyloop=True, queue=queue, state=list(states))
        assert cursor == b"0"
        return set(ids)

    assert found() == {taken, queued}
    assert found("queued") == {queued}
    assert found("active") == {taken}
    assert found("active", "queued") == {taken, queued}
    assert found("acked") == set()


def test_jscan_shows_whole_jobs(disque: Client, queue: str) -> None:
    id = disque.add_job(queue, "x")

    _, (row,) = disque.jscan(count=1000, queue=queue, reply="all")

    assert row[::2] == SHOWN
    assert row[1] == id
    assert row[-1] == b"x"
    assert disque.jscan(busyloop=True, queue=queue, reply="id") == [b"0", [id]]


def test_a_waiting_worker_gets_the_next_job(
    disque: Client, broker: RunningBroker, queue: str
) -> None:
    connection = disque.get_connection().connection_pool.get_connection()
    connection.send_command("GETJOB", "TIMEOUT", 60_000, "FROM", queue)
    wait_until(lambda: disque.info()["blocked_clients"] == 1)

    id = disque.add_job(queue, "x")

    assert connection.read_response() == [[queue.encode(), id, b"x"]]
    disque.get_connection().connection_pool.release(connection)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("NOREPL", ("ADDJOB", "q", "x", 0, "REPLICATE", 9)),
        ("BADID", ("SHOW", "not-an-id")),
        ("NOJOB", ("WORKING", UNKNOWN)),
    ],
)
def test_an_error_reaches_the_caller_with_its_code(
    disque: Client, code: str, words: tuple[object, ...]
) -> None:
    with pytest.raises(redis.ResponseError, match=rf"^{code} "):
        disque.execute_command(*words)


def test_a_full_queue_refuses(disque: Client, queue: str) -> None:
    disque.add_job(queue, "x", maxlen=1)

    with pytest.raises(redis.ResponseError, match=r"^MAXLEN Queue is already longer than the "):
        disque.add_job(queue, "y", maxlen=1)
