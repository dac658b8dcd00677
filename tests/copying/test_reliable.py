"""Reliable queues are copied as they are, with ids, order and deliveries, and go on alike."""

from __future__ import annotations

from contextlib import closing
from itertools import count
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quinque.errors import CopyRefused
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from tests.conformance.reliable_words import (
    all_queues,
    everything,
    inspect,
    key_of,
    pop,
    push,
    push_one,
    recover,
    rename,
)
from tests.copying.places import FolderPlace, Place, RedisPlace, copy
from tests.model.effort import effort
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.store.random_reliable import ReliableWorker


@pytest.mark.parametrize("server", ["redis_server", "redis_cluster"])
def test_random_work_is_the_same_there_and_back(
    request: pytest.FixtureRequest, tmp_path: Path, server: str
) -> None:
    redis: RedisServer | RedisCluster = request.getfixturevalue(server)
    folders = (FolderPlace(tmp_path / str(number)) for number in count())

    @effort(5)
    @given(st.integers(0, 1 << 32))
    def check(seed: int) -> None:
        redis.flush()
        first, there, back = next(folders), RedisPlace(redis.url), next(folders)
        clock, ids = ManualClock(), work(first, seed)

        assert copy(first, there) == copy(there, back)

        clock.advance(100_000)  # later than all that was done
        go_on_alike((first, there, back), clock, ids)

    check()


def test_random_work_on_redis_is_the_same_in_a_folder_and_back(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    folders = (FolderPlace(tmp_path / str(number)) for number in count())

    @effort(5)
    @given(st.integers(0, 1 << 32))
    def check(seed: int) -> None:
        redis_server.flush()
        first, there = RedisPlace(redis_server.url), next(folders)
        work(first, seed)
        was = looked_at(first)

        copy(first, there)
        redis_server.flush()
        copy(there, first)

        assert looked_at(there) == was
        assert looked_at(first) == was

    check()


def test_a_message_whose_id_another_queue_of_the_slot_has_is_refused(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    redis_server.flush()
    first, there = RedisPlace(redis_server.url), FolderPlace(tmp_path / "there")
    clock = ManualClock()
    with closing(first.open(clock)) as store:
        push(store, b"1", queue=b"{r}")
        push(store, b"2", queue=b"{s}")  # in another slot, so that it has the same id
    copy(first, there)
    with closing(there.open(clock)) as store:
        rename(store, b"{s}", b"{r}other")
        store.commit()
    redis_server.flush()

    with pytest.raises(CopyRefused, match="rename one of them"):
        copy(there, first)


def work(place: Place, seed: int) -> list[bytes]:
    """Random work was done; the ids that are left, and one that is not."""
    clock = ManualClock()
    with closing(place.open(clock)) as store:
        worker = ReliableWorker(cast(EmbeddedStore, store), clock, seed)
        for _ in range(40):
            worker.turn()
        (last,) = push(store, b"last", queue=b"{last}")
        pop(store, 1, b"{last}")
        store.commit()
        return [last, *(it.id for name in all_queues(store) for it in inspect(store, queue=name))]


def looked_at(place: Place) -> object:
    clock = ManualClock()
    clock.advance(100_000)
    with closing(place.open(clock)) as store:
        return everything(store)


def go_on_alike(places: tuple[Place, ...], clock: ManualClock, ids: list[bytes]) -> None:
    """The stores show the same, hand out the same, and make ids that are later than these."""
    results = []
    for place in places:
        with closing(place.open(clock)) as store:
            results.append((everything(store), handed_out(store), everything(store)))
            assert min(key_of(push_one(store, queue=b"m")) > key_of(id) for id in ids)
            store.commit()
    assert results[0] == results[1] == results[2]


def handed_out(store: Store) -> object:
    names = all_queues(store)
    return [(pop(store, 2, name), recover(store, 2, 50, queue=name)) for name in names]
