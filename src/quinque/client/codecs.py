"""Turn the values of a program into the bytes of a message, and back.

Called by   the queues of client/aio/, which get a codec when they are opened.
Calls       nothing.

    queue.jobs("emails")                    bytes, and str as UTF-8, go in; bytes come out
    queue.jobs("emails", codec="json")      what JSON can say
    queue.jobs("emails", codec="msgpack")   the same and bytes, in fewer of them

Anything with the two methods is a codec too.

Not here: headers. The families have no headers.
"""

from __future__ import annotations

import json
from typing import Any, Final, Literal, Protocol, TypeVar

import msgpack

from quinque.errors import BadArgument

T = TypeVar("T")

Name = Literal["bytes", "json", "msgpack"]
Untyped = Literal["json", "msgpack"]  # bodies are of any type


class Codec(Protocol[T]):
    """Turns values into bodies, and back. Its errors reach the program."""

    def encode(self, value: T, /) -> bytes:
        """Return the bytes of a message. Raises BadArgument if the value cannot be encoded."""

    def decode(self, body: bytes, /) -> T:
        """Return the value. Raises BadArgument if the bytes cannot be decoded."""


class Bytes:
    def encode(self, value: Any) -> bytes:
        if isinstance(value, str):
            return _encoded(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise BadArgument(
            f"a body must be bytes or str, not {type(value).__name__}: choose a codec, for "
            "example json"
        )

    def decode(self, body: bytes) -> bytes:
        return body


class Json:
    def encode(self, value: Any) -> bytes:
        try:
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
            return text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise BadArgument(f"cannot encode this body as JSON: {error}") from error

    def decode(self, body: bytes) -> Any:
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise BadArgument(f"the body is not valid JSON: {error}") from error


class MessagePack:
    def encode(self, value: Any) -> bytes:
        try:
            packed: bytes = msgpack.packb(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise BadArgument(f"cannot encode this body as MessagePack: {error}") from error
        return packed

    def decode(self, body: bytes) -> Any:
        try:
            return msgpack.unpackb(body, strict_map_key=False)
        except (ValueError, TypeError) as error:  # errors of msgpack, or a list as a key
            raise BadArgument(f"the body is not valid MessagePack: {error}") from error


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadArgument(f"cannot encode the body: {error.reason}") from error


def body_of(codec: Codec[Any], value: Any) -> bytes:
    """Return the body that the codec makes of a value. Raises BadArgument, which names the codec,
    if it returns neither bytes nor text."""
    body: object = codec.encode(value)  # a codec of the program may return anything
    if type(body) is bytes:
        return body
    name = getattr(codec, "__name__", type(codec).__name__)
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    if not isinstance(body, str):
        raise BadArgument(f"the codec {name} returned {type(body).__name__} instead of bytes")
    try:
        return body.encode()
    except UnicodeEncodeError as error:
        raise BadArgument(
            f"the codec {name} returned a str that UTF-8 cannot encode: {error.reason}"
        ) from error


NAMED: Final[dict[str, Codec[Any]]] = {"bytes": Bytes(), "json": Json(), "msgpack": MessagePack()}


def codec_of(codec: str | Codec[Any]) -> Codec[Any]:
    """Return the codec, which may be given by name. Raises BadArgument."""
    if not isinstance(codec, str):
        for method in ("encode", "decode"):
            if not callable(getattr(codec, method, None)):
                name = getattr(codec, "__name__", type(codec).__name__)
                raise BadArgument(
                    f"the codec {name} has no method {method}: use the name of a codec"
                    f" ({', '.join(NAMED)}), or an object with encode and decode"
                )
        return codec
    if codec not in NAMED:
        raise BadArgument(f"unknown codec '{codec}': use one of {', '.join(NAMED)}")
    return NAMED[codec]
