"""After a restart, wanted or not, jobs and their queues are what they were.

A stop is SIGTERM, a kill is SIGKILL; neither puts a job back, raises a counter or begins a span of
time anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.job_beliefs import overlap
from tests.faults.job_history import JobView
from tests.faults.job_looks import all_ids, pairs, show
from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client, Refusal

Restart = Callable[[], Client]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker of its own, with bodies only on the disk."""
    with start_broker(tmp_path, "--maxmemory", "1") as running:
        yield running


@pytest.fixture(params=["stop", "kill"])
def restart(request: pytest.FixtureRequest, broker: RunningBroker) -> Iterator[Restart]:
    """End the broker in this way and start it again; a connection to the new one."""
    with ExitStack() as stack:

        def end_and_start() -> Client:
            getattr(broker, request.param)()
            broker.restart()
            return stack.enter_context(broker.connect())

        yield end_and_start


# -- jobs in each state --------------------------------------------------------------------------


def test_what_was_queued_is_queued_in_the_same_order(client: Client, restart: Restart) -> None:
    bodies = [b"", b"\0\r\n\xff", b"x" * 100_000]
    ids = [add(client, body=body) for body in bodies]

    client = restart()

    expected = [[b"q", id, body] for id, body in zip(ids, bodies, strict=True)]
    assert client.call("QLEN", "q") == 3
    assert client.call("QPEEK", "q", 10) == expected
    assert client.call("GETJOB", "COUNT", 10, "FROM", "q") == expected


def test_a_job_of_any_state_is_in_that_state_with_all_that_is_known_of_it(
    client: Client, restart: Restart
) -> None:
    dead = add(client, "MAXDELIVERIES", 1, queue="failing")
    take(client, "failing")
    client.call("NACK", dead, "REASON", "out of paper")
    held = add(client, "TTL", 5000, "RETRY", 700, "ID", "held", queue="held")
    assert take(client, "held")[1] == held
    delayed = add(client, "DELAY", 600, "RETRY", 50, "MAXDELIVERIES", 3)
    queued = add(client, "TTL", 900, "ID", "queued")
    ids = [dead, held, delayed, queued]
    before = views(client, *ids)
    assert [view.status for view in before] == ["dead", "active", "delayed", "queued"]

    after = views(restart(), *ids)

    assert [lasting(view) for view in after] == [lasting(view) for view in before]
    assert all(overlap(a.due, b.due) for a, b in zip(after, before, strict=True))
    assert all(overlap(a.end, b.end) for a, b in zip(after, before, strict=True))


def test_counters_are_as_they_were_answered_and_not_one_more(
    client: Client, restart: Restart
) -> None:
    id = add(client)
    for word in ("NACK", "NACK", "ENQUEUE"):
        take(client)
        assert client.call(word, id) == 1
    take(client)

    client = restart()

    (view,) = views(client, id)
    assert (view.status, view.nacks, view.requeues, view.deliveries) == ("active", 2, 1, 4)
    assert client.call("NACK", id) == 1
    assert take(client, "q", "WITHCOUNTERS")[3:] == [b"nacks", 3, b"additional-deliveries", 1]


def test_a_job_in_somebodys_hands_is_given_to_nobody_else(client: Client, restart: Restart) -> None:
    id = add(client, "RETRY", 600)
    take(client)

    client = restart()

    assert client.call("GETJOB", "NOHANG", "FROM", "q") is None
    assert client.call("WORKING", id) == 600
    assert client.call("ACKJOB", id) == 1


def test_a_job_given_back_goes_before_those_that_came_after_it(
    client: Client, restart: Restart
) -> None:
    first, second = add(client), add(client)
    take(client)
    client.call("NACK", first)

    client = restart()
    third = add(client)

    assert [row[1] for row in client.call("QPEEK", "q", 10)] == [first, second, third]
    assert [take(client)[1] for _ in range(3)] == [first, second, third]


def test_what_was_taken_off_the_queue_stays_off_it(client: Client, restart: Restart) -> None:
    id = add(client, "RETRY", 600)
    client.call("DEQUEUE", id)
    before = views(client, id)

    client = restart()

    assert client.call("GETJOB", "NOHANG", "FROM", "q") is None
    after = views(client, id)
    assert lasting(after[0]) == lasting(before[0])
    assert overlap(after[0].due, before[0].due)
    assert client.call("ENQUEUE", id) == 1
    assert take(client)[1] == id


