"""REPLICATE n: a message is there when n-1 replicas have it too, or it is not there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest
import redis

from quinque.errors import NoReplicas, NotDone
from quinque.model.families import EVENTS, JOBS
from quinque.model.limits import NEVER_MS
from quinque.model.ops import Put
from quinque.model.work_ops import Add, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.redis.store import RedisStore
from tests.conformance.work_words import DAY_MS, browse, finish, is_there, take
from tests.redis.every_change import CASES, UNAWAITED, WITHOUT_REPLY, open_same, seen
from tests.server.broker import start_broker
from tests.server.resp import Client, Refusal
from tests.servers.patience import PATIENCE_S, wait_until
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


def test_one_missing_replica_is_singular() -> None:
    said = str(NoReplicas.of_redis(2, 0))

    assert said.endswith(
        "REPLICATE 2 needs 1 replica of the Redis primary, and it has 0; brokers keep no copies"
    )


def test_without_enough_replicas_nothing_is_stored(store: RedisStore, primary: RedisServer) -> None:
    before = keys_of(primary)

    with pytest.raises(
        NoReplicas, match="REPLICATE 3 needs 2 replicas of the Redis primary, and it has 1"
    ):
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
            assert "UNAVAILABLE" in id.text
        replica.pause()

        assert "UNAVAILABLE" in repr(client.call("QEXTEND", "news", "g", 60, "1"))
        assert "UNAVAILABLE" in repr(client.call("ADDJOB", "w", "2", 0))
        assert "UNAVAILABLE" in repr(client.call("ADDJOB", "w", "2", 0, "REPLICATE", 2, "ASYNC"))
        assert "UNAVAILABLE" in repr(client.call("RQ.PUSH", "r", "2"))
        assert "UNAVAILABLE" in repr(client.call("QADD", "news", 60, "two"))
        assert "UNAVAILABLE" in repr(client.call("ACKJOB", id))

        replica.go_on()
        wait_until(lambda: is_kept(client, "QADD", "news", 60, "three"), "the replica is back")


def test_with_the_setting_nothing_is_changed_while_a_replica_is_missing() -> None:
    with RedisServer() as alone, alone.client() as client:
        changed = {name for name in CASES if not is_refused_as_a_whole(name, alone, client)}

    # Time brings about what is due, and a broker says of itself that it is leaving.
    assert changed == UNAWAITED


def is_refused_as_a_whole(name: str, server: RedisServer, client: redis.Redis) -> bool:
    server.flush()
    clock = ManualClock()
    with closing(open_same(server.url, clock, PATIENCE_S)) as store:
        op = CASES[name](store, clock)
        before = seen(client)
        store._store._routes._replicas = 1
        if op is None:
            store.tick()
        elif name == "leave" or name in WITHOUT_REPLY:
            store.run(op)
        else:
            with pytest.raises(NotDone, match="store-replicas is"):
                store.run(op)
        return seen(client) == before


def is_kept(client: Client, *words: str | int) -> bool:
    reply = client.call(*words)
    assert isinstance(reply, bytes) or "UNAVAILABLE" in reply.text
    return isinstance(reply, bytes)


def test_a_refusal_before_anything_was_sent_stays_one_with_the_setting(
    primary: RedisServer, tmp_path: Path
) -> None:
    flags = ("--store", primary.url, "--store-replicas", "1")
    with start_broker(tmp_path, *flags) as broker, broker.connect() as client:
        assert "NOREPL" in repr(client.call("ADDJOB", "w", "1", 0, "REPLICATE", 3))
        assert "NOREPL" in repr(client.call("ADDJOB", "w", "1", 0, "REPLICATE", 3, "ASYNC"))
        assert client.call("QLEN", "w") == 0


def test_put_and_finish_need_none(store: RedisStore, replica: RedisServer) -> None:
    id = add(store, 2)
    replica.pause()

    assert finish(store, id) == [True]
    assert store.run(Put(EVENTS, b"news", [b"1"]))


def test_the_error_says_which_replicas_are_missing_though_enough_brokers_are_listed(
    primary: RedisServer, tmp_path: Path
) -> None:
    flags = ("--store", primary.url)
    with (
        start_broker(tmp_path / "a", *flags) as one,
        start_broker(tmp_path / "b", *flags),
        start_broker(tmp_path / "c", *flags),
        one.connect() as client,
    ):
        wait_until(lambda: len(client.call("HELLO")) == 5, "three brokers are listed")

        assert client.call("ADDJOB", "w", "1", 0, "REPLICATE", 3) == Refusal(
            "NOREPL Not enough reachable nodes for the requested replication level: REPLICATE 3 "
            "needs 2 replicas of the Redis primary, and it has 1; brokers keep no copies"
        )


@pytest.mark.parametrize("how", [(), ("ASYNC",)])
def test_as_many_copies_as_there_are_are_enough_if_the_setting_says_so(
    primary: RedisServer, replica: RedisServer, tmp_path: Path, how: tuple[str, ...]
) -> None:
    flags = ("--store", primary.url, "--store-replicate", "available")
    with start_broker(tmp_path, *flags) as broker, broker.connect() as client:
        id = client.call("ADDJOB", "w", "1", 0, "REPLICATE", 3, *how)

        assert isinstance(id, bytes)
        if not how:
            assert any(b"ready:w" in key for key in keys_of(replica))
        shown = client.call("SHOW", id)
        assert shown[shown.index(b"repl") + 1] == 3


def test_without_any_replica_one_copy_is_enough_if_the_setting_says_so() -> None:
    with RedisServer() as alone:
        store = RedisStore(alone.url, takes_fewer=True)

        assert is_there(store, add(store, 3))
        store.close()


def test_a_connected_replica_has_to_confirm_though_fewer_copies_are_enough(
    primary: RedisServer, replica: RedisServer
) -> None:
    store = RedisStore(primary.url, takes_fewer=True)
    add(store, 3)
    replica.pause()

    with pytest.raises(NoReplicas, match="1 replica did not confirm the change in time"):
        add(store, 3, confirm_ms=200)
    assert browse(store) == [b"1"]
    assert is_there(store, add(store, 3, confirm_ms=None))
    store.close()


def test_fewer_copies_than_the_setting_for_all_changes_are_refused(tmp_path: Path) -> None:
    with RedisServer() as alone, ExitStack() as running:
        with RedisServer(replica_of=alone) as follower:
            wait_until(lambda: alone.has_followers({follower.port}), "the replica follows")
            flags = ("--store-replicate", "available", "--store-replicas", "1")
            broker = running.enter_context(start_broker(tmp_path, "--store", alone.url, *flags))
        wait_until(lambda: alone.has_followers(set()), "the replica is gone")

        client = running.enter_context(broker.connect())
        for how in ((), ("ASYNC",)):
            # The broker knows for a moment yet that there was one.
            words = ("ADDJOB", "w", "1", 0, "REPLICATE", 3, *how)
            wait_until(partial(is_refused, client, words), "it is refused")


def is_refused(client: Client, words: Sequence[str | int]) -> bool:
    text: str = client.call(*words).text
    return text.startswith("NOTDONE store-replicas is 1, and ")
