"""With the cycle collector off, as in a broker, no request over HTTP is kept for ever."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket

import pytest
import uvloop

from quinque.cli.http_port import bind
from quinque.console.app import make_app
from quinque.console.exposition import Page
from quinque.console.port import Port
from quinque.stats.metric import Metric

ROUNDS = 25
TABLE = [Metric("m_total", "counter", ("a",), "", lambda found: [(("b",), found)])]
REQUESTS = {
    "metrics": b"GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "not ready": b"GET /readyz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "not found": b"GET /none HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "no HTTP": b"garbage\r\n\r\n",
    "too long": b"GET /" + b"x" * 100_000,  # longer than what is read at once
}


@pytest.mark.parametrize("request_bytes", REQUESTS.values(), ids=REQUESTS)
def test_nothing_is_left_behind(request_bytes: bytes) -> None:
    # On the event loop that brokers have: asyncio's own leaves circles behind.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(_left_behind(request_bytes)) < ROUNDS


async def _left_behind(request_bytes: bytes) -> int:
    """How many objects there are in circles after ROUNDS such requests."""
    (sock,) = bind(["127.0.0.1:0"])
    address = sock.getsockname()
    port = Port(make_app(Page(TABLE, _measure), lambda: "no"), [sock])
    await asyncio.to_thread(_ask, address, request_bytes, 1)
    gc.collect()
    gc.disable()
    try:
        await asyncio.to_thread(_ask, address, request_bytes, ROUNDS)
        return gc.collect()
    finally:
        gc.enable()
        await port.stop()


async def _measure() -> float:
    return 1.0


def _ask(address: tuple[str, int], request_bytes: bytes, times: int) -> None:
    for _ in range(times):
        with socket.create_connection(address, timeout=30) as sock:
            sock.sendall(request_bytes)
            assert sock.recv(9) == b"HTTP/1.1 "
            with contextlib.suppress(ConnectionResetError):  # it may not have been read to its end
                while sock.recv(1 << 16):
                    pass
