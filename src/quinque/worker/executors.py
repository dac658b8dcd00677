"""Where handlers run: as tasks of the event loop, or in threads.

Called by   desk.py.
Calls       the handler and the hooks.

A coroutine runs as a task of the event loop that takes its messages. A plain function runs in
threads of its handler, which take the next message themselves and report many results at once. A
thread cannot be stopped, and a coroutine may not end when it is cancelled: a handler that takes too
long is abandoned, and its later result is ignored.

Not here: how its message is settled (desk.py).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, Final
from weakref import WeakSet

from quinque.worker.app import App
from quinque.worker.board import Board, Hand
from quinque.worker.handlers import Handler, wants_message
from quinque.worker.message import Message, result_body
from quinque.worker.tracing import Tracing

LOG = logging.getLogger("quinque.worker")

Done = Callable[[Sequence[Message]], None]

STOPPING_S: Final = 1.0  # time for a cancelled coroutine to clean up


class Stopped(Exception):
    """The worker stopped before the handler ended. The message is returned and counts no
    failure."""


class Executor(ABC):
    """Runs the handler for submitted messages. `done` gets messages whose handlers have ended, some
    at a time, each with its result or error."""

    def __init__(
        self, app: App, handler: Handler, board: Board, tracing: Tracing | None, done: Done
    ) -> None:
        self._app = app
        self._handler = handler
        self._function = handler.function
        self._decode = handler.codec.decode
        self._wants_message = wants_message(handler.function)
        self._board = board
        self._tracing = tracing
        self._done = done
        self._is_timed = handler.timeout_s is not None
        _executors.add(self)

    @property
    @abstractmethod
    def waiting(self) -> int:
        """Return how many messages have not started."""

    @abstractmethod
    def submit(self, messages: Sequence[Message]) -> None:
        """Run the handler for these messages, as soon as there is room for each."""

    @abstractmethod
    def take_back(self) -> list[Message]:
        """Return the messages that have not started, and do not start them."""

    @abstractmethod
    def begin_no_more(self) -> None:
        """Start no handler from here on."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop the handlers that can be stopped. Their messages get the error Stopped."""

    @abstractmethod
    def abandon(self, message: Message) -> None:
        """Fail the message without waiting for its handler, with the place where it hangs as the
        traceback, and make room for another."""

    def _begin(self, message: Message) -> tuple[Any, ...]:
        """Return the arguments of the handler."""
        if self._is_timed:
            message.thread = threading.get_ident()
        message.started_s = monotonic()
        self._board.mark(message, Hand.RUNNING)
        message.body = self._decode(message.raw)
        for hook in self._app.before_hooks:
            hook(message)
        return (message.body, message) if self._wants_message else (message.body,)

    def _succeeded(self, message: Message, result: Any) -> None:
        if message.is_abandoned:
            return
        if result is not None and inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError(
                "the handler returned an awaitable that was not awaited: make the handler async def"
            )
        message.result = result
        if self._handler.results is None or result is None:
            self._board.mark(message, Hand.DONE)
        else:
            message.told = result_body(message)
        for hook in self._app.after_hooks:
            try:
                hook(message, result)
            except BaseException:  # it may raise any error and must not end its thread
                LOG.exception("a hook of App.after failed for %s", message)

    def _failed(self, message: Message, error: BaseException) -> None:
        if message.is_abandoned:
            return
        message.error = error
        if isinstance(error, Stopped):
            return
        self._tell_failed(message, error)

    def _give_up(self, message: Message, frames: Sequence[FrameType]) -> BaseException:
        """Fail the message with the returned error. Its traceback has these frames."""
        trace = None
        for frame in reversed(frames):
            trace = TracebackType(trace, frame, frame.f_lasti, frame.f_lineno)
        error = TimeoutError(self._handler.overtime).with_traceback(trace)
        message.is_abandoned, message.error, message.ended_s = True, error, monotonic()
        return error

    def _tell_failed(self, message: Message, error: BaseException) -> None:
        _leave_out_ours(error)
        for hook in self._app.failed_hooks:
            try:
                hook(message, error)
            except BaseException:  # it may raise any error and must not end its thread
                LOG.exception("a hook of App.failed failed for %s", message)


