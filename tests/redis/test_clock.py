"""A broker's clock follows that of Redis."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from quinque.stores.redis.clock import FollowingClock
from tests.faults.clocks import WallClock
from tests.server.broker import start_broker
from tests.server.resp import TIMEOUT_S, Client
from tests.servers import stores
from tests.servers.patience import wait_until

SECOND_US = 1_000_000
LIFE_S, LEASE_S = 600, 300
BRIEF_S, BRIEF_MS = 0.2, 200
WAIT_MS = int(TIMEOUT_S * 1000)


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The machine's monotonic clock, in µs: a test may move it."""
    now_us = [0]
    monkeypatch.setattr("time.monotonic_ns", lambda: now_us[0] * 1000)
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000 * SECOND_US * 1000)
    return now_us


def test_it_is_set_forward_at_once(passing: list[int]) -> None:
    clock = FollowingClock()
    there_us = clock.now_us() + 3600 * SECOND_US

    clock.follow(there_us, took_us=2000)
    assert clock.now_us() == there_us


def test_it_is_set_back_slowly_and_never_goes_back(passing: list[int]) -> None:
    clock = FollowingClock()
    ahead_us = SECOND_US
    start_us = latest_us = clock.now_us()
    clock.follow(start_us, took_us=0)
    for second in range(1, 21):
        passing[0] += SECOND_US
        clock.follow(start_us - ahead_us + second * SECOND_US, took_us=0)
        assert clock.now_us() > latest_us
        latest_us = clock.now_us()

    assert clock.now_us() == start_us - ahead_us + 20 * SECOND_US


@pytest.mark.parametrize("off_s", [-3600, 3600])
def test_it_starts_at_the_time_of_redis(passing: list[int], off_s: int) -> None:
    clock = FollowingClock()
    there_us = clock.now_us() - off_s * SECOND_US

    clock.follow(there_us, took_us=2000)
    assert clock.now_us() == there_us
    assert abs(clock.wall_off_us - off_s * SECOND_US) <= 2000


def test_a_difference_that_the_way_explains_changes_nothing(passing: list[int]) -> None:
    clock = FollowingClock()
    now_us = clock.now_us()

    clock.follow(now_us - 900, took_us=2000)
    clock.follow(now_us - 1100, took_us=2000)
    assert clock.now_us() == now_us


def test_after_a_long_way_it_moves_no_further_than_is_sure(passing: list[int]) -> None:
    clock = FollowingClock()
    now_us = clock.now_us()

    clock.follow(now_us + 1, took_us=SECOND_US)
    assert clock.now_us() == now_us + 1


def test_it_starts_no_earlier_than_what_is_known(passing: list[int]) -> None:
    clock = FollowingClock()
    later_us = clock.now_us() + SECOND_US

    clock.start_from(later_us)
    assert clock.now_us() == later_us


def test_a_broker_whose_clock_is_ahead_ends_nothing_early_and_says_so(
    redis_url: str, tmp_path: Path
) -> None:
    wall = WallClock(tmp_path)
    wall.jump(3600)
    flags = ("--store", redis_url)
    with start_broker(tmp_path / "a", *flags) as right, right.connect() as client:
        event = client.call("QADD", "news", 600, "one")
        job = client.call("ADDJOB", "w", "1", 0, "TTL", 600)
        client.call("ADDJOB", "late", "1", 0, "DELAY", 600, "TTL", 1200)
        with (
            start_broker(tmp_path / "b", *flags, variables=wall.variables) as fast,
            fast.connect() as other,
        ):
            assert other.call("GETJOB", "NOHANG", "FROM", "late") is None
            assert other.call("QLEN", "w") == client.call("QLEN", "w") == 1
            assert other.call("GETJOB", "FROM", "w")[0][1] == job
            assert other.call("QGET", "news", "g", "EX", 60)[0] == event
            # As far as is sure: the longer Redis takes to answer, the less.
            assert abs(3_600_000 - clock_ahead_ms(other)) < 60_000
        said = [found for line in fast.log if (found := re.search(r"clock is (\S+) s ahead", line))]
        assert [3_540 < float(found[1]) < 3_660 for found in said] == [True], fast.log


@pytest.fixture(params=[*(("redis", by_s) for by_s in (-3600, 3600)), ("cluster", 3600)])
def hour_apart(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Client, Client]]:
    """Clients of two brokers on one store. The clock of the second is an hour off."""
    kind, by_s = request.param
    wall = WallClock(tmp_path)
    wall.jump(by_s)
    flags = stores.store_flags(request, kind)
    with (
        start_broker(tmp_path / "a", *flags) as right,
        start_broker(tmp_path / "b", *flags, variables=wall.variables) as wrong,
        right.connect() as one,
        wrong.connect() as two,
    ):
        assert abs(clock_ahead_ms(two) - 1000 * by_s) < 60_000, "it really is off"
        yield one, two


def both_ways(brokers: tuple[Client, Client]) -> Iterator[tuple[str, Client, Client]]:
    """A part of the names of queues, one of the brokers, and the other one."""
    one, two = brokers
    yield "a", one, two
    yield "b", two, one


