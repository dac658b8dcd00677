"""Where handlers run: as tasks of the event loop, or in threads.

Called by   desk.py.
Calls       the handler and the hooks.

A coroutine is a task in the loop that takes its messages. A plain function runs in threads of its
handler, which take the next message by themselves; the loop learns of many results at once. No
thread can be stopped, and a coroutine need not end when it is cancelled: one that takes too long is
abandoned, and its later result is ignored.

Not here: what becomes of a message then (desk.py).
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

STOPPING_S: Final = 1.0  # for a coroutine that was cancelled, to put its things in order


class Stopped(Exception):
    """The worker ended before the handler did: the message is given back, and nothing failed."""


class Executor(ABC):
    """Messages go in, and are given to `done` when their handlers have ended, some at a time, with
    the result or the error in each."""

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
        """How many have not begun."""

    @abstractmethod
    def submit(self, messages: Sequence[Message]) -> None:
        """Their handlers run, as soon as there is room for each."""

    @abstractmethod
    def take_back(self) -> list[Message]:
        """Return the messages that have not begun, and do not begin them."""

    @abstractmethod
    def begin_no_more(self) -> None:
        """No message is submitted from here on."""

    @abstractmethod
    async def stop(self) -> None:
        """Handlers that can be stopped are: their messages are done, with Stopped as the error."""

    @abstractmethod
    def abandon(self, message: Message) -> None:
        """Its handler is not waited for: it failed, where it is now, and there is room for
        another."""

    def _begin(self, message: Message) -> tuple[Any, ...]:
        """The arguments of the handler."""
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
            except BaseException:  # it may end, and not its thread
                LOG.exception("a hook of App.after failed for %s", message)

    def _failed(self, message: Message, error: BaseException) -> None:
        if message.is_abandoned:
            return
        message.error = error
        if isinstance(error, Stopped):
            return
        self._tell_failed(message, error)

    def _give_up(self, message: Message, frames: Sequence[FrameType]) -> BaseException:
        """It failed: with the error that is returned, whose traceback is these frames."""
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
            except BaseException:  # it may end, and not its thread
                LOG.exception("a hook of App.failed failed for %s", message)


class Tasks(Executor):
    """Coroutines, up to `most` at a time."""

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
        except BaseException as error:  # a handler may end, and not its process
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
    """Plain functions, in up to `most` threads, which are started when there is work for them. What
    runs on when the process ends, ends with it."""

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
        self._is_told = False  # the loop knows that some have ended
        self._most = most
        self._started = 0
        self._given = 0  # messages that have not ended, as far as the loop knows

    @property
    def waiting(self) -> int:
        # Not the length of the queue: an idle thread takes a message only when it gets its turn.
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
            self._waiting.put(None)  # its thread ends

    async def stop(self) -> None:
        """No thread can be stopped: their messages are given back while they run. Handlers that
        have ended are done, even if the loop has not seen it yet."""
        self._collect()

    def abandon(self, message: Message) -> None:
        """Start another thread in place of the one that hangs. The failure is reported first, since
        a hook may take its time."""
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
            pass  # the loop has ended: the worker gave back the messages that it held

    def _collect(self) -> None:
        # Set first: a handler that ends from here on notifies the loop again.
        self._is_told = False
        ended: list[Message] = []
        while self._ended:
            message = self._ended.popleft()
            if not message.is_abandoned:  # in the moment that it ended
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
        except BaseException as error:  # SystemExit ends a handler too, and not its thread
            self._failed(message, error)


def _leave_out_ours(error: BaseException) -> None:
    """Its traceback begins in the program, if it comes from there."""
    trace = found = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == __file__:
            found = trace.tb_next or found
        trace = trace.tb_next
    error.with_traceback(found)  # which no class can refuse, as it can refuse to be assigned to


def _end_with_the_handler() -> None:
    """A process that a handler forked ends with that, and goes on with none of our messages."""

    def end(message: Message, came_of_it: object) -> None:
        os._exit(0)

    # They are looked up when the handler has ended, and not before it is called.
    for executor in list(_executors):
        vars(executor).update(_succeeded=end, _failed=end)


_executors: Final[WeakSet[Executor]] = WeakSet()
# Not a question that is asked after each handler: it would cost every message.
os.register_at_fork(after_in_child=_end_with_the_handler)
