"""A client that goes while the store is being asked for it takes nothing with it.

A store that answers later leaves moments between the question and the answer, and between the
answer and the bytes that tell of it. A client can be lost in each of them. It can also be lost in
the turn in which a message comes that it waits for.

A job with RETRY 0 is delivered at most once: if the broker hands it to a client that is gone, it is
lost.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.broker import RunningBroker, start_broker, wait_until
from tests.server.iproto import LISTEN, IprotoClient
from tests.server.iproto import call as iproto_call
from tests.server.resp import Client
from tests.servers import stores
from tests.transcripts.stage import Stage

pytest_generate_tests = stores.on_every_kind

# For each family: a request that waits, one that adds, one that takes. $q is the queue.
WAITS = {
    "jobs": ("GETJOB FROM $q", "ADDJOB $q body 0 RETRY 0", "GETJOB NOHANG FROM $q"),
    "jobs by pattern": ("GETJOB MATCH $q*", "ADDJOB $q body 0 RETRY 0", "GETJOB NOHANG FROM $q"),
    "items": ("WQ.LEASE $q 60000 BLOCK 600000", "WQ.ADD $q id body", "WQ.LEASE $q 60000"),
    "tubes": ("TUBE.TAKE $q", "TUBE.PUT $q body", "TUBE.TAKE $q 0"),
    "reliable": ("RQ.POP BLOCK -1 $q", "RQ.PUSH $q body", "RQ.POP $q"),
}
MOMENTS = range(12)  # iterations of the event loop; by then everything is answered


@pytest.fixture(params=MOMENTS)
def moment(request: pytest.FixtureRequest) -> int:
    moment: int = request.param
    return moment


def words(text: str) -> list[bytes]:
    return [word.encode() for word in text.split()]


def call(stage: Stage, client: str, text: str) -> bytes:
    stage.send(client, [words(text)])
    stage.settle()
    return stage.replies().get(client, b"")


def lose(stage: Stage, client: str, moment: int) -> bytes:
    """The client is lost at that moment; what it had been told by then."""
    stage.go_on(moment)
    got = stage.replies().get(client, b"")
    stage.leave(client)
    return got


@pytest.mark.parametrize("retry", ["", " RETRY 0"])
def test_a_job_it_asked_for(moment: int, tmp_path: Path, retry: str) -> None:
    with Stage(tmp_path, 2, is_late=True) as stage:
        call(stage, "b", "ADDJOB w body 0" + retry)
        stage.send("a", [words("GETJOB NOHANG FROM w")])

        got = lose(stage, "a", moment)
        assert (b"body" in got) != (b"body" in call(stage, "b", "GETJOB NOHANG FROM w"))


@pytest.mark.parametrize("retry", ["", " RETRY 0"])
def test_a_job_it_waited_for(moment: int, tmp_path: Path, retry: str) -> None:
    with Stage(tmp_path, 2, is_late=True) as stage:
        call(stage, "a", "GETJOB FROM w")
        stage.send("b", [words("ADDJOB w body 0" + retry)])

        got = lose(stage, "a", moment)
        assert (b"body" in got) != (b"body" in call(stage, "b", "GETJOB NOHANG FROM w"))


def test_what_it_asked_for_in_a_transaction(moment: int, tmp_path: Path) -> None:
    """The rest of the transaction is carried out, and what it takes is for others."""
    with Stage(tmp_path, 2, {"session-ttr": "60"}, is_late=True) as stage:
        call(stage, "b", "TUBE.CREATE t utube")
        for add in (
            "ADDJOB w job 0 RETRY 0",
            "WQ.ADD i id item",
            "QADD e 60 event",
            "TUBE.PUT t task",
        ):
            call(stage, "b", add)
        takes = ["GETJOB FROM w", "WQ.LEASE i 60000", "QGET e g", "TUBE.TAKE t 0"]
        transaction = ["MULTI", *takes, "ADDJOB done x 0", "EXEC"]
        stage.send("a", [words(text) for text in transaction])

        got = lose(stage, "a", moment)
        stage.settle()
        stage.pass_time(1)
        for body, take in zip((b"job", b"item", b"event", b"task"), takes, strict=True):
            left = call(stage, "b", take if body != b"job" else "GETJOB NOHANG FROM w")
            assert (body in got) != (body in left), body
        # It began to run, or it did not.
        assert call(stage, "b", "QLEN done") in (b":1\r\n", b":0\r\n")


def test_jobs_that_several_asked_for_together(moment: int, tmp_path: Path) -> None:
    with Stage(tmp_path, 2, is_late=True) as stage:
        call(stage, "b", "ADDJOB w one 0")
        call(stage, "b", "ADDJOB w two 0")
        for client in ("a", "c"):
            stage.send(client, [words("GETJOB NOHANG FROM w")])

        stage.go_on(moment)
        got = b"".join(stage.replies().values())
        stage.leave("a")
        got += stage.replies().get("c", b"")
        got += call(stage, "b", "GETJOB NOHANG FROM w") + call(stage, "b", "GETJOB NOHANG FROM w")
        assert got.count(b"one") == got.count(b"two") == 1


@pytest.mark.parametrize("waits", [False, True])
def test_an_item_it_asked_for(moment: int, tmp_path: Path, waits: bool) -> None:
    """A millisecond later it is there for others."""
    with Stage(tmp_path, 2, is_late=True) as stage:
        lease = "WQ.LEASE i 60000 BLOCK 5000"
        if waits:
            call(stage, "a", lease)
            stage.send("b", [words("WQ.ADD i id body")])
        else:
            call(stage, "b", "WQ.ADD i id body")
            stage.send("a", [words(lease)])

        got = lose(stage, "a", moment)
        stage.pass_time(1)
        assert (b"body" in got) != (b"body" in call(stage, "c", "WQ.LEASE i 60000"))


@pytest.mark.parametrize("waits", [False, True])
def test_an_element_it_asked_for(moment: int, tmp_path: Path, waits: bool) -> None:
    """It is where it was: before the others."""
    with Stage(tmp_path, 2, is_late=True) as stage:
        if waits:
            call(stage, "a", "RQ.POP BLOCK -1 q")
            stage.send("b", [words("RQ.PUSH q body"), words("RQ.PUSH q other")])
        else:
            call(stage, "b", "RQ.PUSH q body")
            call(stage, "b", "RQ.PUSH q other")
            stage.send("a", [words("RQ.POP q")])

        got = lose(stage, "a", moment)
        left = call(stage, "b", "RQ.POP q")
        assert (b"body" in got) != (b"body" in left)
        assert b"other" in left + call(stage, "b", "RQ.POP q")


def test_an_event_it_asked_for(moment: int, tmp_path: Path) -> None:
    with Stage(tmp_path, 2, is_late=True) as stage:
        call(stage, "b", "QADD e 60 body")
        stage.send("a", [words("QGET e g EX 30")])

        got = lose(stage, "a", moment)
        assert (b"body" in got) != (b"body" in call(stage, "b", "QGET e g EX 30"))


@pytest.mark.parametrize("waits", [False, True])
def test_a_task_it_asked_for(moment: int, tmp_path: Path, waits: bool) -> None:
    """Though its session is kept, what it never got is for others at once."""
    with Stage(tmp_path, 2, {"session-ttr": "60"}, is_late=True) as stage:
        call(stage, "b", "TUBE.CREATE t utube")
        if waits:
            call(stage, "a", "TUBE.TAKE t")
            stage.send("b", [words("TUBE.PUT t body")])
        else:
            call(stage, "b", "TUBE.PUT t body")
            stage.send("a", [words("TUBE.TAKE t 5")])

        got = lose(stage, "a", moment)
        assert (b"$1\r\nt\r\n" in got) != (b"body" in call(stage, "b", "TUBE.TAKE t 0"))


def test_tasks_it_asked_for_one_after_the_other(moment: int, tmp_path: Path) -> None:
    """They are one operation, and go back as one."""
    with Stage(tmp_path, 2, is_late=True) as stage:
        call(stage, "b", "TUBE.CREATE t fifo")
        call(stage, "b", "TUBE.MPUT t one two three")
        stage.send("a", [words("TUBE.TAKE t 0")] * 2)

        lose(stage, "a", moment)
        got = call(stage, "b", "TUBE.TAKE t 0 COUNT 5")
        assert [got.count(each) for each in (b"one", b"two", b"three")] == [1, 1, 1]


def test_tasks_that_several_asked_for_together(moment: int, tmp_path: Path) -> None:
    """Each was for its own session, and only what was for the one that went is for others."""
    with Stage(tmp_path, 2, {"session-ttr": "60"}, is_late=True) as stage:
        call(stage, "b", "TUBE.CREATE t fifo")
        call(stage, "b", "TUBE.MPUT t one two")
        for client in ("a", "c"):
            stage.send(client, [words("TUBE.TAKE t 0")])

        stage.go_on(moment)
        got = b"".join(stage.replies().values())
        stage.leave("a")
        got += stage.replies().get("c", b"")
        got += call(stage, "b", "TUBE.TAKE t 0 COUNT 5")
        assert got.count(b"one") == got.count(b"two") == 1


def test_a_session_it_was_about_to_join(moment: int, tmp_path: Path) -> None:
    """The client has left by the time it has joined: the session has no connection."""
    with Stage(tmp_path, 2, is_late=True) as stage:
        call(stage, "b", "TUBE.CREATE t fifo")
        call(stage, "b", "TUBE.PUT t body")
        call(stage, "c", "TUBE.IDENTIFY shared")
        call(stage, "c", "TUBE.TAKE t 0")
        stage.send("a", [words("TUBE.IDENTIFY shared")])

        lose(stage, "a", moment)
        assert b"body" not in call(stage, "b", "TUBE.TAKE t 0")
        stage.leave("c")
        assert b"body" in call(stage, "b", "TUBE.TAKE t 0")


# -- in the turn in which a message comes -----------------------------------------------------


@pytest.mark.parametrize("family", WAITS)
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("way", ["close", "reset", "kill"])
def test_a_client_that_leaves_in_the_turn_of_an_addition_gets_nothing(
    broker: RunningBroker, client: Client, family: str, is_first: bool, way: str
) -> None:
    queue = f"{{{family.split()[0]}-{is_first}-{way}-{len(family)}}}"
    waits, adds, takes = (text.replace("$q", queue).split() for text in WAITS[family])
    if family == "tubes":
        client.call("TUBE.CREATE", queue, "fifo")
    with broker.connect() as waiter, broker.connect() as killer:
        number = waiter.call("CLIENT", "ID")
        waiter.send(*waits)
        wait_until(lambda: b" flags=b " in client.call("CLIENT", "LIST", "ID", number))

        with broker.halted():
            if not is_first:
                client.send(*adds)
            if way == "kill":
                killer.send("CLIENT", "KILL", "ID", number)
            elif way == "reset":
                waiter.reset()
            else:
                waiter.close()
            if is_first:
                client.send(*adds)

        client.read()
        assert b"body" in client.ask(*takes)


def test_a_client_that_dies_while_a_large_job_is_sent_leaves_it_for_others(
    broker: RunningBroker, client: Client
) -> None:
    body = b"x" * 16_000_000  # more than the buffers of both ends have room for
    with broker.connect() as waiter:
        number = waiter.call("CLIENT", "ID")
        waiter.send("GETJOB", "FROM", "large")
        wait_until(lambda: b" flags=b " in client.call("CLIENT", "LIST", "ID", number))
        client.call("ADDJOB", "large", body, 0, "RETRY", 0)
        wait_until(lambda: b" omem=0 " not in client.call("CLIENT", "LIST", "ID", number))

        waiter.reset()

    wait_until(lambda: client.call("CLIENT", "LIST", "ID", number) == b"")
    assert client.call("GETJOB", "FROM", "large")[0][2] == body


def test_a_client_that_dies_while_a_large_element_is_sent_leaves_it_for_others(
    broker: RunningBroker, client: Client
) -> None:
    """It is where it was: before the others."""
    body = b"x" * 16_000_000  # more than the buffers of both ends have room for
    with broker.connect() as waiter:
        number = waiter.call("CLIENT", "ID")
        waiter.send("RQ.POP", "BLOCK", -1, "elements")
        wait_until(lambda: b" flags=b " in client.call("CLIENT", "LIST", "ID", number))
        client.call("RQ.PUSH", "elements", body)
        client.call("RQ.PUSH", "elements", "small")
        wait_until(lambda: b" omem=0 " not in client.call("CLIENT", "LIST", "ID", number))

        waiter.reset()

    wait_until(lambda: client.call("CLIENT", "LIST", "ID", number) == b"")
    # On Redis it may be on its way back.
    wait_until(lambda: client.call("RQ.INSPECT", "elements", 0, 1)[0][1] == body)
    assert [client.call("RQ.POP", "elements")[0][2] for _ in range(2)] == [body, b"small"]


@pytest.mark.parametrize("family", WAITS)
def test_a_client_whose_reset_comes_with_its_take_gets_nothing(
    broker: RunningBroker, client: Client, family: str
) -> None:
    """The broker cannot write the reply."""
    queue = f"{{reset-{family.replace(' ', '-')}}}"
    _, adds, takes = (text.replace("$q", queue).split() for text in WAITS[family])
    if family == "tubes":
        client.call("TUBE.CREATE", queue, "fifo")
    client.call(*adds)
    with broker.connect() as taker:
        number = taker.call("CLIENT", "ID")
        with broker.halted():
            taker.send(*takes)
            taker.reset()

    wait_until(lambda: client.call("CLIENT", "LIST", "ID", number) == b"")
    wait_until(lambda: b"body" in client.ask(*takes))  # on Redis it may be on its way back


@pytest.mark.parametrize("kind", stores.ALL)
@pytest.mark.parametrize("waits", [False, True])
def test_a_tarantool_client_that_dies_while_tasks_are_sent_leaves_all_that_it_has_not_got(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, waits: bool
) -> None:
    """Though its session is kept. The buffers of both ends have room for less than one task."""
    flags = [*LISTEN, "--session-ttr", "600", *stores.store_flags(request, kind)]
    bodies = [letter * 8_000_000 for letter in (b"a", b"b", b"c")]
    puts = [("TUBE.PUT", "t", body) for body in bodies]
    takes = [iproto_call(number, "queue.tube.t:take", 600) for number in range(3)]
    with start_broker(tmp_path, *flags) as broker, broker.connect() as client:
        client.call("TUBE.CREATE", "t", "fifo")
        with IprotoClient(broker) as taker:
            if waits:
                taker.send(*takes)
                wait_until(lambda: b"blocked_clients:3" in client.call("INFO", "clients"))
            for put in puts:
                client.call(*put)
            if not waits:
                taker.send(*takes)
            wait_until(lambda: client.call("CLIENT", "LIST").count(b" omem=0 ") == 1)
            wait_until(lambda: b"blocked_clients:0" in client.call("INFO", "clients"))
            taker.reset()

        assert [client.call("TUBE.TAKE", "t", 60)[2] for _ in bodies] == bodies


@pytest.mark.parametrize("kind", stores.ALL)
def test_a_tarantool_client_that_leaves_in_the_turn_of_an_addition_gets_nothing(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """Though its session is kept, the task is for others at once."""
    flags = [*LISTEN, "--session-ttr", "600", *stores.store_flags(request, kind)]
    with start_broker(tmp_path, *flags) as broker, broker.connect() as client:
        client.call("TUBE.CREATE", "t", "fifo")
        with IprotoClient(broker) as waiter:
            waiter.send(iproto_call(1, "queue.tube.t:take"))
            wait_until(lambda: b"blocked_clients:1" in client.call("INFO", "clients"))

            with broker.halted():
                client.send("TUBE.PUT", "t", "body")
                waiter.close()

        client.read()
        assert b"body" in client.ask("TUBE.TAKE", "t", 0)


@pytest.mark.parametrize("family", ["jobs", "items", "tubes", "reliable"])
def test_a_client_that_is_killed_in_the_turn_of_its_answer_gets_the_answer(
    broker: RunningBroker, client: Client, family: str
) -> None:
    queue = f"{{killed-{family}}}"
    _, adds, takes = (text.replace("$q", queue).split() for text in WAITS[family])
    if family == "tubes":
        client.call("TUBE.CREATE", queue, "fifo")
    client.call(*adds)
    with broker.connect() as victim:
        number = victim.call("CLIENT", "ID")

        with broker.halted():
            victim.send(*takes)
            client.send("CLIENT", "KILL", "ID", number)

        client.read()
        got = victim.read_to_end()
    # With its session, the tasks of a client come back.
    assert (b"body" in got) != (b"body" in client.ask(*takes)) or family == "tubes"


@pytest.mark.parametrize(
    "waits", ["WAITJOB 0 $id", "CLAIM.FILL w s 1 1 COUNT 1 TIMEOUT 600000"], ids=["job", "claim"]
)
def test_a_client_whose_rights_are_looked_up_waits_no_more(
    moment: int, tmp_path: Path, waits: str
) -> None:
    """The store is asked for the queue of its job, and for the family of its claim."""
    users = tmp_path / "users.toml"
    users.write_text('[users.default]\nfamilies = ["jobs"]\nqueues = ["w"]\n')
    with Stage(tmp_path / "data", 2, {"users": str(users)}, is_late=True) as stage:
        id = call(stage, "b", "ADDJOB w body 0")[1:-2].decode()
        call(stage, "b", "GETJOB FROM w")
        call(stage, "b", "CLAIM.OPEN w s")
        stage.send("a", [words(waits.replace("$id", id))])

        lose(stage, "a", moment)
        stage.settle()
        assert stage.broker.waiters.count == 0
