"""Queues of items in a copy: what the keys of Redis Work Queue have a place for comes along."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from quinque.errors import CopyRefused
from quinque.model.claim_ops import OpenClaims
from quinque.model.families import ITEMS
from quinque.stores.clock import ManualClock
from tests.conformance.item_words import add, complete, extend, lease, lease_data, lengths
from tests.copying.places import FolderPlace, Place, RedisPlace, copy, settle
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer

LEASE_MS = 1_000


def fill(place: Place, clock: ManualClock) -> None:
    with closing(place.open(clock)) as store:
        add(store, *(b"%d" % number for number in range(12)), prefix=b"data of ")
        assert lease(store, 3, lease_ms=LEASE_MS) == [b"0", b"1", b"2"]
        complete(store, b"1", b"5")
        clock.advance(LEASE_MS)
        settle(store)
        assert lease(store, 2, lease_ms=2 * LEASE_MS) == [b"3", b"4"]
        lease(store, queue=b"{empty}")
        store.commit()


def check(place: Place, now_us: int) -> None:
    """It is as fill() left it, and goes on."""
    clock = ManualClock(now_us)
    with closing(place.open(clock)) as store:
        assert lengths(store) == (8, 2)
        assert extend(store, b"3", b"6", lease_ms=3 * LEASE_MS) == [True, False]
        clock.advance(2 * LEASE_MS)
        settle(store)
        wanted = [b"6", b"7", b"8", b"9", b"10", b"11", b"0", b"2", b"4"]
        assert lease_data(store, 20) == [(id, b"data of " + id) for id in wanted]
        assert complete(store, b"3", b"4", b"1") == [True, True, False]
        store.commit()


@pytest.mark.parametrize("kind", ["redis_server", "redis_cluster"])
def test_items_are_the_same_there_and_back(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    server: RedisServer | RedisCluster = request.getfixturevalue(kind)
    server.flush()
    first, there, back = (
        FolderPlace(tmp_path / "a"),
        RedisPlace(server.url),
        FolderPlace(tmp_path / "b"),
    )
    clock = ManualClock()
    fill(first, clock)

    assert copy(first, there) == copy(there, back)

    for place in (first, there, back):
        check(place, clock.now_us())


def test_what_workers_did_by_themselves_comes_along(
    redis_url: str, redis_server: RedisServer, tmp_path: Path
) -> None:
    """And what was damaged does not."""
    keys = redis_server.client()
    clock = ManualClock()
    there, folder = RedisPlace(redis_url), FolderPlace(tmp_path / "a")
    with closing(there.open(clock)) as store:
        add(store, b"1", b"2", b"3", queue=b"w")
    keys.execute_command("RPOPLPUSH", "w:queue", "w:processing")
    keys.set("w:lease:1", b"session", ex=1_000)
    keys.execute_command("RPOPLPUSH", "w:queue", "w:processing")
    keys.lpush("w:queue", b"gone", b"3")

    copy(there, folder)

    clock.advance(LEASE_MS)
    with closing(folder.open(clock)) as store:
        settle(store)
        assert lengths(store, b"w") == (2, 1)
        assert lease(store, 9, queue=b"w") == [b"3", b"2"]


def test_a_chunk_that_is_written_twice_is_there_once(redis_url: str, tmp_path: Path) -> None:
    first, there = FolderPlace(tmp_path / "a"), RedisPlace(redis_url)
    clock = ManualClock()
    fill(first, clock)
    with closing(first.reader()) as reader, closing(there.writer()) as writer:
        writer.begin(reader.identity, reader.facts, list(reader.queues()))
        for name in reader.queues():
            for chunk in reader.read(name, 0):
                writer.write(chunk)
                writer.write(chunk)
        writer.finish()

    check(there, clock.now_us())


def test_a_name_that_a_cluster_cannot_have_is_named(redis_cluster_url: str, tmp_path: Path) -> None:
    first = FolderPlace(tmp_path / "a")
    with closing(first.open(ManualClock())) as store:
        add(store, b"1", queue=b"plain")
        store.commit()

    with pytest.raises(CopyRefused, match="items queue plain"):
        copy(first, RedisPlace(redis_cluster_url))


def test_claimed_items_stay_where_they_are(redis_url: str, tmp_path: Path) -> None:
    first = FolderPlace(tmp_path / "a")
    with closing(first.open(ManualClock())) as store:
        add(store, b"1")
        store.run(OpenClaims(ITEMS, b"{i}", b"subscription", b"", LEASE_MS))
        store.commit()

    with pytest.raises(CopyRefused, match="claimed"):
        copy(first, RedisPlace(redis_url))
