"""Packets of Tarantool's protocol (IPROTO): requests from bytes cut anywhere, and replies.

Called by   server/tarantool_connection.py (requests), dialects/tarantool.py (replies).
Calls       msgpack.

    greeting   "Tarantool 2.11.0 (Binary) <uuid>", padded to 63, LF; 44 letters of salt, padded, LF
    request    length (any number), {0: type, 1: sync, ...}, {key: value, ...}, which may be missing
    reply      ce length, {0: ce status, 1: cf sync, 5: ce schema version}, {...}

Some clients read a reply's numbers at fixed places, so each has one way of writing.

The broker unpacks only what every request has: each value of a request's body, and each argument
of a call, stays the bytes of its own msgpack. So data reach the store as they were sent, and
a function is known by the bytes of its name.

Most requests are calls with one or two short arguments, which are cut by hand in half the time that
msgpack takes; what is otherwise goes the careful way.

Not here: what a request means (dialects/tarantool.py).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

import msgpack

from quinque.errors import ProtocolBroken

SALT_BYTES: Final = 32
VERSION: Final = "2.11.0"  # clients go by it

# Types of requests.
SELECT: Final = 0x01
CALL_16: Final = 0x06
AUTH: Final = 0x07
EVAL: Final = 0x08
CALL: Final = 0x0A
PING: Final = 0x40
ID: Final = 0x49
WATCH: Final = 0x4A
UNWATCH: Final = 0x4B

# Keys of a body.
SPACE: Final = 0x10
ARGUMENTS: Final = 0x21
FUNCTION: Final = 0x22
USER: Final = 0x23
EXPRESSION: Final = 0x27
DATA: Final = 0x30
ERROR_TEXT: Final = 0x31
ERROR_STACK: Final = 0x52
PROTOCOL_VERSION: Final = 0x54
FEATURES: Final = 0x55
AUTH_METHOD: Final = 0x5B

_TYPE: Final = 0x00
_SYNC: Final = 0x01
_IS_ERROR: Final = 0x8000
_ERROR_TYPES: Final = {32: "LuajitError", 42: "AccessDeniedError"}

# Clients look up spaces by name as long as this stays as it is, and there are none.
_SCHEMA_VERSION: Final = 1

# The first byte of a length, and how many bytes it takes; one below 0x80 is the length itself.
_LENGTH_BYTES: Final = {0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9}
# A header, or a key of a body, with more elements or bytes than this is refused.
_HEADER_MOST: Final = 64
# For packets up to this size one unpacker is kept, with a buffer that has grown to as much.
_KEPT_MOST_BYTES: Final = 64 << 10
_PACKET_MOST_BYTES: Final = (1 << 32) - 1
# Number of packets to read at once: a packet can have six bytes, and 256 KB of such packets take
# 0.1 s.
_AT_ONCE_MOST: Final = 4096
# Number of arguments to read at once. An argument can have one byte.
_ARGS_AT_ONCE_MOST: Final = 8192

_UINT32: Final = 0xCE
#                           ce length, 83 00 ce, status, 01 cf, sync, 05 ce and schema version
_REPLY_HEAD: Final = Struct(">BI3sI2sQ6s")
_BEFORE_STATUS: Final = b"\x83\x00\xce"
_BEFORE_SYNC: Final = b"\x01\xcf"
_AFTER_SYNC: Final = b"\x05\xce" + _SCHEMA_VERSION.to_bytes(4, "big")
_HEADER_BYTES: Final = _REPLY_HEAD.size - 5  # without the length
_SYNC_AT: Final = 14


# How most requests begin: {0: CALL, 1: sync} {0x22: name, 0x21: arguments}.
_QUICK_HEADER: Final = b"\x82\x00\x0a\x01"
_QUICK_BODY: Final = b"\x82\x22"
# A limit on arguments that a short one cannot pass.
_SHORT_MOST_BYTES: Final = 512
# How long a value is, by its first byte; 0 = that byte does not say.
_LENGTHS: Final = bytes(
    1 if first < 0x80 or first >= 0xE0 or first in (0xC0, 0xC2, 0xC3)
    else 1 + (first & 0x1F) if 0xA0 <= first <= 0xBF
    else {0xCA: 5, 0xCB: 9, **_LENGTH_BYTES}.get(first, 0)
    for first in range(256)
)  # fmt: skip
_TEXT_8: Final = 0xD9


@dataclass(frozen=True)
class PacketLimits:
    args: int = 1 << 20
    arg_bytes: int = 64 << 20
    packet_bytes: int = 128 << 20


class Packet:
    """A request. The values of `body` and the `args` are each the bytes of one value."""

    __slots__ = ("args", "body", "kind", "size_bytes", "sync")

    def __init__(self, kind: int, sync: int, size_bytes: int) -> None:
        self.kind = kind
        self.sync = sync
        self.size_bytes = size_bytes
        self.body: dict[int, bytes] = {}
        self.args: list[bytes] = []


class PacketReader:
    """Feed it bytes, get requests. Once `broken` is set it gives no more."""

    def __init__(self, limits: PacketLimits) -> None:
        self.set_limits(limits)
        self.broken: ProtocolBroken | None = None
        self.has_more = False  # bytes that were not looked at: feed it again, if with nothing
        self._unpacker: Any = _new_unpacker()
        self._rest: list[bytes] = []  # the start of a packet
        self._rest_bytes = 0
        self._need_bytes = 0  # no use looking before there are this many

    def set_limits(self, limits: PacketLimits) -> None:
        """These limits hold for what is fed from here on."""
        self.limits = limits
        self._most_bytes = min(limits.packet_bytes, _PACKET_MOST_BYTES)
        self._is_quick = limits.arg_bytes >= _SHORT_MOST_BYTES and limits.args >= 2

    def refuse_large(self, most_bytes: int) -> None:
        """The packet under way is refused if it is larger than a client may send before it has
        authenticated."""
        if self._need_bytes > most_bytes and self.broken is None:
            self.broken = ProtocolBroken(
                f"a packet of more than {most_bytes} bytes before the client has authenticated"
            )
            self._rest.clear()
            self._rest_bytes = 0

    @property
    def buffered_bytes(self) -> int:
        """Return how many bytes of an incomplete request are buffered."""
        return self._rest_bytes

    def feed(self, data: bytes) -> list[Packet]:
        """The requests completed by `data`, in order; not all of them if it `has_more` then."""
        if self.broken is not None:
            return []
        if self._rest:
            self._rest.append(data)
            self._rest_bytes += len(data)
            if self._rest_bytes < self._need_bytes:
                return []
            data = b"".join(self._rest)
            self._rest.clear()
            self._rest_bytes = self._need_bytes = 0
        packets: list[Packet] = []
        at, end, args = 0, len(data), 0
        self.has_more = False
        try:
            while at < end:
                if len(packets) == _AT_ONCE_MOST or args > _ARGS_AT_ONCE_MOST:
                    self.has_more = True
                    break
                first = data[at]
                start = at + (1 if first < 0x80 else _LENGTH_BYTES.get(first, 0))
                if start == at:
                    raise ProtocolBroken("the length of a packet is not a number")
                if start > end:
                    break
                size = first if first < 0x80 else int.from_bytes(data[at + 1 : start], "big")
                if size > self._most_bytes:
                    raise ProtocolBroken(f"a packet of more than {self.limits.packet_bytes} bytes")
                stop = start + size
                if stop > end:
                    self._need_bytes = stop - at
                    break
                packet = _read_quickly(data, start, stop) if self._is_quick else None
                if packet is None:
                    packet = self._read(data[start:stop])
                packets.append(packet)
                args += len(packet.args)
                at = stop
        except ProtocolBroken as broken:
            # Its frames would hold this reader, and this reader them.
            broken.__traceback__ = broken.__context__ = None
            self.broken = broken
        else:
            if at < end:
                self._rest.append(data[at:])
                self._rest_bytes = end - at
        return packets

    def _read(self, data: bytes) -> Packet:
        """Return the request of a packet. Raises ProtocolBroken."""
        size = len(data)
        unpacker = self._unpacker if size <= _KEPT_MOST_BYTES else _new_unpacker()
        before = unpacker.tell()
        unpacker.feed(data)
        try:
            header = unpacker.unpack()
            kind, sync = header[_TYPE], header.get(_SYNC, 0)
            if type(kind) is not int or type(sync) is not int:
                raise ProtocolBroken("Invalid MsgPack - packet header")
            packet = Packet(kind, sync, size)
            if unpacker.tell() - before < size:
                self._read_body(packet, unpacker, data, before)
        except ProtocolBroken:
            raise
        # msgpack raises many kinds for invalid bytes, and a header may not be a map.
        except Exception:
            raise ProtocolBroken("Invalid MsgPack - packet") from None
        if unpacker.tell() - before != size or not 0 <= packet.sync < 1 << 64:
            raise ProtocolBroken("Invalid MsgPack - packet")
        return packet

    def _read_body(self, packet: Packet, unpacker: Any, data: bytes, before: int) -> None:
        limits = self.limits
        keys = unpacker.read_map_header()
        if keys > _HEADER_MOST:
            raise ProtocolBroken(f"a packet with more than {_HEADER_MOST} keys")
        for _ in range(keys):
            key = unpacker.unpack()
            if key == ARGUMENTS:
                count = unpacker.read_array_header()
                if count > limits.args:
                    raise ProtocolBroken(f"a call with more than {limits.args} arguments")
                at = unpacker.tell() - before
                for _ in range(count):
                    unpacker.skip()
                    end = unpacker.tell() - before
                    if end - at > limits.arg_bytes:
                        raise ProtocolBroken(f"an argument of more than {limits.arg_bytes} bytes")
                    packet.args.append(data[at:end])
                    at = end
            else:
                at = unpacker.tell() - before
                unpacker.skip()
                packet.body[key] = data[at : unpacker.tell() - before]


def _read_quickly(data: bytes, at: int, stop: int) -> Packet | None:
    """The call in these bytes, if it is as most are."""
    size = stop - at
    if size < 10 or not data.startswith(_QUICK_HEADER, at):
        return None
    sync = data[at + 4]
    if sync < 0x80:
        at += 5
    else:
        length = _LENGTH_BYTES.get(sync, 0)
        sync = int.from_bytes(data[at + 5 : at + 4 + length], "big")
        at += 4 + length
        if not length:
            return None
    if not data.startswith(_QUICK_BODY, at):
        return None
    at += 2
    end = _end_of_value(data, at, stop)
    if end + 2 > stop or data[end] != ARGUMENTS or not 0xA0 <= data[at] <= _TEXT_8:
        return None
    packet = Packet(CALL, sync, size)
    packet.body[FUNCTION] = data[at:end]
    count = data[end + 1] - 0x90
    at = end + 2
    if count and count != 1:
        end = _end_of_value(data, at, stop) if count == 2 else stop
        # A map without anything in it is what most say of a task.
        if end + 1 != stop or data[end] != 0x80:
            return None
        packet.args = [data[at:end], b"\x80"]
    elif count:
        if _end_of_value(data, at, stop) != stop:
            return None
        packet.args = [data[at:stop]]
    elif at != stop:
        return None
    return packet


def _end_of_value(data: bytes, at: int, stop: int) -> int:
    """The end of the short value at `at`; beyond `stop` if there is another value, or nothing."""
    if at >= stop:
        return stop + 1
    length = _LENGTHS[data[at]]
    if length:
        return at + length
    if data[at] == _TEXT_8 and at + 1 < stop:
        return at + 2 + data[at + 1]
    return stop + 1


def greeting(server_uuid: str, salt: bytes) -> bytes:
    """The 128 bytes with which a server begins."""
    first = f"Tarantool {VERSION} (Binary) {server_uuid}".encode().ljust(63)
    return first + b"\n" + b64encode(salt).ljust(63) + b"\n"


def reply(sync: int, body: bytes) -> bytes:
    """The reply to a request that was carried out; its body is a packed map."""
    return _head(len(body), 0, sync) + body


def replies(packets: Sequence[Packet], bodies: Sequence[bytes]) -> list[bytes]:
    """The replies to requests that were carried out."""
    pack = _REPLY_HEAD.pack
    first, middle, last = _BEFORE_STATUS, _BEFORE_SYNC, _AFTER_SYNC
    return [
        pack(_UINT32, _HEADER_BYTES + len(body), first, 0, middle, packet.sync, last) + body
        for packet, body in zip(packets, bodies, strict=True)
    ]


def error_reply(sync: int, code: int, text: str) -> bytes:
    """The reply to a request that was not."""
    # Type, file, line, text, number of the system and number of the error.
    shown = (_ERROR_TYPES.get(code, "ClientError"), "quinque", 0, text, 0, code)
    stack = [dict(enumerate(shown))]
    body = msgpack.packb({ERROR_TEXT: text, ERROR_STACK: {0: stack}})
    return _head(len(body), _IS_ERROR | code, sync) + bytes(body)


def sync_of(answer: bytes) -> int:
    """Return the number of the request that a reply answers."""
    return int.from_bytes(answer[_SYNC_AT : _SYNC_AT + 8], "big")


def _head(body_bytes: int, status: int, sync: int) -> bytes:
    length = _HEADER_BYTES + body_bytes
    return _REPLY_HEAD.pack(
        _UINT32, length, _BEFORE_STATUS, status, _BEFORE_SYNC, sync, _AFTER_SYNC
    )


def _new_unpacker() -> Any:
    return msgpack.Unpacker(
        raw=True,
        use_list=False,
        strict_map_key=False,
        max_buffer_size=0,  # as much as msgpack can: the limits here are smaller
        max_array_len=_HEADER_MOST,
        max_map_len=_HEADER_MOST,
        max_str_len=_HEADER_MOST,
        max_bin_len=_HEADER_MOST,
        max_ext_len=_HEADER_MOST,
    )
