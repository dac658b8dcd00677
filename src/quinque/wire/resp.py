"""Replies as RESP2 and RESP3 bytes.

Called by   dialects (make Values), server/connection.py (sends the bytes).
Calls       nothing.

A Value is what a reply means; `encode` says how it looks in the protocol the client speaks:

    bytes          bulk string          int            integer
    None           null                 float          double (RESP2: bulk string)
    Simple         simple string        bool           boolean (RESP2: 1 or 0)
    list           array
    NULL_ARRAY     null (RESP2: *-1)    dict           map (RESP2: flat array of pairs)
    Verbatim       text for people (RESP2: bulk string)
    Push           a message without a request (RESP2: array)
    Encoded        bytes that are a reply already, and the same in both protocols

Not here: requests (wire/requests.py).
"""

from __future__ import annotations

from typing import Final


class Simple:
    """A simple string: +OK."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text


class Verbatim:
    """Text for people: a verbatim string in RESP3, a bulk string in RESP2."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text


class NullArray:
    """No array: null in RESP3, *-1 in RESP2."""

    __slots__ = ()


class Push:
    """A message that the broker sends without a request. RESP2 has no such type, so it is an array
    there."""

    __slots__ = ("items",)

    def __init__(self, items: list[Value]) -> None:
        self.items = items


class Encoded:
    """A reply, or a part of one, as its bytes are in both protocols."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


Value = (
    bytes
    | int
    | float
    | bool
    | None
    | Simple
    | Verbatim
    | NullArray
    | Push
    | Encoded
    | list["Value"]
    | dict["bytes | str", "Value"]
)

NULL_ARRAY: Final = NullArray()
OK: Final = Simple(b"OK")


def encode(value: Value, protocol: int) -> bytes:
    """The bytes of a reply."""
    if type(value) is bytes:
        return b"$%d\r\n%b\r\n" % (len(value), value)
    if type(value) is int:
        return b":%d\r\n" % value
    if type(value) is Simple:
        return b"+%b\r\n" % value.text
    if type(value) is Encoded:
        return value.data
    out: list[bytes] = []
    _encode_into(out, value, protocol)
    return b"".join(out)


def encode_error(code: str, text: str) -> bytes:
    """The bytes of an error reply; line breaks in the text would break the protocol."""
    line = f"-{code} {text}" if text else f"-{code}"
    return line.replace("\r", " ").replace("\n", " ").encode("utf-8", "backslashreplace") + b"\r\n"


def _encode_into(out: list[bytes], value: Value, protocol: int) -> None:
    # The types of nearly all replies come first.
    if type(value) is bytes:
        out.append(b"$%d\r\n%b\r\n" % (len(value), value))
        return
    if type(value) is list:
        out.append(b"*%d\r\n" % len(value))
        for item in value:
            _encode_into(out, item, protocol)
        return
    match value:
        case None:
            out.append(b"_\r\n" if protocol == 3 else b"$-1\r\n")
        case NullArray():
            out.append(b"_\r\n" if protocol == 3 else b"*-1\r\n")
        case Encoded():
            out.append(value.data)
        case Simple():
            out.append(b"+%b\r\n" % value.text)
        case Verbatim():
            text = value.text
            if protocol == 3:
                out.append(b"=%d\r\ntxt:%b\r\n" % (len(text) + 4, text))
            else:
                out.append(b"$%d\r\n%b\r\n" % (len(text), text))
        case bool():
            out.append((b"#t\r\n" if value else b"#f\r\n") if protocol == 3 else b":%d\r\n" % value)
        case int():
            out.append(b":%d\r\n" % value)
        case float():
            text = repr(value).encode()
            if protocol == 3:
                out.append(b",%b\r\n" % text)
            else:
                out.append(b"$%d\r\n%b\r\n" % (len(text), text))
        case dict():
            out.append(b"%%%d\r\n" % len(value) if protocol == 3 else b"*%d\r\n" % (2 * len(value)))
            for key, item in value.items():
                _encode_into(out, key.encode() if isinstance(key, str) else key, protocol)
                _encode_into(out, item, protocol)
        case Push():
            out.append(b"%b%d\r\n" % (b">" if protocol == 3 else b"*", len(value.items)))
            for item in value.items:
                _encode_into(out, item, protocol)
