"""A load generator for requests that differ and replies that are kept, which redis-benchmark lacks.

Called by   server.py, jobs.py, reliable.py, tubes.py, redis_store.py, redis_cluster.py, backlog.py,
            recovery.py.
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
    """The result: the number of requests per second, and the replies if they were kept."""

    count: int
    seconds: float
    replies: list[Any] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.count / self.seconds


def encode(*words: str | bytes) -> bytes:
    """Return a request as bytes."""
    args = [word if isinstance(word, bytes) else word.encode() for word in words]
    return b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%b\r\n" % (len(a), a) for a in args)


def same(request: bytes, count: int) -> Iterator[bytes]:
    """Yield the request `count` times."""
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
    with Clients(port, connections) as clients:
        return clients.drive(requests, depth, keep=keep)


class Clients:
    """Connections that stay open, for commands that only the taking connection may send."""

    def __init__(self, port: int | Sequence[int], count: int = CONNECTIONS) -> None:
        ports = [port] if isinstance(port, int) else port
        self._poll = select.epoll()
        self._clients: dict[int, _Client] = {}
        try:
            for number in range(count):
                client = _Client(ports[number % len(ports)])
                self._clients[client.sock.fileno()] = client
                self._poll.register(client.sock, select.EPOLLIN)
        except BaseException:
            self.close()
            raise

    def drive(self, requests: Iterable[bytes], depth: int, *, keep: bool = False) -> Load:
        """Send all of the requests, each over the connection that is free first, and read their
        replies. Raises RuntimeError at an error reply."""
        chunks = _chunks(requests, depth)
        replies: list[Any] | None = [] if keep else None
        return self._drive(
            [(client, chunks, replies) for client in self._clients.values()], replies
        )

    def drive_each(self, requests: Sequence[Iterable[bytes]], depth: int) -> Load:
        """Send to each connection the requests that are its own; the replies that are kept are a
        list for each. Raises RuntimeError at an error reply."""
        replies: list[Any] = [[] for _ in requests]
        parts = zip(self._clients.values(), requests, replies, strict=True)
        return self._drive([(it, _chunks(own, depth), kept) for it, own, kept in parts], replies)

    def close(self) -> None:
        self._poll.close()
        for client in self._clients.values():
            client.sock.close()

    def __enter__(self) -> Clients:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _drive(self, shares: Sequence[_Share], replies: list[Any] | None) -> Load:
        shares_of = {
            client.sock.fileno(): (client, chunks, kept) for client, chunks, kept in shares
        }
        load = Load(0, 0.0, [] if replies is None else replies)
        began_s = time.perf_counter()
        busy = sum(client.send(chunks) for client, chunks, _ in shares)
        while busy:
            for file, _ in self._poll.poll():
                client, chunks, kept = shares_of[file]
                came = client.receive()
                load.count += len(came)
                if kept is not None:
                    kept += came
                if not client.waits_for and not client.send(chunks):
                    busy -= 1
        load.seconds = time.perf_counter() - began_s
        return load


class _Client:
    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.waits_for = 0
        self._reader = hiredis.Reader()

    def send(self, chunks: Iterator[tuple[int, bytes]]) -> bool:
        """Send the next chunk. Return False when there is none."""
        self.waits_for, data = next(chunks, (0, b""))
        # It fits into the kernel's buffers, so this does not wait.
        self.sock.sendall(data)
        return self.waits_for > 0

    def receive(self) -> list[Any]:
        """Return the replies that have arrived."""
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


# A connection, what it sends, and where its replies are kept, if they are.
_Share = tuple[_Client, Iterator[tuple[int, bytes]], list[Any] | None]


def _chunks(requests: Iterable[bytes], depth: int) -> Iterator[tuple[int, bytes]]:
    rest = iter(requests)
    while chunk := list(islice(rest, depth)):
        yield len(chunk), b"".join(chunk)
