"""Damage: what was acknowledged and is not what it was stops the start, and says where.

What no start can tell from a crash, and why:

- A bad *last* batch one of whose sectors is all zeros. A write that was cut short by a crash leaves
  just that. So a flipped bit in the last batch goes unnoticed as damage, and is reported as a torn
  tail, if the batch itself holds a sector's share of zeros.
- The newest segment cut, or zeroed, from the end of a batch on. Nothing that is left knows of
  more: to the reader the journal ended there.
- The newest segments gone, or the oldest, if the manifest is gone too. The manifest names the first
  and the last segment. A segment that is missing between two others is noticed without it.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quinque.engine.feed.feed import Feed
from quinque.engine.work.worklist import Worklist
from quinque.errors import FolderLocked, JournalDamaged
from quinque.model import families
from quinque.model.events import OPENED, STORED, Opened
from quinque.model.families import EVENTS, ITEMS, JOBS, TUBES, Family
from quinque.model.message import Message
from quinque.model.ops import Ack, Count, Put, Reserve
from quinque.model.own_ops import AddItems
from quinque.model.states import State
from quinque.model.tube_ops import (
    JoinSession,
    LookAtTube,
    MakeTube,
    PutTasks,
    TakeTasks,
    TaskTerms,
    TubeSettings,
)
from quinque.model.work_ops import Add, Browse, Take, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.journal import Journal
from quinque.stores.embedded.lock import FolderLock
from quinque.stores.embedded.records import (
    HEADER_BYTES,
    NIL,
    SECTOR_BYTES,
    VERSION,
    Batch,
    batch_header,
    read_batches,
)
from quinque.stores.embedded.store import EmbeddedStore
from tests.store.disk import Disk
from tests.store.picture import messages_of, picture_of
from tests.store.random_work import MixedWorker
from tests.store.stage import Stage


@pytest.fixture
def made(folder: Path) -> Path:
    """A folder with four segments of random work."""
    clock = ManualClock()
    chance = Random(7).randbytes
    store = EmbeddedStore(folder / "made", clock=clock, segment_bytes=1_500, chance=chance)
    worker = MixedWorker(store, clock, seed=7)
    while len(store.journal.sizes) < 4 or store.journal.sizes[4] < 1_000:
        worker.turn()
    assert store.info()["compacted_segments"] == 0
    store.close()
    return folder / "made"


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.journal"))


def batches(path: Path) -> list[Batch]:
    found = list(read_batches(path.read_bytes()))
    return [batch for batch in found if isinstance(batch, Batch)]


def refused(folder: Path) -> str:
    """The folder does not open, nothing in it is changed, and this is why."""
    before = {path: path.read_bytes() for path in segments(folder)}
    with pytest.raises(JournalDamaged) as why:
        EmbeddedStore(folder, clock=ManualClock())
    assert {path: path.read_bytes() for path in segments(folder)} == before
    return str(why.value)


def test_a_flipped_bit_anywhere_in_what_was_acknowledged_stops_the_start(made: Path) -> None:
    random = Random(1)
    for path in segments(made):
        data = path.read_bytes()
        for batch in batches(path):
            for at in random.sample(range(batch.start, batch.end), 12):
                damaged = bytearray(data)
                damaged[at] ^= 1 << random.randrange(8)
                path.write_bytes(damaged)

                why = refused(made)

                assert f"{path} at byte {batch.start}: " in why
                assert f"quinque check {made}" in why
        path.write_bytes(data)


def test_a_flipped_bit_in_a_last_batch_that_ends_with_a_zero_stops_the_start(folder: Path) -> None:
    store = EmbeddedStore(folder, clock=ManualClock())
    store.run(Put(EVENTS, b"q", [b"zero\0"]))
    store.commit()
    store.close()
    (path,) = segments(folder)
    data = bytearray(path.read_bytes())
    last = batches(path)[-1]
    assert last.body.endswith(b"\0" + NIL)

    data[last.start + HEADER_BYTES] ^= 4
    path.write_bytes(data)

    assert "though all of it was written" in refused(folder)


def test_every_bit_of_a_batch_header_is_watched(folder: Path) -> None:
    store = EmbeddedStore(folder, clock=ManualClock())
    for number in range(3):
        store.run(Put(EVENTS, b"q", [b"%d" % number]))
        store.commit()
    store.close()
    (path,) = segments(folder)
    data = path.read_bytes()
    second = batches(path)[1]

    for bit in range(8 * second.start, 8 * (second.start + 32)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)

        assert f"{path} at byte {second.start}: " in refused(folder)


def test_a_flipped_bit_beside_a_sector_of_zeros_in_the_last_batch_passes_for_a_torn_tail(
    folder: Path,
) -> None:
    """The exception, as it is: reported, and cut. A batch more, and it is noticed as damage."""
    store = EmbeddedStore(folder, clock=ManualClock())
    store.run(Put(EVENTS, b"q", [b"first"]))
    store.commit()
    store.run(Put(EVENTS, b"q", [b"second" + bytes(2 * SECTOR_BYTES)]))
    store.close()
    (path,) = segments(folder)
    data = bytearray(path.read_bytes())
    data[data.index(b"second")] ^= 1
    path.write_bytes(data)

    store = EmbeddedStore(folder, clock=ManualClock())

    assert messages_of(store) == {b"q": [b"first"]}
    assert f"{path} at byte " in store.recovered.cut_where
    store.close()


def test_a_segment_that_lost_its_end_stops_the_start(made: Path) -> None:
    """Even when it ends with a batch: the next segment says how long it was."""
    path = segments(made)[1]
    data = path.read_bytes()
    for batch in batches(path)[1:]:
        for rest in (b"", bytes(len(data) - batch.start)):
            path.write_bytes(data[: batch.start] + rest)

            assert f"{path} at byte {batch.start}: " in refused(made)


@pytest.mark.parametrize("left", [b"", bytes(100)])
def test_a_segment_with_nothing_in_it_stops_the_start_unless_it_is_the_newest(
    made: Path, left: bytes
) -> None:
    segments(made)[2].write_bytes(left)

    assert f"{segments(made)[2]} at byte 0: " in refused(made)


@pytest.mark.parametrize("left", [b"", bytes(100), b"QnqB\x05\0\0"])
def test_a_newest_segment_that_was_only_just_made_is_made_again(made: Path, left: bytes) -> None:
    """A crash between the making of its file and its first sync."""
    with_four = EmbeddedStore(made, clock=ManualClock())
    with_four.close()
    (made / "0000000005.journal").write_bytes(left)

    store = EmbeddedStore(made, clock=ManualClock())

    assert picture_of(store) == picture_of(with_four)
    assert store.journal.segment == 5
    store.run(Put(EVENTS, b"more", [b"1"]))
    store.close()
    again = EmbeddedStore(made, clock=ManualClock())
    assert messages_of(again)[b"more"] == [b"1"]
    again.close()


@pytest.mark.parametrize("gone", [[1], [2], [4], [3, 4], [1, 4], [1, 2, 3, 4]])
def test_a_missing_segment_stops_the_start(made: Path, gone: list[int]) -> None:
    for number in gone:
        (made / f"{number:010d}.journal").unlink()

    why = refused(made)

    assert all(f"{number:010d}.journal" in why for number in gone)
    assert f"quinque check {made}" in why


def test_a_folder_without_a_manifest_opens_and_gets_one(made: Path) -> None:
    (manifest,) = made.glob("*.manifest")
    manifest.unlink()

    EmbeddedStore(made, clock=ManualClock()).close()

    assert manifest.exists()
    segments(made)[0].unlink()
    assert "0000000001.journal" in refused(made)


def test_a_missing_segment_is_noticed_after_any_number_were_compacted(stage: Stage) -> None:
    for number in range(6):
        stage.put(b"%d" % number)
        stage.turn()
    stage.compact_all()
    stage.store.close()
    first = segments(stage.folder)[0]
    data = first.read_bytes()
    first.unlink()

    assert first.name in refused(stage.folder)

    first.write_bytes(data)
    stage.open()
    assert messages_of(stage.store) == {b"q": [b"%d" % number for number in range(6)]}


@pytest.mark.parametrize("name", ["fsync", "rename", "unlink", "open", "pwrite"])
def test_a_crash_at_any_file_system_call_of_rotation_and_compaction_leaves_a_folder_that_opens(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Before and after each call, a copy of the folder opens and holds every message."""
    real, looks = getattr(os, name), count()

    def look() -> None:
        monkeypatch.setattr(os, name, real)
        opened = EmbeddedStore(stage.copied(), clock=ManualClock())
        assert messages_of(opened) == {b"q": [b"%d" % number for number in range(4)]}
        opened.close()
        monkeypatch.setattr(os, name, watched)
        next(looks)

    def watched(*args: Any, **more: Any) -> Any:
        look()
        result = real(*args, **more)
        look()
        return result

    for number in range(4):
        stage.put(b"%d" % number)
        stage.turn()
    monkeypatch.setattr(os, name, watched)
    stage.compact_all()
    monkeypatch.undo()

    assert next(looks) > 4


