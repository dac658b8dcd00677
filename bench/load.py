"""A load generator for what redis-benchmark cannot do: requests that differ, replies that are kept.

Called by   server.py, jobs.py, redis_store.py, redis_cluster.py, backlog.py, recovery.py.
Calls       sockets; hiredis cuts the replies.

Each of the connections sends a chunk of `depth` requests, reads as many replies, sends the next
chunk. Requests are encoded before the clock starts where they can be, so that one core of Python
keeps a broker on the other core busy.

Not here: servers (harness.py).
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import hiredis

from bench.harness import BODY, CONNECTIONS


@dataclass
class Load:
    """What came of it: how many requests a second, and the replies if they were kept."""

    count: int
    seconds: float
    replies: list[Any] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.count / self.seconds


def encode(*words: str | bytes) -> bytes:
    """A request."""
    args = [word if isinstance(word, bytes) else word.encode() for word in words]
    return b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%b\r\n" % (len(a), a) for a in args)


def same(request: bytes, count: int) -> Iterator[bytes]:
    """The request so many times."""
    return (request for _ in range(count))


def add(queue: str, count: int, life_s: float = 36_000) -> Iterator[bytes]:
    return same(encode("QADD", queue, f"{life_s:g}", BODY), count)


def get(queue: str, count: int, lease_s: float = 36_000) -> Iterator[bytes]:
    return same(encode("QGET", queue, "g", "EX", f"{lease_s:g}"), count)


def ack(queue: str, deliveries: Iterable[list[bytes]]) -> list[bytes]:
    return [encode("QACK", queue, "g", id) for id, _ in deliveries]


def drive(
    port: int | Sequence[int],
    requests: Iterable[bytes],
    depth: int,
    connections: int = CONNECTIONS,
    *,
    keep: bool = False,
) -> Load:
    """Send all of the requests and read their replies; of several ports, each has its share of the
    connections. Raises RuntimeError at an error reply."""
    ports = [port] if isinstance(port, int) else port
    chunks = _chunks(requests, depth)
    load = Load(0, 0.0)
    poll = select.epoll()
    clients: dict[int, _Client] = {}
    try:
        for number in range(connections):
            client = _Client(ports[number % len(ports)])
            clients[client.sock.fileno()] = client
            poll.register(client.sock, select.EPOLLIN)
        began_s = time.perf_counter()
        busy = sum(client.send(chunks) for client in clients.values())
        while busy:
            for file, _ in poll.poll():
                client = clients[file]
                replies = client.receive()
                load.count += len(replies)
                if keep:
                    load.replies += replies
                if not client.waits_for and not client.send(chunks):
                    busy -= 1
        load.seconds = time.perf_counter() - began_s
    finally:
        poll.close()
        for client in clients.values():
            client.sock.close()
    return load


class _Client:
    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.waits_for = 0
        self._reader = hiredis.Reader()

    def send(self, chunks: Iterator[tuple[int, bytes]]) -> bool:
        """The next chunk is under way; False when there is none."""
        self.waits_for, data = next(chunks, (0, b""))
        # It fits into the kernel's buffers, so this does not wait.
        self.sock.sendall(data)
        return self.waits_for > 0

    def receive(self) -> list[Any]:
        """The replies that have come."""
        data = self.sock.recv(1 << 18)
        if not data:
            raise RuntimeError("the server closed the connection")
        self._reader.feed(data)
        replies: list[Any] = []
        while (reply := self._reader.gets()) is not False:
            if isinstance(reply, hiredis.ReplyError):
                raise RuntimeError(str(reply))
            replies.append(reply)
        self.waits_for -= len(replies)
        return replies


def _chunks(requests: Iterable[bytes], depth: int) -> Iterator[tuple[int, bytes]]:
    rest = iter(requests)
    while chunk := list(islice(rest, depth)):
        yield len(chunk), b"".join(chunk)
