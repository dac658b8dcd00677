"""The event loop: callbacks run in the order in which they were scheduled, and when none is left,
the time is that of the next timer.

Callbacks of a dead process do not run. Those of a paused one wait for the end of the pause.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

from tests.sim.processes import PROCESS, Process
from tests.sim.times import Times


class Stuck(Exception):
    """Nothing is left to do, and the run has not ended."""


class _Selector:
    """Waits for timers only."""

    def __init__(self, times: Times) -> None:
        self._times = times

    def select(self, timeout_s: float | None) -> list[object]:
        if timeout_s is None:
            raise Stuck("nothing is scheduled any more")
        if timeout_s > 0:
            self._times.advance(timeout_s)
        return []

    def close(self) -> None:
        pass


class SimLoop(asyncio.BaseEventLoop):
    def __init__(self, times: Times, network: Any) -> None:
        super().__init__()
        self._times = times
        self._network = network
        self._selector = _Selector(times)
        self._clock_resolution = 1e-9
        self.slow_callback_duration = 1e9

    def time(self) -> float:
        return self._times.now_s

    # -- what a selector loop would do ---------------------------------------------------------

    def _process_events(self, event_list: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def add_signal_handler(  # type: ignore[override]
        self, sig: int, callback: Callable[..., object], *args: Any
    ) -> None:
        pass  # brokers are stopped by their `stopping` event (brokers.py)

    # -- processes -----------------------------------------------------------------------------

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        context = context if context is not None else copy_context()
        process = context.get(PROCESS)
        if process is not None:
            callback = self._guarded(process, callback)
        return super().call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = context if context is not None else copy_context()
        process = context.get(PROCESS)
        if process is not None:
            callback = self._guarded(process, callback)
        return super().call_at(when, callback, *args, context=context)

    def _guarded(self, process: Process, callback: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            if process.is_dead:
                return None
            if process.paused_until_s > self.time():
                # In the order in which they were due: the heap keeps it among equal times, because
                # each is a nanosecond later.
                self._resumed_ns += 1
                at_s = process.paused_until_s + self._resumed_ns * 1e-9
                super(SimLoop, self).call_at(at_s, run, *args, context=copy_context())
                return None
            return callback(*args)

        return run

    _resumed_ns = 0

    # -- the network ---------------------------------------------------------------------------

    async def create_server(  # type: ignore[override]
        self, factory: Any, host: Any, port: Any, **_: Any
    ) -> Any:
        return self._network.listen(factory, host, port)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)


class SimThread:
    """A thread that syncs once a second is a timer that does: real threads have no order."""

    def __init__(self, target: Any = None, name: str = "", daemon: bool = False) -> None:
        self._owner = target.__self__
        self._is_over = False

    def start(self) -> None:
        asyncio.get_running_loop().call_later(1.0, self._tick)

    def _tick(self) -> None:
        owner = self._owner
        if self._is_over or owner._closing.is_set():
            return
        if hasattr(owner, "_sync_written"):
            if owner.failed:
                return
            owner._sync_written()
        else:
            try:
                owner.sync()
            except OSError:
                pass
        asyncio.get_running_loop().call_later(1.0, self._tick)

    def join(self) -> None:
        self._is_over = True


def install_threads() -> None:
    """Let the stores start simulated threads."""
    threading.Thread = SimThread  # type: ignore[misc,assignment]