def test_a_full_disk_does_not_keep_segments_from_being_dropped(stage: Stage, disk: Disk) -> None:
    """Where a rename has no room, the folder goes on without a manifest."""
    stage.put(b"1")
    stage.turn()
    disk.fail("rename", errno.ENOSPC)

    for _ in stage.compact_first():
        stage.turn()
    disk.heal()

    assert not (stage.folder / "0000000001.journal").exists()
    assert messages_of(stage.reopened()) == {b"q": [b"1"]}
    assert len(list(stage.folder.glob("*.manifest"))) == 1


def test_a_torn_batch_in_a_segment_that_is_not_the_newest_stops_the_start(made: Path) -> None:
    """It was synced before the next one was begun."""
    path = segments(made)[2]
    last = batches(path)[-1]
    path.write_bytes(path.read_bytes()[: last.end - 3])

    assert f"{path} at byte {last.start}: " in refused(made)


def test_a_segment_of_another_version_stops_the_start(folder: Path) -> None:
    write_segment(folder, [Opened(OPENED, VERSION + 1, 1, 0, 0)])

    assert f"has version {VERSION + 1}; this release reads version {VERSION}" in refused(folder)


@pytest.mark.parametrize(
    "record",
    [(99, b"q"), (STORED, b"q", 99, 1, 0, False, None, None, [b"body"]), (STORED, b"q"), 5],
    ids=["kind", "family", "fields", "shape"],
)
def test_a_record_from_another_version_stops_the_start(folder: Path, record: object) -> None:
    write_segment(folder, [Opened(OPENED, VERSION, 1, 0, 0)], [record])

    why = refused(folder)

    assert "unknown record type" in why
    assert f"{segments(folder)[0]} at byte {batches(segments(folder)[0])[1].start}: " in why


