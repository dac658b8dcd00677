"""Queues page by page, on Redis: partitions, and very many leased messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from quinque.model.families import JOBS
from quinque.model.look_ops import BrowsePlaces, DividePlaces
from quinque.model.states import State
from quinque.model.work_ops import Configure
from quinque.stores.clock import ManualClock
from quinque.stores.redis import pages
from quinque.stores.redis.store import RedisStore
from tests.conformance.work_words import add, finish, take
from tests.model.scans import all_rows

LEASED = (State.LEASED,)


@pytest.fixture
def store(redis_url: str) -> Iterator[RedisStore]:
    with closing(RedisStore(redis_url, clock=ManualClock())) as opened:
        yield opened


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_a_spread_queue_is_shown_shard_by_shard(redis_cluster_url: str) -> None:
    with closing(RedisStore(redis_cluster_url, clock=ManualClock())) as store:
        store.run(Configure(JOBS, b"w", partitions=4))
        for body in numbered(40):
            add(store, body)

        seen: list[bytes] = []
        for shard in range(4):
            found = store.run(DividePlaces(JOBS, b"w", 2, shard=shard))
            assert (found.messages, found.shards, len(found.bounds)) == (10, 4, 2)
            after = 0
            for until in found.bounds:
                some = all_rows(store, BrowsePlaces(JOBS, b"w", after, until, 3, shard=shard))
                assert len(some) == 5
                seen += [row.body for row in some]
                after = until
        assert sorted(seen) == sorted(numbered(40))


def test_leased_messages_are_asked_for_a_part_at_a_time(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_LEASED_MOST", 7)
    ids = add(store, *numbered(100))
    take(store, 60)
    finish(store, *ids[10:20])

    found = all_rows(store, BrowsePlaces(JOBS, b"w", 0, 0, 8, LEASED))
    assert [row.id for row in found] == [*ids[:10], *ids[20:60]]
    whole = all_rows(store, BrowsePlaces(JOBS, b"w", 0, 0, 8, tuple(State)))
    assert [row.id for row in whole] == [*ids[:10], *ids[20:]]


def test_places_of_very_many_leased_messages_are_divided_by_a_part_of_them(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_LEASED_MOST", 100)
    ids = add(store, *numbered(500))
    take(store, 500)

    found = store.run(DividePlaces(JOBS, b"w", 4, LEASED))

    assert (found.messages, len(found.bounds)) == (500, 4)
    seen: list[bytes] = []
    after = 0
    for until in found.bounds:
        some = all_rows(store, BrowsePlaces(JOBS, b"w", after, until, 1_000, LEASED))
        assert 10 < len(some) < 300, "a part is a quarter, but for chance"
        seen += [row.id for row in some]
        after = until
    assert seen == ids


def test_a_page_is_made_of_several_chunks(store: RedisStore) -> None:
    for _ in range(12):
        add(store, *numbered(1_000))

    page = store.run(BrowsePlaces(JOBS, b"w", 0, 0, 1 << 40))
    assert (page.count, page.is_last) == (10_000, False)
    assert len(all_rows(store, BrowsePlaces(JOBS, b"w", 0, 0, 20_000))) == 12_000
