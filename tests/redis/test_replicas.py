"""REPLICATE n: a message is there when n-1 replicas have it too, or it is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quinque.errors import NoReplicas
from quinque.model.families import EVENTS, JOBS
from quinque.model.limits import NEVER_MS
from quinque.model.ops import Put
from quinque.model.work_ops import Add, Terms
from quinque.stores.redis.store import RedisStore
from tests.conformance.work_words import DAY_MS, browse, finish, is_there, take
from tests.server.broker import start_broker
from tests.server.resp import Client, Refusal
from tests.servers.patience import wait_until
from tests.servers.redis_server import RedisServer


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[RedisServer, RedisServer]]:
    """A server and its replica."""
    with RedisServer() as primary, RedisServer(replica_of=primary) as replica:
        wait_until(lambda: primary.has_followers({replica.port}), "the replica follows")
        yield primary, replica


@pytest.fixture
def primary(servers: tuple[RedisServer, RedisServer]) -> RedisServer:
    servers[0].flush()
    return servers[0]


@pytest.fixture
def replica(servers: tuple[RedisServer, RedisServer]) -> Iterator[RedisServer]:
    yield servers[1]
    servers[1].go_on()


@pytest.fixture
def store(primary: RedisServer) -> Iterator[RedisStore]:
    opened = RedisStore(primary.url)
    yield opened
    opened.close()


def add(store: RedisStore, copies: int, confirm_ms: int | None = NEVER_MS) -> bytes:
    terms = Terms(DAY_MS, retry_ms=60_000, replicas=copies)
    (id,) = store.run(Add(JOBS, b"w", [b"1"], terms, confirm_ms=confirm_ms))
    assert isinstance(id, bytes)
    return id


def keys_of(server: RedisServer) -> set[bytes]:
    return set(server.ask("KEYS", "quinque:{*"))


def test_when_it_is_answered_the_replica_has_it(store: RedisStore, replica: RedisServer) -> None:
    id = add(store, 2)

    assert any(b"ready:w" in key for key in keys_of(replica))
    assert take(store)[0].message_id == id


def test_without_enough_replicas_nothing_is_stored(store: RedisStore, primary: RedisServer) -> None:
    before = keys_of(primary)

    with pytest.raises(NoReplicas, match="Not enough reachable nodes"):
        add(store, 3)
    with pytest.raises(NoReplicas):
        add(store, 3, confirm_ms=None)
    assert keys_of(primary) == before


def test_what_a_replica_does_not_confirm_in_time_is_taken_back(
    store: RedisStore, replica: RedisServer
) -> None:
    add(store, 2)
    replica.pause()

    with pytest.raises(NoReplicas, match="did not confirm the change in time"):
        add(store, 2, confirm_ms=200)
    assert browse(store) == [b"1"]


def test_a_replica_that_is_late_confirms_what_waits_for_it(
    store: RedisStore, replica: RedisServer
) -> None:
    replica.pause()
    with pytest.raises(NoReplicas):
        add(store, 2, confirm_ms=1)

    replica.go_on()
    assert is_there(store, add(store, 2))


def test_async_does_not_wait(store: RedisStore, replica: RedisServer) -> None:
    replica.pause()

    assert is_there(store, add(store, 2, confirm_ms=None))


def test_a_setting_has_every_change_confirmed(
    primary: RedisServer, replica: RedisServer, tmp_path: Path
) -> None:
    flags = ("--store", primary.url, "--store-replicas", "1", "--store-timeout", "300ms")
    with start_broker(tmp_path, *flags) as broker, broker.connect() as client:
        # Again if need be: the timeout is so short that a busy machine may not confirm in time.
        wait_until(lambda: is_kept(client, "QADD", "news", 60, "one"), "an event is confirmed")
        while isinstance(id := client.call("ADDJOB", "w", "1", 0), Refusal):
            assert "NOREPL" in id.text
        replica.pause()

        assert "NOREPL" in repr(client.call("ADDJOB", "w", "2", 0))
        assert "UNAVAILABLE" in repr(client.call("QADD", "news", 60, "two"))
        assert "UNAVAILABLE" in repr(client.call("ACKJOB", id))

        replica.go_on()
        wait_until(lambda: is_kept(client, "QADD", "news", 60, "three"), "the replica is back")


def is_kept(client: Client, *words: str | int) -> bool:
    reply = client.call(*words)
    assert isinstance(reply, bytes) or "UNAVAILABLE" in reply.text
    return isinstance(reply, bytes)


def test_put_and_finish_need_none(store: RedisStore, replica: RedisServer) -> None:
    id = add(store, 2)
    replica.pause()

    assert finish(store, id) == [True]
    assert store.run(Put(EVENTS, b"news", [b"1"]))