def test_a_job_that_is_finished_does_not_come_back(client: Client, restart: Restart) -> None:
    ids = [add(client, "ID", f"k{number}") for number in range(4)]
    take(client)
    for word, id in zip(("ACKJOB", "FASTACK", "DELJOB"), ids, strict=False):
        assert client.call(word, id) == 1
    assert client.call("QPURGE", "q") == 1
    flushed = add(client, queue="flushed")
    client.call("DEBUG", "FLUSHALL")

    client = restart()

    assert all_ids(client) == []
    assert [client.call("SHOW", id) for id in (*ids, flushed)] == [None] * 5
    assert client.call("ACKJOB", *ids) == 0
    assert client.call("FINDJOB", "q", "k0") is None
    assert client.call("GETJOB", "NOHANG", "FROM", "q", "flushed") is None


# -- at most once --------------------------------------------------------------------------------


def test_a_job_with_retry_0_that_nobody_got_is_delivered(client: Client, restart: Restart) -> None:
    id = add(client, "RETRY", 0)

    client = restart()

    assert take(client)[1] == id
    assert client.call("GETJOB", "NOHANG", "FROM", "q") is None


def test_a_job_with_retry_0_that_somebody_got_is_never_delivered_again(
    client: Client, restart: Restart
) -> None:
    id = add(client, "RETRY", 0)
    take(client)

    client = restart()

    assert client.call("GETJOB", "NOHANG", "FROM", "q") is None
    assert client.call("NACK", id) == 0
    assert client.call("ENQUEUE", id) == 0
    assert views(client, id)[0].due is None
    assert client.call("GETJOB", "NOHANG", "FROM", "q") is None
    assert client.call("ACKJOB", id) == 1


def test_a_job_with_retry_0_whose_delay_runs_may_still_be_queued(
    client: Client, restart: Restart
) -> None:
    id = add(client, "RETRY", 0, "DELAY", 600)

    client = restart()

    assert client.call("ENQUEUE", id) == 1
    assert take(client)[1] == id
    assert client.call("ENQUEUE", id) == 0


# -- keys, limits and dead jobs ------------------------------------------------------------------


def test_a_key_stays_with_its_job_and_is_free_when_that_is_gone(
    client: Client, restart: Restart
) -> None:
    living, gone = add(client, "ID", "living"), add(client, "ID", "gone")
    client.call("ACKJOB", gone)

    client = restart()

    assert client.call("FINDJOB", "q", "living") == living
    assert client.call("FINDJOB", "q", "gone") is None
    assert add(client, "ID", "living", body=b"another") == living
    assert add(client, "ID", "gone") != gone
    assert client.call("QLEN", "q") == 2


def test_deliveries_before_and_after_are_counted_together(client: Client, restart: Restart) -> None:
    id = add(client, "MAXDELIVERIES", 2)
    take(client)
    client.call("NACK", id)

    client = restart()

    take(client)
    assert client.call("NACK", id) == 1
    assert views(client, id)[0].status == "dead"


def test_dead_jobs_are_kept_with_their_reasons_and_can_be_redriven(
    client: Client, restart: Restart
) -> None:
    client.call("QSET", "q", "MAXDELIVERIES", 1)
    ids = [add(client) for _ in range(3)]
    for id, reason in zip(ids, ("first", "second", ""), strict=True):
        take(client)
        client.call("NACK", id, *(("REASON", reason) if reason else ()))
    before = client.call("QPEEK", "q", 10, "STATE", "dead")
    assert [row[-1] for row in before] == [b"first", b"second", b"nacked"]

    client = restart()

    assert client.call("QPEEK", "q", 10, "STATE", "dead") == before
    assert client.call("QREDRIVE", "q", "COUNT", 2) == 2
    assert take(client, "q", "WITHCOUNTERS")[1:] == [
        ids[0],
        b"body",
        b"nacks",
        0,
        b"additional-deliveries",
        0,
    ]


# -- queues and the node -------------------------------------------------------------------------


