"""Tubes at a running broker, on every kind of store: who waits, who goes, and what comes back.

What each command answers, byte by byte, is in docs/transcripts/tubes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.server.broker import RunningBroker, wait_until
from tests.server.resp import Client, Refusal, request
from tests.servers import stores

Connect = Callable[[], Client]

NOT_TAKEN = Refusal("NOTTAKEN Task was not taken")


pytest_generate_tests = stores.on_every_kind


@pytest.fixture
def connect(broker: RunningBroker) -> Iterator[Connect]:
    """One more client of the broker; it is gone when the test is."""
    with ExitStack() as connected:
        yield lambda: connected.enter_context(broker.connect())


@pytest.fixture
def tube(client: Client, queue: str) -> str:
    """A tube of lanes that nobody else uses."""
    assert client.call("TUBE.CREATE", queue, "utubettl") == 1
    return queue


def waits(broker: Client, count: int) -> None:
    """So many clients wait."""
    wait_until(lambda: b"\r\nblocked_clients:%d\r\n" % count in broker.call("INFO", "clients"))


def state(client: Client, tube: str, id: int) -> bytes:
    found: bytes = client.call("TUBE.PEEK", tube, id)[1]
    return found


def take_waiting(client: Client, waiting: Client, tube: str, count: int) -> None:
    """The second waits for a task, as the last of so many."""
    waiting.send("TUBE.TAKE", tube)
    waits(client, count)


def test_those_who_wait_are_served_in_the_order_they_came(
    client: Client, connect: Connect, tube: str
) -> None:
    workers = [connect() for _ in range(5)]
    for number, worker in enumerate(workers, 1):
        take_waiting(client, worker, tube, number)

    for number in range(5):
        client.call("TUBE.PUT", tube, number, "UTUBE", number)
    assert [worker.value()[0] for worker in workers] == [0, 1, 2, 3, 4]


def test_a_lane_that_is_free_again_wakes_who_came_first(
    client: Client, connect: Connect, tube: str
) -> None:
    for number in range(3):
        client.call("TUBE.PUT", tube, number)
    assert client.call("TUBE.TAKE", tube, 0)[0] == 0
    first, second = connect(), connect()
    take_waiting(client, first, tube, 1)
    take_waiting(client, second, tube, 2)

    client.call("TUBE.ACK", tube, 0)
    assert first.value() == [1, b"t", b"1"]
    first.call("TUBE.BURY", tube, 1)
    assert second.value() == [2, b"t", b"2"]


def test_who_waits_for_a_lane_does_not_stand_in_the_way(
    client: Client, connect: Connect, tube: str
) -> None:
    picky, other = connect(), connect()
    picky.send("TUBE.TAKE", tube, 30, "LANE", "mine")
    waits(client, 1)
    take_waiting(client, other, tube, 2)

    client.call("TUBE.PUT", tube, "a", "UTUBE", "yours")
    assert other.value() == [0, b"t", b"a"]
    client.call("TUBE.PUT", tube, "b", "UTUBE", "mine")
    assert picky.value() == [1, b"t", b"b"]


def test_a_put_that_waits_for_room_does_not_keep_a_tube_from_being_dropped(
    client: Client, other: Client, queue: str
) -> None:
    client.call("TUBE.CREATE", queue, "limfifottl", "CAPACITY", 1)
    client.call("TUBE.PUT", queue, "first")
    other.send("TUBE.PUT", queue, "second", "TIMEOUT", 600)
    waits(client, 1)

    dropped = client.call("TUBE.DROP", queue)

    assert dropped == b"OK"
    refused = other.value()
    assert isinstance(refused, Refusal)
    assert refused.text.startswith("NOTUBE ")


def test_those_who_wait_for_room_get_it_in_the_order_they_came(
    client: Client, connect: Connect, queue: str
) -> None:
    client.call("TUBE.CREATE", queue, "limfifottl", "CAPACITY", 1)
    client.call("TUBE.PUT", queue, "first")
    putters = [connect() for _ in range(3)]
    for number, putter in enumerate(putters, 1):
        putter.send("TUBE.PUT", queue, number, "TIMEOUT", 30)
        waits(client, number)

    for number, putter in enumerate(putters, 1):
        assert client.call("TUBE.ACK", queue, client.call("TUBE.TAKE", queue, 5)[0])[1] == b"-"
        assert putter.value() == [number, b"r", b"%d" % number]


def test_a_tube_is_not_dropped_while_somebody_waits_there(
    client: Client, connect: Connect, tube: str
) -> None:
    waiting = connect()
    take_waiting(client, waiting, tube, 1)

    assert client.call("TUBE.DROP", tube) == Refusal(
        "BUSYTUBE There are consumers connected the tube"
    )
    waiting.close()
    wait_until(lambda: bool(client.call("TUBE.DROP", tube) == b"OK"))


def test_unblock_ends_a_wait(client: Client, connect: Connect, tube: str) -> None:
    waiting = connect()
    number = waiting.call("CLIENT", "ID")
    take_waiting(client, waiting, tube, 1)

    assert client.call("CLIENT", "UNBLOCK", number) == 1
    assert waiting.value() is None
    client.call("TUBE.PUT", tube, "x")
    assert state(client, tube, 0) == b"r"


def test_what_a_client_had_taken_is_for_the_next_when_it_is_gone(
    client: Client, connect: Connect, tube: str
) -> None:
    for number in range(3):
        client.call("TUBE.PUT", tube, number, "UTUBE", number)
    worker, waiting = connect(), connect()
    assert [task[0] for task in worker.call("TUBE.TAKE", tube, 0, "COUNT", 5)] == [0, 1, 2]
    take_waiting(client, waiting, tube, 1)

    worker.close()
    assert waiting.value() == [0, b"t", b"0"]
    wait_until(lambda: state(client, tube, 2) == b"r")
    assert client.call("TUBE.STATS", tube)[3][7] == 3  # released


def test_who_is_gone_takes_nothing_more(client: Client, connect: Connect, tube: str) -> None:
    worker = connect()
    client.call("TUBE.PUT", tube, "x")
    assert worker.call("TUBE.TAKE", tube)[0] == 0
    take_waiting(client, worker, tube, 1)

    worker.close()
    wait_until(lambda: state(client, tube, 0) == b"r")
    waits(client, 0)
    assert client.call("TUBE.TAKE", tube, 0) == [0, b"t", b"x"]


def test_only_the_session_that_took_a_task_may_finish_it(
    client: Client, connect: Connect, tube: str
) -> None:
    client.call("TUBE.PUT", tube, "x")
    worker, other = connect(), connect()
    worker.call("TUBE.TAKE", tube)

    for words in (("TUBE.ACK", tube, 0), ("TUBE.RELEASE", tube, 0), ("TUBE.TOUCH", tube, 0, 5)):
        assert other.call(*words) == NOT_TAKEN
    other.call("TUBE.IDENTIFY", worker.call("TUBE.IDENTIFY"))
    assert other.call("TUBE.TOUCH", tube, 0, 5) == [0, b"t", b"x"]
    worker.close()
    assert other.call("TUBE.ACK", tube, 0) == [0, b"-", b"x"]


def test_a_session_is_kept_as_long_as_the_setting_says(
    client: Client, connect: Connect, tube: str
) -> None:
    client.call("CONFIG", "SET", "session-ttr", 60)
    try:
        client.call("TUBE.PUT", tube, "x")
        worker = connect()
        worker.call("TUBE.IDENTIFY", f"worker {tube}")
        worker.call("TUBE.TAKE", tube)
        worker.close()
        wait_until(lambda: b"\r\nconnected_clients:1\r\n" in client.call("INFO", "clients"))

        assert state(client, tube, 0) == b"t"
        again = connect()
        again.call("TUBE.IDENTIFY", f"worker {tube}")
        assert again.call("TUBE.ACK", tube, 0) == [0, b"-", b"x"]
    finally:
        client.call("CONFIG", "SET", "session-ttr", 0)


def test_a_pipeline_of_puts_takes_and_acks_is_answered_in_order(client: Client, queue: str) -> None:
    client.call("TUBE.CREATE", queue, "fifo")
    words = [("TUBE.PUT", queue, number) for number in range(300)]
    words += [("TUBE.TAKE", queue, 0)] * 300
    words += [("TUBE.ACK", queue, number) for number in range(300)]
    client.send_bytes(b"".join(request(*each) for each in words))

    def answers(letter: bytes) -> list[Any]:
        return [[number, letter, b"%d" % number] for number in range(300)]

    assert [client.value() for _ in words] == answers(b"r") + answers(b"t") + answers(b"-")
    stats = client.call("TUBE.STATS", queue)
    assert dict(zip(stats[3][::2], stats[3][1::2], strict=True))[b"ack"] == 300


def test_refused_acks_of_a_pipeline_are_counted_as_errors(client: Client, queue: str) -> None:
    client.call("TUBE.CREATE", queue, "fifo")
    client.call("CONFIG", "RESETSTAT")
    client.send_bytes(request("TUBE.ACK", queue, 0) * 5)

    assert [client.value() for _ in range(5)] == [NOT_TAKEN] * 5
    assert b"errorstat_NOTTAKEN:count=5" in client.call("INFO", "errorstats")
    assert b"cmdstat_tube.ack:calls=5" in client.call("INFO", "commandstats")


def test_two_clients_in_one_moment_take_for_themselves(
    client: Client, connect: Connect, queue: str
) -> None:
    client.call("TUBE.CREATE", queue, "fifo")
    client.call("TUBE.MPUT", queue, *range(100))
    workers = [connect(), connect()]
    for worker in workers:
        worker.send_bytes(request("TUBE.TAKE", queue, 0) * 50)
    taken = [[worker.value()[0] for _ in range(50)] for worker in workers]

    assert sorted(taken[0] + taken[1]) == list(range(100))
    assert workers[0].call("TUBE.ACK", queue, *taken[1]) == [None] * 50
    for worker, ids in zip(workers, taken, strict=True):
        assert [task[0] for task in worker.call("TUBE.ACK", queue, *ids)] == ids


def test_replies_in_resp3(client: Client, client3: Client, tube: str) -> None:
    assert client3.call("TUBE.PUT", tube, "x", "DELAY", 60) == [0, b"~", b"x"]
    assert client3.ask("TUBE.TAKE", tube, 0) == b"_\r\n"
    stats = client3.call("TUBE.STATS", tube)
    assert stats[b"tasks"][b"delayed"] == stats[b"calls"][b"put"] == 1
    [listed] = [each for each in client3.call("TUBE.LIST") if each[b"name"] == tube.encode()]
    assert listed == {
        b"name": tube.encode(),
        b"kind": b"utubettl",
        b"temporary": 0,
        b"asleep": 0,
        b"ttl": None,
        b"ttr": None,
        b"pri": 0,
        b"width": 1,
    }


def test_a_large_answer_ends_after_a_mebibyte(client: Client, queue: str) -> None:
    client.call("TUBE.CREATE", queue, "fifo")
    data = b"x" * (400 << 10)
    client.call("TUBE.MPUT", queue, *[data] * 6)

    counts = [len(client.call("TUBE.TAKE", queue, 0, "COUNT", 6)) for _ in range(3)]
    assert sum(counts) == 6
    assert max(counts) < 6
