"""Brokers that share a Redis, as stores see them: who is listed, for how long, and who accepts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
import redis

from quinque.errors import NoReplicas
from quinque.model.families import JOBS
from quinque.model.limits import NODE_DOUBTED_MS, NODE_FAILED_MS, NODE_FORGOTTEN_MS, NODE_KEPT_MS
from quinque.model.work_ops import (
    Add,
    Announce,
    FindNodes,
    ForgetNode,
    LookAtNode,
    NodeView,
    SetNode,
    Terms,
)
from quinque.stores.clock import ManualClock
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import BROKERS, node_key
from quinque.stores.redis.nodes import beat
from quinque.stores.redis.store import RedisStore
from tests.servers import stores
from tests.servers.patience import wait_until

ELSEWHERE = b"a" * 40
DAY_MS = 86_400_000

Open = Callable[[str], RedisStore]
Server = redis.Redis | redis.RedisCluster


@pytest.fixture(params=stores.SHARED)
def url(request: pytest.FixtureRequest) -> str:
    return stores.empty_store_url(request, request.param)


@pytest.fixture
def server(request: pytest.FixtureRequest, url: str) -> Iterator[Server]:
    """Redis itself, or the cluster."""
    kind = "cluster" if "cluster" in url else "redis"
    with request.getfixturevalue(stores.SHARED[kind]).client() as client:
        yield client


@pytest.fixture
def open_as(url: str) -> Iterator[Open]:
    """Opens a store as the broker of that name, with an address."""
    with ExitStack() as opened:

        def open_as(name: str) -> RedisStore:
            store = opened.enter_context(closing(RedisStore(url, node=name)))
            store.run(Announce(name.encode(), 7711))
            return store

        yield open_as


def write_down(server: Server, unheard_ms: int, is_leaving: int = 0) -> None:
    """Another broker was last heard of so long ago."""
    heard_ms = int(time.time() * 1000) - unheard_ms
    server.hset(BROKERS.decode(), ELSEWHERE.decode(), f"{heard_ms} {is_leaving} 7712 0.1 elsewhere")


def add(store: RedisStore) -> Any:
    return store.run(Add(JOBS, b"w", [b"x"], Terms(60_000)))[0]


# -- being known ------------------------------------------------------------------------------


def test_whoever_has_an_address_is_known_to_the_others(open_as: Open) -> None:
    one, began_s = open_as("one"), time.monotonic()
    two = open_as("two")

    mine, other = one.run(FindNodes())

    spent_ms = 1000 * (time.monotonic() - began_s)
    assert mine == one.run(LookAtNode())
    assert (mine.host, mine.port, mine.is_self) == (b"one", 7711, True)
    assert other.node_id == two.run(LookAtNode()).node_id
    assert (other.host, other.port, other.is_self, other.is_leaving) == (b"two", 7711, False, False)
    assert other.unheard_ms <= spent_ms + 1


def test_a_program_that_has_none_sees_others_and_is_not_seen(open_as: Open, url: str) -> None:
    broker = open_as("one")
    with closing(RedisStore(url, node="a program")) as program:
        assert [node.host for node in program.run(FindNodes())] == [b"", b"one"]
        program.run(SetNode(is_leaving=True))

        assert len(broker.run(FindNodes())) == 1


def test_a_renamed_broker_is_known_under_its_new_name_only(open_as: Open) -> None:
    one, two = open_as("one"), open_as("two")

    renamed = one.run(SetNode(is_renamed=True))

    assert [node.node_id for node in two.run(FindNodes())[1:]] == [renamed.node_id]


def test_leaving_is_known_at_once(open_as: Open) -> None:
    one, two = open_as("one"), open_as("two")

    one.run(SetNode(is_leaving=True))
    assert [node.is_leaving for node in two.run(FindNodes())] == [False, True]

    one.run(SetNode(is_leaving=False))
    assert [node.is_leaving for node in two.run(FindNodes())] == [False, False]


@pytest.mark.parametrize(
    ("unheard_ms", "is_doubted", "is_failed"),
    [
        (0, False, False),
        (NODE_DOUBTED_MS, True, False),
        (NODE_FAILED_MS, True, True),
        (NODE_FORGOTTEN_MS - 10_000, True, True),
        (-60_000, False, False),  # the clock of a Redis that took over may be behind
    ],
)
def test_who_is_silent_is_doubted_and_then_given_up(
    open_as: Open, server: Server, unheard_ms: int, is_doubted: bool, is_failed: bool
) -> None:
    store = open_as("one")
    began_s = time.monotonic()
    write_down(server, unheard_ms)

    _, other = store.run(FindNodes())

    spent_ms = 1000 * (time.monotonic() - began_s)
    assert (other.node_id, other.host, other.port) == (ELSEWHERE, b"elsewhere", 7712)
    assert (other.is_doubted, other.is_failed) == (is_doubted, is_failed)
    assert max(0, unheard_ms) <= other.unheard_ms <= max(0, unheard_ms) + spent_ms + 1_000


@pytest.mark.parametrize("record", [None, "what a later version might write"])
def test_who_is_silent_for_long_or_speaks_strangely_is_forgotten(
    open_as: Open, server: Server, record: str | None
) -> None:
    write_down(server, NODE_FORGOTTEN_MS)
    if record is not None:
        server.hset(BROKERS.decode(), ELSEWHERE.decode(), record)

    assert len(open_as("one").run(FindNodes())) == 1

    assert not server.hexists(BROKERS.decode(), ELSEWHERE.decode())


def test_a_beat_is_heard_by_all_and_tells_nothing(open_as: Open) -> None:
    store, edge = open_as("one"), Edge(ManualClock(), os.urandom, "two")
    edge.node = NodeView(ELSEWHERE, False, b"two", 7712)

    assert store.finish(beat(edge)) is None

    assert [node.host for node in store.run(FindNodes())] == [b"one", b"two"]


def test_whoever_comes_forgets_those_that_are_gone(open_as: Open, server: Server) -> None:
    write_down(server, NODE_FORGOTTEN_MS)

    open_as("one")

    assert not server.hexists(BROKERS.decode(), ELSEWHERE.decode())


def test_one_can_be_forgotten(open_as: Open, server: Server) -> None:
    write_down(server, NODE_FAILED_MS)
    store = open_as("one")

    for _ in range(2):
        store.run(ForgetNode(ELSEWHERE))

        assert len(store.run(FindNodes())) == 1


# -- names ------------------------------------------------------------------------------------


def test_the_name_of_one_that_runs_is_kept_on(open_as: Open, server: Server) -> None:
    clock = ManualClock()
    edge, store, key = Edge(clock, os.urandom, "one"), open_as("one"), node_key("one").decode()
    store.finish(beat(edge))
    assert NODE_KEPT_MS - 60_000 < server.pttl(key) <= NODE_KEPT_MS
    server.pexpire(key, 60_000)

    store.finish(beat(edge))
    assert server.pttl(key) <= 60_000
    clock.advance(DAY_MS)
    store.finish(beat(edge))

    assert server.pttl(key) > NODE_KEPT_MS - 60_000
    assert edge.node is not None
    assert edge.node.node_id == store.run(LookAtNode()).node_id


def test_a_broker_survives_that_redis_forgot_everything(open_as: Open, server: Server) -> None:
    store = open_as("one")
    node = store.run(LookAtNode())
    server.flushall()

    assert store.run(SetNode(is_leaving=True)).node_id == node.node_id
    assert store.run(LookAtNode()) == NodeView(node.node_id, True, b"one", 7711)


# -- accepting --------------------------------------------------------------------------------


def test_what_a_leaving_broker_is_given_is_accepted_by_one_that_stays(open_as: Open) -> None:
    one, two, three = open_as("one"), open_as("two"), open_as("three")
    one.run(SetNode(is_leaving=True))
    three.run(SetNode(is_leaving=True))

    assert accepted(one, two)[2:10] == two.run(LookAtNode()).node_id[:8]


def accepted(store: RedisStore, other: RedisStore) -> Any:
    """Added while the other is known to live, which a busy machine may take a few tries for."""
    ids: list[Any] = []

    def is_accepted() -> bool:
        other.run(Announce(b"two", 7711))
        try:
            ids.append(add(store))
        except NoReplicas:
            return False
        return True

    wait_until(is_accepted, "a leaving broker finds one that stays")
    return ids[0]


@pytest.mark.parametrize(("unheard_ms", "is_leaving"), [(NODE_DOUBTED_MS, 0), (0, 1)])
def test_a_leaving_broker_accepts_nothing_when_no_other_lives_and_stays(
    open_as: Open, server: Server, unheard_ms: int, is_leaving: int
) -> None:
    write_down(server, unheard_ms, is_leaving)
    store = open_as("one")
    store.run(SetNode(is_leaving=True))

    with pytest.raises(NoReplicas, match="there is no other node"):
        add(store)
