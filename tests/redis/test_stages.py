"""Published batches on Redis: what is special there. Many brokers publish one batch, one of them is
gone in the middle, slots move, and each script moves little."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import msgpack
import pytest

from quinque.errors import BadArgument, NoStage
from quinque.model.families import EVENTS, JOBS
from quinque.model.limits import PUBLISH_MOST, STAGE_GOES_ON_MS, STAGE_KEPT_MS
from quinque.model.rows import CHUNK_ROWS_MOST
from quinque.model.stage_ops import (
    DropStage,
    FindStages,
    Part,
    Publish,
    Published,
    Stage,
    Staged,
)
from quinque.model.work_ops import Configure
from quinque.stores.clock import ManualClock
from quinque.stores.redis.keys import slot_of, slot_of_id
from quinque.stores.redis.store import RedisStore
from tests.conformance.words import tick
from tests.conformance.work_words import bodies, counts, look, take
from tests.redis.claim_words import MANY, begin, numbered
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer


def test_two_brokers_publish_one_batch_once(store: RedisStore, other: RedisStore) -> None:
    for part in range(3):
        assert stage([store, other][part % 2], numbered(MANY), part=part) == Staged(False, MANY)
    parts = [Part(part, 0, 1) for part in range(3)]

    moved = 0
    left = 1
    while left:
        for broker in (store, other):
            done = broker.run(Publish(JOBS, b"w", b"k", b"r", 1, parts, CHUNK_ROWS_MOST))
            moved, left = moved + done.messages, done.left
    assert moved == 3 * MANY
    assert look(store).ready == 3 * MANY
    assert [bodies(other, 1) for _ in range(3)] == [[b"0"], [b"1"], [b"2"]]


def test_a_broker_that_is_gone_after_it_decided_leaves_the_rest_to_another(
    store: RedisStore, other: RedisStore, clock: ManualClock
) -> None:
    stage(store, numbered(MANY))
    stage(store, numbered(MANY), attempt=1)
    begin(store, Publish(JOBS, b"w", b"k", b"r", 1, [Part(0, 1, 1)], PUBLISH_MOST))

    assert look(other).ready == CHUNK_ROWS_MOST
    (view,) = other.run(FindStages())
    assert (view.is_decided, view.chunks) == (True, 1)
    assert other.run(DropStage(b"w", b"k", b"r", 1)) == 0
    # The parts of later calls are not looked at.
    assert publish(other, [Part(7, 7, 7)]) == MANY - CHUNK_ROWS_MOST
    assert other.run(FindStages()) == []


def test_another_broker_finishes_what_a_broker_that_is_gone_decided(
    store: RedisStore, other: RedisStore, clock: ManualClock
) -> None:
    stage(store, numbered(MANY))
    begin(store, Publish(JOBS, b"w", b"k", b"r", 1, [Part(0, 0, 1)], PUBLISH_MOST))
    assert (look(other).ready, len(other.run(FindStages()))) == (CHUNK_ROWS_MOST, 1)

    clock.advance(STAGE_GOES_ON_MS)
    tick(other)

    assert (look(other).ready, other.run(FindStages())) == (MANY, [])


def test_nothing_is_left_in_redis_of_a_published_batch(
    redis_server: RedisServer, clock: ManualClock
) -> None:
    redis_server.flush()
    with closing(RedisStore(redis_server.url, clock=clock)) as store:
        for attempt in range(2):
            stage(store, numbered(10), attempt=attempt)
        store.run(Publish(JOBS, b"w", b"k", b"r", 1, [Part(0, 1, 1)], 99, keep_ms=1_000))

        assert [key for key in redis_server.ask("KEYS", "*") if b"stage" in key] == []
        assert redis_server.ask("EXISTS", "quinque:{w}:published") == 1
        clock.advance(1_000)
        tick(store)
        assert redis_server.ask("EXISTS", "quinque:{w}:published", "quinque:{w}:timers") == 0


def test_what_nobody_publishes_goes_by_a_tick_of_whichever_broker(
    store: RedisStore, other: RedisStore, clock: ManualClock
) -> None:
    stage(store, numbered(3))
    assert len(other.run(FindStages())) == 1
    clock.advance(STAGE_KEPT_MS)

    assert other.next_due_ms() <= other.now_ms()
    tick(other)
    assert store.run(FindStages()) == []
    with pytest.raises(NoStage):
        store.run(Publish(JOBS, b"w", b"k", b"r", 1, [Part(0, 0, 1)], 99))


def test_a_chunk_is_kept_in_pieces_that_one_script_can_move(store: RedisStore) -> None:
    large = [b"%d" % number * 300_000 for number in range(8)]
    stage(store, large)

    sizes = []
    left = 1
    while left:
        done: Published = store.run(Publish(JOBS, b"w", b"k", b"r", 1, [Part(0, 0, 1)], 1))
        sizes.append(done.messages)
        left = done.left
    assert sizes == [3, 3, 2]
    assert [body for _ in range(8) for body in bodies(store, 1)] == large


def test_messages_of_different_kinds_stay_in_order_over_pieces(store: RedisStore) -> None:
    rows = [[0, 0, -1, 0, None, numbered(700)], [0, 0, -1, 0, b"key", [b"one"]]]
    rows += [[1_000, 0, 0, 2, None, numbered(900)]]
    store.run(Stage(JOBS, b"w", b"k", b"r", 1, 0, 0, 0, msgpack.packb(rows)))

    assert publish(store) == 1_601
    assert [it.body for it in take(store, 2_000)] == [*numbered(700), b"one", *numbered(900)]


def test_a_spread_queue_takes_a_batch_at_home(redis_cluster_url: str, clock: ManualClock) -> None:
    with closing(RedisStore(redis_cluster_url, clock=clock)) as store:
        store.run(Configure(JOBS, b"w", partitions=4))
        stage(store, numbered(10))

        assert publish(store) == 10
        assert {slot_of_id(it.message_id) for it in take(store, 99)} == {slot_of(b"w")}
        with pytest.raises(BadArgument, match="does not accept unique keys"):
            store.run(
                Stage(JOBS, b"w", b"k", b"r", 2, 0, 0, 0, packed([0, 0, -1, 0, b"key", [b"1"]]))
            )


def test_a_slot_moves_with_its_batches(redis_cluster: RedisCluster, clock: ManualClock) -> None:
    redis_cluster.flush()
    slot = slot_of(b"w")
    source = redis_cluster.primary_of(slot)
    target = next(node for node in redis_cluster.primaries if node is not source)
    with closing(RedisStore(redis_cluster.url, clock=clock)) as store:
        stage(store, numbered(MANY))
        begin(store, Publish(JOBS, b"w", b"k", b"r", 1, [Part(0, 0, 1)], PUBLISH_MOST))
        redis_cluster.move_slot(slot, target)
        try:
            assert publish(store) == MANY - CHUNK_ROWS_MOST
            assert store.run(Publish(JOBS, b"w", b"k", b"r", 1, [], 99)) == Published(0, 0)
            assert counts(store) == (MANY, 0, 0, 0)
        finally:
            redis_cluster.flush()
            redis_cluster.move_slot(slot, source)


def test_a_feed_gets_ids_that_grow_when_it_is_published(store: RedisStore) -> None:
    store.run(Stage(EVENTS, b"q", b"k", b"r", 1, 0, 0, 0, packed([0, 0, 0, 0, None, [b"1"]])))
    store.run(Stage(EVENTS, b"q", b"k", b"r", 1, 1, 0, 0, packed([0, 0, 0, 0, None, [b"2"]])))
    parts = [Part(1, 0, 1), Part(0, 0, 1)]

    done = store.run(Publish(EVENTS, b"q", b"k", b"r", 1, parts, 99))
    assert done == Published(2, 0)


def test_a_published_batch_removes_the_earlier_ones_of_its_run_some_at_a_time(
    redis_server: RedisServer, clock: ManualClock
) -> None:
    redis_server.flush()
    rows = packed([0, 0, -1, 0, None, [b"1"]])
    with closing(RedisStore(redis_server.url, clock=clock)) as store:
        for number in range(150):
            store.run(Stage(JOBS, b"w", b"k", b"r", number, 0, 0, 0, rows))
            store.run(Stage(JOBS, b"w", b"k", b"other", number, 0, 0, 0, rows))

        calls: list[int] = []
        for number in range(149, 152):
            redis_server.ask("CONFIG", "RESETSTAT")
            store.run(Publish(JOBS, b"w", b"k", b"r", number, [], 99))
            stats = redis_server.ask("INFO", "commandstats")
            calls.append(stats["cmdstat_unlink"]["calls"])

        assert calls == [101, 50, 1]
        assert {view.run for view in store.run(FindStages())} == {b"other"}
        clock.advance(STAGE_KEPT_MS)
        tick(store)
        assert [key for key in redis_server.ask("KEYS", "*") if b"stage" in key] == []


# -- words ---------------------------------------------------------------------------------------


def packed(*runs: list[Any]) -> bytes:
    rows: bytes = msgpack.packb(runs)
    return rows


def stage(store: RedisStore, some: list[bytes], part: int = 0, attempt: int = 0) -> Staged:
    rows = packed([0, 0, -1, 0, None, some])
    staged: Staged = store.run(Stage(JOBS, b"w", b"k", b"r", 1, part, attempt, 0, rows))
    return staged


def publish(store: RedisStore, parts: list[Part] | None = None) -> int:
    """All of the batch is in the queue; how many messages that put there."""
    moved, left = 0, 1
    while left:
        op = Publish(JOBS, b"w", b"k", b"r", 1, parts or [Part(0, 0, 1)], PUBLISH_MOST)
        done: Published = store.run(op)
        moved, left = moved + done.messages, done.left
    return moved
