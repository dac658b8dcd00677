"""The journal: numbered segments, one write and one sync per turn.

Called by   the operations (append), store.py (commit), compact.py (drop), recover.py (resume).
Calls       records.py, the file system.

Room is reserved ahead of the writes, so a full disk is found while an operation can still be
refused and nothing has changed. What frees room (acks, removals) may use the last ACK_BYTES.
Compaction leaves those, and what takes room (new messages) leaves SPARE_BYTES.

After a failed sync it is unknown what is on the disk, and a second sync does not tell (the kernel
drops the dirty pages). So the journal then refuses every further write until the process is
started again and reads back what is really there.

Not here: the layout of batches (records.py), reading (recover.py).
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final, Literal
from zlib import crc32

import msgpack

from quinque.errors import DiskFull, JournalDamaged, NotDone, StoreUnavailable
from quinque.model.claim_events import CLAIM_RETURNED
from quinque.model.events import ADDED, OPENED, STORED, Event, Opened
from quinque.model.packing import Packing
from quinque.model.tube_events import TASKS_PUT
from quinque.stats.doublings import Doublings
from quinque.stores.embedded.disk import reserve, sync_data, sync_file
from quinque.stores.embedded.manifest import find_manifest, replace_manifest, segment_path
from quinque.stores.embedded.records import (
    HEADER_BYTES,
    SEAL_BYTES,
    VERSION,
    batch_body,
    batch_header,
)

Fsync = Literal["always", "everysec", "no"]

RESERVE_BYTES: Final = 4 << 20  # one step of room taken ahead; 4 MiB is 16 ms of a 250 MB/s disk
ACK_BYTES: Final = 64 << 10  # the last of the disk, which acks have
SPARE_BYTES: Final = 2 * ACK_BYTES  # additions leave it: as much again is for compaction
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_WITH_MANY: Final = frozenset({STORED, ADDED, TASKS_PUT})  # bodies in a row
FILES_MOST: Final = 12  # of the 32 that cli/serve.py keeps from the clients
NO_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})  # a flood of connections has them


class Journal:
    def __init__(self, folder: Path, fsync: Fsync, segment_bytes: int) -> None:
        self.folder = folder
        # Kept open: when a name is to be synced, the process may have reached its limit of open
        # files.
        self._folder_file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._manifest = find_manifest(folder)
        self.fsync: Fsync = fsync
        self.segment_bytes = segment_bytes
        self.segment = 0  # number of the segment being written
        self.sizes: dict[int, int] = {}  # bytes in use, by segment
        self.seals: dict[int, int] = {}  # by segment; 0 = none, as in version 1
        self._seal = 0  # of the segment being written
        # Open file descriptors, by segment, FILES_MOST at most; the newest segment is among them.
        self.files: dict[int, int] = {}
        self.failed: str | None = None
        self.batches = Doublings()  # records of each commit
        self.syncs = Doublings()  # how long each took, in µs
        self.batch_bytes = 0  # written by the last commit
        self._pack = Packing().pack
        self._pending: list[bytes] = []
        self._at = 0  # offset where the next record goes, once written
        # How often something was about to be changed in memory: an event is appended or owed, or is
        # of a temporary tube; or time made something due. An operation that fails has changed
        # nothing if it is as before.
        self.steps = 0
        self.last_bytes = 0  # length of the record appended last
        # The record that a body was last read from in this turn: its neighbours are often next.
        self._read_at = -1
        self._read_record: Any = ()
        self._end = 0  # offset where the pending batch starts
        # A segment and how much of it is on the disk, together: another thread sets them too.
        self._synced = (0, 0)
        self._reserved = 0
        self.is_stuck = False  # the disk had no room for the pending batch
        self._wake_syncer = threading.Event()
        self._closing = threading.Event()
        self._syncer: threading.Thread | None = None
        # Events that have no room yet, by their records, each with the changes noted after it.
        self._owed: OrderedDict[bytes, list[Any]] = OrderedDict()
        # Events as they were appended, for the record, which takes them after the commit.
        self.notes: list[Any] | None = None
        self.before_drop: Callable[[], None] = _nothing

    # -- opening ------------------------------------------------------------------------------

    def resume(self, segment: int, end: int) -> None:
        """Go on writing after `end` in a segment that was read back."""
        self.segment = segment
        self.sizes[segment] = end
        self._seal = self.seals[segment]
        self._start_batch(end)
        self._reserved = end
        self._synced = (segment, end)
        os.ftruncate(self.files[segment], end)
        # The bytes that were read may have been in the system's memory only.
        sync_data(self.files[segment])
        self._name_segments(range(min(self.sizes), segment + 1))

    def open_segment(self, segment: int, stamp_us: int, now_ms: int) -> None:
        """A new segment is on the disk and is written from here on.

        Raises OSError when it cannot be made; the old one then goes on. Raises StoreUnavailable
        when it may be there or not.
        """
        path = segment_path(self.folder, segment)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.fstat(file).st_size:
            os.close(file)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        try:
            previous_bytes = self.sizes.get(segment - 1, 0)
            seal = self._known_seal()
            opened = Opened(
                OPENED, VERSION, segment, stamp_us, previous_bytes, seal.to_bytes(SEAL_BYTES)
            )
            body = batch_body([self._pack(opened)])
            batch = batch_header(body, now_ms, 0) + body
            reserved = max(len(batch) + SPARE_BYTES, min(RESERVE_BYTES, self.segment_bytes))
            try:
                reserve(file, 0, reserved)
            except OSError:
                reserved = len(batch) + SPARE_BYTES
                reserve(file, 0, reserved)
            write_all(file, batch, 0)
            sync_file(file)
            sync_file(self._folder_file)
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            # The old segment grows, and this one would say after a crash how long it is.
            sync_file(self._folder_file)
            raise
        self.keep_open(segment, file)
        self._seal = self.seals[segment] = seal
        self._name_segments(range(min(self.sizes, default=segment), segment + 1))
        self.segment = segment
        self.sizes[segment] = len(batch)
        self._start_batch(len(batch))
        self._synced = (segment, len(batch))
        self._reserved = reserved

    # -- the hot path -------------------------------------------------------------------------

    def append(self, event: Event, spare_bytes: int = 0, *, is_upkeep: bool = False) -> None:
        """The event is part of this turn's batch, after those that are owed. With `is_upkeep` it
        does not wait for them: compaction repeats what is true, and may make the room they need.

        Raises DiskFull when it has no room that leaves `spare_bytes`, StoreUnavailable after a
        failure; then nothing changed.
        """
        if self._owed and not is_upkeep:
            self.append_owed()
        record = self._pack(event)
        self.last_bytes = len(record)
        at = self._at + self.last_bytes
        # One byte more, for the end of the batch.
        if at + spare_bytes >= self._reserved or self.failed or self.is_stuck:
            self._make_room(at + spare_bytes + 1)
        self.steps += 1
        self._pending.append(record)
        self._at = at
        if self.notes is not None:
            self.notes.append(event)

    def bytes_of(self, events: Iterable[Event]) -> int:
        """Return the size of the records of the events."""
        return sum([len(self._pack(event)) for event in events])

    def owe(self, event: Event) -> None:
        """The event is true, and there is no room for it: it is appended before any other.

        Without room nothing else happens, so no more events are owed than messages and queues can
        have until their time ends.
        """
        self.steps += 1
        self._owed.setdefault(self._pack(event), [event])

    def note(self, change: Any) -> None:
        """Note a change that the event appended or owed last does not have, if notes are taken."""
        if self.notes is None:
            return
        if self._owed:
            self._owed[next(reversed(self._owed))].append(change)
        else:
            self.notes.append(change)

    def body_home(self) -> int:
        """Where the first body of the record appended last will be; the next one's is one more."""
        return pack_home(self.segment, self._at - self.last_bytes, self.last_bytes)

    def commit(self, now_ms: int) -> None:
        """All that was appended is durable, as far as `fsync` promises.

        Raises StoreUnavailable when it is not, or not known to be.
        """
        if self.failed:
            raise StoreUnavailable(self.failed)
        self._read_at, self._read_record = -1, ()
        self.batch_bytes = 0
        if not self._pending:
            return
        body = batch_body(self._pending)
        segment, synced = self._synced
        synced = synced if segment == self.segment else 0
        batch = batch_header(body, now_ms, synced, self._seal) + body
        file = self.files[self.segment]
        try:
            write_all(file, batch, self._end)
        except OSError as exc:
            if exc.errno not in _NO_ROOM:
                self._fail("written", exc)
            self.is_stuck = True
            raise StoreUnavailable(
                "the disk is full: this request takes effect when there is space again, and is "
                "lost if the broker stops before that"
            ) from exc
        self.is_stuck = False
        self.batch_bytes = len(batch)
        self.batches.add(len(self._pending))
        end = self._end + len(batch)
        self.sizes[self.segment] = end
        self._start_batch(end)
        if self.fsync == "always":
            self._sync(file, end)
        elif self.fsync == "everysec":
            self._wake_syncer.set()

    def rotate(self, stamp_us: int, now_ms: int, *, is_full: bool = False) -> None:
        """Go on in a new segment when this one is full, or counts so, or has no seal. Nothing may
        be pending."""
        is_full = is_full or self._end >= self.segment_bytes or not self._seal
        if not is_full or self._pending or self.failed:
            return
        old = self.files[self.segment]
        # Only the last segment may have a tail that is not on the disk.
        self._sync(old, self._end)
        end = self._end
        try:
            self.open_segment(self.segment + 1, stamp_us, now_ms)
        except OSError as exc:
            if exc.errno not in _NO_ROOM | NO_FILES:
                self._fail("opened", exc)
            return
        os.ftruncate(old, end)

    # -- the rest -----------------------------------------------------------------------------

    def start_syncer(self) -> None:
        """Sync once a second from a thread; for `everysec`."""
        if self._syncer is None:
            self._syncer = threading.Thread(
                target=self._sync_every_second, name="journal-syncer", daemon=True
            )
            self._syncer.start()

    def read(self, home: int) -> bytes:
        """The body at `home`. Raises JournalDamaged when the disk gives back something else,
        NotDone when it gives back nothing: that may pass."""
        segment, offset = segment_of(home), home >> 64 & 0xFF_FFFF_FFFF
        try:
            if self._read_at != where(home) >> 32:
                data = os.pread(self.file_of(segment), home >> 32 & 0xFFFF_FFFF, offset)
                self._read_record = msgpack.unpackb(data, use_list=False)
                self._read_at = where(home) >> 32
        except OSError as exc:
            raise NotDone(
                f"cannot read a body in segment {segment} at byte {offset} ({exc.strerror})"
            ) from exc
        except (ValueError, msgpack.UnpackException):
            self._read_at, self._read_record = -1, ()
        try:
            body = body_of(self._read_record, home & 0xFFFF_FFFF)
            if check_home(home, body) == home:
                return body
        except (LookupError, TypeError):
            pass
        self._read_at, self._read_record = -1, ()
        raise JournalDamaged(
            f"a body in segment {segment} at byte {offset} does not match its checksum"
        )

    def copy_aside(self, home: int) -> str:
        """The record there, which is damaged, is in a file of its own; a sentence that names it."""
        segment, offset = segment_of(home), home >> 64 & 0xFF_FFFF_FFFF
        path = self.folder / f"damaged-{segment}-{offset}.bin"
        try:
            data = os.pread(self.file_of(segment), home >> 32 & 0xFFFF_FFFF, offset)
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                write_all(file, data, 0)
            finally:
                os.close(file)
        except FileExistsError:
            pass  # another body of the same record was damaged too
        except OSError as exc:
            return f"Cannot copy its bytes to {path}: {exc.strerror}"
        return f"Its bytes were copied to {path}"

    def file_of(self, segment: int) -> int:
        """A descriptor of the segment, to be used at once. Raises OSError."""
        file = self.files.get(segment, -1)
        if file < 0:
            file = os.open(segment_path(self.folder, segment), os.O_RDONLY | os.O_CLOEXEC)
            self.keep_open(segment, file)
        return file

    def keep_open(self, segment: int, file: int) -> None:
        """The descriptor is kept. Of too many, the one that was kept first is closed."""
        self.files[segment] = file
        if len(self.files) > FILES_MOST:
            oldest = next(it for it in self.files if it not in (segment, self.segment))
            os.close(self.files.pop(oldest))

    def sync(self) -> None:
        """All that was committed is on the disk, whatever `fsync` says."""
        self._sync(self.files[self.segment], self._end)

    def drop(self, segment: int) -> None:
        """The oldest segment is gone from the folder. Raises StoreUnavailable when it is not."""
        self.before_drop()
        self._name_segments(range(segment + 1, self.segment + 1))
        try:
            segment_path(self.folder, segment).unlink()
            sync_file(self._folder_file)
        except OSError as exc:
            self._fail("shortened", exc)
        if segment in self.files:
            os.close(self.files.pop(segment))
        del self.sizes[segment]
        self.seals.pop(segment, None)

    def close(self) -> None:
        """Write all committed records to the disk, and release the reserved space."""
        self._closing.set()
        self._wake_syncer.set()
        if self._syncer is not None:
            self._syncer.join()
        if not self.failed and self.segment in self.files:
            self.sync()
            os.ftruncate(self.files[self.segment], self._end)
        self.let_go()

    def let_go(self) -> None:
        """The files are closed as they are."""
        for file in self.files.values():
            os.close(file)
        self.files.clear()
        os.close(self._folder_file)

    @property
    def total_bytes(self) -> int:
        return sum(self.sizes.values())

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def _name_segments(self, segments: range) -> None:
        """The manifest names these segments, and is on the disk. Raises StoreUnavailable."""
        try:
            try:
                self._manifest = replace_manifest(self._manifest, self.folder, segments, self._seal)
            except OSError as exc:
                if exc.errno not in _NO_ROOM | NO_FILES:
                    raise
                # A folder without a manifest opens too; one that has a wrong manifest does not.
                if self._manifest is not None:
                    self._manifest.unlink()
                    self._manifest = None
            sync_file(self._folder_file)
        except OSError as exc:
            self._fail("listed in its manifest", exc)

    @property
    def store_number(self) -> int:
        """A number of 48 bits that tells this store from others; 0 without a seal. Clients see it,
        and cannot tell the seal from it."""
        if not self._seal:
            return 0
        seal = self._seal.to_bytes(SEAL_BYTES)
        return 1 + int.from_bytes(blake2b(seal, digest_size=6, person=b"store").digest())

    def _known_seal(self) -> int:
        """The seal of the store; a store without a seal draws one."""
        known = [seal for _, seal in sorted(self.seals.items()) if seal]
        return known[-1] if known else int.from_bytes(os.urandom(SEAL_BYTES)) or 1

    def _start_batch(self, end: int) -> None:
        self._pending = []
        self._end = end
        self._at = end + HEADER_BYTES

    def append_owed(self) -> None:
        """All that is owed is part of this turn's batch. Raises as append()."""
        while self._owed:
            record = next(iter(self._owed))
            owed = self._owed[record]
            self.append(owed[0], is_upkeep=True)
            del self._owed[record]
            if self.notes is not None:
                self.notes += owed[1:]

    def _make_room(self, end: int) -> None:
        if self.failed:
            raise StoreUnavailable(self.failed)
        if self.is_stuck:
            raise DiskFull("the disk is full; accepted data is safe")
        file = self.files[self.segment]
        for step in (RESERVE_BYTES, 0):
            wanted = end + step
            try:
                reserve(file, self._reserved, wanted - self._reserved)
            except OSError as exc:
                if exc.errno not in _NO_ROOM:
                    self._fail("extended", exc)
                continue
            self._reserved = wanted
            return
        raise DiskFull(f"the disk has no space for {end - self._at} bytes; accepted data is safe")

    def _sync(self, file: int, end: int) -> None:
        began_ns = perf_counter_ns()
        try:
            sync_data(file)
        except OSError as exc:
            self._fail("synced", exc)
        self.syncs.add((perf_counter_ns() - began_ns) // 1000)
        self._synced = (self.segment, end)

    def _sync_every_second(self) -> None:
        while not self._closing.is_set():
            self._wake_syncer.wait()
            self._wake_syncer.clear()
            if not self._closing.is_set():
                self._sync_written()
            if self.failed:
                return
            self._closing.wait(1.0)

    def _sync_written(self) -> None:
        """Sync all that was committed before to the disk. Another thread may begin the next segment
        meanwhile."""
        segment = self.segment
        end = self.sizes.get(segment, 0)
        file = self.files.get(segment)
        if file is None:
            return
        began_ns = perf_counter_ns()
        try:
            sync_data(file)
        except OSError as exc:
            if self.files.get(segment) == file:
                self.failed = _failure("synced", exc)
            return
        self.syncs.add((perf_counter_ns() - began_ns) // 1000)
        self._synced = (segment, end)

    def _fail(self, verb: str, exc: OSError) -> None:
        self.failed = _failure(verb, exc)
        raise StoreUnavailable(self.failed) from exc


def _nothing() -> None:
    """Do nothing: no part of the store needs the dropped segment."""


def _failure(verb: str, exc: OSError) -> str:
    return (
        f"the journal could not be {verb} ({exc.strerror}): the broker accepts no more changes "
        "until it is restarted, and the effect of this request is unknown"
    )


def write_all(file: int, data: bytes, at: int) -> None:
    """Every byte is written; a short write is gone on with."""
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, at)
        if written == len(view):
            return
        view = view[written:]
        at += written


def read_at(file: int, at: int, size_bytes: int) -> bytes:
    """The bytes there; fewer at the end of the file. Raises OSError."""
    data = os.pread(file, size_bytes, at)
    while (left := size_bytes - len(data)) and (part := os.pread(file, left, at + len(data))):
        data += part
    return data


def body_of(record: Any, index: int) -> bytes:
    """The body number `index` of a record that has many, or the one of another."""
    last = record[-1]
    body: bytes
    if record[0] in _WITH_MANY:
        body = last[index]
    elif record[0] == CLAIM_RETURNED:
        body = last[index][1]
    else:
        body = last
    return body


# Where a body is, as one number; the one of the next body in the record is one more:
#
#     body length 32 | checksum 32 | segment 40 | record offset 40 | record length 32 | number 32
#
# The first two are 0 until the body leaves memory. A body takes a byte at least, so a record whose
# length fits has no body whose number does not.

_WHERE_BITS: Final = 144


def pack_home(segment: int, offset: int, size_bytes: int) -> int:
    assert size_bytes < 1 << 32, "a record is too long for its bodies to be found"
    return (segment << 40 | offset) << 64 | size_bytes << 32


def segment_of(home: int) -> int:
    return home >> 104 & 0xFF_FFFF_FFFF


def where(home: int) -> int:
    """The home without what is known of its body."""
    return home & ((1 << _WHERE_BITS) - 1)


def check_home(home: int, body: bytes) -> int:
    """The same home with the length and the checksum of its body, so that read() can tell."""
    return where(home) | (len(body) << 32 | crc32(body)) << _WHERE_BITS


def body_bytes(home: int) -> int:
    """Return the size of the body, which is known once it has left memory."""
    return home >> _WHERE_BITS + 32
