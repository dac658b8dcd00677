"""Where handlers run: as tasks of the event loop, or in threads.

Called by   desk.py.
Calls       the handler and the hooks.

A coroutine is a task in the loop that takes its messages. A plain function runs in threads of its
handler, which take what is next by themselves; the loop hears of many that are done at once.

Not here: what becomes of a message then (desk.py).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final

from quinque.worker.app import App
from quinque.worker.board import Board, Hand
from quinque.worker.handlers import Handler, wants_message
from quinque.worker.message import Message, result_body
from quinque.worker.tracing import Tracing

LOG = logging.getLogger("quinque.worker")

Done = Callable[[Message], None]

_STOPPING_S: Final = 1.0  # for a coroutine that was cancelled, to put its things in order


class Stopped(Exception):
    """The worker ended before the handler did: the message is given back, and nothing failed."""


class Executor(ABC):
    """Messages go in, and each is given to `done` when its handler has ended, with the result or
    the error in it."""

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

    @property
    @abstractmethod
    def waiting(self) -> int:
        """How many have not begun."""

    @abstractmethod
    def submit(self, messages: Sequence[Message]) -> None:
        """Their handlers run, as soon as there is room for each."""

    @abstractmethod
    def take_back(self) -> list[Message]:
        """Those that have not begun, and do not."""

    @abstractmethod
    async def stop(self) -> None:
        """Handlers that can be stopped are: their messages are done, with Stopped as the error."""

    def _begin(self, message: Message) -> tuple[Any, ...]:
        """The arguments of the handler."""
        message.started_s = monotonic()
        self._board.mark(message, Hand.RUNNING)
        message.body = self._decode(message.raw)
        for hook in self._app.before_hooks:
            hook(message)
        return (message.body, message) if self._wants_message else (message.body,)

    def _succeeded(self, message: Message, result: Any) -> None:
        message.result = result
        if self._handler.results is None or result is None:
            self._board.mark(message, Hand.DONE)
        else:
            message.told = result_body(message)
        for hook in self._app.after_hooks:
            try:
                hook(message, result)
            except Exception:
                LOG.exception("the hook after %r failed", message)

    def _failed(self, message: Message, error: BaseException) -> None:
        message.error = error
        if isinstance(error, Stopped):
            return
        _leave_out_ours(error)
        for hook in self._app.failed_hooks:
            try:
                hook(message, error)
            except Exception:
                LOG.exception("the hook after the failure of %r failed", message)


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
        self._running: set[asyncio.Task[None]] = set()
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

    async def stop(self) -> None:
        self._is_stopped = True
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=_STOPPING_S)

    def _start(self) -> None:
        while self._waiting and len(self._running) < self._most:
            task = asyncio.create_task(self._work(self._waiting.popleft()))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._start()

    async def _work(self, message: Message) -> None:
        try:
            if self._tracing is None:
                self._succeeded(message, await self._call(message))
            else:
                with self._tracing.process(message, self._handler):
                    self._succeeded(message, await self._call(message))
        except asyncio.CancelledError as error:
            self._failed(message, Stopped() if self._is_stopped else error)
        except (Exception, SystemExit) as error:  # a handler may end, and not its process
            self._failed(message, error)
        self._done(message)

    async def _call(self, message: Message) -> Any:
        told = self._begin(message)
        if self._handler.timeout_s is None:
            return await self._function(*told)
        async with asyncio.timeout(self._handler.timeout_s):
            return await self._function(*told)


class Threads(Executor):
    """Plain functions, in `most` threads. A thread cannot be stopped: what runs on when the process
    ends, ends with it."""

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
        for number in range(most):
            name = f"{handler.name}-{number}"
            threading.Thread(target=self._work, name=name, daemon=True).start()

    @property
    def waiting(self) -> int:
        return self._waiting.qsize()

    def submit(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._waiting.put(message)

    def take_back(self) -> list[Message]:
        back: list[Message] = []
        try:
            while (message := self._waiting.get_nowait()) is not None:
                back.append(message)
        except Empty:
            pass
        for _ in range(self._most):
            self._waiting.put(None)
        return back

    async def stop(self) -> None:
        """Nothing: their messages are given back while they run."""

    def _work(self) -> None:
        while (message := self._waiting.get()) is not None:
            self._work_on(message)
            self._ended.append(message)
            if not self._is_told:
                self._is_told = True
                self._tell()

    def _tell(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._collect)
        except RuntimeError:
            pass  # the loop has ended: the worker gave back what was in hand

    def _collect(self) -> None:
        # Said first: what ends from here on tells again.
        self._is_told = False
        while self._ended:
            self._done(self._ended.popleft())

    def _work_on(self, message: Message) -> None:
        try:
            if self._tracing is None:
                self._succeeded(message, self._function(*self._begin(message)))
            else:
                with self._tracing.process(message, self._handler):
                    self._succeeded(message, self._function(*self._begin(message)))
        except BaseException as error:  # SystemExit ends a handler too, and not its thread
            self._failed(message, error)


def _leave_out_ours(error: BaseException) -> None:
    """Its traceback begins in the program, if it comes from there."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    if trace is not None:
        error.__traceback__ = trace
