"""All handlers of one process, from the first message to the last.

Called by   process.py, and App.run for a program that runs by itself.
Calls       desk.py and leases.py for each handler, board.py to report the state.

When a stop is requested, the process takes no more messages, returns those that have not started,
and waits for running handlers. After the deadline it returns the rest too. A second request ends
the process at once, by itself or by its supervisor, and leases run out.

Not here: other processes (supervisor.py).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Final

import uvloop

from quinque.client.addresses import parse_broker_url
from quinque.errors import BadSetting, QuinqueError, many
from quinque.model.families import EVENTS, ITEMS, JOBS, RELIABLE, TUBES
from quinque.worker.app import App
from quinque.worker.asking import AGAIN
from quinque.worker.board import Left, Told
from quinque.worker.desk import WAIT_MS, Desk
from quinque.worker.handlers import Handler
from quinque.worker.leases import keep_leases
from quinque.worker.shared import Shared, alone
from quinque.worker.sources import EventSource, ItemSource, JobSource, ReliableSource, Source
from quinque.worker.tracing import tracing_if_wanted
from quinque.worker.tube_source import TubeSource

LOG = logging.getLogger("quinque.worker")

STALLED_S: Final = 300.0
_BEAT_S: Final = 0.25
_SETTLING_S: Final = (
    5.0  # beyond the deadline, to settle messages that were returned or have just ended
)
_TAKING_S: Final = 2 * WAIT_MS / 1000  # for the replies to requests that wait for messages
_ANSWER_S: Final = 5.0  # after this time the broker is assumed not to know how many messages wait
_SOURCES: Final[dict[object, type[Source]]] = {
    JOBS: JobSource,
    EVENTS: EventSource,
    RELIABLE: ReliableSource,
    ITEMS: ItemSource,
    TUBES: TubeSource,
}


class Runtime:
    def __init__(
        self,
        app: App,
        shared: Shared,
        *,
        threads: int,
        deadline_s: float,
        stalled_s: float = STALLED_S,
        left_by: Sequence[bytes] | None = None,
    ) -> None:
        """`left_by` has the salts of the handlers of the previous process, if they may differ.
        Raises BadSetting if there are no handlers, or a URL is invalid."""
        if not app.handlers:
            raise BadSetting("the app has no handlers")
        self._app, self._shared = app, shared
        self._left_by = [it.salt for it in app.handlers] if left_by is None else left_by
        self._deadline_s, self._stalled_s = deadline_s, stalled_s
        self._threads = threads
        self._runner = app.connect()
        self._desks: list[Desk] = []
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def stop(self) -> None:
        """Request a clean stop."""
        self._stop.set()

    def stop_soon(self) -> None:
        """Request a clean stop from any thread."""
        with suppress(RuntimeError):  # the loop is closed: it has ended
            self._loop.call_soon_threadsafe(self.stop)

    async def run(self) -> bool:
        """Call the handlers until a stop is requested, or too many of them hang. Return whether all
        held messages were then finished or returned."""
        tracing = tracing_if_wanted() if self._app.tracing else None
        # First: the board still has the messages of the previous process.
        left = list(self._shared.board.take_left())
        tallies = self._shared.figures.begin(self._app.handlers)
        self._desks = [
            Desk(
                self._app,
                number,
                _source(handler, self._runner),
                self._runner,
                self._shared,
                tally,
                tracing,
                self._threads,
            )
            for number, (handler, tally) in enumerate(zip(self._app.handlers, tallies, strict=True))
        ]
        for desk in self._desks:
            LOG.info("%s", desk)
        taking = [
            asyncio.create_task(self._take(desk, self._left(desk.handler, left)))
            for desk in self._desks
        ]
        others = [asyncio.create_task(it) for it in self._others()]
        stop = asyncio.create_task(self._stop.wait())
        announcing = asyncio.create_task(self._announce())
        try:
            await asyncio.wait([stop, *taking, *others], return_when=asyncio.FIRST_COMPLETED)
            _raise_first([*taking, *others])
            is_settled = await self._drain(taking)
            _raise_first([*taking, *others])
            return is_settled
        finally:
            for task in (stop, announcing, *taking, *others):
                task.cancel()
            await asyncio.gather(stop, announcing, *taking, *others, return_exceptions=True)
            await self._runner.close()

    def _left(self, handler: Handler, left: list[Left]) -> list[Left]:
        """Return the messages that the previous process held for the handler, without ids that were
        too long."""
        salts = dict(enumerate(self._left_by))
        return [it for it in left if it.id and salts.get(it.handler) == handler.salt]

    async def _announce(self) -> None:
        """Log where the process works, when a broker has answered. Desks log why none does."""
        tries, known = 0, None
        while not known:
            with suppress(QuinqueError):
                [known] = await self._runner.call("COMMAND", "INFO", "QUEUES")
            if not known:  # no answer, or that of a Redis, which does not know the command
                tries += 1
                await asyncio.sleep(AGAIN.delay_s(tries))
        LOG.info("working at %s", parse_broker_url(self._app.url).shown)

    async def _take(self, desk: Desk, left: list[Left]) -> None:
        if left:
            await desk.take_over(left)
        await desk.prepare()
        await desk.take()

    def _others(self) -> list[Coroutine[Any, Any, None]]:
        found: list[Coroutine[Any, Any, None]] = [self._beat(), self._watch()]
        for desk in self._desks:
            found += [desk.settle(), desk.return_waiting()]
            if desk.source.extends:
                found.append(keep_leases(desk, self._runner))
            if desk.handler.timeout_s is not None:
                found.append(desk.abandon())
        return found

    async def _drain(self, taking: list[asyncio.Task[None]]) -> bool:
        held = sum(len(desk.held) for desk in self._desks)
        LOG.info("stopping: %s in progress", many(held, "message"))
        until_s = asyncio.get_running_loop().time() + self._deadline_s
        for desk in self._desks:
            desk.stop()
        await asyncio.wait(taking, timeout=_TAKING_S)
        for task in taking:
            task.cancel()
        await asyncio.wait(taking)
        # Not limited by the deadline: otherwise it would be unknown whether the request was carried
        # out.
        unbegun = [asyncio.create_task(desk.give_back_unbegun()) for desk in self._desks]
        try:
            async with asyncio.timeout_at(until_s):
                await asyncio.wait(unbegun)
                await asyncio.gather(*(desk.finish() for desk in self._desks))
        except TimeoutError:
            if any(desk.has_running for desk in self._desks):
                LOG.warning(
                    "handlers did not finish within %g s; returning their messages to the queue",
                    self._deadline_s,
                )
        is_settled = True
        try:
            async with asyncio.timeout(_SETTLING_S):
                await asyncio.gather(*unbegun)
                await asyncio.gather(*(desk.give_up() for desk in self._desks))
        except TimeoutError:
            is_settled = False
        is_settled = is_settled and all(desk.is_settled for desk in self._desks)
        if not is_settled:
            LOG.error(
                "cannot return all messages to the queue; they become available when their "
                "leases end"
            )
        self._tell()
        return is_settled

    async def _beat(self) -> None:
        while True:
            self._tell()
            await asyncio.sleep(_BEAT_S)

    def _tell(self) -> None:
        desks = self._desks
        self._shared.board.write(
            Told(
                monotonic(),
                sum(desk.finished for desk in desks),
                sum(desk.failed for desk in desks),
                sum(len(desk.held) for desk in desks),
                sum(desk.is_stalled for desk in desks),
            )
        )

    async def _watch(self) -> None:
        """Mark handlers as stalled: none of their messages ended for some time, though messages
        wait, or the broker cannot be asked whether some wait."""
        while True:
            await asyncio.sleep(max(_BEAT_S, min(1.0, self._stalled_s / 4)))
            for desk in self._desks:
                if monotonic() - desk.moved_s < self._stalled_s:
                    desk.is_stalled = False
                    continue
                try:
                    async with asyncio.timeout(_ANSWER_S):
                        desk.is_stalled = await desk.source.ready() > 0
                except (QuinqueError, TimeoutError):
                    desk.is_stalled = True
                if not desk.is_stalled:
                    desk.moved_s = monotonic()


def run_app(app: App, threads: int, deadline_s: float) -> bool:
    """Run the app in this process until a signal comes, or App.stop is called. Return whether all
    held messages were then finished or returned. Raises BadSetting."""
    shared = alone()
    try:
        return run_until_signal(app, shared, threads=threads, deadline_s=deadline_s)
    finally:
        shared.close()


async def run_app_async(app: App, threads: int, deadline_s: float) -> bool:
    """Do the same in the running event loop, without signals. A cancellation stops it cleanly
    first, and a second one at once. Raises BadSetting."""
    shared = alone()
    try:
        runtime = Runtime(app, shared, threads=threads, deadline_s=deadline_s)
        working = asyncio.create_task(runtime.run())
        with app.stopped_by(runtime.stop_soon):
            try:
                return await asyncio.shield(working)
            except asyncio.CancelledError:
                runtime.stop()
                try:
                    await asyncio.shield(working)
                finally:
                    if not working.done():
                        working.cancel()
                        await asyncio.wait([working])
                raise
    finally:
        shared.close()


def run_until_signal(
    app: App,
    shared: Shared,
    *,
    threads: int,
    deadline_s: float,
    stalled_s: float = STALLED_S,
    left_by: Sequence[bytes] | None = None,
    parent_fd: int | None = None,
) -> bool:
    """Run the app until a signal comes, too many handlers hang, or the other end of `parent_fd` is
    closed. Return whether all held messages were then finished or returned."""
    signals = signals_to_end()
    told = 0

    async def work() -> bool:
        runtime = Runtime(
            app,
            shared,
            threads=threads,
            deadline_s=deadline_s,
            stalled_s=stalled_s,
            left_by=left_by,
        )

        def signalled() -> None:
            nonlocal told
            told += 1
            # After a second signal, a supervisor kills its processes itself. So a second signal
            # here repeats the first: a service manager signals all processes of a service.
            if told > 1 and parent_fd is None:
                os._exit(1)
            runtime.stop()

        for number in signals:
            loop.add_signal_handler(number, signalled)
        if parent_fd is not None:

            def orphaned() -> None:
                loop.remove_reader(parent_fd)
                runtime.stop()

            loop.add_reader(parent_fd, orphaned)
        with app.stopped_by(runtime.stop_soon):
            return await runtime.run()

    # Not asyncio.run, which would wait for coroutines that do not end when cancelled.
    loop = uvloop.new_event_loop()
    with _put_back_afterwards(signals):
        try:
            is_settled = loop.run_until_complete(work())
            loop.run_until_complete(loop.shutdown_asyncgens())
            return is_settled
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
            if not asyncio.all_tasks(loop):
                loop.close()


@contextmanager
def _put_back_afterwards(signals: Sequence[signal.Signals]) -> Iterator[None]:
    """Restore the signal handlers afterwards. The loop leaves its own in place, without effect."""
    _earlier.update((number, signal.getsignal(number)) for number in signals)
    try:
        yield
    finally:
        if signals:
            _put_back()


def _put_back() -> None:
    for number, earlier in _earlier.items():
        signal.signal(number, signal.SIG_DFL if earlier is None else earlier)
    _earlier.clear()


# A signal for a process that a handler forked is for that process alone. With the handlers of the
# loop it would be heard in the worker: both processes write to one socket. So a signal that comes
# at once waits until the forked process has its own handlers.
def _hold_signals() -> None:
    _held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _earlier) if _earlier else None


def _go_on_in_parent() -> None:
    if _held.mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _held.mask)


def _go_on_in_child() -> None:
    if _held.mask is not None:
        signal.set_wakeup_fd(-1)
        _put_back()
        signal.pthread_sigmask(signal.SIG_SETMASK, _held.mask)


_earlier: Final[dict[signal.Signals, Any]] = {}  # the handlers, while a worker has its own
_held: Final = threading.local()  # any thread may fork
os.register_at_fork(
    before=_hold_signals, after_in_parent=_go_on_in_parent, after_in_child=_go_on_in_child
)


def signals_to_end() -> list[signal.Signals]:
    """Return the signals that stop a worker cleanly. The signal of a closed terminal is one of
    them, unless the worker was started to ignore it (nohup). Only the main thread can handle
    signals."""
    if threading.current_thread() is not threading.main_thread():
        return []
    found = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        found.append(signal.SIGHUP)
    return found


def _source(handler: Handler, runner: Any) -> Source:
    return _SOURCES[handler.family](handler, runner)


def _raise_first(tasks: list[asyncio.Task[None]]) -> None:
    """Raise the error of a task that failed, which is a bug: the process ends and is replaced."""
    for task in tasks:
        if task.done() and not task.cancelled() and task.exception() is not None:
            raise task.exception() or AssertionError