def test_two_brokers_an_hour_apart_end_nothing_early(hour_apart: tuple[Client, Client]) -> None:
    for name, one, other in both_ways(hour_apart):
        event = one.call("QADD", f"e{name}", LIFE_S, "1")
        assert other.call("QGET", f"e{name}", "g", "EX", LEASE_S)[0] == event
        assert one.call("QGET", f"e{name}", "g", "EX", LEASE_S) is None

        job = one.call("ADDJOB", f"j{name}", "1", 0, "TTL", LIFE_S, "RETRY", LEASE_S)
        one.call("ADDJOB", f"late{name}", "1", 0, "TTL", LIFE_S, "DELAY", LEASE_S)
        assert other.call("GETJOB", "NOHANG", "FROM", f"j{name}")[0][1] == job
        assert one.call("GETJOB", "NOHANG", "FROM", f"j{name}") is None
        assert one.call("GETJOB", "NOHANG", "FROM", f"late{name}") is None
        assert other.call("GETJOB", "NOHANG", "FROM", f"late{name}") is None

        one.call("RQ.PUSH", f"r{name}", "1")
        one.call("EXPIRE", f"r{name}", LIFE_S)
        assert LEASE_S < other.call("TTL", f"r{name}") <= LIFE_S
        one.call("EXPIREAT", f"r{name}", int(time.time()) + LIFE_S)
        assert LEASE_S < other.call("TTL", f"r{name}") <= LIFE_S
        assert other.call("RQ.POP", f"r{name}")
        assert one.call("RQ.RECOVER", f"r{name}", 1, LEASE_S * 1000) == []

        one.call("WQ.ADD", f"{{i{name}}}", "1", "x")
        assert other.call("WQ.LEASE", f"{{i{name}}}", LEASE_S * 1000)
        assert not one.call("WQ.LEASE", f"{{i{name}}}", LEASE_S * 1000)

        one.call("TUBE.CREATE", f"t{name}", "fifottl")
        one.call("TUBE.PUT", f"t{name}", "1", "TTL", LIFE_S, "TTR", LEASE_S)
        one.call("TUBE.PUT", f"t{name}", "2", "TTL", LIFE_S, "DELAY", LEASE_S)
        assert other.call("TUBE.TAKE", f"t{name}", 0)
        assert not one.call("TUBE.TAKE", f"t{name}", 0)
        assert not other.call("TUBE.TAKE", f"t{name}", 0)

        one.call("ADDJOB", f"c{name}", "1", 0, "TTL", LIFE_S)
        claim(other, f"c{name}", LEASE_S * 1000)
        assert one.call("GETJOB", "NOHANG", "FROM", f"c{name}") is None


def test_two_brokers_an_hour_apart_end_everything_in_time(
    hour_apart: tuple[Client, Client],
) -> None:
    for name, one, other in both_ways(hour_apart):
        event = one.call("QADD", f"e{name}", LIFE_S, "1")
        assert one.call("QGET", f"e{name}", "g", "EX", BRIEF_S)[0] == event
        assert other.call("QNOTIFY", "g", TIMEOUT_S, f"e{name}") == f"e{name}".encode()
        one.call("QADD", f"short{name}", BRIEF_S, "1")
        wait_until(partial(is_nothing, other, "QLPEEK", f"short{name}"), "the event expires")

        job = one.call("ADDJOB", f"j{name}", "1", 0, "RETRY", 1)
        assert one.call("GETJOB", "FROM", f"j{name}")[0][1] == job
        assert first_job(other, f"j{name}") == job
        late = one.call("ADDJOB", f"late{name}", "1", 0, "DELAY", BRIEF_S)
        assert first_job(other, f"late{name}") == late
        one.call("ADDJOB", f"short{name}j", "1", 0, "TTL", 1)
        wait_until(partial(is_nothing, other, "QLEN", f"short{name}j"), "the job expires")

        one.call("RQ.PUSH", f"r{name}", "1")
        one.call("PEXPIRE", f"r{name}", BRIEF_MS)
        wait_until(partial(is_nothing, other, "EXISTS", f"r{name}"), "the queue expires")

        one.call("WQ.ADD", f"{{i{name}}}", "1", "x")
        assert one.call("WQ.LEASE", f"{{i{name}}}", BRIEF_MS)
        assert other.call("WQ.LEASE", f"{{i{name}}}", LEASE_S * 1000, "BLOCK", WAIT_MS)

        one.call("TUBE.CREATE", f"t{name}", "fifottl")
        one.call("TUBE.PUT", f"t{name}", "1", "TTR", BRIEF_S)
        assert one.call("TUBE.TAKE", f"t{name}", 0)
        assert other.call("TUBE.TAKE", f"t{name}", TIMEOUT_S)
        one.call("TUBE.PUT", f"t{name}", "2", "DELAY", BRIEF_S)
        assert other.call("TUBE.TAKE", f"t{name}", TIMEOUT_S)

        job = one.call("ADDJOB", f"c{name}", "1", 0)
        claim(one, f"c{name}", BRIEF_MS)
        assert first_job(other, f"c{name}") == job


def claim(client: Client, queue: str, lease_ms: int) -> None:
    """A claim holds the job of the queue, until the lease of its reader has ended."""
    words = ("FAMILY", "jobs", "LEASE", lease_ms, "RELEASE", lease_ms)
    fields = client.call("CLAIM.OPEN", queue, "s", *words)
    epoch = fields[fields.index(b"epoch") + 1]
    assert client.call("CLAIM.FILL", queue, "s", epoch, 1, "COUNT", 1, "SEAL")


def first_job(client: Client, queue: str) -> bytes:
    id: bytes = client.call("GETJOB", "TIMEOUT", WAIT_MS, "FROM", queue)[0][1]
    return id


def is_nothing(client: Client, *words: str) -> bool:
    return not client.call(*words)


def clock_ahead_ms(client: Client) -> int:
    found = re.search(r"clock_ahead_ms:(-?\d+)", client.call("INFO", "quinque").decode())
    assert found is not None
    return int(found[1])