class Tasks(Executor):
    """Runs up to `most` coroutines at a time."""

    def __init__(
        self,
        app: App,
        handler: Handler,
        board: Board,
        tracing: Tracing | None,
        done: Done,
        most: int,
    ) -> None:
        super().__init__(app, handler, board, tracing, done)
        self._most = most
        self._waiting: deque[Message] = deque()
        self._running: dict[asyncio.Task[None], Message] = {}
        self._abandoned: set[asyncio.Task[None]] = set()
        self._is_stopped = False

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def submit(self, messages: Sequence[Message]) -> None:
        self._waiting.extend(messages)
        self._start()

    def take_back(self) -> list[Message]:
        back = list(self._waiting)
        self._waiting.clear()
        return back

    def begin_no_more(self) -> None:
        """A task ends with its message."""

    async def stop(self) -> None:
        self._is_stopped = True
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=STOPPING_S)

    def _start(self) -> None:
        while self._waiting and len(self._running) < self._most:
            message = self._waiting.popleft()
            task = asyncio.create_task(self._work(message))
            self._running[task] = message
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._running.pop(task, None) is None:
            self._abandoned.discard(task)
        self._start()

    def abandon(self, message: Message) -> None:
        task = next(task for task, of in self._running.items() if of is message)
        del self._running[task]
        self._abandoned.add(task)  # or it might be collected while it runs
        self._tell_failed(message, self._give_up(message, task.get_stack()))
        self._start()

    async def _work(self, message: Message) -> None:
        try:
            if self._tracing is None and not self._is_timed:
                result = await self._function(*self._begin(message))
                self._succeeded(message, result)
            elif self._tracing is None:
                result = await self._call(message)
                self._succeeded(message, result)
            else:
                with self._tracing.process(message, self._handler):
                    result = await self._call(message)
                    self._succeeded(message, result)
        except asyncio.CancelledError as error:
            self._failed(message, Stopped() if self._is_stopped else error)
        except BaseException as error:  # a handler may raise any error and must not end its process
            self._failed(message, error)
        if not message.is_abandoned:
            message.ended_s = monotonic()
            self._done((message,))

    async def _call(self, message: Message) -> Any:
        told = self._begin(message)
        if not self._is_timed:
            return await self._function(*told)
        try:
            async with asyncio.timeout(self._handler.timeout_s) as limit:
                return await self._function(*told)
        except TimeoutError as error:
            if limit.expired():
                raise TimeoutError(self._handler.overtime) from error
            raise


class Threads(Executor):
    """Runs plain functions in up to `most` threads, which are started when they are needed. Threads
    that still run at the end of the process end with it."""

    def __init__(
        self,
        app: App,
        handler: Handler,
        board: Board,
        tracing: Tracing | None,
        done: Done,
        most: int,
    ) -> None:
        super().__init__(app, handler, board, tracing, done)
        self._loop = asyncio.get_running_loop()
        self._waiting: SimpleQueue[Message | None] = SimpleQueue()
        self._ended: deque[Message] = deque()
        self._is_told = False  # whether the event loop was notified
        self._most = most
        self._started = 0
        self._given = 0  # messages that have not ended, as the event loop knows

    @property
    def waiting(self) -> int:
        # Not the length of the queue: an idle thread takes a message only when the system runs it.
        return max(0, self._given - self._most)

    def submit(self, messages: Sequence[Message]) -> None:
        self._given += len(messages)
        for message in messages:
            self._waiting.put(message)
        while self._started < min(self._most, self._given):
            self._started += 1
            self._start(self._work)

    def take_back(self) -> list[Message]:
        back: list[Message] = []
        try:
            while (message := self._waiting.get_nowait()) is not None:
                back.append(message)
        except Empty:
            pass
        self._given -= len(back)
        return back

    def begin_no_more(self) -> None:
        for _ in range(self._started):
            self._waiting.put(None)  # ends a thread

    async def stop(self) -> None:
        """Return messages whose handlers still run, because no thread can be stopped. Handlers that
        have ended are done, even if the event loop has not seen it yet."""
        self._collect()

    def abandon(self, message: Message) -> None:
        """Start another thread in place of the one that hangs. The failure is reported first,
        because a hook may take time."""
        inmost = sys._current_frames().get(message.thread)
        frames = [frame for frame, _ in traceback.walk_stack(inmost)] if inmost else []
        error = self._give_up(message, frames[::-1])
        self._given -= 1

        def work() -> None:
            self._tell_failed(message, error)
            self._work()

        self._start(work)

    def _start(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=f"worker of {self._handler.name}", daemon=True).start()

    def _work(self) -> None:
        while (message := self._waiting.get()) is not None:
            self._work_on(message)
            if message.is_abandoned:
                return
            message.ended_s = monotonic()
            self._ended.append(message)
            if not self._is_told:
                self._is_told = True
                self._tell()

    def _tell(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._collect)
        except RuntimeError:
            pass  # the event loop has ended: the worker has returned the messages that it held

    def _collect(self) -> None:
        # Set first: a handler that ends from here on notifies the loop again.
        self._is_told = False
        ended: list[Message] = []
        while self._ended:
            message = self._ended.popleft()
            if not message.is_abandoned:  # not abandoned in the moment that it ended
                ended.append(message)
        self._given -= len(ended)
        self._done(ended)

    def _work_on(self, message: Message) -> None:
        try:
            if self._tracing is None:
                result = self._function(*self._begin(message))
                self._succeeded(message, result)
            else:
                with self._tracing.process(message, self._handler):
                    result = self._function(*self._begin(message))
                    self._succeeded(message, result)
        except BaseException as error:  # SystemExit ends a handler too, and must not end its thread
            self._failed(message, error)


def _leave_out_ours(error: BaseException) -> None:
    """Remove the frames of the worker from the start of the traceback, if the program raised the
    error."""
    trace = found = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == __file__:
            found = trace.tb_next or found
        trace = trace.tb_next
    error.with_traceback(
        found
    )  # a class can refuse an assignment to __traceback__, but not this call


def _end_with_the_handler() -> None:
    """A process that a handler forked ends with that handler, and does not go on with our
    messages."""

    def end(message: Message, came_of_it: object) -> None:
        os._exit(0)

    # Look them up when the handler has ended, and not before the call.
    for executor in list(_executors):
        vars(executor).update(_succeeded=end, _failed=end)


_executors: Final[WeakSet[Executor]] = WeakSet()
# Not a check after each handler, which would slow down every message.
os.register_at_fork(after_in_child=_end_with_the_handler)
