"""Objects of the asyncio client, asked as those of the other are: so one suite is for both.

Called by   conftest.py.
Calls       an event loop in a thread of its own.

    queues = Awaited(aio.connect(url), loop)
    assert queues.jobs("q").add(b"x")

What a method gives is waited for, and wrapped too if it is one of the client's own.

Not here: the tests.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine, Iterator
from types import TracebackType
from typing import Any

from tests.server.resp import TIMEOUT_S


class Loop:
    """An event loop that runs in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="client's loop")
        self._thread.start()

    def wait(self, it: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(it, self._loop).result(TIMEOUT_S)

    def close(self) -> None:
        self.wait(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Awaited:
    def __init__(self, it: Any, loop: Loop) -> None:
        self._it = it
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return self._wrapped(getattr(self._it, name))

    def __enter__(self) -> Any:
        return self._wrapped(self._loop.wait(self._it.__aenter__()))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:
        return self._loop.wait(self._it.__aexit__(kind, error, trace))

    def __iter__(self) -> Iterator[Any]:
        found = aiter(self._it)
        try:
            while True:
                try:
                    yield self._wrapped(self._loop.wait(found.__anext__()))
                except StopAsyncIteration:
                    return
        finally:
            self._loop.wait(found.aclose())

    def __repr__(self) -> str:
        return repr(self._it)

    def _call(self, method: Any, *args: Any, **named: Any) -> Any:
        plain = [_plain(arg) for arg in args]
        result = method(*plain, **{name: _plain(arg) for name, arg in named.items()})
        return self._wrapped(self._loop.wait(result) if inspect.iscoroutine(result) else result)

    def _wrapped(self, it: Any) -> Any:
        if isinstance(it, list):
            return [self._wrapped(each) for each in it]
        if inspect.ismethod(it):
            return lambda *args, **named: self._call(it, *args, **named)
        return Awaited(it, self._loop) if _is_ours(it) else it


def _is_ours(it: Any) -> bool:
    return type(it).__module__.startswith("quinque.client.aio")


def _plain(it: Any) -> Any:
    if isinstance(it, Awaited):
        return it._it
    return [_plain(each) for each in it] if isinstance(it, list) else it
