"""The mark of a folder that something is copied into: `copy.json`, until the copy is whole.

Called by   store.py (a broker does not start on half a copy), copy_out.py, copy_in.py.
Calls       the file system.

Not here: the copy (stores/copying.py).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from quinque.errors import CopyUnfinished
from quinque.stores.embedded.disk import sync_file
from quinque.stores.portable import Progress

NAME: Final = "copy.json"
_UNKNOWN: Final = "an unknown store"  # as the source in a mark that cannot be read


class CopyMark:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / NAME

    def refuse(self) -> None:
        """Raises CopyUnfinished when the folder is marked."""
        if self._path.exists():
            raise CopyUnfinished(str(self._folder), self.read()[0])

    def read(self) -> tuple[str, Progress | None]:
        """The source that is copied into the folder, and how far that has come; empty without a
        mark."""
        try:
            mark = json.loads(self._path.read_text(encoding="utf-8"))
            return mark["source"], Progress(bytes.fromhex(mark["queue"]), mark["after"])
        except FileNotFoundError:
            return "", None
        except (ValueError, LookupError, TypeError):
            return _UNKNOWN, None

    def write(self, source: str, progress: Progress, *, is_first: bool = False) -> None:
        """The folder is marked so. Only the name of the first mark is forced to the disk: an older
        mark than the last has things copied twice, and that does no harm. But each is on the disk
        before it takes the place of another: after a power cut that would be an empty file."""
        mark = {"source": source, "queue": progress.queue.hex(), "after": progress.after}
        fresh = self._path.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as file:
            json.dump(mark, file)
            file.flush()
            sync_file(file.fileno())
        fresh.replace(self._path)
        if is_first:
            self._sync_folder()

    def remove(self) -> None:
        """Remove the mark of the folder."""
        self._path.unlink(missing_ok=True)
        self._sync_folder()

    def _sync_folder(self) -> None:
        file = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sync_file(file)
        finally:
            os.close(file)
