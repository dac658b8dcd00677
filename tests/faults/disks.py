"""Disks of a test's own: one that is really full, one whose power can be cut.

Called by   test_full_disk.py, test_power_cut.py.
Calls       unshare, nsenter and mount of the system (util-linux), mkfs.ext4 (e2fsprogs).

A disk is mounted in a mount namespace that only the broker under test sees. A process of its own
keeps the namespace, so that the disk outlives the brokers that use it.

Not here: disks that fail in other ways (test_failing_disk.py).
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

# From the kernel's ext4.h: stop the file system at once, and write nothing more, not even its log.
_EXT4_IOC_SHUTDOWN, _NOLOGFLUSH = 0x8004587D, 2


class Disk:
    """A file system on `folder`, mounted by `mount`, for programs run with the words `before`."""

    def __init__(self, folder: Path, mount: str, *words: str) -> None:
        folder.mkdir()
        self._folder = folder
        # Who is not root may mount in a user namespace of his own, on most systems.
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        script = f"{mount} && echo mounted && exec cat"
        self._keeper = subprocess.Popen(
            ["unshare", "--mount", *user, "sh", "-c", script, str(folder), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._keeper.stdout is not None
        assert self._keeper.stderr is not None
        if self._keeper.stdout.readline() != b"mounted\n":
            raise AssertionError(
                f"this test needs a file system of its own (unshare --mount, {mount}) and may not "
                f"have one here: {self._keeper.stderr.read().decode().strip()}"
            )
        into = ["--user", "--preserve-credentials"] if user else []
        target = f"--target={self._keeper.pid}"
        self.before = ["nsenter", target, "--mount", *into, f"--wd={Path.cwd()}"]
        # The folder as the broker sees it, from outside.
        self.inside = Path(f"/proc/{self._keeper.pid}/root{folder}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._keeper.kill()
        self._keeper.communicate()


class SmallDisk(Disk):
    """A tmpfs of so many kilobytes."""

    def __init__(self, folder: Path, size_kb: int) -> None:
        super().__init__(folder, 'mount -t tmpfs -o "size=$1" tmpfs "$0"', f"{size_kb}k")


class ReadOnlyDisk(Disk):
    """The folder `source` once more, where nothing can be written."""

    def __init__(self, folder: Path, source: Path) -> None:
        mount = 'mount --bind "$1" "$0" && mount -o remount,bind,ro "$0"'
        super().__init__(folder, mount, str(source))


class CuttableDisk(Disk):
    """An ext4 in a file, whose power can be cut: then it keeps what was synced, and no more."""

    def __init__(self, folder: Path, size_mb: int) -> None:
        self._image = folder.with_suffix(".ext4")
        self._image.touch()
        os.truncate(self._image, size_mb << 20)
        subprocess.run(["mkfs.ext4", "-q", str(self._image)], check=True)
        super().__init__(folder, 'mount -o loop "$1" "$0"', str(self._image))

    def cut_power(self) -> None:
        file = os.open(self.inside, os.O_RDONLY)
        fcntl.ioctl(file, _EXT4_IOC_SHUTDOWN, struct.pack("i", _NOLOGFLUSH))
        os.close(file)

    def power_on(self) -> None:
        """It is there again. Nobody may have a file of it open."""
        again = 'umount "$0" && mount -o loop "$1" "$0"'
        words = [*self.before, "sh", "-c", again, str(self._folder), str(self._image)]
        subprocess.run(words, check=True)
