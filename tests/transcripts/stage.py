"""A whole broker in one thread, on a clock that moves only when told to: no socket, no sleeping.

Called by   player.py, test_pages.py.
Calls       the broker as listener.py does: a Connection for each client, bytes in, bytes out.

The event loop runs on the same clock as the store, so a reader's timeout, a lease and an expiry
come exactly when a transcript says that the time has passed. What is left to chance falls out the
same each time.

Not here: what a transcript looks like (notation.py).
"""

from __future__ import annotations

import asyncio
import random
import selectors
import shutil
from collections.abc import Callable, Coroutine, Iterable
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from quinque.drivers import Drivers
from quinque.model.limits import JITTER_MS
from quinque.server.broker import Broker
from quinque.server.commands.table import all_commands
from quinque.server.config import SETTINGS, Config
from quinque.server.connection import Connection
from quinque.server.users import Users
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.redis.served import ServedRedisStore
from tests.servers.patience import PATIENCE_S
from tests.transcripts.late_store import LateStore

# Request, NOBLOCK's addition, its turn, a reader it wakes, a tick: each is one iteration later, and
# three with a store that answers later; and several readers may be woken one after the other.
_ITERATIONS = 100
_MOMENT_S = 0.001
T = TypeVar("T")


class NoChance:
    """Random bytes that are always the same, and of which every two mean a jitter of 0 ms."""

    def __init__(self) -> None:
        self._random = random.Random(0)

    def __call__(self, count: int) -> bytes:
        steps = range(JITTER_MS, 1 << 16, 2 * JITTER_MS)
        words = self._random.choices(steps, k=-(-count // 2))
        return b"".join(word.to_bytes(2, "big") for word in words)[:count]


class ManualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is that of a ManualClock."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        # Counted from the start: in seconds since 1970 a float is too coarse for microseconds.
        self._start_us = clock.now_us()
        self._waited_s = 0.0  # how long finish() took
        self._sockets = selectors.DefaultSelector()
        super().__init__(self._sockets)

    def time(self) -> float:
        return (self._clock.now_us() - self._start_us) / 1e6 + self._waited_s

    def settle(self, is_asking: Callable[[], bool]) -> None:
        """So many iterations have passed since nothing was asked for elsewhere any more."""
        left, end_s = _ITERATIONS, monotonic() + PATIENCE_S
        while left:
            self.iterate()
            left = left - 1
            if is_asking():
                self._wait()
                left = _ITERATIONS
            assert monotonic() < end_s, "the store is still asking"

    def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work to its end. Timers that the work waits for come when their time has really
        passed; the clock of the store stands still all the same."""
        task, before_s = self.create_task(work), monotonic()
        while not task.done():
            self.iterate()
            self._wait()
            now_s = monotonic()
            self._waited_s += now_s - before_s
            before_s = now_s
        self.iterate()  # connections that were closed last are gone then
        return task.result()

    def iterate(self) -> None:
        self.call_soon(self.stop)
        self.run_forever()

    def _wait(self) -> None:
        """The next iteration has something to do, or a moment has passed: the processor is left to
        the server that is asked."""
        if not self._ready:  # type: ignore[attr-defined]
            self._sockets.select(_MOMENT_S)


class Wire(asyncio.Transport):
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def take(self) -> bytes:
        """What was written since the last time."""
        taken, self.written = self.written, b""
        return taken

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Stage:
    """One broker and its clients, by name. Use it with `with`."""

    def __init__(
        self,
        folder: Path,
        protocol: int,
        settings: dict[str, str] | None = None,
        *,
        is_late: bool = False,
        redis_url: str = "",
    ) -> None:
        """With `is_late`, the store answers later and not at once; with `redis_url` it is there."""
        self.config = Config()
        for name, text in (settings or {}).items():
            self.config.put(name, SETTINGS[name].kind.value(text), "transcript")
        self._folder = folder
        self._protocol = protocol
        self._is_late = is_late
        self._redis_url = redis_url
        self._clock = ManualClock()
        self._chance = NoChance()
        self._loop = ManualLoop(self._clock)
        self._lives = 0
        self._clients: dict[str, tuple[Connection, Wire]] = {}
        self.crashes: list[BaseException] = []  # errors that would have ended the process
        self.broker = self._start()

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop()
        self._loop.close()

    def send(self, client: str, requests: Iterable[list[bytes]]) -> None:
        """The client, connected now if it was not, sends the requests in one go.

        They are run by settle(), together with what other clients have sent.
        """
        if client not in self._clients:
            self.connect(client, Wire())
        self._clients[client][0].data_received(b"".join(map(request_bytes, requests)))

    def go_on(self, iterations: int) -> None:
        """So many iterations of the event loop have passed, and no more."""
        for _ in range(iterations):
            self._loop.iterate()

    def settle(self) -> None:
        """Everything that can happen without more bytes or more time has happened."""
        self._loop.settle(self._is_asking)

    def _is_asking(self) -> bool:
        return isinstance(self.store, ServedRedisStore) and not self.store.is_idle

    def replies(self) -> dict[str, bytes]:
        """What each client got since the last time; those that got nothing are left out."""
        taken = {name: wire.take() for name, (_, wire) in self._clients.items()}
        return {name: data for name, data in taken.items() if data}

    def unsent(self, client: str) -> bytes:
        """What the client is about to get when the turn ends."""
        return b"".join(self._clients[client][0].out)

    def pass_time(self, span_ms: float) -> None:
        self._clock.advance(span_ms)
        self.settle()

    def move_clock(self, span_ms: float) -> None:
        """Time has passed, and nothing was run meanwhile."""
        self._clock.advance(span_ms)

    def leave(self, client: str) -> None:
        """The client's connection is lost."""
        self._clients.pop(client)[0].connection_lost(None)
        self.settle()

    def kill(self) -> None:
        """The broker ends without a last word, and another one starts from what is on the disk."""
        if not self._redis_url:
            kept = self._folder / str(self._lives)
            shutil.copytree(kept, self._folder / str(self._lives + 1))
        self._stop()
        self.broker = self._start()

    def connect(self, client: str, wire: Wire) -> Connection:
        """The client is connected."""
        connection = Connection(self.broker)
        connection.connection_made(wire)
        connection.protocol = self._protocol  # as HELLO does
        self._clients[client] = connection, wire
        return connection

    def _start(self) -> Broker:
        self.store = store = self._open()
        broker = Broker(
            self.config,
            store,
            Users.from_config(self.config),
            all_commands(),
            self._loop,
            lambda: None,
            lambda what, exc: self.crashes.append(exc),
        )
        # Each request takes a nanosecond, however busy the machine is.
        broker.dispatch.clock_ns = count().__next__
        self.settle()
        return broker

    def _open(self) -> Store:
        if self._redis_url:
            opening = ServedRedisStore.open(self._redis_url, clock=self._clock, chance=self._chance)
            return self._loop.finish(opening)
        folder = self._folder / str(self._lives)
        drivers = Drivers()
        for text in self.config.drivers:
            drivers.register_text(text)
        store = EmbeddedStore(folder, clock=self._clock, chance=self._chance, drivers=drivers)
        return LateStore(store, self._loop) if self._is_late else store

    def _stop(self) -> None:
        for connection, _ in self._clients.values():
            connection.connection_lost(None)
        self._clients.clear()
        self.broker.turn.stop()
        self.settle()
        if isinstance(self.store, ServedRedisStore):
            self._loop.finish(self.store.aclose())
        else:
            self.store.close()
        self._lives += 1


def request_bytes(words: list[bytes]) -> bytes:
    """The words as a RESP array."""
    return b"*%d\r\n" % len(words) + b"".join(
        b"$%d\r\n%b\r\n" % (len(word), word) for word in words
    )