def test_a_pause_holds_until_it_is_ended(client: Client, restart: Restart) -> None:
    pauses = [b"in", b"out", b"all"]
    ids = {pause: add(client, queue=pause.decode()) for pause in pauses}
    for pause in pauses:
        client.call("PAUSE", pause, pause)
        client.call("PAUSE", b"empty-" + pause, pause)

    client = restart()

    for pause in pauses:
        assert client.call("PAUSE", pause, "state") == pause
        assert client.call("PAUSE", b"empty-" + pause, "state") == pause
        is_refused = isinstance(client.call("ADDJOB", b"empty-" + pause, "body", 0), Refusal)
        assert is_refused == (pause != b"out")
        is_empty = client.call("GETJOB", "NOHANG", "FROM", pause) is None
        assert is_empty == (pause != b"in")
        client.call("PAUSE", pause, "none")
        client.call("ENQUEUE", ids[pause])
        assert take(client, pause.decode())[1] == ids[pause]


def test_what_is_set_for_a_queue_stays_set_and_its_rate_is_not_filled_up(
    client: Client, restart: Restart
) -> None:
    client.call("QSET", "q", "MAXDELIVERIES", 7, "RATE", 2, 600)
    for _ in range(3):
        add(client)
    take(client)
    take(client)
    before = client.call("QSET", "q")

    client = restart()

    assert client.call("QSET", "q") == before
    assert client.call("GETJOB", "NOHANG", "FROM", "q") is None
    client.call("QSET", "q", "RATE", 0, 0)
    assert take(client) is not None


def test_what_was_counted_of_a_queue_is_counted_on(client: Client, restart: Restart) -> None:
    ids = [add(client) for _ in range(5)]
    for _ in range(3):
        take(client)
    client.call("NACK", ids[0])
    client.call("ACKJOB", ids[1])
    before = pairs(client.call("QSTAT", "q", "DETAILS"))
    assert (before["jobs-in"], before["jobs-out"]) == (6, 3)

    client = restart()

    after = pairs(client.call("QSTAT", "q", "DETAILS"))
    for name in ("age", "idle"):
        assert before.pop(name) <= after.pop(name)
    assert after == before
    take(client)
    assert pairs(client.call("QSTAT", "q"))["jobs-out"] == 4


def test_the_node_has_the_same_id_and_leaves_if_it_was_leaving(
    client: Client, restart: Restart
) -> None:
    hello, node_id = client.call("HELLO"), client.call("CLUSTER", "MYID")
    id = add(client)
    client.call("CLUSTER", "LEAVING", "yes")

    client = restart()

    assert client.call("CLUSTER", "MYID") == client.call("HELLO")[1] == hello[1] == node_id
    assert client.call("CLUSTER", "LEAVING") == b"yes"
    assert client.call("ADDJOB", "q", "body", 0).text.startswith("NOREPL ")
    client.call("CLUSTER", "LEAVING", "no")
    assert add(client)[:10] == id[:10]


def test_who_waits_for_a_pattern_gets_what_was_there_before(
    client: Client, restart: Restart
) -> None:
    id = add(client, queue="mail.new")

    client = restart()

    assert client.call("GETJOB", "MATCH", "mail.*") == [[b"mail.new", id, b"body"]]


def add(client: Client, *options: Any, queue: str = "q", body: bytes = b"body") -> bytes:
    """A new job; its id."""
    id = client.call("ADDJOB", queue, body, 0, *options)
    assert isinstance(id, bytes), id
    return id


def take(client: Client, queue: str = "q", *options: str) -> Any:
    """The next job of the queue, as GETJOB shows it."""
    return client.call("GETJOB", "NOHANG", *options, "FROM", queue)[0]


def views(client: Client, *ids: bytes) -> list[JobView]:
    return list(show(client, [id.decode() for id in ids]))


def lasting(view: JobView) -> tuple[Any, ...]:
    """What time does not change."""
    return (
        view.id,
        view.queue,
        view.body,
        view.status,
        view.ctime,
        view.delay_s,
        view.retry_s,
        view.nacks,
        view.requeues,
        view.deliveries,
        view.max_deliveries,
        view.reason,
        view.key,
    )
