"""What an operation on several servers answers when some of them fail: done, not done, or unknown,
and unknown wins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from quinque.errors import NotDone, QuinqueError, StoreUnavailable
from quinque.model.families import ITEMS, JOBS, RELIABLE
from quinque.model.ops import Op
from quinque.model.own_ops import RELIABLE_TERMS, AddItems, ExtendLeases
from quinque.model.work_ops import (
    Add,
    Configure,
    Finish,
    LookAt,
    NodeView,
    ScanQueues,
    Take,
    Terms,
)
from quinque.stores.clock import ManualClock
from quinque.stores.redis.calls import Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import ALL_SLOTS, slot_of, slot_of_key
from quinque.stores.redis.runners import steps_of
from quinque.stores.redis.store import RedisStore
from tests.conformance.work_words import browse
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer

TERMS = Terms(60_000)
MINUTE_MS = 60_000


@pytest.fixture
def cluster() -> Iterator[RedisCluster]:
    # So patient that nobody is declared dead while a test runs.
    with RedisCluster(replicas=0, node_timeout_ms=300_000) as running:
        yield running
        for node in running.nodes:
            node.go_on()


@pytest.fixture
def store(cluster: RedisCluster) -> Iterator[RedisStore]:
    opened = RedisStore(cluster.url, timeout_s=3.0)
    yield opened
    opened.close()


def names_at(cluster: RedisCluster, number: int) -> Iterator[bytes]:
    """Names of queues that lie on that server."""
    node = cluster.primaries[number]
    names = (b"q%d" % at for at in range(10_000))
    return (name for name in names if cluster.primary_of(slot_of(name)) is node)


@pytest.mark.parametrize("is_hung_first", [False, True])
def test_what_a_hung_server_may_have_done_outweighs_what_a_dead_one_did_not(
    cluster: RedisCluster, store: RedisStore, is_hung_first: bool
) -> None:
    primaries = cluster.primaries
    home = primaries.index(cluster.primary_of(slot_of_key(ALL_SLOTS)))
    dead, hung = (number for number in range(3) if number != home)
    ids = [
        store.run(Add(JOBS, next(names_at(cluster, at)), [b"1"], TERMS))[0] for at in (dead, hung)
    ]

    primaries[dead].kill()
    primaries[hung].pause()
    with pytest.raises(StoreUnavailable):
        store.run(Finish(JOBS, ids[::-1] if is_hung_first else ids))


def test_a_job_in_a_new_slot_is_added_though_the_slot_cannot_be_noted(
    cluster: RedisCluster, store: RedisStore
) -> None:
    primaries = cluster.primaries
    home = primaries.index(cluster.primary_of(slot_of_key(ALL_SLOTS)))
    names = names_at(cluster, (home + 1) % 3)
    known, new = next(names), next(names)
    store.run(Add(JOBS, known, [b"1"], TERMS))
    primaries[home].pause()

    assert store.run(Add(JOBS, new, [b"1"], TERMS))
    assert browse(store, queue=new) == [b"1"]

    primaries[home].go_on()
    other = RedisStore(cluster.url, node="other", timeout_s=10.0)
    other.run(Add(JOBS, next(names), [b"1"], TERMS))  # as many slots are listed as the first knows
    assert len(store.run(ScanQueues(JOBS, 0, 100))[1]) == 3
    assert len(other.run(ScanQueues(JOBS, 0, 100))[1]) == 3
    other.close()


# -- one server, or none ---------------------------------------------------------------------------


@pytest.fixture
def alone(redis_server: RedisServer) -> Iterator[RedisStore]:
    redis_server.flush()
    with closing(RedisStore(redis_server.url)) as opened:
        yield opened
    refuse_writes(redis_server, 0)


def refuse_writes(server: RedisServer, is_refused: int) -> None:
    server.ask("CONFIG", "SET", "min-replicas-to-write", is_refused)


def before_call(number: int, act: Callable[[], None], steps: Steps) -> Steps:
    """The same steps; before their calls of that number, `act` is called."""
    try:
        calls = next(steps)
        while True:
            number -= 1
            if not number:
                act()
            try:
                results = yield calls
            except QuinqueError as error:
                calls = steps.throw(error)
            else:
                calls = steps.send(results)
    except StopIteration as stop:
        return stop.value


def run_refused(store: RedisStore, server: RedisServer, op: Op, number: int) -> Any:
    """The result of the operation if the server refuses every change from that call on."""
    steps = steps_of(op, store._store.edge)
    try:
        return store.finish(before_call(number, lambda: refuse_writes(server, 1), steps))
    finally:
        refuse_writes(server, 0)


def test_what_was_done_in_part_and_then_refused_is_not_called_not_done(
    alone: RedisStore, redis_server: RedisServer
) -> None:
    ids = [b"%d" % number for number in range(600)]
    alone.run(AddItems(ITEMS, b"{i}", ids, [b"x"] * len(ids)))
    alone.run(Take(ITEMS, (b"{i}",), len(ids), lease_ms=MINUTE_MS))

    with pytest.raises(StoreUnavailable, match="only in part"):
        run_refused(alone, redis_server, ExtendLeases(ITEMS, b"{i}", ids, 10 * MINUTE_MS), 2)
    assert redis_server.ask("PTTL", "{i}:lease:0") > MINUTE_MS


def test_a_queue_that_has_its_partitions_but_not_its_options_is_configured_in_part(
    alone: RedisStore, redis_server: RedisServer
) -> None:
    op = Configure(JOBS, b"w", partitions=4, max_deliveries=3)

    with pytest.raises(StoreUnavailable, match="only in part"):
        run_refused(alone, redis_server, op, 4)
    assert redis_server.ask("HEXISTS", "quinque:partitions", "w")


def test_items_that_were_leased_are_delivered_though_the_rest_is_refused(
    alone: RedisStore, redis_server: RedisServer
) -> None:
    for name in (b"{i}", b"{j}"):
        ids = [b"%d" % number for number in range(600)]
        alone.run(AddItems(ITEMS, name, ids, [b"x"] * len(ids)))

    op = Take(ITEMS, (b"{i}",), 600, lease_ms=MINUTE_MS)
    assert len(run_refused(alone, redis_server, op, 2)) == 500
    op = Take(ITEMS, (b"{i}", b"{j}"), 600, lease_ms=MINUTE_MS)
    assert len(run_refused(alone, redis_server, op, 3)) == 100


def test_elements_that_were_delivered_reach_their_consumer_though_the_next_queue_fails(
    alone: RedisStore, redis_server: RedisServer
) -> None:
    names = [b"1", b"2", b"3"]
    for name in names:
        alone.run(Add(RELIABLE, name, [name], RELIABLE_TERMS))

    op = Take(RELIABLE, names, 10, is_drained=True)
    given = run_refused(alone, redis_server, op, 4)

    assert [delivery.body for delivery in given] == [b"1", b"2"]
    view = alone.run(LookAt(RELIABLE, b"3"))
    assert (view.ready, view.leased) == (1, 0)


def test_a_take_of_which_a_part_is_unknown_is_unknown() -> None:
    edge = Edge(ManualClock(), os.urandom, "node")
    edge.node = NodeView(b"0" * 40, False)
    steps = steps_of(Take(JOBS, [b"q0", b"q1"], 10), edge)
    next(steps)
    steps.send([[1, 0], [1, 0]])  # as many could be taken

    with pytest.raises(StoreUnavailable):
        steps.send([NotDone("refused"), StoreUnavailable("no answer")])
