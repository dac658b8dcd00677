"""A target that stops a copy where a test wants it to.

Called by   the tests beside this file.
Calls       the writer it is handed.
"""

from __future__ import annotations

from collections.abc import Callable

from quinque.stores.embedded.copy_in import FolderWriter
from quinque.stores.portable import Chunk, Writer
from quinque.stores.redis.copy_in import RedisWriter


class Interrupted(Exception):
    """What a test stops a copy with."""


class Stops:
    """A target that fails at the chunk of that number, before it is written or before the mark
    says so."""

    def __init__(self, writer: Writer, at: int, *, before_mark: bool) -> None:
        self._writer = writer
        self._left = at
        self._before_mark = before_mark
        self.identity = writer.identity
        self.begin, self.reader = writer.begin, writer.reader
        self.finish, self.close = writer.finish, writer.close

    def write(self, chunk: Chunk) -> None:
        if self._left:
            self._left -= 1
            self._writer.write(chunk)
            return
        if self._before_mark:
            forget_mark(self._writer, lambda: self._writer.write(chunk))
        raise Interrupted


def forget_mark(writer: Writer, write: Callable[[], None]) -> None:
    """What `write` does is done, but for the mark."""
    assert isinstance(writer, FolderWriter | RedisWriter)
    kept = writer._set_mark
    writer._set_mark = lambda progress: None  # type: ignore[method-assign]
    write()
    writer._set_mark = kept  # type: ignore[method-assign]
