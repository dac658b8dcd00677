"""Messages as rows, rows as messages, and what is kept of a chunk beside its rows.

Called by   decide.py and returning.py (make rows), apply.py (reads them), stores.
Calls       msgpack.

Not here: what the fields of a row are (model/rows.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgpack

from quinque.engine.claims.subscription import Chunk
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import READY
from quinque.model.limits import NEVER_MS
from quinque.model.message import FeedMessage
from quinque.model.packing import Packing
from quinque.model.rows import CHUNK_BYTES_MOST, CHUNK_ROWS_MOST, IS_SINGLE, WAS_READY
from quinque.model.work_ops import Terms

# A row beside its body, its id and its reason: numbers, and terms that are short.
ROW_BYTES: Final = 96

_ID, _BODY, _PLACE, _KEY = 0, 1, 3, 10

pack: Final[Callable[[Any], bytes]] = Packing().pack


def unpack(data: bytes) -> Any:
    """Unpack rows or ids. A writer may not tell bytes from text, so both are read as bytes."""
    return msgpack.unpackb(data, raw=True)


def work_rows(
    messages: Sequence[WorkMessage], bodies: Sequence[bytes], deliveries: int
) -> list[list[Any]]:
    """The messages of a worklist as rows; `deliveries` are counted to each."""
    rows: list[list[Any]] = []
    terms: Terms | None = None
    record: tuple[int, int, int, int, int] | None = None
    for message, body in zip(messages, bodies, strict=True):
        if message.terms is not terms:
            terms = message.terms
            record = terms.as_record()
        due_ms = message.due_ms
        rows.append(
            [
                message.id,
                body,
                message.deliveries + deliveries,
                message.place,
                message.expires_ms,
                message.state,
                due_ms if due_ms < NEVER_MS else 0,
                message.nacks,
                message.requeues,
                message.reason,
                message.key,
                record,
                WAS_READY if message.was_ready else 0,
            ]
        )
    return rows


def feed_rows(
    messages: Sequence[FeedMessage], bodies: Sequence[bytes], attempts: Sequence[int]
) -> list[list[Any]]:
    """The messages of a feed as rows."""
    return [
        [
            message.id,
            body,
            attempt,
            message.place,
            message.expires_ms,
            READY,
            0,
            0,
            0,
            b"",
            None,
            None,
            IS_SINGLE if message.is_single else 0,
        ]
        for message, body, attempt in zip(messages, bodies, attempts, strict=True)
    ]


def chunk_sizes(
    bodies: Sequence[bytes], most: int = CHUNK_ROWS_MOST, most_bytes: int = CHUNK_BYTES_MOST
) -> list[int]:
    """Return how many of the messages with these bodies go into each chunk."""
    if len(bodies) <= most and sum(map(len, bodies)) + ROW_BYTES * len(bodies) <= most_bytes:
        return [len(bodies)] if bodies else []
    sizes: list[int] = []
    count = size_bytes = 0
    for body in bodies:
        row_bytes = len(body) + ROW_BYTES
        if count and (count == most or size_bytes + row_bytes > most_bytes):
            sizes.append(count)
            count = size_bytes = 0
        count += 1
        size_bytes += row_bytes
    sizes.append(count)
    return sizes


def make_chunk(number: int, rows: Sequence[Sequence[Any]], packed: bytes, home: int) -> Chunk:
    """The chunk of these rows, which are also there packed."""
    places = [row[_PLACE] for row in rows]
    return Chunk(
        number,
        packed,
        home,
        pack([row[_ID] for row in rows]),
        len(rows),
        sum([len(row[_BODY]) for row in rows]),
        min(places),
        max(places),
        {row[_KEY]: row[_ID] for row in rows if row[_KEY] is not None},
    )
