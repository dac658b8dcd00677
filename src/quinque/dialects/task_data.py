"""The data of a task, in both protocols of tubes and in the store.

Called by   dialects/tarantool*.py (IPROTO: values of msgpack).
Calls       nothing; model/task_bodies.py has the part that RESP needs (bytes).

A store keeps bytes. Most data are text or bytes, and are stored unchanged. Any other value is
stored as its msgpack bytes, after a byte that msgpack never uses:

    kept                  RESP client     IPROTO client
    hello                 hello           the string "hello"
    fe ff                 fe ff           the bytes fe ff, since they are not UTF-8
    c1 93 01 02 03        93 01 02 03     [1, 2, 3]
    c1 c1 00              c1 00           the bytes c1 00: a client's data that began with the mark

Not here: operations, for which all data are bytes.
"""

from __future__ import annotations

from typing import Final

from quinque.model.task_bodies import MARK, from_plain

_MARK_BYTE: Final = 0xC1

# The header of a string or of bytes: up to 31 bytes, a string has a header of one byte.
_SHORT_TEXT: Final = [bytes([0xA0 | length]) for length in range(32)]
_SHORT_TEXT_END: Final = 0xBF
# The first byte of longer strings, and the size of their headers.
_LONG: Final = {0xD9: 2, 0xDA: 3, 0xDB: 5, 0xC4: 2, 0xC5: 3, 0xC6: 5}


def pack_into(body: bytes) -> bytes:
    """Return stored data as msgpack: a string if they are UTF-8, else bytes, or the value that is
    stored."""
    if body[:1] == MARK:
        packed = body[1:]
        if packed and packed[0] != _MARK_BYTE:
            return packed
        return _before_bytes(len(packed)) + packed
    return pack_plain(body)


def pack_plain(body: bytes) -> bytes:
    """Return these bytes as msgpack: a string if they are UTF-8, else bytes."""
    if body.isascii() or _is_text(body):
        length = len(body)
        before = _SHORT_TEXT[length] if length < 32 else _before_text(length)
        return before + body
    return _before_bytes(len(body)) + body


def from_packed(packed: bytes) -> bytes:
    """Return a msgpack value in the form in which it is stored."""
    first = packed[0]
    if 0xA0 <= first <= _SHORT_TEXT_END:
        return from_plain(packed[1:])
    before = _LONG.get(first)
    return MARK + packed if before is None else from_plain(packed[before:])


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _before_text(length: int) -> bytes:
    if length < 1 << 8:
        return b"\xd9" + length.to_bytes(1, "big")
    if length < 1 << 16:
        return b"\xda" + length.to_bytes(2, "big")
    return b"\xdb" + length.to_bytes(4, "big")


def _before_bytes(length: int) -> bytes:
    if length < 1 << 8:
        return b"\xc4" + length.to_bytes(1, "big")
    if length < 1 << 16:
        return b"\xc5" + length.to_bytes(2, "big")
    return b"\xc6" + length.to_bytes(4, "big")
