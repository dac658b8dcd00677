"""The mark of a store on Redis that something is copied into: one key, until the copy is whole.

Called by   served.py (a broker does not start on half a copy), copy_out.py, copy_in.py.
Calls       the scripts copy_mark and copy_unmark.

Not here: the copy (stores/copying.py).
"""

from __future__ import annotations

from quinque.errors import CopyUnfinished
from quinque.stores.portable import Progress
from quinque.stores.redis.calls import Arg, Call, Steps
from quinque.stores.redis.keys import COPY_MARK


def refuse_half(store: str) -> Steps:
    """Raise CopyUnfinished when the store has a mark; `store` is its name in the error."""
    source, _ = yield from read()
    if source:
        raise CopyUnfinished(store, source)


def read() -> Steps:
    """The source that is copied into the store, and how far that has come; empty without a mark."""
    ((source, queue, after),) = yield [Call("copy_mark", [COPY_MARK], [])]
    if source is None:
        return "", None
    return source.decode(), Progress(queue, int(after))


def write(source: str, progress: Progress) -> Steps:
    """The store is marked so."""
    queue, after = progress
    fields: list[Arg] = [b"source", source.encode(), b"queue", queue, b"after", after]
    yield [Call("copy_mark", [COPY_MARK], fields)]


def remove() -> Steps:
    """Remove the mark of the store."""
    yield [Call("copy_unmark", [COPY_MARK], [])]
