"""Takes that wait are served in the order they came, however late the store answers them."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.server.broker import start_broker, wait_until
from tests.server.iproto import LISTEN, PING, IprotoClient, call, packet
from tests.server.resp import Client
from tests.servers import stores
from tests.transcripts.stage import Stage

TAKES = 20


@pytest.mark.parametrize("together", [TAKES - 1, 3, 1])
@pytest.mark.parametrize("kind", stores.SHARED)
def test_a_take_that_comes_alone_stands_behind_those_that_came_together(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, together: int
) -> None:
    flags = [*LISTEN, *stores.store_flags(request, kind)]
    server = request.getfixturevalue(stores.SHARED[kind])
    takes = [call(sync, "queue.tube.t:take", 60) for sync in range(TAKES)]
    with start_broker(tmp_path, *flags) as broker, IprotoClient(broker) as client:
        assert not isinstance(client.told("queue.create_tube", "t", "fifo"), Exception)
        with stores.silent(server):
            for some in (takes[:together], *([take] for take in takes[together:])):
                client.send(*some, packet(PING, 1_000))
                assert client.read().sync == 1_000  # the broker has asked for them
        with IprotoClient(broker) as other:
            for number in range(TAKES):
                other.told("queue.tube.t:put", number)

        replies = [client.read() for _ in range(TAKES)]
        assert [(it.sync, it.body[0x30][0][2]) for it in replies] == [
            (number, number) for number in range(TAKES)
        ]


@pytest.mark.parametrize("kind", stores.ALL)
def test_of_takes_that_came_together_the_first_wait_if_not_all_may(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """One that comes later does not stand before them, and none waits while an earlier one was
    refused."""
    flags = [*LISTEN, "--max-blocked-clients", "5", *stores.store_flags(request, kind)]
    takes = [call(sync, "queue.tube.t:take", 60) for sync in range(8)]
    with ExitStack() as left:
        broker = left.enter_context(start_broker(tmp_path, *flags))
        client = left.enter_context(IprotoClient(broker))
        assert not isinstance(client.told("queue.create_tube", "t", "fifo"), Exception)
        with ExitStack() as asked:
            if kind in stores.SHARED:
                asked.enter_context(stores.silent(request.getfixturevalue(stores.SHARED[kind])))
            replies = []
            for some in (takes[:3], takes[3:7], takes[7:]):
                client.send(*some, packet(PING, 1_000))
                while (reply := client.read()).sync != 1_000:
                    replies.append(reply)
        replies += [client.read() for _ in range(3 - len(replies))]
        other = left.enter_context(IprotoClient(broker))
        for number in range(5):
            other.told("queue.tube.t:put", number)

        refused = sorted((it.sync, "blocked already" in it.text) for it in replies if it.error)
        assert refused == [(5, True), (6, True), (7, True)]
        replies = [client.read() for _ in range(5)]
        assert [(it.sync, it.body[0x30][0][2]) for it in replies] == [
            (number, number) for number in range(5)
        ]


def is_waiting(other: Client, number: int) -> bool:
    return b" flags=b " in other.call("CLIENT", "LIST", "ID", number)


@pytest.mark.parametrize(
    ("take", "add"),
    [
        ("GETJOB FROM q", "ADDJOB q $ 0"),
        ("RQ.POP BLOCK -1 q", "RQ.PUSH q $"),
        ("WQ.LEASE {q} 60000 BLOCK 600000", "WQ.ADD {q} id-$ $"),
        ("TUBE.TAKE t", "TUBE.PUT t $"),
    ],
    ids=["jobs", "reliable", "items", "tubes"],
)
@pytest.mark.parametrize("kind", stores.SHARED)
def test_clients_that_wait_are_served_in_the_order_they_came(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, take: str, add: str
) -> None:
    server = request.getfixturevalue(stores.SHARED[kind])
    with start_broker(tmp_path, *stores.store_flags(request, kind)) as broker, ExitStack() as left:
        clients = [left.enter_context(broker.connect()) for _ in range(6)]
        other = left.enter_context(broker.connect())
        other.call("TUBE.CREATE", "t", "fifo")
        numbers = [client.call("CLIENT", "ID") for client in clients]
        with stores.silent(server):
            for number, client in zip(numbers, clients, strict=True):
                client.send(*take.split())
                wait_until(partial(is_waiting, other, number))
        for at in range(6):
            other.call(*add.replace("$", f"body-{at}").split())

        for at, client in enumerate(clients):
            assert f"body-{at}" in repr(client.read())


def test_a_job_that_comes_while_a_client_may_not_wait_yet_is_delivered_when_it_may(
    tmp_path: Path,
) -> None:
    """The store has found nothing for it, and has not said so yet."""
    settings = {"max-blocked-clients": "1"}
    with Stage(tmp_path, 2, settings, is_late=True) as stage:
        stage.send("first", [[b"CLIENT", b"ID"], [b"GETJOB", b"FROM", b"other"]])
        stage.settle()
        number = stage.replies()["first"].strip(b":\r\n")

        stage.send("second", [[b"GETJOB", b"FROM", b"q"]])
        stage.send("third", [[b"CLIENT", b"UNBLOCK", number], [b"ADDJOB", b"q", b"body", b"0"]])
        stage.go_on(1)
        stage.send("fourth", [[b"PING"]])  # a turn ends before the store has answered
        stage.settle()

        assert b"$4\r\nbody\r\n" in stage.replies()["second"]


@pytest.mark.parametrize(
    ("take", "add"),
    [
        ("GETJOB FROM", "ADDJOB $ x 0"),
        ("RQ.POP BLOCK -1", "RQ.PUSH $ x"),
    ],
    ids=["jobs", "reliable"],
)
@pytest.mark.parametrize("queues", ["{o}a {o}b", "{o}b {o}a", "{o}a b", "b {o}a"])
@pytest.mark.parametrize("kind", stores.ALL)
def test_a_client_that_waits_on_several_queues_is_not_overtaken(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, queues: str, take: str, add: str
) -> None:
    """The client that came first gets each message, and the one after it gets the next."""
    with start_broker(tmp_path, *stores.store_flags(request, kind)) as broker, ExitStack() as left:
        clients = [left.enter_context(broker.connect()) for _ in range(4)]
        other = left.enter_context(broker.connect())
        numbers = [client.call("CLIENT", "ID") for client in clients]
        waits = [queues, "{o}a", queues, "{o}a"]
        for number, client, names in zip(numbers, clients, waits, strict=True):
            client.send(*take.split(), *names.split())
            wait_until(partial(is_waiting, other, number))

        for client in clients:
            other.call(*add.replace("$", "{o}a").split())
            assert client.value()[0][-1] == b"x"


@pytest.mark.parametrize(
    ("take", "add"),
    [("GETJOB FROM", "ADDJOB $ x 0"), ("RQ.POP BLOCK -1", "RQ.PUSH $ x")],
    ids=["jobs", "reliable"],
)
@pytest.mark.parametrize("queues", ["{o}a {o}b", "{o}b {o}a", "b {o}a"])
@pytest.mark.parametrize("kind", stores.SHARED)
def test_a_client_that_asks_for_several_queues_is_not_overtaken_meanwhile(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, queues: str, take: str, add: str
) -> None:
    """To take from several queues, Redis is asked twice. A client that comes later and waits on one
    of them is asked for only after that, though the message was there for both."""
    server = request.getfixturevalue(stores.SHARED[kind])
    with start_broker(tmp_path, *stores.store_flags(request, kind)) as broker, ExitStack() as left:
        clients = [left.enter_context(broker.connect()) for _ in range(4)]
        other, adding = (left.enter_context(broker.connect()) for _ in range(2))
        numbers = [client.call("CLIENT", "ID") for client in clients]
        waits = [queues, "{o}a", queues, "{o}a"]
        with stores.silent(server):
            adding.send(*add.replace("$", "{o}a").split())
            other.call("PING")
            for number, client, names in zip(numbers, clients, waits, strict=True):
                client.send(*take.split(), *names.split())
                wait_until(partial(is_waiting, other, number))
        assert clients[0].value()[0][-1] == b"x"
        for client in clients[1:]:
            other.call(*add.replace("$", "{o}a").split())
            assert client.value()[0][-1] == b"x"


@pytest.mark.parametrize(
    ("take", "add"),
    [
        ("GETJOB FROM q", "ADDJOB q $ 0"),
        ("RQ.POP BLOCK -1 q", "RQ.PUSH q $"),
        ("WQ.LEASE {q} 60000 BLOCK 600000", "WQ.ADD {q} id-$ $"),
        ("TUBE.TAKE t", "TUBE.PUT t $"),
    ],
    ids=["jobs", "reliable", "items", "tubes"],
)
@pytest.mark.parametrize("kind", stores.SHARED)
def test_clients_that_came_together_are_not_overtaken_by_one_that_came_later(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, take: str, add: str
) -> None:
    server = request.getfixturevalue(stores.SHARED[kind])
    with start_broker(tmp_path, *stores.store_flags(request, kind)) as broker, ExitStack() as left:
        clients = [left.enter_context(broker.connect()) for _ in range(6)]
        other = left.enter_context(broker.connect())
        other.call("TUBE.CREATE", "t", "fifo")
        number = [client.call("CLIENT", "ID") for client in clients][5]
        with stores.silent(server):
            with broker.halted():  # the first five are found in one turn
                for client in clients[:5]:
                    client.send(*take.split())
            other.call("PING")  # the broker has read their requests
            clients[5].send(*take.split())
            wait_until(partial(is_waiting, other, number))
        for at in range(6):
            other.call(*add.replace("$", f"body-{at}").split())

        replies = [repr(client.read()) for client in clients]
        assert "body-5" in replies[5]
