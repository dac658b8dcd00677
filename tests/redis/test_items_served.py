"""Two brokers and a worker of Redis Work Queue on one Redis: whoever waits is woken.

One test, because brokers take long to start.
"""

from __future__ import annotations

from pathlib import Path

import redis

from tests.server.broker import start_broker
from tests.servers.patience import wait_until
from tests.servers.redis_server import RedisServer

LONG_MS = 60_000  # it does not end while the test runs
SHORT_MS = 300


def push(keys: redis.Redis, queue: str, id: str) -> None:
    """As clients of Redis Work Queue do."""
    keys.set(f"{queue}:item:{id}", f"data of {id}")
    keys.lpush(f"{queue}:queue", id)


def wait_until_known(keys: redis.Redis, queue: str) -> None:
    """Whoever waits on a queue has made it known before."""
    wait_until(lambda: keys.keys(f"quinque:*:worklist:{queue}"), "somebody waits")


def test_whoever_waits_is_given_what_others_bring_about(
    redis_url: str, redis_server: RedisServer, tmp_path: Path
) -> None:
    keys = redis_server.client()
    with (
        start_broker(tmp_path / "one", "--store", redis_url) as one,
        start_broker(tmp_path / "two", "--store", redis_url) as two,
        one.connect() as client,
        two.connect() as other,
    ):
        # A worker's client adds something; once to whoever waits for a time, once for ever.
        client.send("WQ.LEASE", "worker", LONG_MS, "BLOCK", LONG_MS)
        wait_until_known(keys, "worker")
        push(keys, "worker", "1")
        assert client.value() == [[b"1", b"data of 1"]]
        client.send("WQ.LEASE", "worker", LONG_MS, "COUNT", 9, "BLOCK", -1)
        push(keys, "worker", "2")
        assert client.value() == [[b"2", b"data of 2"]]
        assert client.call("WQ.COMPLETE", "worker", "1", "2") == 2

        # So does a client of another broker.
        client.send("WQ.LEASE", "broker", LONG_MS, "BLOCK", LONG_MS)
        wait_until_known(keys, "broker")
        assert other.call("WQ.ADD", "broker", "1", "data") == 1
        assert client.value() == [[b"1", b"data"]]

        # A lease ends that another broker gave.
        client.call("WQ.ADD", "lease", "1", "data")
        assert client.call("WQ.LEASE", "lease", SHORT_MS) == [[b"1", b"data"]]
        assert other.call("WQ.LEASE", "lease", LONG_MS, "BLOCK", LONG_MS) == [[b"1", b"data"]]

        # Cleaning returns what a worker abandoned.
        client.send("WQ.LEASE", "abandoned", LONG_MS, "BLOCK", LONG_MS)
        wait_until_known(keys, "abandoned")
        keys.set("abandoned:item:1", "data")
        keys.lpush("abandoned:processing", "1")
        wait_until(lambda: _returned(other.call("WQ.CLEAN", "abandoned")), "it is returned")
        assert client.value() == [[b"1", b"data"]]


def _returned(reply: list[bytes | int]) -> bool:
    return dict(zip(reply[::2], reply[1::2], strict=True))[b"returned"] == 1