def test_files_that_are_no_segments_are_left_alone(made: Path) -> None:
    (made / "damaged-2-100.bin").write_bytes(b"aside")
    (made / "copy of 0000000002.journal").write_bytes(b"not ours")

    EmbeddedStore(made, clock=ManualClock()).close()

    assert (made / "copy of 0000000002.journal").read_bytes() == b"not ours"


def test_a_refused_start_leaves_no_file_open_and_no_lock(made: Path) -> None:
    data = segments(made)[0].read_bytes()
    segments(made)[0].write_bytes(data[:200] + b"\xff" + data[201:])
    open_before = set(os.listdir("/proc/self/fd"))

    refused(made)

    assert set(os.listdir("/proc/self/fd")) == open_before
    segments(made)[0].write_bytes(data)
    EmbeddedStore(made, clock=ManualClock()).close()


def test_two_stores_do_not_share_a_folder(folder: Path) -> None:
    store = EmbeddedStore(folder, clock=ManualClock())

    with pytest.raises(FolderLocked, match=f"in use by the process {os.getpid()}"):
        EmbeddedStore(folder, clock=ManualClock())

    store.close()
    EmbeddedStore(folder, clock=ManualClock()).close()


def test_a_folder_that_another_process_uses_is_refused_until_that_ends(folder: Path) -> None:
    program = (
        "import sys; from quinque.stores.embedded.lock import FolderLock; from pathlib import Path;"
        "lock = FolderLock(Path(sys.argv[1])); print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"

        with pytest.raises(FolderLocked, match=f"in use by the process {other.pid}"):
            EmbeddedStore(folder, clock=ManualClock())

        other.kill()
    EmbeddedStore(folder, clock=ManualClock()).close()


def test_a_forked_child_does_not_keep_the_folder_of_a_parent_that_was_killed(folder: Path) -> None:
    program = (
        "import os, sys; from quinque.stores.embedded.store import EmbeddedStore;"
        "store = EmbeddedStore(sys.argv[1]); os.fork();"
        "os.write(1, b'running\\n'); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        assert [parent.stdout.readline() for _ in range(2)] == [b"running\n"] * 2

        parent.kill()
        parent.wait()

        EmbeddedStore(folder, clock=ManualClock()).close()


def test_a_forked_child_does_not_release_the_folder_of_its_parent(folder: Path) -> None:
    lock = FolderLock(folder)
    child = os.fork()
    if child == 0:
        lock.release()
        os._exit(0)
    os.waitpid(child, 0)

    with pytest.raises(FolderLocked):
        FolderLock(folder)

    lock.release()
    FolderLock(folder).release()


def test_a_lock_file_that_is_a_symbolic_link_is_refused_and_not_followed(
    folder: Path, tmp_path: Path
) -> None:
    target = tmp_path / "precious"
    target.write_bytes(b"precious")
    (folder / "lock").symlink_to(target)

    for reads_only in (False, True):
        with pytest.raises(OSError, match="must not be a symbolic link") as why:
            FolderLock(folder, reads_only=reads_only)

    assert why.value.filename == str(folder / "lock")
    assert target.read_bytes() == b"precious"


def test_readers_share_a_folder_and_writers_do_not(folder: Path) -> None:
    FolderLock(folder).release()
    readers = [FolderLock(folder, reads_only=True) for _ in range(2)]

    with pytest.raises(FolderLocked):
        FolderLock(folder)
    for reader in readers:
        reader.release()
    writer = FolderLock(folder)
    with pytest.raises(FolderLocked):
        FolderLock(folder, reads_only=True)

    writer.release()


def put_one(store: EmbeddedStore, family: Family, body: bytes) -> None:
    if family is EVENTS:
        store.run(Put(EVENTS, b"q", [body]))
    elif family is TUBES:
        store.run(PutTasks(b"q", [body], TaskTerms()))
    elif family is ITEMS:
        store.run(AddItems(ITEMS, b"q", [body[:3]], [body]))
    else:
        store.run(Add(family, b"q", [body], Terms(86_400_000 if family is JOBS else 0)))


def take_one(store: EmbeddedStore, family: Family) -> list[bytes]:
    if family is EVENTS:
        return [it.body for it in store.run(Reserve(EVENTS, b"q", b"g", 1_000))]
    if family is TUBES:
        return [it.body for it in store.run(TakeTasks(b"q", b"s"))]
    return [it.body for it in store.run(Take(family, [b"q"]))]


@pytest.mark.parametrize("family", families.FAMILIES, ids=lambda it: it.name)
def test_a_body_that_is_not_what_it_was_is_set_aside_and_the_queue_goes_on(
    folder: Path, family: Family, caplog: pytest.LogCaptureFixture
) -> None:
    """Bodies beyond maxmemory are read back when they are delivered, and checked."""
    store = EmbeddedStore(folder, clock=ManualClock(), maxmemory=1)
    if family is TUBES:
        store.run(MakeTube(b"q", b"fifo", TubeSettings()))
        store.run(JoinSession(b"s", is_new=True))
    for body in (b"one body", b"rot body", b"two body"):
        put_one(store, family, body)
        store.commit()
    (path,) = segments(folder)
    swap(path, b"rot body", b"r0t body")

    taken = [take_one(store, family) for _ in range(4)]
    store.commit()

    assert taken == [[b"one body"], [b"two body"], [], []]
    (said,) = [it.message for it in caplog.records if "out of the queue" in it.message]
    (aside,) = folder.glob("damaged-1-*.bin")
    assert b"r0t body" in aside.read_bytes()
    assert "of queue q out of the queue: a body in segment 1 at byte" in said
    assert str(aside) in said
    if family is JOBS:
        (dead,) = store.run(Browse(JOBS, b"q", State.DEAD, 9))
        assert dead.body == b""
        assert b"does not match its checksum" in dead.reason
    if family is TUBES:
        assert store.run(LookAtTube(b"q")).buried == 1
    assert store.bodies.total_bytes == sum(map(store.bodies.size_of, all_of(store)))
    while path.exists():
        store.commit()
    before = picture_of(store)
    store.close()
    store = EmbeddedStore(folder, clock=ManualClock(), maxmemory=1)
    assert picture_of(store) == before
    store.close()


def swap(path: Path, old: bytes, new: bytes) -> None:
    """In the file that the store has open, the first of these bytes are others."""
    at = path.read_bytes().index(old)
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(new)


def all_of(store: EmbeddedStore) -> list[Message]:
    found: list[Message] = []
    for queue in store.queues.values():
        assert isinstance(queue, Feed | Worklist)
        found += queue.messages.values() if isinstance(queue, Feed) else queue.all()
    return found


def test_a_queue_that_came_back_in_another_family_is_of_that_family_after_a_restart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Family("other", 99, "for this test")
    monkeypatch.setitem(families.BY_CODE, other.code, other)
    store = EmbeddedStore(folder, clock=ManualClock())
    (id,) = store.run(Put(EVENTS, b"q", [b"1"], is_single=True))
    store.run(Ack(EVENTS, b"q", b"g", [id], held_only=False))
    store.run(Put(other, b"q", [b"2"]))
    store.close()

    store = EmbeddedStore(folder, clock=ManualClock())

    assert store.queues[b"q"].family is other
    assert [row.queue for row in store.run(Count(other))] == [b"q"]
    assert store.run(Count(EVENTS)) == []
    store.close()


def write_segment(folder: Path, *records: list[object]) -> None:
    """Segment 1, a batch for each list of records."""
    journal = Journal(folder, "no", 1 << 20)
    data = b""
    for batch in records:
        body = b"".join(journal._pack(record) for record in batch)
        data += batch_header(body, 1, len(data)) + body
    journal.let_go()
    (folder / "0000000001.journal").write_bytes(data)


@pytest.fixture(autouse=True)
def _no_leftovers(folder: Path) -> Iterator[None]:
    yield
    shutil.rmtree(folder / "made", ignore_errors=True)
