"""Names, keys, reasons and bodies of every kind, and counts beyond one chunk, are copied as they
are."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Flush, Put, Reserve
from quinque.model.work_ops import Add, Configure, LookAtNode, Requeue, SetNode, Take, Terms
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from quinque.stores.copying import Tally
from quinque.stores.portable import CHUNK_MOST_BYTES
from tests.copying.places import FolderPlace, Place, RedisPlace, copy, sights
from tests.servers import stores
from tests.store.picture import picture_of

HOUR_MS = 3_600_000
ODD = (b" ", b"a b", b"{a}:b", b"\r\n", b"\xff\x00", b"0", b"-1", b"n" * 1024)
SIZES_BYTES = (0, 1, 1_000, 70_000, CHUNK_MOST_BYTES, CHUNK_MOST_BYTES + 1, 3 << 20)


@pytest.fixture(params=stores.ALL)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == stores.EMBEDDED:
        return FolderPlace(tmp_path / "b")
    return RedisPlace(stores.empty_store_url(request, request.param))


@pytest.fixture
def source(tmp_path: Path) -> FolderPlace:
    return FolderPlace(tmp_path / "a")


def there_and_back(source: FolderPlace, target: Place) -> dict[bytes, Tally]:
    """The target has the same contents as the folder, and so has a copy back."""
    back = FolderPlace(source.folder.parent / "c")
    tallies = copy(source, target)
    assert copy(target, back) == tallies

    places: list[Place] = [source, target, back]
    seen = []
    for place in places:
        with closing(place.open(ManualClock())) as store:
            seen.append(sights(store))
    assert seen[1] == seen[0]
    assert seen[2] == seen[0]
    with closing(source.open(ManualClock())) as one, closing(back.open(ManualClock())) as other:
        assert picture_of(other) == picture_of(one)
    return tallies


def test_odd_names(source: FolderPlace, target: Place) -> None:
    with closing(source.open(ManualClock())) as store:
        for odd in ODD:
            store.run(Put(EVENTS, b"feed" + odd, [odd, odd], message_id=None))
            store.run(Put(EVENTS, b"feed" + odd, [odd], 0, odd, to_front=True))
            for group in ODD:
                store.run(Reserve(EVENTS, b"feed" + odd, group, HOUR_MS, 2))
            store.run(Add(JOBS, odd, [odd], Terms(HOUR_MS, 0, 1_000), key=odd))
            (given,) = store.run(Take(JOBS, [odd]))
            store.run(Requeue(JOBS, [given.message_id], is_nack=True, reason=odd))
        store.run(Add(JOBS, b"empty key", [b"1"], Terms(HOUR_MS), key=b""))
        store.run(Configure(JOBS, b"set", is_paused_in=True, rate=(5, 1_000), max_deliveries=3))
        store.run(Configure(JOBS, b"set", keeps_expired=True))
        store.commit()

    there_and_back(source, target)


def test_bodies_of_all_sizes(source: FolderPlace, target: Place) -> None:
    with closing(source.open(ManualClock())) as store:
        for size_bytes in SIZES_BYTES:
            store.run(Put(EVENTS, b"q", [b"e" * size_bytes]))
            store.run(Add(JOBS, b"v", [b"j" * size_bytes], Terms(HOUR_MS)))
            store.commit()

    there_and_back(source, target)


def test_leases_on_flushed_messages_of_one_id(source: FolderPlace, target: Place) -> None:
    with closing(source.open(ManualClock())) as store:
        for group, ttl_ms in ((b"g", 0), (b"h", HOUR_MS), (b"i", 2 * HOUR_MS)):
            store.run(Put(EVENTS, b"q", [group], ttl_ms, b"same"))
            store.run(Reserve(EVENTS, b"q", group, HOUR_MS))
            store.run(Flush(EVENTS, b"q"))
        store.run(Put(EVENTS, b"q", [b"living"], 0, b"same"))
        store.commit()

    (tally,) = there_and_back(source, target).values()

    assert tally.counts == {"event": 1, "group": 3, "flushed lease": 3}


def test_a_group_that_is_past_the_front(source: FolderPlace, target: Place) -> None:
    with closing(source.open(ManualClock())) as store:
        store.run(Put(EVENTS, b"q", [b"1", b"2", b"3"]))
        store.run(Reserve(EVENTS, b"q", b"g", 0, 2))
        store.run(Put(EVENTS, b"q", [b"0"], 0, b"first", to_front=True))
        store.commit()

    there_and_back(source, target)

    with closing(target.open(ManualClock())) as copied:
        assert bodies_for(copied, b"g") == [b"0", b"3"]
        assert bodies_for(copied, b"h") == [b"0", b"1", b"2", b"3"]


def bodies_for(store: Store, group: bytes) -> list[bytes]:
    given: list[bytes] = []
    while some := store.run(Reserve(EVENTS, b"q", group, 0, 10)):
        given += [delivery.body for delivery in some]
    return given


def test_a_folder_takes_the_name_of_its_node_along(source: FolderPlace, tmp_path: Path) -> None:
    target = FolderPlace(tmp_path / "b")
    with closing(source.open(ManualClock())) as store:
        name = store.run(LookAtNode()).node_id
        store.run(SetNode(is_leaving=True))
        store.commit()

    copy(source, target)

    with closing(target.open(ManualClock())) as store:
        node = store.run(LookAtNode())
        assert (node.node_id, node.is_leaving) == (name, True)
