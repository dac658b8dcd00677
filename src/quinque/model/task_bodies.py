"""The stored body of a task, and its plain body: the bytes that a client put.

Called by   dialects/task_data.py and its neighbours (what clients send and see), client/.
Calls       nothing.

Any value that is neither a text nor bytes is kept as its msgpack bytes, after a byte that msgpack
never uses. Bytes that begin with this one get it once more in front.

Not here: the data in Tarantool's protocol (dialects/task_data.py).
"""

from __future__ import annotations

from typing import Final

MARK: Final = b"\xc1"


def plain(body: bytes) -> bytes:
    """A stored body as a RESP client sees it: bytes, or the msgpack bytes of a value."""
    return body[1:] if body[:1] == MARK else body


def from_plain(data: bytes) -> bytes:
    """The bytes that a RESP client sent, as they are kept."""
    return MARK + data if data[:1] == MARK else data
