"""How much one connection of Tarantool's protocol may ask for before it has answers: its requests
do not wait for each other, so that nothing else would bound them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.server.broker import start_broker, wait_until
from tests.server.iproto import LISTEN, IprotoClient, call
from tests.server.resp import Client
from tests.servers import stores
from tests.servers.patience import PATIENCE_S
from tests.servers.redis_server import RedisServer

_PEEKS = [call(number, "queue.tube.t:peek", 0) for number in range(40)]
# No two are one operation, since they differ in more than their data.
_PUTS = [call(at, "queue.tube.t:put", "x" * 600_000, {"pri": at}) for at in range(4)]


def calls_of(client: Client, command: str) -> int:
    """How many calls of the command were begun."""
    for line in client.call("INFO", "commandstats").splitlines():
        if line.startswith(f"cmdstat_{command}:calls=".encode()):
            return int(line.split(b"=")[1].split(b",")[0])
    return 0


def held_bytes(client: Client) -> int:
    """How much of the requests of all clients waits to be begun."""
    lines = client.call("CLIENT", "LIST").decode().splitlines()
    return sum(int(line.partition(" qbuf=")[2].split()[0]) for line in lines)


@pytest.mark.parametrize(
    ("command", "calls", "begun"), [("tube.peek", _PEEKS, 16), ("tube.put", _PUTS, 2)]
)
def test_few_requests_of_a_connection_are_begun_that_redis_has_not_answered(
    tmp_path: Path,
    redis_server: RedisServer,
    command: str,
    calls: Sequence[bytes],
    begun: int,
) -> None:
    redis_server.flush()
    flags = (*LISTEN, "--store", redis_server.url, "--store-timeout", f"{PATIENCE_S:g}")
    with (
        start_broker(tmp_path, *flags) as broker,
        broker.connect() as client,
        IprotoClient(broker) as peer,
    ):
        assert peer.told("queue.create_tube", "t", "fifottl") == [True]
        assert peer.told("queue.tube.t:put", "first") == [[0, "r", "first"]]
        before = calls_of(client, command)
        with stores.silent(redis_server):
            peer.send(*calls)
            wait_until(
                lambda: held_bytes(client) > 0 and calls_of(client, command) >= before + begun,
                "some of them wait",
            )

            assert calls_of(client, command) == before + begun
        answered = [peer.read() for _ in calls]

        assert [reply.sync for reply in answered] == list(range(len(calls)))
        assert not any(reply.error for reply in answered)


def test_blocked_requests_of_a_connection_have_at_most_so_many_bytes(tmp_path: Path) -> None:
    flags = ("--query-buffer-limit", "64kb", "--max-arg-size", "40kb")
    with start_broker(tmp_path, *LISTEN, *flags) as broker, IprotoClient(broker) as peer:
        assert peer.told("queue.create_tube", "t", "limfifottl", {"capacity": 1}) == [True]
        peer.told("queue.tube.t:put", "first")
        puts = [call(at, "queue.tube.t:put", "x" * 30_000, {"timeout": 60}) for at in range(3)]

        peer.send(*puts)
        refused = peer.read()

        assert refused.sync == 2
        assert refused.text == (
            "the blocked requests of this connection have at most 65536 bytes (query-buffer-limit)"
        )
        # Requests that do not block any more do not count.
        for task, then in enumerate([puts[2], b"", b""]):
            peer.send(call(10, "queue.tube.t:delete", task))
            answered = sorted([peer.read(), peer.read()], key=lambda reply: reply.sync)
            assert [(reply.sync, reply.error) for reply in answered] == [(task, 0), (10, 0)]
            peer.send(then)
