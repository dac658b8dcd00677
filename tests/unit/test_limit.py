"""The time limit of tests."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import suppress

import pytest

from tests import limit
from tests.limit import limited
from tests.servers.patience import PATIENCE_S


@pytest.fixture(autouse=True)
def _soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "_AGAIN_S", 1.0)


def test_a_test_that_waits_for_ever_fails() -> None:
    said = r"^it took longer than 0.01 s$"
    with pytest.raises(pytest.fail.Exception, match=said), limited(0.01):
        threading.Event().wait(PATIENCE_S)


def test_an_event_loop_that_waits_for_ever_fails_its_test() -> None:
    with pytest.raises(pytest.fail.Exception), limited(0.01):
        asyncio.run(asyncio.sleep(PATIENCE_S))


def test_code_that_survives_the_first_error_is_told_again() -> None:
    def survive() -> None:
        with suppress(BaseException):
            threading.Event().wait(PATIENCE_S)
        threading.Event().wait(PATIENCE_S)

    with pytest.raises(pytest.fail.Exception), limited(0.01):
        survive()


def test_a_test_that_ends_in_time_is_left_alone() -> None:
    heard = signal.getsignal(signal.SIGALRM)

    with limited(PATIENCE_S):
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= PATIENCE_S

    assert signal.getsignal(signal.SIGALRM) is heard
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
