"""Clocks that jump: leases and expiries run on, ids never go back.

libfaketime moves the wall clock of the broker alone, while it runs; a time namespace gives it the
monotonic clock of a machine that has been up for long, as before a reboot.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from tests.faults.clocks import WallClock
from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import TIMEOUT_S, Client

HOUR_S, DAY_S = 3600, 86_400
JUMPS_S = [HOUR_S, -HOUR_S, DAY_S, -DAY_S]
LIFE_S, LEASE_S = 600, 300
BRIEF_LEASE_S = 0.5


@pytest.fixture
def clock(tmp_path: Path) -> WallClock:
    return WallClock(tmp_path)


@pytest.fixture
def broker(tmp_path: Path, clock: WallClock) -> Iterator[RunningBroker]:
    with start_broker(tmp_path, variables=clock.variables) as broker:
        yield broker


@pytest.mark.parametrize("jump_s", JUMPS_S)
def test_a_jump_while_it_runs_moves_no_lease_no_expiry_and_no_id(
    broker: RunningBroker, clock: WallClock, jump_s: int
) -> None:
    with broker.connect() as client:
        before_s = wall_clock_s(client)
        held = add(client)
        assert take(client) == held

        clock.jump(jump_s)

        assert abs(wall_clock_s(client) - before_s - jump_s) < 60, "the jump is real"
        newer = add(client)
        assert 0 < newer - held < 60 * 10**6
        assert take(client) == newer, "the first is still held, and neither has expired"
        assert take(client) is None
        assert client.call("QACK", "q", "g", held) == 1
        assert lapses_within(client, TIMEOUT_S)


def test_a_clock_that_is_behind_at_the_next_start_prolongs_no_lease(
    broker: RunningBroker, clock: WallClock
) -> None:
    with broker.connect() as client:
        held, brief = add(client), add(client)
        assert take(client) == held
        assert take(client, BRIEF_LEASE_S) == brief
    broker.kill()
    clock.jump(-DAY_S)
    broker.restart()

    with broker.connect() as client:
        assert client.call("QNOTIFY", "g", TIMEOUT_S, "q") == b"q"
        assert take(client) == brief
        assert take(client) is None
        assert brief < add(client) < brief + 60 * 10**6


def test_a_clock_that_is_ahead_at_one_start_and_right_at_the_next_loses_nothing(
    broker: RunningBroker, clock: WallClock
) -> None:
    with broker.connect() as client:
        held = add(client, 10 * DAY_S)
        assert take(client) == held
    broker.kill()
    clock.jump(DAY_S)
    broker.restart()
    with broker.connect() as client:
        # For all a broker knows it was down for a day; then the lease is over.
        assert take(client) == held
        assert take(client) is None
        newer = add(client)
        assert newer > held
    broker.kill()
    clock.jump(0)
    broker.restart()

    with broker.connect() as client:
        assert take(client) == newer, "the first is held as before, and neither has expired"
        assert take(client) is None
        assert add(client) > newer
        assert client.call("QACK", "q", "g", held) == 1


def test_a_reboot_which_starts_the_monotonic_clock_anew_moves_nothing(tmp_path: Path) -> None:
    up_for_long = ["unshare", "--time", "--monotonic", str(100 * DAY_S), "--fork"]
    with start_broker(tmp_path, before=up_for_long) as broker:
        with broker.connect() as client:
            held, brief = add(client), add(client)
            assert take(client) == held
            assert take(client, BRIEF_LEASE_S) == brief
        broker.kill()
        broker.before = ()
        broker.restart()

        with broker.connect() as client:
            assert client.call("QNOTIFY", "g", TIMEOUT_S, "q") == b"q"
            assert take(client) == brief
            assert take(client) is None
            assert brief < add(client) < brief + 60 * 10**6


def add(client: Client, life_s: float = LIFE_S) -> int:
    """A new event; its id."""
    return int(client.call("QADD", "q", life_s, "body"))


def take(client: Client, lease_s: float = LEASE_S) -> int | None:
    """The id of the event that the group gets."""
    given = client.call("QGET", "q", "g", "EX", lease_s)
    return None if given is None else int(given[0])


def lapses_within(client: Client, most_s: float) -> bool:
    """Whether a brief lease ends when it should."""
    id = add(client)
    began_s = monotonic()
    assert take(client, BRIEF_LEASE_S) == id
    woken = client.call("QNOTIFY", "g", most_s, "q") == b"q"
    return woken and monotonic() - began_s > BRIEF_LEASE_S * 0.9 and take(client) == id


def wall_clock_s(client: Client) -> int:
    return int(client.call("TIME")[0])
