"""The disk: real files in memory, with a record of what was not synced.

`install()` replaces the functions of `os` that change files. A kill leaves the files as they are. A
power cut leaves what was synced and any part of what was not, in pieces of a sector. Calls fail on
demand: no room, no file descriptor, a write or a sync that fails, a short write.

Not here: reads that fail or rot (tests/store/test_damage.py).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.sim.processes import PROCESS, Process

_SECTOR_BYTES: Final = 512


class File:
    """A file: what is surely on the disk, and what was written since the last sync."""

    def __init__(self, synced: bytes) -> None:
        self.synced = synced
        self.changes: list[tuple[int, bytes] | int] = []  # bytes at a place, or a new length

    def after_power_cut(self, random: Random) -> bytes:
        """What may be found: each change, or a part of it, or nothing of it."""
        data = bytearray(self.synced)
        for change in self.changes:
            if isinstance(change, int):
                if random.random() < 0.5:
                    del data[change:]
                    data += bytes(max(0, change - len(data)))
                continue
            at, written = change
            fate = random.random()
            for start in range(0, len(written), _SECTOR_BYTES):
                if fate < 0.4 or (fate < 0.8 and random.random() < 0.5):
                    piece = written[start : start + _SECTOR_BYTES]
                    end = at + start + len(piece)
                    data += bytes(max(0, end - len(data)))
                    data[at + start : end] = piece
        return bytes(data)


class Folder:
    """Names that were made, changed or removed since the folder was synced."""

    def __init__(self) -> None:
        self.changes: list[Callable[[], None]] = []  # each undoes one


class Faults:
    """What fails on the disk of one process."""

    def __init__(self) -> None:
        self.is_full = False
        self.has_no_files = False
        self.fails_syncs = False
        self.writes_short = False


class Disk:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._files: dict[str, File] = {}
        self._folders: dict[str, Folder] = {}
        self._open: dict[int, tuple[str, Process | None]] = {}
        self._real = {
            name: getattr(os, name)
            for name in (
                *("open", "close", "pwrite", "ftruncate", "fdatasync", "fsync", "rename"),
                *("replace", "unlink", "posix_fallocate"),
            )
        }
        self.faults: dict[str, Faults] = {}  # by the name of a process
        self.calls: dict[str, int] = {}
        self.root = ""

    def install(self, root: Path) -> None:
        """Watch the files below this folder."""
        self.root = f"{root}/"
        for name in self._real:
            setattr(os, name, getattr(self, name))

    # -- faults --------------------------------------------------------------------------------

    def kill(self, process: Process) -> None:
        """The files that the process has open are closed, which ends its lock."""
        for file, (_, owner) in list(self._open.items()):
            if owner is process:
                self.close(file)

    def cut_power(self, folder: Path) -> None:
        """What was not synced below this folder is lost, or a part of it. The process is dead."""
        prefix = f"{folder}/"
        for path, names in self._folders.items():
            if f"{path}/".startswith(prefix):
                keep = self._random.randrange(len(names.changes) + 1)
                for undo in reversed(names.changes[keep:]):
                    undo()
                names.changes.clear()
        for path, file in self._files.items():
            if path.startswith(prefix) and os.path.exists(path):
                data = file.after_power_cut(self._random)
                Path(path).write_bytes(data)
                file.synced, file.changes = data, []

    def _faults(self) -> Faults | None:
        process = PROCESS.get()
        return self.faults.get(process.name) if process is not None else None

    # -- the functions of os -------------------------------------------------------------------

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        name = os.fspath(path)
        if not isinstance(name, str) or not name.startswith(self.root) or dir_fd is not None:
            return int(self._real["open"](path, flags, mode, dir_fd=dir_fd))
        faults = self._faults()
        if faults is not None and faults.has_no_files:
            raise _error(errno.EMFILE)
        is_new = bool(flags & os.O_CREAT) and not os.path.exists(name)
        if is_new and faults is not None and faults.is_full and self._random.random() < 0.5:
            raise _error(errno.ENOSPC)
        number = int(self._real["open"](path, flags, mode))
        self._open[number] = (name, PROCESS.get())
        if is_new:
            self._files[name] = File(b"")
            self._changed(name, lambda: self._remove(name))
        elif name not in self._files and not os.path.isdir(name):
            self._files[name] = File(Path(name).read_bytes())
        if flags & os.O_TRUNC and not is_new:
            self._files[name].changes.append(0)
        return number

    def close(self, file: int) -> None:
        self._open.pop(file, None)
        self._real["close"](file)

    def pwrite(self, file: int, data: Any, at: int) -> int:
        if file not in self._open:
            return int(self._real["pwrite"](file, data, at))
        faults = self._faults()
        if faults is not None and faults.writes_short and len(data) > 1:
            data = data[: self._random.randrange(1, len(data))]
        written = int(self._real["pwrite"](file, data, at))
        self._file(file).changes.append((at, bytes(data[:written])))
        self._count("pwrite")
        return written

    def ftruncate(self, file: int, size_bytes: int) -> None:
        self._real["ftruncate"](file, size_bytes)
        if file in self._open:
            self._file(file).changes.append(size_bytes)

    def posix_fallocate(self, file: int, at: int, size_bytes: int) -> None:
        faults = self._faults()
        if faults is not None and faults.is_full:
            raise _error(errno.ENOSPC)
        self._real["posix_fallocate"](file, at, size_bytes)
        if file in self._open:
            self._file(file).changes.append(max(at + size_bytes, os.fstat(file).st_size))

    def fdatasync(self, file: int) -> None:
        self._sync(file)

    def fsync(self, file: int) -> None:
        self._sync(file)

    def rename(self, old: Any, new: Any) -> None:
        self._renamed("rename", os.fspath(old), os.fspath(new))

    def replace(self, old: Any, new: Any) -> None:
        self._renamed("replace", os.fspath(old), os.fspath(new))

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        name = os.fspath(path)
        if not name.startswith(self.root):
            self._real["unlink"](path, dir_fd=dir_fd)
            return
        data = Path(name).read_bytes()
        self._real["unlink"](path)
        file = self._files.pop(name, File(data))
        self._changed(name, lambda: self._restore(name, data, file))

    # -- what was done -------------------------------------------------------------------------

    def _file(self, number: int) -> File:
        return self._files[self._open[number][0]]

    def _count(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1

    def _sync(self, number: int) -> None:
        if number not in self._open:
            self._real["fsync"](number)
            return
        faults = self._faults()
        if faults is not None and faults.fails_syncs:
            raise _error(errno.EIO)
        name = self._open[number][0]
        self._count("sync")
        if name in self._folders:
            self._folders[name].changes.clear()
        if name in self._files:
            # The file may have been renamed or removed since it was opened.
            file = self._files[name]
            file.synced, file.changes = Path(name).read_bytes(), []

    def _renamed(self, call: str, old: str, new: str) -> None:
        if not new.startswith(self.root):
            self._real[call](old, new)
            return
        before = Path(new).read_bytes() if os.path.exists(new) else None
        replaced = self._files.get(new)
        self._real[call](old, new)
        file = self._files.pop(old, None) or File(Path(new).read_bytes())
        self._files[new] = file
        for number, (name, process) in list(self._open.items()):
            if name == old:
                self._open[number] = (new, process)
        self._changed(new, lambda: self._undo_rename(old, new, before, replaced))

    def _undo_rename(self, old: str, new: str, before: bytes | None, replaced: File | None) -> None:
        if not os.path.exists(new):
            return
        self._real["rename"](new, old)
        file = self._files.pop(new, None)
        if file is not None:
            self._files[old] = file
        if before is not None:
            Path(new).write_bytes(before)
            if replaced is not None:
                self._files[new] = replaced

    def _changed(self, name: str, undo: Callable[[], None]) -> None:
        folder = os.path.dirname(name)
        self._folders.setdefault(folder, Folder()).changes.append(undo)

    def _remove(self, name: str) -> None:
        if os.path.exists(name):
            self._real["unlink"](name)
        self._files.pop(name, None)

    def _restore(self, name: str, data: bytes, file: File) -> None:
        Path(name).write_bytes(data)
        self._files[name] = file


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
