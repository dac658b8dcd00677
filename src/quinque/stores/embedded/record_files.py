"""The files of the record: frames are added to the newest, read by row number, and the oldest go.

Called by   record.py.
Calls       record_frames.py (bytes), the file system.

A file is named for its first row: 00000000000000000001.lifecycle. It is written without a sync; a
thread syncs once a second. After a power cut, lost frames are made again from the journal, which
keeps each event until the record of it is synced.

Not here: when frames are written, what to do when they cannot be (record.py).
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quinque.stores.embedded.disk import sync_data, sync_file
from quinque.stores.embedded.journal import write_all
from quinque.stores.embedded.record_frames import (
    Frame,
    entries_between,
    entries_of,
    read_body,
    read_frame,
)

SUFFIX: Final = ".lifecycle"
FILE_MS: Final = 3_600_000  # so that old files can go by the hour
# The newest ones, of which some may not have been synced when the power went.
_DOUBTFUL_FILES: Final = 3
_READ_BYTES: Final = 1 << 20  # what one call gives, more or less: some milliseconds of work
_SYNC_S: Final = 1.0
_LOOK_BYTES: Final = 1 << 20
SPARE_BYTES: Final = 256 << 10  # of the disk, for the journal: leases and acks need some room

log = logging.getLogger("quinque.lifecycle")


@dataclass
class File:
    """`first_ms` is when its first frame was written."""

    first: int
    path: Path
    first_ms: int
    size_bytes: int


class RecordFiles:
    """The files of one folder. Whatever opens or writes may raise OSError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[File] = []
        self.next = 1  # the row after the last
        self.last: Frame | None = None  # the newest that is intact
        self._file = -1  # the newest, open for writing
        self._full: list[int] = []  # files that are not written any more, and not synced yet
        self._room_bytes = 0  # may be written before the disk is looked at again
        self._is_dirty = False
        self._lock = threading.Lock()  # held by a thread that syncs or closes files
        self._closing = threading.Event()
        self._syncer: threading.Thread | None = None
        self._reading: File | None = None
        self._reading_file = -1
        self._read_to = (0, 0, 0)  # a row, the first one of its file, and where the row stands
        self._doubtful: list[tuple[File, Frame]] = []
        for path in sorted(folder.glob("*" + SUFFIX)):
            if path.stem.isdecimal():
                self._find(path)
        self.were_any = bool(self.files)
        self._cut_torn()

    @property
    def total_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    # -- writing -----------------------------------------------------------------------------

    def append(self, data: bytes, first: int, rows: int, at_ms: int, file_bytes: int) -> None:
        """The frame is at the end of the newest file, or begins a new one."""
        newest = self.files[-1] if self.files else None
        if newest is None or (
            first > newest.first
            and (newest.size_bytes + len(data) > file_bytes or at_ms - newest.first_ms >= FILE_MS)
        ):
            newest = self._begin(first, at_ms)
        elif self._file < 0:
            self._file = os.open(newest.path, os.O_RDWR | os.O_CLOEXEC)
        if len(data) > self._room_bytes:
            self._look_for_room(len(data))
        self._room_bytes -= len(data)
        # A frame that was written in part only is written over.
        write_all(self._file, data, newest.size_bytes)
        newest.size_bytes += len(data)
        self.next = first + rows
        self._is_dirty = True
        if self._syncer is None:
            self._syncer = threading.Thread(
                target=self._sync_every_second, name="lifecycle-syncer", daemon=True
            )
            self._syncer.start()

    def _look_for_room(self, size_bytes: int) -> None:
        """There is room for so much that leaves the journal its own. Raises OSError."""
        disk = os.fstatvfs(self._file)
        free_bytes = disk.f_bavail * disk.f_frsize - SPARE_BYTES
        if free_bytes < size_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # Others write too, so it is looked for again, the sooner the less there is.
        self._room_bytes = max(size_bytes, min(free_bytes // 16, _LOOK_BYTES))

    def sync(self) -> None:
        """All that was appended is on the disk."""
        with self._lock:
            self._is_dirty = False
            while self._full:
                sync_data(self._full[0])
                os.close(self._full.pop(0))
            if self._file >= 0:
                sync_data(self._file)

    def drop_oldest(self) -> None:
        """The oldest file is gone; it is not the newest."""
        assert len(self.files) > 1
        self.files.pop(0).path.unlink(missing_ok=True)

    def close(self) -> None:
        """All that was appended is on the disk, and the files are closed."""
        self._closing.set()
        if self._syncer is not None:
            self._syncer.join()
        try:
            self.sync()
        finally:
            self.let_go()

    def let_go(self) -> None:
        """The files are closed as they are."""
        for file in (self._file, self._reading_file, *self._full):
            if file >= 0:
                os.close(file)
        self._file = self._reading_file = -1
        self._full.clear()

    def _begin(self, first: int, at_ms: int) -> File:
        """A new file, which begins with that row, is the newest."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        path = self.folder / f"{first:020d}{SUFFIX}"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _sync_folder(self.folder)
        except OSError:
            os.close(file)
            raise
        if self._file >= 0:
            self._full.append(self._file)
        self._file = file
        self._room_bytes = 0
        self.files.append(File(first, path, at_ms, 0))
        return self.files[-1]

    def _sync_every_second(self) -> None:
        while not self._closing.wait(_SYNC_S):
            if self._is_dirty:
                try:
                    self.sync()
                except OSError as exc:
                    log.error("cannot sync the lifecycle log: %s", exc.strerror)

    # -- reading -----------------------------------------------------------------------------

    def read(self, start: int, rows_most: int) -> list[bytes]:
        """Entries from the one that holds row `start` on, or the first after it: about `rows_most`
        rows, or fewer if they are large."""
        found: list[bytes] = []
        room_bytes = _READ_BYTES
        for frame, body in self._frames_from(start):
            entries = entries_of(frame, body)
            begin = max(start, frame.first)
            rows = frame.next - begin
            if begin > frame.first or rows > rows_most:
                entries = entries_between(entries, begin, begin + rows_most)
            found += entries
            rows_most -= rows
            room_bytes -= len(body)
            if rows_most <= 0 or room_bytes <= 0:
                break
        return found

    def _frames_from(self, start: int) -> Iterator[tuple[Frame, bytes]]:
        """The frames with rows from `start` on, each with its body."""
        at = len(self.files) - 1
        while at > 0 and self.files[at].first > start:
            at -= 1
        for file in self.files[max(0, at) :]:
            data = self._open(file)
            row, first, offset = self._read_to
            if row != start or first != file.first:
                offset = 0
            while offset < file.size_bytes:
                frame = read_frame(data, offset)
                body = None
                if frame is not None and frame.rows and frame.next > start:
                    body = read_body(data, frame)
                    if body is not None:
                        self._read_to = (frame.next, file.first, frame.end)
                        yield frame, body
                if frame is None or (body is None and frame.rows and frame.next > start):
                    log.error("lifecycle log file %s is corrupted at byte %d", file.path, offset)
                    break
                offset = frame.end

    def _open(self, file: File) -> int:
        if self._reading is not file:
            if self._reading_file >= 0:
                os.close(self._reading_file)
            self._reading, self._reading_file = None, -1
            self._reading_file = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
            self._reading = file
        return self._reading_file

    # -- opening -----------------------------------------------------------------------------

    def cut_beyond(self, segment: int, offset: int) -> bool:
        """Frames that have come further in this segment than it is long are gone, and all after
        them; whether there were any. Only at the start."""
        for number, (file, frame) in enumerate(self._doubtful):
            if frame.position.segment == segment and frame.position[1:] > (offset, 0):
                self._cut(file, frame.start, frame.first)
                del self._doubtful[number:]
                self.last = self._doubtful[-1][1] if self._doubtful else None
                return True
        return False

    def is_open(self) -> None:
        """Note that recovery is over: no file is cut from here on."""
        self._doubtful = []

    def _find(self, path: Path) -> None:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            frame = read_frame(file, 0)
            size_bytes = os.fstat(file).st_size
        finally:
            os.close(file)
        first_ms = frame.at_ms if frame is not None else 0
        self.files.append(File(int(path.stem), path, first_ms, size_bytes))

    def _cut_torn(self) -> None:
        """From the first frame on that is not intact, in the newest files, all is gone."""
        if self.files:
            self.next = self.files[-1].first
        for file in self.files[-_DOUBTFUL_FILES:]:
            end = 0
            for frame in _intact_frames(file):
                self._doubtful.append((file, frame))
                self.last, self.next, end = frame, frame.next, frame.end
            if end < file.size_bytes or not end:
                self._cut(file, end, self.next if end else file.first)
                break

    def _cut(self, file: File, end: int, next_row: int) -> None:
        """The file ends there, and the later ones are gone."""
        self.next = next_row
        at = self.files.index(file)
        for other in self.files[at if end == 0 else at + 1 :]:
            other.path.unlink()
            self.files.remove(other)
        if end:
            os.truncate(file.path, end)
            file.size_bytes = end
        _sync_folder(self.folder)


def _intact_frames(file: File) -> Iterator[Frame]:
    data = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        at = 0
        while (frame := read_frame(data, at)) is not None and read_body(data, frame) is not None:
            yield frame
            at = frame.end
    finally:
        os.close(data)


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_file(file)
    finally:
        os.close(file)
