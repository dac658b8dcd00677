"""What is not the same after a copy is found, and the queue is named."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import redis

from quinque.errors import CopyDiffers, CopyRefused, JournalDamaged, WrongType
from quinque.model.events import WorkKept
from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Ack, Flush, Op, Put, Reserve
from quinque.model.work_ops import Add, Configure, Finish, Take, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.copying import compare
from quinque.stores.id_slots import slot_of_id
from quinque.stores.redis.spread import slot_of_partition
from tests.copying.places import FolderPlace, Place, RedisPlace, copy, ignore
from tests.servers.redis_server import RedisServer
from tests.store.picture import picture_of

HOUR_MS = 3_600_000
IDS: list[bytes] = []


@pytest.fixture
def source(tmp_path: Path) -> FolderPlace:
    """Two queues, each with a leased message."""
    place = FolderPlace(tmp_path / "a")
    with closing(place.open(ManualClock())) as store:
        store.run(Put(EVENTS, b"news", [b"1", b"2", b"3"], HOUR_MS))
        store.run(Put(EVENTS, b"news", [b"4"], 0, b"chosen"))
        store.run(Reserve(EVENTS, b"news", b"g", HOUR_MS, 2))
        IDS[:] = store.run(Add(JOBS, b"mail", [b"1", b"2", b"3"], Terms(HOUR_MS, 0, 60_000)))
        store.run(Take(JOBS, [b"mail"], 1))
        store.commit()
    return place


@pytest.fixture(params=["embedded", "redis"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "embedded":
        return FolderPlace(tmp_path / "b")
    return RedisPlace(request.getfixturevalue("redis_url"))


def held_alike(source: Place, target: Place) -> None:
    with closing(source.reader()) as one, closing(target.reader()) as other:
        compare(one, other, ignore)


CHANGES: dict[str, tuple[Callable[[], Op], str]] = {
    "an event more": (
        lambda: Put(EVENTS, b"news", [b"5"]),
        "queue news differs: 5 of 4 event",
    ),
    "a group more": (
        lambda: Reserve(EVENTS, b"news", b"h", 0),
        "queue news differs: 2 of 1 group",
    ),
    "a lease less": (
        lambda: Ack(EVENTS, b"news", b"g", [b"1700000000000000"]),
        "queue news differs: the number of messages is equal, but their contents differ",
    ),
    "no event": (
        lambda: Flush(EVENTS, b"news"),
        "queue news differs: 0 of 4 event, 2 of 0 flushed lease",
    ),
    "another state": (
        lambda: Take(JOBS, [b"mail"], 1),
        "queue mail differs: 2 of 1 leased, 1 of 2 ready",
    ),
    "a message less": (
        lambda: Finish(JOBS, IDS[:1]),
        "queue mail differs: 0 of 1 leased",
    ),
    "another setting": (
        lambda: Configure(JOBS, b"mail", max_deliveries=7),
        "queue mail differs: the number of messages is equal, but their contents differ",
    ),
    "what becomes of expired messages": (
        lambda: Configure(JOBS, b"mail", keeps_expired=True),
        "queue mail differs: the number of messages is equal, but their contents differ",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_is_found_and_named(source: FolderPlace, target: Place, change: str) -> None:
    make, said = CHANGES[change]
    copy(source, target)
    held_alike(source, target)
    with closing(target.open(ManualClock())) as store:
        store.run(make())
        store.commit()

    with pytest.raises(CopyDiffers) as raised:
        held_alike(source, target)

    assert str(raised.value) == said


def test_a_queue_that_is_not_there_is_named(source: FolderPlace, redis_url: str) -> None:
    with pytest.raises(
        CopyDiffers, match=r"queue mail is missing in unix:.*\nqueue news is missing in unix:"
    ):
        held_alike(source, RedisPlace(redis_url))


def test_a_body_that_was_changed_in_redis_is_found(
    source: FolderPlace, redis_server: RedisServer
) -> None:
    redis_server.flush()
    place = RedisPlace(redis_server.url)
    copy(source, place)
    with redis_server.client() as client:
        (key,) = [key for key in client.scan_iter("quinque:{*}:bodies*") if b"news" in key]
        client.hset(key, "chosen", "5")

    with pytest.raises(
        CopyDiffers,
        match="queue news differs: the number of messages is equal, but their contents differ",
    ):
        held_alike(source, place)


def test_a_folder_in_which_a_byte_was_changed_is_no_source(
    source: FolderPlace, tmp_path: Path
) -> None:
    (path,) = source.folder.glob("*.journal")
    data = bytearray(path.read_bytes())
    data[data.index(b"news")] ^= 1
    path.write_bytes(data)

    with pytest.raises(JournalDamaged, match="quinque check"):
        copy(source, FolderPlace(tmp_path / "b"))


def test_a_source_is_not_changed(source: FolderPlace, target: Place) -> None:
    before = {path.name: path.read_bytes() for path in source.folder.glob("*.journal")}

    copy(source, target)

    assert {path.name: path.read_bytes() for path in source.folder.glob("*.journal")} == before


def test_an_id_that_does_not_tell_its_slot_is_refused_by_redis(
    source: FolderPlace, redis_url: str
) -> None:
    with closing(source.reader()) as reader, closing(RedisPlace(redis_url).writer()) as writer:
        writer.begin(reader.identity, reader.facts, [b"mail"])
        head, messages, *_ = reader.read(b"mail", 0)
        writer.write(head)
        item = messages.items[0]
        assert isinstance(item, WorkKept)
        old = item._replace(id=item.id[:11] + b"AAA" + item.id[14:])
        assert slot_of_id(old.id) not in {slot_of_partition(b"mail", it) for it in range(64)}

        with pytest.raises(CopyRefused, match="of queue mail has an id of an older version"):
            writer.write(messages._replace(items=[old]))


def test_a_worklist_that_is_spread_stays_so_and_its_ids_find_their_way_back(
    source: FolderPlace, redis_url: str, tmp_path: Path
) -> None:
    place, back = RedisPlace(redis_url), FolderPlace(tmp_path / "c")
    copy(source, place)
    with closing(place.open(ManualClock())) as store:
        store.run(Configure(JOBS, b"mail", partitions=4))
        ids = [store.run(Add(JOBS, b"mail", [b"%d" % at], Terms(HOUR_MS)))[0] for at in range(9)]

    tallies = copy(place, back)
    _empty(redis_url)
    assert copy(back, place) == tallies

    with closing(back.open(ManualClock())) as folder, closing(place.open(ManualClock())) as store:
        assert isinstance(picture_of(folder), dict)
        assert len(store.run(Take(JOBS, [b"mail"], 100))) == 11
        assert store.run(Finish(JOBS, [*ids, *IDS])) == [True] * 12
        with pytest.raises(WrongType):  # it keeps its name, though it is empty
            store.run(Put(EVENTS, b"mail", [b"event"]))
        assert folder.run(Finish(JOBS, [*ids, *IDS])) == [True] * 12


def _empty(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.flushall()
