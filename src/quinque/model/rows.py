"""A message as a row: what claims hold, and what is shown of a queue page by page.

Called by   stores (make and read rows), clients (read them).
Calls       nothing.

A row is a list, packed with msgpack as one of many. The order of its fields never changes. The
first five are all that a reader of messages needs; the rest is what puts the message back.

Not here: the events that compaction writes (model/events.py).
"""

from __future__ import annotations

from typing import Final, NamedTuple

WAS_READY: Final = 1
IS_SINGLE: Final = 2

# A chunk of rows: as many as a store handles at once without making others wait.
CHUNK_ROWS_MOST: Final = 1_000
CHUNK_BYTES_MOST: Final = 1 << 20


class Row(NamedTuple):
    """`attempt` counts deliveries, this one included; in a page, those so far.

    place       µs since 1970, as good as unique: when it came, unless it was put at the front
    expires_ms  0 = never
    state       model/states.py; of a message in a feed READY
    due_ms      when its lease or delay ends, 0 = neither
    terms       model/work_ops.py:Terms as a list; None in a feed
    flags       WAS_READY | IS_SINGLE
    """

    id: bytes
    body: bytes
    attempt: int
    place: int
    expires_ms: int
    state: int
    due_ms: int
    nacks: int
    requeues: int
    reason: bytes
    key: bytes | None
    terms: tuple[int, int, int, int, int] | None
    flags: int
