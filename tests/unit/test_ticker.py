"""After a tick the clients have their time: less of it while one of them waits for the ticks."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Any, cast

import pytest

from quinque.server.latency import LatencyMonitor
from quinque.server.ticker import Ticker
from quinque.stores.base import Store

TICK_S = 0.005


class Loop:
    """An event loop whose time passes when it is told to, with what it was asked to call."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.calls: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now_s

    def call_soon(self, call: Callable[[], None]) -> Any:
        return self.call_later(0.0, call)

    def call_later(self, wait_s: float, call: Callable[[], None]) -> Any:
        self.calls.append((wait_s, call))


class Busy:
    """A store that always has something to do."""

    def __init__(self, loop: Loop, waiting: bool) -> None:
        self._loop = loop
        self._waiting = waiting

    def next_due_ms(self) -> int:
        return 0

    def now_ms(self) -> int:
        return 1

    def is_awaited(self) -> bool:
        return self._waiting

    def tick(self) -> None:
        self._loop.now_s += TICK_S


def crash(what: str, exc: BaseException) -> None:
    raise exc


@pytest.mark.parametrize(("waiting", "times"), [(False, 9), (True, 1)])
def test_the_rest_after_a_tick_is_so_many_times_as_long(waiting: bool, times: int) -> None:
    loop = Loop()
    ended: list[bool] = []
    ticker = Ticker(
        cast(AbstractEventLoop, loop),
        cast(Store, Busy(loop, waiting)),
        lambda: ended.append(True),
        LatencyMonitor(),
        crash,
    )
    ticker.set()
    [(first_s, tick)] = loop.calls

    tick()
    ticker.set()

    assert first_s == 0
    assert ended == [True]
    assert loop.calls[-1][0] == pytest.approx(times * TICK_S)
