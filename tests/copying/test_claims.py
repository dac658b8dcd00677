"""Subscriptions, their claims and what was published are copied with the queues they are on."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quinque.errors import CopyRefused, OtherBatch, QueuePaused, WrongType
from quinque.model.claim_ops import (
    FillClaim,
    FindClaims,
    LookAtClaims,
    OpenClaims,
    ReadClaim,
    ReleaseClaims,
    SettleClaims,
)
from quinque.model.families import JOBS
from quinque.model.stage_ops import Part, Publish, Published, Stage, Staged
from quinque.model.work_ops import Add, Configure, Finish, Take, Terms
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from tests.copying.places import FolderPlace, Place, RedisPlace, copy, sights
from tests.model.effort import effort
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.store.picture import check_indexes, picture_of, picture_of_claims
from tests.store.random_claims import ClaimWorker

MAKERS = {"embedded": None, "redis": "redis_server", "cluster": "redis_cluster"}
MEMORY = Path("/dev/shm")


class Places:
    """A folder, a target of some kind, and a folder that it is copied back into."""

    def __init__(self, folder: Path, server: RedisServer | RedisCluster | None) -> None:
        self._folder = folder
        self._server = server

    def begin(self) -> tuple[FolderPlace, Place, FolderPlace]:
        """All three are empty."""
        shutil.rmtree(self._folder / "stores", ignore_errors=True)
        first, target, back = (FolderPlace(self._folder / "stores" / name) for name in "abc")
        if self._server is None:
            return first, target, back
        self._server.flush()
        return first, RedisPlace(self._server.url), back


@pytest.fixture(params=MAKERS)
def places(request: pytest.FixtureRequest) -> Iterator[Places]:
    folder = tempfile.mkdtemp(prefix="quinque-copy-", dir=MEMORY if MEMORY.is_dir() else None)
    maker = MAKERS[request.param]
    yield Places(Path(folder), request.getfixturevalue(maker) if maker else None)
    shutil.rmtree(folder)


def test_random_work_with_claims_is_the_same_there_and_back(places: Places) -> None:
    @effort(15)
    @given(st.integers(0, 1 << 32))
    def check(seed: int) -> None:
        first, target, back = places.begin()
        clock = ManualClock()
        with closing(first.open(clock)) as store:
            worker = ClaimWorker(store, clock, seed)
            for _ in range(60):
                worker.turn()
            publish_all(store)

        assert copy(first, target) == copy(target, back)

        now_us = clock.now_us() + 1_000
        seen: list[Any] = []
        for place in (first, target, back):
            with closing(place.open(ManualClock(now_us))) as opened:
                seen.append((sights(opened), claims_seen(opened)))
                if isinstance(opened, EmbeddedStore):
                    check_indexes(opened)
                    lies: Any = picture_of_claims(opened)
                    seen[-1] = (*seen[-1], picture_of(opened), lies[0], lies[3])
        assert seen[0][:2] == seen[1][:2]
        assert seen[0] == seen[2]

    check()


def test_a_claim_goes_on_in_the_copy(places: Places) -> None:
    first, target, _ = places.begin()
    clock = ManualClock()
    with closing(first.open(clock)) as store:
        store.run(Add(JOBS, b"w", [b"1", b"2", b"3"], Terms(86_400_000, 0, 60_000)))
        opened = store.run(OpenClaims(JOBS, b"w", b"s", b"", 60_000))
        epoch = opened.epoch
        for number in (1, 2):
            from_claim(store, epoch, number)
        store.run(SettleClaims(b"w", b"s", epoch, 1))
        rows = msgpack.packb([[0, 0, -1, 0, None, [b"staged"]]])
        store.run(Stage(JOBS, b"p", b"k", b"r", 7, 0, 0, 0, rows))
        publish_all(store, [Part(0, 0, 1)])
        store.commit()

    copy(first, target)

    with closing(target.open(ManualClock(clock.now_us() + 1_000))) as store:
        view = store.run(LookAtClaims(b"w", b"s"))
        assert view is not None
        assert (view.epoch, view.settled, view.backlog) == (epoch, 1, 1)
        assert view.created_us == opened.created_us
        (packed,) = store.run(ReadClaim(b"w", b"s", 2, 0, 9))
        assert [row[1] for row in msgpack.unpackb(packed, raw=True)] == [b"2"]
        assert store.run(ReleaseClaims(b"w", b"s", epoch, 2)) == 1
        assert store.run(Stage(JOBS, b"p", b"k", b"r", 7, 0, 0, 0, rows)) == Staged(True, 0)
        publish = Publish(JOBS, b"p", b"k", b"r", 7, [], 9, content=b"sum")
        assert store.run(publish) == Published(0, 0)
        publish.content = b"another"
        with pytest.raises(OtherBatch):
            store.run(publish)


@pytest.mark.parametrize("is_over", [True, False])
def test_a_mark_of_a_published_batch_is_copied_when_its_queue_is_gone_unless_it_has_expired(
    places: Places, is_over: bool
) -> None:
    first, target, back = places.begin()
    clock = ManualClock()
    with closing(first.open(clock)) as store:
        rows = msgpack.packb([[0, 0, -1, 0, None, [b"staged"]]])
        store.run(Stage(JOBS, b"p", b"k", b"r", 7, 0, 0, 0, rows))
        keep_ms = 1_000 if is_over else 0
        store.run(Publish(JOBS, b"p", b"k", b"r", 7, [Part(0, 0, 1)], 100, keep_ms))
        (given,) = store.run(Take(JOBS, [b"p"]))
        store.run(Finish(JOBS, [given.message_id]))
        store.commit()
        clock.advance(3_600_000)
        store.tick()
        store.run(Add(JOBS, b"other", [b"1"], Terms(86_400_000)))
        store.commit()
        assert b"p" not in store.queues

    tallies = [copy(first, target), copy(target, back)]

    assert [b"p" in tally and tally[b"p"].counts == {"published": 1} for tally in tallies] == [
        not is_over
    ] * 2


def test_what_is_half_published_is_refused(places: Places) -> None:
    first, target, _ = places.begin()
    with closing(first.open(ManualClock())) as store:
        for chunk in range(2):
            rows = msgpack.packb([[0, 0, -1, 0, None, [b"1"] * 100]])
            store.run(Stage(JOBS, b"p", b"k", b"r", 7, 0, 0, chunk, rows))
        store.run(Publish(JOBS, b"p", b"k", b"r", 7, [Part(0, 0, 2)], 100))
        store.commit()

    with pytest.raises(CopyRefused):
        copy(first, target)


def from_claim(store: Store, epoch: int, number: int) -> None:
    store.run(FillClaim(b"w", b"s", epoch, number, 1, seals=True))


def publish_all(store: EmbeddedStore, parts: list[Part] | None = None) -> None:
    """Nothing is half published."""
    for name, batch in list(store.stages.batches.items()):
        while (batch.is_decided or parts) and name in store.stages.batches:
            try:
                store.run(Publish(batch.family, *name, parts or [], 100, content=b"sum"))
            except (QueuePaused, WrongType):
                store.run(Configure(JOBS, name[0], is_paused_in=False))
    store.commit()


def claims_seen(store: Store) -> object:
    """All that can be seen of claims."""
    rows: list[object] = []
    for view in store.run(FindClaims()):
        view.stamp_us = view.unrenewed_ms = 0
        view.is_stalled = False
        for claim in view.claims:
            if claim.chunks:
                chunks = []
                if claim.state:
                    op = ReadClaim(view.queue, view.subscription, claim.number, 0, 1_000)
                    chunks = [msgpack.unpackb(it, raw=True) for it in store.run(op)]
                rows.append(chunks)
        rows.append(view)
    return rows
