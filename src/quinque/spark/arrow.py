"""Entries of the record as a table of rows.

Called by   export.py, the connector's reader of the record.
Calls       pyarrow, numpy.

Nothing is done row by row: entries are unpacked together, and what they share is repeated.

Not here: what the columns mean (model/lifecycle.py), messages as tables (rows of claims and pages).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import msgpack
import numpy as np
import pyarrow as pa

# The columns of journal_raw. `size` is that of a body; it is null unless the message was added.
JOURNAL_SCHEMA: Final = pa.schema(
    [
        ("shard", pa.int32()),
        ("seq", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("family", pa.int8()),
        ("queue", pa.string()),
        ("message_id", pa.string()),
        ("kind", pa.int8()),
        ("reason", pa.int8()),
        ("consumer_group", pa.string()),
        ("claim", pa.int64()),
        ("size", pa.int32()),
    ]
)


def journal_table(shard: int, entries: Sequence[bytes], start: int = 0) -> pa.Table:
    """The rows of these packed entries, from row `start` on, in the order of their numbers."""
    if not entries:
        return JOURNAL_SCHEMA.empty_table()
    number, at_ms, kind, reason, family, queue, group, claim, ids, sizes = zip(
        *_unpacked(entries), strict=True
    )
    id_lists = _unpacked(ids)
    counts = np.fromiter(map(len, id_lists), np.int64, len(id_lists))
    total = int(counts.sum())

    def each(values: Sequence[int], kind: Any) -> Any:
        """The value of its entry, for each row."""
        return np.repeat(np.array(values, kind), counts)

    entry_of = pa.array(np.repeat(np.arange(len(counts)), counts))
    firsts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    columns = [
        pa.array(np.full(total, shard, np.int32)),
        pa.array(each(number, np.int64) + np.arange(total) - np.repeat(firsts, counts)),
        pa.array(each(at_ms, np.int64) * 1000).cast(JOURNAL_SCHEMA.field("ts").type),
        pa.array(each(family, np.int8)),
        _text(queue).take(entry_of),
        _text(list(chain.from_iterable(id_lists))),
        pa.array(each(kind, np.int8)),
        pa.array(each(reason, np.int8)),
        _text(group).take(entry_of),
        pa.array(each(claim, np.int64)),
        _sizes(sizes, counts),
    ]
    table = pa.Table.from_arrays(columns, schema=JOURNAL_SCHEMA)
    # An entry may begin before the requested row.
    return table.slice(max(0, start - number[0])) if start else table


def _unpacked(packed: Sequence[bytes]) -> list[Any]:
    unpacker = msgpack.Unpacker(raw=True, max_buffer_size=0)
    unpacker.feed(b"".join(packed))
    return list(unpacker)


def _text(names: Sequence[bytes]) -> pa.Array:
    """Names as text; bytes that are not UTF-8 are written as \\x and two digits."""
    try:
        return pa.array(names, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="backslashreplace") for name in names], pa.string())


def _sizes(sizes: Sequence[bytes | None], counts: Any) -> pa.Array:
    known = np.repeat(np.array([packed is not None for packed in sizes]), counts)
    values = np.zeros(len(known), np.int32)
    lists = _unpacked([packed for packed in sizes if packed is not None])
    values[known] = np.fromiter(chain.from_iterable(lists), np.int32, int(known.sum()))
    return pa.array(values, mask=~known)
