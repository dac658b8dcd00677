"""Readers of the arguments of Tarantool's functions: each is one value of msgpack.

Called by   tarantool.py, while it parses.
Calls       msgpack.

An error in an argument has the number and, if it exists, the text of Tarantool. Durations are
seconds, with or without a fraction. A short one becomes a millisecond, and 100 years or more mean
no limit. A negative one counts as 0.

Not here: data of tasks (task_data.py), the arguments of each function (tarantool.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgpack

from quinque.dialects.args import read_name
from quinque.errors import BadTuple, printable
from quinque.model.limits import NAME_MOST_BYTES, NEVER_MS
from quinque.model.tube_ops import (
    FOREVER_MS,
    NO_LANE,
    PRIORITY_MOST,
    SESSION_MOST_BYTES,
    TaskTerms,
    TubeSettings,
)

# Numbers of errors in Tarantool.
LUA: Final = 32
NOT_DEFINED: Final = 33
_KEY_TYPE: Final = 18
_FIELD_TYPE: Final = 23
_FIELD_MISSING: Final = 39
_IDENTIFIER: Final = 70
_ILLEGAL_PARAMS: Final = 1

_NOTHING: Final = frozenset({b"\xc0", b"\x80", b"\x90"})  # nil, and an empty table of either type
_SHOWN_MOST_BYTES: Final = 1024
_OPTIONS_MOST: Final = 1024
# The result of `unpacked` for a table.
TABLE: Final = ()
_COUNT_MOST: Final = (1 << 53) - 1
_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

# Producers send the same options repeatedly.
_TERMS_MOST: Final = 256
_TERMS_MOST_BYTES: Final = 256
_terms: dict[bytes, tuple[TaskTerms, int]] = {b"\x80": (TaskTerms(), 0)}


def unpacked(packed: bytes) -> Any:
    """Return the value. Strings become bytes, and a table becomes `TABLE`: no function reads its
    contents, and it may have millions of values. Raises BadTuple if it is not valid msgpack."""
    if 0x80 <= packed[0] <= 0x9F or 0xDC <= packed[0] <= 0xDF:
        return TABLE
    try:
        return msgpack.unpackb(packed, raw=True, use_list=False, strict_map_key=False)
    # msgpack raises many kinds of errors for invalid data.
    except Exception as exc:
        raise BadTuple(LUA, "an argument cannot be read") from exc


def value_at(args: Sequence[bytes], at: int) -> Any:
    """Return the value of the argument, or None if it is missing."""
    return unpacked(args[at]) if at < len(args) else None


def read_data(args: Sequence[bytes]) -> bytes:
    """Return the first argument, packed. It may be nil but must be present."""
    if not args:
        raise BadTuple(_FIELD_MISSING, "Tuple field 3 required by space format is missing")
    return args[0]


def read_task_id(args: Sequence[bytes]) -> bytes:
    """Return the first argument as the id of a task."""
    packed = args[0] if args else b"\xc0"
    first = packed[0]
    if first < 0x80:
        return b"%d" % first
    if 0xCC <= first <= 0xCF:
        return b"%d" % int.from_bytes(packed[1:], "big")
    value = unpacked(packed)
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or value < 0:
        raise BadTuple(
            _KEY_TYPE,
            "Supplied key type of part 0 does not match index part type: expected unsigned",
        )
    return b"%d" % value


def read_span(value: Any) -> int:
    """Return seconds as milliseconds."""
    if type(value) is not int and (type(value) is not float or value != value):
        raise BadTuple(LUA, f"attempt to compare {_lua_type(value)} with number")
    if value <= 0:
        return 0
    # Before the multiplication, which would make the largest floats infinite.
    if value >= FOREVER_MS // 1000:
        return FOREVER_MS
    return max(1, round(value * 1000))


def read_timeout(value: Any) -> int:
    """Return the time to wait in milliseconds. Default: no limit."""
    if value is None:
        return NEVER_MS
    span_ms = read_span(value)
    return span_ms if span_ms < FOREVER_MS else NEVER_MS


def read_count(args: Sequence[bytes]) -> int:
    """Return the first argument as a count. Default: 1."""
    value = value_at(args, 0)
    if value is None:
        return 1
    if type(value) is not int and type(value) is not float:
        raise BadTuple(LUA, "'for' limit must be a number")
    return int(min(max(value, 0), _COUNT_MOST)) if value == value else 0


def read_terms(args: Sequence[bytes]) -> tuple[TaskTerms, int]:
    """Read the second argument of a put: the options of the task, and how long to wait for room, in
    milliseconds."""
    packed = args[1] if len(args) > 1 else b"\x80"
    known = _terms.get(packed)
    if known is not None:
        return known
    said = read_options(args, 1)
    terms = TaskTerms(
        ttl_ms=read_span(said[b"ttl"]) if said.get(b"ttl") is not None else None,
        ttr_ms=read_span(said[b"ttr"]) if said.get(b"ttr") is not None else None,
        pri=_read_priority(said[b"pri"]) if b"pri" in said else None,
        delay_ms=read_span(said.get(b"delay") or 0),
        lane=read_lane(said.get(b"utube")),
        options=packed if said else b"",
    )
    wait_ms = read_span(said.get(b"timeout") or 0)
    if len(packed) <= _TERMS_MOST_BYTES:
        if len(_terms) >= _TERMS_MOST:
            _terms.clear()
        _terms[packed] = terms, wait_ms
    return terms, wait_ms


def read_settings(args: Sequence[bytes]) -> tuple[TubeSettings, bool]:
    """Read the third argument of create_tube: the settings of the tube, and whether it may exist
    already."""
    said = read_options(args, 2)
    ttl_ms = read_span(said[b"ttl"]) if said.get(b"ttl") is not None else FOREVER_MS
    settings = TubeSettings(
        ttl_ms=ttl_ms,
        ttr_ms=read_span(said[b"ttr"]) if said.get(b"ttr") is not None else ttl_ms,
        pri=_read_priority(said.get(b"pri") or 0),
        capacity=_read_whole("capacity", said.get(b"capacity") or 0, least=0),
        width=_read_whole("width", said.get(b"width") or 1, least=1),
        is_temporary=_read_switch("temporary", said.get(b"temporary")),
        options=args[2] if said else b"",
    )
    return settings, _read_switch("if_not_exists", said.get(b"if_not_exists"))


def read_options(args: Sequence[bytes], at: int) -> dict[Any, Any]:
    """Return a table by its keys; empty if it is missing. An array or a string has no such keys,
    but Lua looks for them too."""
    if at >= len(args) or args[at] in _NOTHING:
        return {}
    packed = args[at]
    if 0x80 <= packed[0] <= 0x8F or 0xDE <= packed[0] <= 0xDF:
        return {key: unpacked(value) for key, value in _fields(packed).items()}
    value = unpacked(packed)
    if value is not TABLE and not isinstance(value, bytes):
        raise BadTuple(LUA, f"attempt to index a {_lua_type(value)} value")
    return {}


def packed_option(table: bytes, name: bytes) -> bytes:
    """Return the value of a key of the table, packed as it was sent."""
    return _fields(table)[name]


def _fields(table: bytes) -> dict[Any, bytes]:
    """Return the packed values of a map by their keys."""
    fields: dict[Any, bytes] = {}
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(table)
    try:
        count = unpacker.read_map_header()
        at = unpacker.tell()
        for _ in range(min(count, _OPTIONS_MOST + 1)):
            unpacker.skip()
            middle = unpacker.tell()
            unpacker.skip()
            end = unpacker.tell()
            fields[unpacked(table[at:middle])] = table[middle:end]
            at = end
    except Exception as exc:
        raise BadTuple(LUA, "an argument cannot be read") from exc
    if count > _OPTIONS_MOST:
        raise BadTuple(LUA, f"a table of more than {_OPTIONS_MOST} options")
    return fields


def read_priority_or_none(value: Any) -> int | None:
    return None if value is None else _read_priority(value)


def read_lane(value: Any) -> bytes:
    """Return the name of a lane. Numbers are written as in Lua, so that 1 and "1" are the same."""
    if isinstance(value, bytes):
        if len(value) > NAME_MOST_BYTES:
            read_name("utube", value)
        return value
    if value is None:
        return NO_LANE
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int | float):
        return shown(value).encode()
    raise BadTuple(LUA, f"utube must be a string or a number, not a {_lua_type(value)}")


def read_tube_name(args: Sequence[bytes]) -> bytes:
    """Return the first argument as the name of a tube."""
    value = value_at(args, 0)
    if not isinstance(value, bytes):
        raise BadTuple(LUA, "argument #1 should be string or nil")
    if not 1 <= len(value) <= NAME_MOST_BYTES:
        name = printable(value[:64])
        raise BadTuple(_IDENTIFIER, f"Invalid identifier '{name}' (1 to {NAME_MOST_BYTES} bytes)")
    return value


def read_session(value: Any) -> bytes:
    """Return a session: 16 bytes, or a UUID as text, which is the same session, or any other
    text."""
    if not isinstance(value, bytes) or not 1 <= len(value) <= SESSION_MOST_BYTES:
        raise BadTuple(LUA, "Invalid UUID format.")
    return bytes.fromhex(value.replace(b"-", b"").decode()) if _UUID.fullmatch(value) else value


def _read_priority(value: Any) -> int:
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or not 0 <= value <= PRIORITY_MOST:
        raise BadTuple(
            _FIELD_TYPE,
            "Tuple field 6 type does not match one required by operation: expected unsigned",
        )
    return value


def _read_whole(what: str, value: Any, *, least: int) -> int:
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or not least <= value <= _COUNT_MOST:
        raise BadTuple(LUA, f"{what} must be a whole number, {least} or more")
    return value


def _read_switch(option: str, value: Any) -> bool:
    if value is None:
        return False
    if type(value) is not bool:
        raise BadTuple(
            _ILLEGAL_PARAMS,
            f"Illegal parameters, options parameter '{option}' should be of type boolean",
        )
    return value


def shown(value: Any) -> str:
    """Return a value as Lua prints it, or that it is a table."""
    if isinstance(value, bytes):
        return printable(value[:_SHOWN_MOST_BYTES])
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return f"{value:.0f}" if isinstance(value, float) else str(value)
    return f"{value:.14g}" if isinstance(value, float) else _lua_type(value)


def _lua_type(value: Any) -> str:
    """Return the name of a type in Lua."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, bytes) else "table"
