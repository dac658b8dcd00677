"""Read the Lua expressions that queue clients evaluate: one call of a function of the module.

Called by   server/tarantool_requests.py, for EVAL.
Calls       nothing.

    queue.create_tube('mails', 'fifottl', {if_not_exists = true, ttl = 60})
    local name, type, cfg = ... ; queue.create_tube(name, type, cfg)
    local name = ... ; return queue.tube[name] ~= nil
    if not queue.tube.mails then queue.create_tube('mails', 'fifo') end
    if queue.tube.mails then queue.tube.mails:drop() end
    queue = require('queue'); return queue.tube.mails:put('hello')

The broker does not run Lua. Arguments are literals as LuaJIT reads them, `...`, or names of the
given values. All other expressions are refused with one error.

Not here: the functions (tarantool.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from quinque.dialects.tarantool_args import LUA, unpacked
from quinque.errors import BadTuple
from quinque.wire.iproto import PacketLimits

# The slowest text of this size, a table of small numbers, takes 15 ms. Data belongs in arguments.
_MOST_BYTES: Final = 8 << 10
_NESTED_MOST: Final = 32
_NIL: Final = b"\xc0"
_NO_VALUES: Final = b"\x90"
# Every repetition is possessive (*+), so that an invalid text is refused after one pass.
_TOKEN: Final = re.compile(
    rb"""(?P<blank>\s++|--(?!\[=*+\[)[^\r\n]*+)
    | (?P<long>(?P<comment>--)?\[(?P<level>=*+)\[)
    | (?P<string>'(?:[^'\\\r\n]++|\\(?:z\s*+|\r\n|.))*+'
               | "(?:[^"\\\r\n]++|\\(?:z\s*+|\r\n|.))*+")
    | (?P<number>(?:0[xX](?:[0-9a-fA-F]++(?:\.[0-9a-fA-F]*+)?|\.[0-9a-fA-F]++)(?:[pP][+-]?\d++)?
               | (?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)(?:[uU]?[lL]{2})?(?![\w.]))
    | (?P<name>[A-Za-z_\x80-\xff][\w\x80-\xff]*+)
    | (?P<sign>\.\.\.|~=|==|[][{}(),;:.=-])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    rb"\\(?:x([0-9a-fA-F]{2})|u\{([0-9a-fA-F]{1,8})\}|z\s*+|(\d{1,3})|(\r\n|.))", re.DOTALL
)
_LETTERS: Final = {
    b"n": b"\n",
    b"t": b"\t",
    b"r": b"\r",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
    b"\\": b"\\",
    b"'": b"'",
    b'"': b'"',
    **dict.fromkeys((b"\n", b"\r", b"\r\n"), b"\n"),
}
_LINE_END: Final = re.compile(rb"\r\n?|\n\r?")
_CONSTANTS: Final = {b"true": b"\xc3", b"false": b"\xc2", b"nil": _NIL}
# A table whose greatest index is above both is packed as a map, not as an array.
_SPARSE_MOST: Final = 10
_SPARSE_RATIO: Final = 2
_REFUSED: Final = (
    "eval supports only one call of a function of the queue module, such as "
    "queue.create_tube('name', 'fifo', {if_not_exists = true}); the broker does not run Lua"
)


@dataclass
class LuaCall:
    """The call in an expression, with packed arguments. The reply has its values if `is_returned`.
    A missing tube is not an error if `is_forgiving`."""

    function: bytes
    args: list[bytes]
    is_returned: bool = False
    is_forgiving: bool = False


def read_expression(expression: bytes, given: Sequence[bytes], limits: PacketLimits) -> LuaCall:
    """Return the call of the expression, with the given arguments.

    Raises BadTuple if the expression is anything else, or if the call would be larger than a
    packet may be.
    """
    if len(expression) > _MOST_BYTES:
        raise BadTuple(LUA, f"an expression has at most {_MOST_BYTES} bytes; pass arguments")
    try:
        call = _Reader(expression, given, limits).chunk()
    # The expression has another form than those above.
    except (ValueError, KeyError, StopIteration, OverflowError):
        raise BadTuple(LUA, _REFUSED) from None
    if max(map(len, call.args), default=0) > limits.arg_bytes:
        raise _too_large(limits)
    return call


class _Reader:
    """Reads an expression from its start. Raises ValueError, KeyError and StopIteration."""

    def __init__(self, text: bytes, given: Sequence[bytes], limits: PacketLimits) -> None:
        self._source = _tokens(text)
        self._tokens: list[tuple[str, bytes]] = []  # the tokens that were read ahead
        self._at = 0
        self._given = given
        self._limits = limits
        self._given_bytes = 0  # size of the given values that the call uses
        self._named: dict[bytes, bytes] = {}
        self._depth = 0

    def chunk(self) -> LuaCall:
        """Read names, then one call, then the end."""
        while self._names_something():
            while self._skip(b";"):
                pass
        if self._skip(b"if"):
            call = self._conditional()
        else:
            call = self._statement()
        while self._skip(b";"):
            pass
        self._want(b"end of text")
        return call

    def _names_something(self) -> bool:
        """Skip `[local] name = require('queue')` or `local name, … = ...`, if that is next."""
        start = self._at
        is_local = self._skip(b"local")
        names = [self._name()] if self._token()[0] == "name" else []
        while names and self._skip(b","):
            names.append(self._name())
        if not names or not self._skip(b"="):
            self._at = start
            if is_local:
                raise ValueError
            return False
        if self._skip(b"require"):
            has_brackets = self._skip(b"(")
            if self._token()[0] != "string":
                raise ValueError
            self._at += 1
            if has_brackets:
                self._want(b")")
        elif is_local:
            self._want(b"...")
            given = self._given
            for at, name in enumerate(names):
                self._named[name] = given[at] if at < len(given) else _NIL
        else:
            raise ValueError
        return True

    def _conditional(self) -> LuaCall:
        """Read `if [not] queue.tube.name [~= nil] then … end` around a call for that tube."""
        is_missing = self._skip(b"not")
        tube = self._path()
        if self._token() in (("sign", b"~="), ("sign", b"==")):
            is_missing ^= self._skip(b"==")
            if not is_missing:
                self._want(b"~=")
            self._want(b"nil")
        self._want(b"then")
        call = self._statement()
        while self._skip(b";"):
            pass
        self._want(b"end")
        if is_missing:
            if not call.args or not call.function.endswith(b".create_tube"):
                raise ValueError
            if not tube.endswith(b".tube." + _text(call.args[0])):
                raise ValueError
            call.args[2:] = [_idempotent(call.args[2] if len(call.args) > 2 else b"\x80")]
        elif call.function.rpartition(b":")[0] != tube:
            raise ValueError
        call.is_forgiving = not is_missing
        return call

    def _statement(self) -> LuaCall:
        """Read `[return] path(…)`, or `return queue.tube[name] ~= nil`."""
        is_returned = self._skip(b"return")
        function = self._path()
        if is_returned and self._skip(b"~="):
            self._want(b"nil")
            module, found, tube = function.partition(b".tube.")
            if not found:
                raise ValueError
            return LuaCall(module + b".tube", [_packed_text(tube)], is_returned)
        if self._skip(b":"):
            function += b":" + self._name()
        return LuaCall(function, self._arguments(), is_returned)

    def _path(self) -> bytes:
        """Read `a.b.c` or `a.b["c"]` or `a.b[name]`."""
        path = [self._name()]
        while True:
            if self._skip(b"."):
                path.append(self._name())
            elif self._skip(b"["):
                path.append(_text(self._value()))
                self._want(b"]")
            else:
                return b".".join(path)

    def _arguments(self) -> list[bytes]:
        if self._token() == ("sign", b"{") or self._token()[0] == "string":  # f{…} and f"…"
            return [self._value()]
        self._want(b"(")
        args: list[bytes] = []
        while not self._skip(b")"):
            if args:
                self._want(b",")
            args += self._values(b")")
        return args

    def _values(self, end: bytes) -> Sequence[bytes]:
        """Read the next value. For `...`, return all values if `end` follows at once, else the
        first."""
        if not self._skip(b"..."):
            return (self._value(),)
        at = 1 if end == b"}" and self._token() in (("sign", b","), ("sign", b";")) else 0
        if self._token(at) == ("sign", end):
            self._count(sum(map(len, self._given)))
            return self._given
        first = self._given[0] if self._given else _NIL
        self._count(len(first))
        return (first,)

    def _value(self) -> bytes:
        """Return a literal, or the value of a name, packed."""
        if self._token() == ("sign", b"{"):
            return self._table()
        is_negative = False
        while self._skip(b"-"):
            is_negative = not is_negative
        kind, token = self._token()
        self._at += 1
        if kind == "number":
            return _packed(_number(token.decode().lower(), is_negative))
        if is_negative or kind not in ("string", "name"):
            raise ValueError
        if kind == "string":
            return _packed_text(token)
        constant = _CONSTANTS.get(token)
        if constant is not None:
            return constant
        value = self._named[token]
        self._count(len(value))
        return value

    def _table(self) -> bytes:
        """Read `{a = 1, ["b"] = 2, 3}`: an array if its keys are 1, 2 and so on, else a map. Keys
        with the value nil are left out."""
        self._depth += 1
        if self._depth > _NESTED_MOST:
            raise ValueError
        self._want(b"{")
        listed: list[bytes] = []
        indexed: dict[int, bytes] = {}
        named: dict[bytes, bytes] = {}
        while not self._skip(b"}"):
            if self._skip(b"["):
                key = unpacked(self._value())
                self._want(b"]")
                self._want(b"=")
                if isinstance(key, float) and key.is_integer():
                    key = int(key)
                if type(key) is int and key > 0:
                    indexed[key] = self._value()
                elif isinstance(key, bytes):
                    named[_packed_text(key)] = self._value()
                elif isinstance(key, int | float):
                    named[_packed(key)] = self._value()
                else:
                    raise ValueError
            elif self._token()[0] == "name" and self._token(1) == ("sign", b"="):
                key = _packed_text(self._name())
                self._want(b"=")
                named[key] = self._value()
            else:
                listed += self._values(b"}")
            if not self._skip(b",") and not self._skip(b";") and self._token() != ("sign", b"}"):
                raise ValueError
        self._depth -= 1
        indexed.update(enumerate(listed, 1))
        packed = _packed_table(
            {key: value for key, value in indexed.items() if value != _NIL},
            {key: value for key, value in named.items() if value != _NIL},
        )
        if len(packed) > self._limits.arg_bytes:
            raise _too_large(self._limits)
        return packed

    def _count(self, size_bytes: int) -> None:
        """Count `size_bytes` of the given arguments as part of the call. Raises BadTuple."""
        self._given_bytes += size_bytes
        if self._given_bytes > self._limits.packet_bytes:
            most = self._limits.packet_bytes
            raise BadTuple(LUA, f"a call of more than {most} bytes (query-buffer-limit)")

    def _name(self) -> bytes:
        kind, token = self._token()
        if kind != "name":
            raise ValueError
        self._at += 1
        return token

    def _token(self, further: int = 0) -> tuple[str, bytes]:
        while len(self._tokens) <= self._at + further:
            self._tokens.append(next(self._source))
        return self._tokens[self._at + further]

    def _skip(self, token: bytes) -> bool:
        kind, found = self._token()
        is_there = found == token and kind != "string"
        self._at += is_there
        return is_there

    def _want(self, token: bytes) -> None:
        if not self._skip(token):
            raise ValueError


def _tokens(text: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the tokens of the text, without blanks and comments. Strings are unescaped."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise ValueError
        at = found.end()
        if found.lastgroup == "long":
            close = b"]" + found["level"] + b"]"
            inner = text[at : text.index(close, at)]
            at += len(inner) + len(close)
            if found["comment"] is None:
                yield "string", _LINE_END.sub(b"\n", inner).removeprefix(b"\n")
        elif found.lastgroup == "string":
            yield "string", _ESCAPE.sub(_meaning, found["string"][1:-1])
        elif found.lastgroup != "blank":
            yield found.lastgroup, found[found.lastgroup]
    yield "end", b"end of text"
    yield "end", b""  # for a caller that reads one token ahead


def _meaning(escaped: re.Match[bytes]) -> bytes:
    """Return the meaning of an escape in a string. Raises ValueError and KeyError."""
    byte, code, decimal, letter = escaped.groups()
    if byte is not None:
        return bytes.fromhex(byte.decode())
    if code is not None:
        return chr(int(code, 16)).encode()
    if decimal is not None:
        return bytes([int(decimal)])
    return b"" if letter is None else _LETTERS[letter]


def _number(text: str, is_negative: bool) -> int | float:
    """Pack a number: 5LL and 5ULL have 64 bits. All others are floats, and whole ones are packed as
    integers."""
    is_hexadecimal = text.startswith("0x")
    if text.endswith("ll"):
        whole = int(text.rstrip("ul"), 16 if is_hexadecimal else 10)
        if whole >= 1 << 64:
            raise ValueError
        whole = (-whole if is_negative else whole) % (1 << 64)
        return whole if text.endswith("ull") or whole < 1 << 63 else whole - (1 << 64)
    number = float.fromhex(text) if is_hexadecimal else float(text)
    number = -number if is_negative else number
    is_whole = number.is_integer() and -(1 << 63) <= number < 1 << 64
    return int(number) if is_whole else number


def _packed_table(indexed: dict[int, bytes], named: dict[bytes, bytes]) -> bytes:
    most = max(indexed, default=0)
    packer = msgpack.Packer()
    if not named and most <= max(_SPARSE_MOST, _SPARSE_RATIO * len(indexed)):
        values = [indexed.get(number, _NIL) for number in range(1, most + 1)]
        return bytes(packer.pack_array_header(most)) + b"".join(values)
    pairs = [_packed(number) + indexed[number] for number in sorted(indexed)]
    pairs += [key + value for key, value in named.items()]
    return bytes(packer.pack_map_header(len(pairs))) + b"".join(pairs)


def _too_large(limits: PacketLimits) -> BadTuple:
    return BadTuple(LUA, f"an argument of more than {limits.arg_bytes} bytes (max-arg-size)")


def _text(packed: bytes) -> bytes:
    """Return the bytes of a packed string."""
    value = unpacked(packed)
    if not isinstance(value, bytes):
        raise ValueError
    return value


def _idempotent(options: bytes) -> bytes:
    """Add `if_not_exists` to the packed options of a tube. An empty table `{}` is packed as an
    array."""
    if options in (_NO_VALUES, _NIL):
        options = b"\x80"
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(options)
    count = unpacker.read_map_header()
    rest = options[unpacker.tell() :]
    head = bytes(msgpack.Packer().pack_map_header(count + 1))
    return head + rest + _packed("if_not_exists") + _packed(True)


def _packed(value: Any) -> bytes:
    return bytes(msgpack.packb(value))


def _packed_text(text: bytes) -> bytes:
    return bytes(msgpack.packb(text, use_bin_type=False))
