"""A real redis-server, asked what it makes of the bytes of a request.

Called by   test_inline_beside_redis.py.
Calls       the server; nothing of the package, so that a mistake of ours cannot hide itself.

Not here: starting it (tests/servers/redis_server.py).
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import hiredis

from tests.servers.redis_server import RedisServer

# A server that has not answered by then never will; nothing waits for this to pass.
TIMEOUT_S = 60.0

# A script that gives back its arguments: the words of the rest of the line.
_WORDS_OF = b'EVAL "return ARGV" 0 '
_UNBALANCED = "ERR Protocol error: unbalanced quotes in request"


class RedisReader:
    """One connection to it, made anew whenever the server has closed it."""

    def __init__(self, server: RedisServer) -> None:
        self._path = server.url.removeprefix("unix://")
        self._sock = self._connect()

    def words(self, line: bytes) -> list[bytes] | None:
        """The words of a line; None when its quotes do not balance. No NUL may be in it: Redis
        does not find the end of such a line."""
        self._sock.sendall(_WORDS_OF + line + b"\r\n")
        reply = self._reply()
        if isinstance(reply, hiredis.ReplyError):
            assert str(reply) == _UNBALANCED
            self._reconnect()
            return None
        assert isinstance(reply, list)
        return reply

    def complaint(self, data: bytes) -> str:
        """The error that it answers to the data, without its code, before it closes."""
        self._sock.sendall(data)
        reply = self._reply()
        assert isinstance(reply, hiredis.ReplyError)
        assert self._sock.recv(1) == b""
        self._reconnect()
        return str(reply).removeprefix("ERR ")

    def close(self) -> None:
        self._sock.close()

    def _reply(self) -> object:
        reader = hiredis.Reader(notEnoughData=...)
        while (reply := reader.gets()) is ...:
            chunk = self._sock.recv(1 << 16)
            assert chunk, "redis-server closed the connection without a word"
            reader.feed(chunk)
        return reply

    def _connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(TIMEOUT_S)
        sock.connect(self._path)
        return sock

    def _reconnect(self) -> None:
        self._sock.close()
        self._sock = self._connect()


@contextmanager
def start_reader() -> Iterator[RedisReader]:
    """A server that keeps nothing; it is gone afterwards."""
    with RedisServer(on_socket=True) as server:
        reader = RedisReader(server)
        yield reader
        reader.close()
