"""What was copied is the same: as it lies there, to whoever looks, and for whoever goes on with it.

Random work on an embedded store; a copy into each kind of store, and back. The three are compared,
as far as their kinds allow, and go on alike.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Ack, Reserve
from quinque.model.work_ops import Finish, Requeue, Take
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from tests.copying.places import FolderPlace, Place, RedisPlace, copy, settle, sights
from tests.model.effort import effort
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.store.picture import check_indexes, picture_of
from tests.store.random_work import GROUPS, WORKERS, FeedWorker, Worker, WorklistWorker

FEEDS = (b"q", b"r")
MAKERS = {"embedded": None, "redis": "redis_server", "cluster": "redis_cluster"}


class Journey:
    """A folder, a target of some kind, and a folder that it is copied back into."""

    def __init__(self, folder: Path, target: Callable[[], Place]) -> None:
        self._folder = folder
        self._target = target

    def begin(self) -> tuple[FolderPlace, Place, FolderPlace]:
        """All three are empty."""
        shutil.rmtree(self._folder, ignore_errors=True)
        first, back = FolderPlace(self._folder / "a"), FolderPlace(self._folder / "c")
        return first, self._target(), back


@pytest.fixture(params=MAKERS)
def journey(request: pytest.FixtureRequest) -> Iterator[Journey]:
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="quinque-copy-", dir=memory if memory.is_dir() else None))
    maker = MAKERS[request.param]
    server: RedisServer | RedisCluster | None = request.getfixturevalue(maker) if maker else None

    def target() -> Place:
        if server is None:
            return FolderPlace(folder / "stores" / "b")
        server.flush()
        return RedisPlace(server.url)

    yield Journey(folder / "stores", target)
    shutil.rmtree(folder)


def test_random_work_is_the_same_there_and_back(journey: Journey) -> None:
    @effort(25)
    @given(st.integers(0, 1 << 32), st.sampled_from(WORKERS))
    def check(seed: int, kind: type[Worker]) -> None:
        first, target, back = journey.begin()
        clock = ManualClock()
        ids = work(first, clock, kind, seed)

        assert copy(first, target) == copy(target, back)

        now_us = clock.now_us() + 1_000  # later than all that was given out
        with ExitStack() as opened:
            stores = [
                opened.enter_context(closing(place.open(ManualClock(now_us))))
                for place in (first, target, back)
            ]
            was, _, is_again = stores
            assert isinstance(was, EmbeddedStore)
            assert isinstance(is_again, EmbeddedStore)
            check_indexes(is_again)
            assert picture_of(is_again) == picture_of(was)
            see_alike(stores, ids)

    check()


@pytest.mark.parametrize("kind", [FeedWorker, WorklistWorker])
@pytest.mark.parametrize("server", ["redis_server", "redis_cluster"])
def test_random_work_on_redis_is_the_same_in_a_folder_and_back(
    request: pytest.FixtureRequest, tmp_path: Path, server: str, kind: type[Worker]
) -> None:
    redis: RedisServer | RedisCluster = request.getfixturevalue(server)
    folders = (FolderPlace(tmp_path / str(number)) for number in count())

    @effort(8)
    @given(st.integers(0, 1 << 32))
    def check(seed: int) -> None:
        redis.flush()
        first, folder = RedisPlace(redis.url), next(folders)
        clock = ManualClock()
        work(first, clock, kind, seed)
        now_us = clock.now_us() + 1_000
        with closing(first.open(ManualClock(now_us))) as store:
            was = sights(store)

        copy(first, folder)
        redis.flush()
        copy(folder, first)

        for place in (folder, first):
            with closing(place.open(ManualClock(now_us))) as store:
                if isinstance(store, EmbeddedStore):
                    check_indexes(store)
                assert sights(store) == was

    check()


def work(place: Place, clock: ManualClock, kind: type[Worker], seed: int) -> list[bytes]:
    """Random work was done; some of the ids it met."""
    with closing(place.open(clock)) as store:
        worker = kind(cast(EmbeddedStore, store), clock, seed)
        for _ in range(40):
            worker.turn()
        return [*worker.ids, *(store.directory.by_id if isinstance(store, EmbeddedStore) else ())]


def see_alike(stores: list[Store], ids: list[bytes]) -> None:
    """The stores show the same, now and when time has passed, and end alike."""
    for span_ms in (0, 25, 500, 70_000):
        for store in stores:
            advance(store, span_ms)
            settle(store)
        assert_alike(stores, sights)
        if not span_ms:
            assert_alike(stores, lambda store: acknowledge(store, ids))
    assert_alike(stores, take_all)


def advance(store: Store, span_ms: int) -> None:
    clock: Any = store.clock if isinstance(store, EmbeddedStore) else store._store.edge.clock  # type: ignore[attr-defined]
    clock.advance(span_ms)


def acknowledge(store: Store, ids: list[bytes]) -> object:
    """Half of what was handed out before the copy is finished, a quarter is given back."""
    return (
        [store.run(Ack(EVENTS, name, group, ids[::2])) for name in FEEDS for group in GROUPS],
        store.run(Finish(JOBS, ids[::2])),
        store.run(Requeue(JOBS, ids[1::4], is_nack=True, reason=b"after the copy")),
    )


def take_all(store: Store) -> object:
    given = [store.run(Take(JOBS, [name], 100)) for name in (b"v", b"w")]
    events = [store.run(Reserve(EVENTS, name, b"late", 0, 1_000)) for name in FEEDS]
    return given, events


def assert_alike(stores: list[Store], ask: Callable[[Store], object]) -> None:
    first, *others = [ask(store) for store in stores]
    for other in others:
        assert other == first
