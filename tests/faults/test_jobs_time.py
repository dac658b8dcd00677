"""Delays, leases and lives of jobs: they go on while the broker is down, and run for years.

The broker's wall clock is moved while it is down, so that it has been down for as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quinque.model.limits import SPAN_MOST_S
from tests.faults.clocks import WallClock
from tests.faults.job_beliefs import overlap
from tests.faults.job_history import JobView
from tests.faults.job_looks import show
from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client, Refusal

DAY_S = 86_400
# Where 32 bits of milliseconds, and 31 bits of seconds, end; and nearly the most there is.
LONG_SPANS_S = [4_294_967, 4_294_968, (1 << 31) - 1, 1 << 31, SPAN_MOST_S - 600]
A_LITTLE_S = 60  # more than a test takes


@pytest.fixture
def clock(tmp_path: Path) -> WallClock:
    return WallClock(tmp_path)


@pytest.fixture
def broker(tmp_path: Path, clock: WallClock) -> Iterator[RunningBroker]:
    with start_broker(tmp_path, variables=clock.variables) as broker:
        yield broker


def test_what_became_due_while_it_was_down_is_done_once_it_is_up(
    broker: RunningBroker, clock: WallClock
) -> None:
    with broker.connect() as client:
        lapsed = add(client, "RETRY", 600, queue="lapsed")
        failed = add(client, "RETRY", 600, "MAXDELIVERIES", 1, queue="failed")
        once = add(client, "RETRY", 0, queue="once")
        for queue in ("lapsed", "failed", "once"):
            assert client.call("GETJOB", "NOHANG", "FROM", queue) is not None
        delayed = add(client, "DELAY", 600)
        unheard = add(client, "DELAY", 600, "RETRY", 0)
        expired = add(client, "TTL", 600)
        ids = [lapsed, failed, once, delayed, unheard, expired]
        states = [view.status for view in views(client, *ids)]
        assert states == ["active", "active", "active", "delayed", "delayed", "queued"]

    with start_again(broker, clock, 600 + A_LITTLE_S) as client:
        assert client.call("SHOW", expired) is None
        found = {view.id.encode(): view for view in views(client, *ids)}
        assert found[failed].status == "dead"
        assert found[failed].reason == "lapsed"
        assert found[once].status == "active"
        assert client.call("GETJOB", "NOHANG", "WITHCOUNTERS", "COUNT", 9, "FROM", "lapsed") == [
            [b"lapsed", lapsed, b"body", b"nacks", 0, b"additional-deliveries", 1]
        ]
        assert client.call("GETJOB", "NOHANG", "COUNT", 9, "FROM", "q") == [
            [b"q", delayed, b"body"],
            [b"q", unheard, b"body"],
        ]
        assert client.call("GETJOB", "NOHANG", "COUNT", 9, "FROM", "once", "failed") is None


def test_what_was_not_due_yet_waits_for_the_rest_of_its_time(
    broker: RunningBroker, clock: WallClock
) -> None:
    with broker.connect() as client:
        held = add(client, "RETRY", 600)
        client.call("GETJOB", "FROM", "q")
        given_back = add(client, queue="other")
        client.call("GETJOB", "FROM", "other")
        client.call("NACK", given_back, "DELAY", 600)
        delayed = add(client, "DELAY", 600)
        before = views(client, held, given_back, delayed)

    down_s = 600 - A_LITTLE_S
    with start_again(broker, clock, down_s) as client:
        after = views(client, held, given_back, delayed)

        assert [view.status for view in after] == ["active", "delayed", "delayed"]
        for was, now in zip(before, after, strict=True):
            assert was.due_within_ms is not None
            was.due_within_ms -= down_s * 1000
            assert overlap(was.due, now.due)
        assert client.call("GETJOB", "NOHANG", "FROM", "q", "other") is None


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S])
def test_a_jump_of_the_clock_moves_no_delay_no_lease_and_no_life(
    broker: RunningBroker, clock: WallClock, jump_s: int
) -> None:
    with broker.connect() as client:
        ids = [add(client, "RETRY", 600, "TTL", 5000), add(client, "DELAY", 600)]
        client.call("GETJOB", "FROM", "q")
        before = views(client, *ids)

        clock.jump(jump_s)

        newer = add(client)
        after = views(client, *ids)
        for was, now in zip(before, after, strict=True):
            assert now.status == was.status
            assert overlap(was.due, now.due)
            assert overlap(was.end, now.end)
        assert 0 < views(client, newer)[0].ctime - after[1].ctime < A_LITTLE_S * 10**9


@pytest.mark.parametrize("span_s", LONG_SPANS_S)
def test_a_span_of_years_is_not_cut_short(
    broker: RunningBroker, clock: WallClock, span_s: int
) -> None:
    with broker.connect() as client:
        delayed = add(client, "TTL", SPAN_MOST_S, "DELAY", span_s, "RETRY", span_s)
        held = add(client, "TTL", SPAN_MOST_S, "RETRY", span_s, queue="held")
        assert client.call("GETJOB", "FROM", "held") is not None
        mortal = add(client, "TTL", span_s, "RETRY", 0, queue="mortal")
        assert delayed.endswith(b"-ffff")
        ids = [delayed, held, mortal]
        assert_years_are_left(views(client, *ids), span_s)
        assert client.call("GETJOB", "NOHANG", "FROM", "q", "held") is None

    with start_again(broker, clock, span_s - A_LITTLE_S) as client:
        assert_years_are_left(views(client, *ids), A_LITTLE_S)
        assert client.call("GETJOB", "NOHANG", "FROM", "q", "held") is None

    with start_again(broker, clock, span_s + 1) as client:
        assert client.call("GETJOB", "NOHANG", "COUNT", 9, "FROM", "q", "held") == [
            [b"q", delayed, b"body"],
            [b"held", held, b"body"],
        ]
        assert client.call("SHOW", mortal) is None


@pytest.mark.parametrize("option", ["TTL", "RETRY", "DELAY"])
@pytest.mark.parametrize("span_s", [SPAN_MOST_S + 1, 1 << 32, 10**10, (1 << 63) - 1, 1 << 64])
def test_a_span_that_is_too_long_is_refused_and_not_wrapped(
    shared: Client, option: str, span_s: int
) -> None:
    reply = shared.call("ADDJOB", "q", "body", 0, option, span_s)

    assert isinstance(reply, Refusal)
    assert option in reply.text
    assert shared.call("QLEN", "q") == 0


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A connection to a broker that keeps nothing of these tests."""
    with start_broker(tmp_path_factory.mktemp("shared")) as broker, broker.connect() as client:
        yield client


def add(client: Client, *options: Any, queue: str = "q") -> bytes:
    """A new job; its id."""
    id = client.call("ADDJOB", queue, "body", 0, *options)
    assert isinstance(id, bytes), id
    return id


def views(client: Client, *ids: bytes) -> list[JobView]:
    return list(show(client, [id.decode() for id in ids]))


def start_again(broker: RunningBroker, clock: WallClock, down_s: int) -> Client:
    """Kill it and start it so much later than it was started first; a connection."""
    broker.kill()
    clock.jump(down_s)
    broker.restart()
    return broker.connect()


def assert_years_are_left(jobs: list[JobView], span_s: int) -> None:
    """A delayed one, one in somebody's hands and one that will end have that time, less a bit."""
    delayed, held, mortal = jobs
    assert (delayed.status, held.status, mortal.status) == ("delayed", "active", "queued")
    for view in (delayed, held):
        assert view.due_within_ms is not None
        # A lease is up to 250 ms longer than was asked for.
        assert (span_s - A_LITTLE_S) * 1000 <= view.due_within_ms <= span_s * 1000 + 250
    assert span_s - A_LITTLE_S <= mortal.ttl_s <= span_s
