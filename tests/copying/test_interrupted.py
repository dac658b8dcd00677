"""A copy that was interrupted, wherever, goes on when it is asked for again, and is the same."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from quinque.errors import CopyRefused, CopyUnfinished
from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Flush, Put, Reserve
from quinque.model.work_ops import Add, Take, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.copying import Tally, carry
from quinque.stores.embedded.copy_mark import CopyMark
from quinque.stores.portable import Progress
from tests.copying.places import FolderPlace, Place, RedisPlace, copy, ignore
from tests.copying.stops import Interrupted, Stops
from tests.servers.redis_server import RedisServer
from tests.store.disk import Disk
from tests.store.picture import picture_of
from tests.store.random_work import MixedWorker

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def source() -> Iterator[FolderPlace]:
    """A folder with some of everything, flushed leases among it."""
    folder = Path(tempfile.mkdtemp(prefix="quinque-copy-"))
    place = FolderPlace(folder / "a")
    clock = ManualClock()
    with closing(place.open(clock)) as store:
        worker = MixedWorker(store, clock, seed=7)
        for _ in range(12):
            worker.turn()
        store.run(Put(EVENTS, b"flushed", [b"1", b"2", b"3", b"4", b"5"]))
        store.run(Reserve(EVENTS, b"flushed", b"g", HOUR_MS, 4))
        store.run(Reserve(EVENTS, b"flushed", b"h", HOUR_MS, 2))
        store.run(Flush(EVENTS, b"flushed"))
        store.run(Put(EVENTS, b"flushed", [b"6", b"7", b"8", b"9"]))
        store.run(Reserve(EVENTS, b"flushed", b"g", HOUR_MS, 1))
        store.run(Add(JOBS, b"many", [b"%d" % at for at in range(8)], Terms(HOUR_MS, 0, 60_000)))
        store.run(Take(JOBS, [b"many"], 3))
        store.commit()
    yield place
    shutil.rmtree(folder)


class Target:
    """A place to copy into, as often as it is wanted."""

    def __init__(self, folder: Path, server: RedisServer | None) -> None:
        self._folder = folder
        self._server = server
        self._number = 0

    def empty(self) -> Place:
        self._number += 1
        if self._server is None:
            return FolderPlace(self._folder / f"target-{self._number}")
        self._server.flush()
        return RedisPlace(self._server.url)


@pytest.fixture(params=["embedded", "redis"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    server = request.getfixturevalue("redis_server") if request.param == "redis" else None
    return Target(tmp_path, server)


@pytest.fixture
def place(target: Target) -> Place:
    return target.empty()


def chunks_of(source: Place) -> int:
    with closing(source.reader()) as reader:
        return sum(1 for name in reader.queues() for _ in reader.read(name, 0))


@pytest.mark.parametrize("before_mark", [False, True], ids=["unwritten", "unmarked"])
def test_interrupted_at_any_chunk_it_goes_on_and_is_the_same(
    source: FolderPlace, target: Target, before_mark: bool, tmp_path: Path
) -> None:
    for at in range(chunks_of(source)):
        place, back = target.empty(), FolderPlace(tmp_path / f"back-{at}")

        stopped(source, place, at, before_mark=before_mark)
        tallies = copy(source, place)

        assert copy(place, back) == tallies
        assert picture(back) == picture(source)


def picture(place: FolderPlace) -> object:
    with closing(place.open(ManualClock())) as store:
        return picture_of(store)


def stopped(source: Place, target: Place, at: int, *, before_mark: bool = False) -> None:
    """A copy has come so far."""
    with (
        closing(source.reader()) as reader,
        closing(target.writer()) as writer,
        pytest.raises(Interrupted),
    ):
        carry(reader, Stops(writer, at, before_mark=before_mark), ignore)


def test_half_a_copy_is_no_source(source: FolderPlace, place: Place) -> None:
    stopped(source, place, 3)

    with pytest.raises(CopyUnfinished, match="contains an unfinished copy of embedded:"):
        place.reader()


def test_no_broker_starts_on_a_folder_with_half_a_copy(source: FolderPlace, tmp_path: Path) -> None:
    place = FolderPlace(tmp_path / "b")
    stopped(source, place, 3)

    with pytest.raises(CopyUnfinished):
        place.open(ManualClock())
    copy(source, place)
    place.open(ManualClock()).close()


def test_half_a_copy_of_something_else_is_refused(
    source: FolderPlace, place: Place, tmp_path: Path
) -> None:
    stopped(source, place, 3)
    other = FolderPlace(tmp_path / "other")
    other.open(ManualClock()).close()

    with pytest.raises(CopyRefused, match="contains an unfinished copy of embedded:"):
        copy(other, place)


def test_a_target_that_has_one_of_the_queues_is_refused_and_not_changed(
    source: FolderPlace, place: Place
) -> None:
    with closing(place.open(ManualClock())) as store:
        store.run(Put(EVENTS, b"flushed", [b"mine"]))
        store.commit()

    with pytest.raises(CopyRefused, match="already has a queue flushed"):
        copy(source, place)

    with closing(place.open(ManualClock())) as store:
        assert [it.body for it in store.run(Reserve(EVENTS, b"flushed", b"g", 0, 9))] == [b"mine"]


def test_a_target_with_other_queues_keeps_them(source: FolderPlace, place: Place) -> None:
    with closing(place.open(ManualClock())) as store:
        store.run(Put(EVENTS, b"mine", [b"1"]))
        store.commit()

    tallies = copy(source, place)

    with closing(place.reader()) as reader:
        assert reader.queues().keys() == {*tallies, b"mine"}


def test_an_empty_store_is_copied_too(place: Place, tmp_path: Path) -> None:
    nothing = FolderPlace(tmp_path / "nothing")
    nothing.open(ManualClock()).close()

    tallies: dict[bytes, Tally] = copy(nothing, place)

    assert tallies == {}


def test_the_first_mark_says_nothing_was_copied(tmp_path: Path) -> None:
    mark = CopyMark(tmp_path)

    mark.write("embedded:/x", Progress(b"", 0), is_first=True)

    assert mark.read() == ("embedded:/x", Progress(b"", 0))
    mark.remove()
    assert mark.read() == ("", None)


def test_no_mark_takes_the_place_of_another_before_it_is_on_the_disk(tmp_path: Path) -> None:
    mark, first = CopyMark(tmp_path), Progress(b"", 0)
    mark.write("embedded:/x", first, is_first=True)

    with pytest.MonkeyPatch.context() as patch:
        Disk(patch).fail("fsync", errno.EIO)
        with pytest.raises(OSError, match="Input/output error"):
            mark.write("embedded:/x", Progress(b"q", 1))

    assert mark.read() == ("embedded:/x", first)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"source": "embedded:/x"}'])
def test_a_mark_that_cannot_be_read_is_that_of_an_unfinished_copy(
    source: FolderPlace, tmp_path: Path, text: str
) -> None:
    place = FolderPlace(tmp_path / "b")
    stopped(source, place, 3)
    (tmp_path / "b" / "copy.json").write_text(text)

    with pytest.raises(CopyUnfinished, match="an unfinished copy of an unknown store: "):
        place.open(ManualClock())
    with pytest.raises(CopyRefused, match="an unfinished copy of an unknown store: "):
        copy(source, place)
