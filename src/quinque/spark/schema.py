"""The columns of messages, and packed rows as Arrow.

Called by   source.py (the schema), stream.py and batch.py (rows).
Calls       only pyarrow.

    packed rows (model/rows.py) ──► lists, one per field ──► one RecordBatch

Spark compares the schema of a batch exactly, so the types here are those it makes of SCHEMA. If the
user gives a schema, only its columns are made.

Not here: the columns of the lifecycle (arrow.py), those that can be written (staging.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, unquote

import msgpack
import pyarrow as pa
import pyarrow.compute as pc

from quinque.model.states import State
from quinque.spark.options import BadOption

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TIME: Final = pa.timestamp("us", tz="UTC")
_HEADERS: Final = pa.map_(pa.string(), pa.string())

# Positions in model/rows.py:Row.
_ID, _BODY, _ATTEMPT, _PLACE, _EXPIRES, _STATE = range(6)
_REASON, _KEY = 9, 10


class Origin(NamedTuple):
    """The source of rows: the values that are the same in all of them."""

    family: str
    queue: bytes
    shard: int
    claim: str | None = None


class ClaimName(NamedTuple):
    """A claim as the column `_claim` names it: queue/shard/subscription/number."""

    queue: bytes
    shard: int
    subscription: bytes
    number: int

    def __str__(self) -> str:
        names = [quote(name, safe="") for name in (self.queue, self.subscription)]
        return f"{names[0]}/{self.shard}/{names[1]}/{self.number}"

    @classmethod
    def parsed(cls, text: str) -> ClaimName:
        """Parse the name of a claim. Raises ValueError if it is invalid."""
        queue, shard, subscription, number = text.split("/")
        return cls(_unquoted(queue), int(shard), _unquoted(subscription), int(number))


class _Column(NamedTuple):
    name: str
    sql_type: str
    arrow_type: pa.DataType
    make: Callable[[Sequence[Sequence[Any]], Origin, int], pa.Array]


def schema_text() -> str:
    """The columns as Spark's DDL."""
    return ", ".join(f"`{column.name}` {column.sql_type}" for column in COLUMNS)


def chosen_columns(schema: StructType) -> tuple[str, ...]:
    """Return the names of the columns of that schema. Raises BadOption for a column that the format
    does not have."""
    known = {column.name: column for column in COLUMNS}
    for field in schema.fields:
        column = known.get(field.name.lower())
        if column is None:
            raise BadOption(f"no column {field.name}; the columns are {', '.join(known)}")
        if field.dataType.simpleString() != column.sql_type.lower() or not field.nullable:
            raise BadOption(f"column {field.name} is {column.sql_type} and can be null")
    return tuple(field.name for field in schema.fields)


def rows_as_batch(
    chunks: Iterable[bytes],
    origin: Origin,
    names: Sequence[str],
    piece: int = 0,
    pieces: int = 1,
) -> pa.RecordBatch:
    """The rows of packed chunks, in order, as one batch of the columns named; of several pieces of
    about the same size, the one of that number."""
    rows = list(
        chain.from_iterable(msgpack.unpackb(chunk, raw=True, use_list=False) for chunk in chunks)
    )
    if pieces > 1:
        rows = rows[len(rows) * piece // pieces : len(rows) * (piece + 1) // pieces]
    fields = list(zip(*rows, strict=True)) if rows else [()] * (_KEY + 1)
    columns = [_BY_NAME[name.lower()] for name in names]
    arrays = [column.make(fields, origin, len(rows)) for column in columns]
    # With the names as they were given: Spark compares them exactly.
    types = [column.arrow_type for column in columns]
    schema = pa.schema(list(zip(names, types, strict=True)))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def shown_name(name: bytes) -> str:
    """A name as text, for a column."""
    return name.decode("utf-8", "backslashreplace")


def _family(fields: Sequence[Any], origin: Origin, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(origin.family, pa.string()), count)


def _queue(fields: Sequence[Any], origin: Origin, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(shown_name(origin.queue), pa.string()), count)


def _id(fields: Sequence[Any], origin: Origin, count: int) -> pa.Array:
    return _texts(fields[_ID])


def _body(fields: Sequence[Any], origin: Origin, count: int) -> pa.Array:
    return pa.array(fields[_BODY], pa.binary())


def _key(fields: Sequence[Any], origin: Origin, count: int) -> pa.Array:
    return _texts(fields[_KEY])


def _attempt(fields: Sequence[Any], origin: Origin, count: int) -> pa.Array:
    return pa.array(fields[_ATTEMPT], pa.int32())


def _enqueued(fields: Sequence[Any], origin: Origin, count: int) -> pa.Array:
    return pa.array(fields[_PLACE], pa.int64()).view(_TIME)


def _expires(fields: Sequence[Any], origin: Origin, count: int) -> pa.Array:
    expires_us = pc.multiply(pa.array(fields[_EXPIRES], pa.int64()), 1000)
    never = pc.equal(expires_us, 0)
    return pc.if_else(never, pa.scalar(None, pa.int64()), expires_us).view(_TIME)


def _state(fields: Sequence[Any], origin: Origin, count: int) -> pa.Array:
    return _state_names().take(pa.array(fields[_STATE], pa.int32()))


def _reason(fields: Sequence[Any], origin: Origin, count: int) -> pa.Array:
    if not any(fields[_REASON]):
        return pa.nulls(count, pa.string())
    return _texts([reason or None for reason in fields[_REASON]])


def _headers(fields: Sequence[Any], origin: Origin, count: int) -> pa.Array:
    return pa.nulls(count, _HEADERS)


def _lane(fields: Sequence[Any], origin: Origin, count: int) -> pa.Array:
    return pa.nulls(count, pa.string())


def _priority(fields: Sequence[Any], origin: Origin, count: int) -> pa.Array:
    return pa.nulls(count, pa.int32())


def _shard(fields: Sequence[Any], origin: Origin, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(origin.shard, pa.int32()), count)


def _claim(fields: Sequence[Any], origin: Origin, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(origin.claim, pa.string()), count)


@cache
def _state_names() -> pa.Array:
    # Not when this file is imported: pyarrow then looks for pandas, which takes a process of Spark
    # as long as all else that it does before its first request.
    return pa.array([state.name.lower() for state in State], pa.string())


def _texts(values: Sequence[bytes | None]) -> pa.Array:
    """The values as text; a name that is not UTF-8 is written with backslashes."""
    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if v is None else shown_name(v) for v in values], pa.string())


def _unquoted(text: str) -> bytes:
    return unquote(text, errors="surrogateescape").encode("utf-8", "surrogateescape")


COLUMNS: Final = (
    _Column("family", "string", pa.string(), _family),
    _Column("queue", "string", pa.string(), _queue),
    _Column("id", "string", pa.string(), _id),
    _Column("body", "binary", pa.binary(), _body),
    _Column("key", "string", pa.string(), _key),
    _Column("attempt", "int", pa.int32(), _attempt),
    _Column("enqueued", "timestamp", _TIME, _enqueued),
    _Column("expires", "timestamp", _TIME, _expires),
    _Column("state", "string", pa.string(), _state),
    _Column("reason", "string", pa.string(), _reason),
    _Column("headers", "map<string,string>", _HEADERS, _headers),
    _Column("lane", "string", pa.string(), _lane),
    _Column("priority", "int", pa.int32(), _priority),
    _Column("shard", "int", pa.int32(), _shard),
    _Column("_claim", "string", pa.string(), _claim),
)
_BY_NAME: Final = {column.name: column for column in COLUMNS}
