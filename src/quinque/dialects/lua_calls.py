"""The few things in Lua that clients of a queue evaluate: one call of a function of the module.

Called by   server/tarantool_requests.py, for EVAL.
Calls       nothing.

    queue.create_tube('mails', 'fifottl', {if_not_exists = true, ttl = 60})
    local name, type, cfg = ... ; queue.create_tube(name, type, cfg)
    local name = ... ; return queue.tube[name] ~= nil
    if not queue.tube.mails then queue.create_tube('mails', 'fifo') end
    if queue.tube.mails then queue.tube.mails:drop() end
    queue = require('queue'); return queue.tube.mails:put('hello')

There is no Lua here. Arguments are literals, `...`, or names of what was given; everything else is
refused with one error that says so.

Not here: what the functions do (tarantool.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from quinque.dialects.tarantool_args import LUA, unpacked
from quinque.errors import BadTuple

_MOST_BYTES: Final = 64 << 10
_NESTED_MOST: Final = 32
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_TOKEN: Final = re.compile(
    r"""\s*(?:--[^\n]*\s*)*(?:
      (?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|\[\[.*?\]\])
    | (?P<number>-?(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?))
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>\.\.\.|~=|==|[][{}(),;:.=])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_REFUSED: Final = (
    "eval runs one call of a function of the queue module here, such as"
    " queue.create_tube('name', 'fifo', {if_not_exists = true}); there is no Lua"
)


@dataclass
class LuaCall:
    """The call that an expression is: its arguments are packed. Its values are answered with if
    `is_returned`; a tube that is not there is no error if `is_forgiving`."""

    function: bytes
    args: list[bytes]
    is_returned: bool = False
    is_forgiving: bool = False


def read_expression(expression: bytes, given: Sequence[bytes]) -> LuaCall:
    """The call that the expression is, with what it was given. Raises BadTuple if it is none."""
    try:
        text = expression.decode("utf-8", "surrogateescape")
        if len(expression) > _MOST_BYTES:
            raise ValueError
        return _Reader(text, given).chunk()
    # All that a text can be which is none of the forms above.
    except (ValueError, KeyError, IndexError, OverflowError):
        raise BadTuple(LUA, _REFUSED) from None


class _Reader:
    """Reads an expression from its start. Raises ValueError and KeyError."""

    def __init__(self, text: str, given: Sequence[bytes]) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._given = given
        self._named: dict[str, bytes] = {}
        self._depth = 0

    def chunk(self) -> LuaCall:
        """Names, then one call, then nothing."""
        while self._names_something():
            while self._skip(";"):
                pass
        if self._skip("if"):
            call = self._conditional()
        else:
            call = self._statement()
        while self._skip(";"):
            pass
        self._want("end of text")
        return call

    def _names_something(self) -> bool:
        """Past `[local] name = require('queue')` or `local name, … = ...`, if that is next."""
        start = self._at
        is_local = self._skip("local")
        names = [self._name()] if self._kind() == "name" else []
        while names and self._skip(","):
            names.append(self._name())
        if not names or not self._skip("="):
            self._at = start
            if is_local:
                raise ValueError
            return False
        if self._skip("require"):
            has_brackets = self._skip("(")
            if self._kind() != "string":
                raise ValueError
            self._at += 1
            if has_brackets:
                self._want(")")
        elif is_local:
            self._want("...")
            values = [*self._given, *[b"\xc0"] * len(names)]
            self._named.update(zip(names, values, strict=False))
        else:
            raise ValueError
        return True

    def _conditional(self) -> LuaCall:
        """`if [not] queue.tube.name [~= nil] then … end`, of the tube that the call is about."""
        is_missing = self._skip("not")
        tube = self._path()
        if self._peek() in ("~=", "=="):
            is_missing ^= self._skip("==")
            if not is_missing:
                self._want("~=")
            self._want("nil")
        self._want("then")
        call = self._statement()
        while self._skip(";"):
            pass
        self._want("end")
        if is_missing:
            named = b".tube." + _text(call.args[0])
            if not call.function.endswith(b".create_tube") or not tube.endswith(named):
                raise ValueError
            call.args[2:] = [_idempotent(call.args[2] if len(call.args) > 2 else b"\x80")]
        elif call.function.rpartition(b":")[0] != tube:
            raise ValueError
        call.is_forgiving = not is_missing
        return call

    def _statement(self) -> LuaCall:
        """`[return] path(…)`, or `return queue.tube[name] ~= nil`."""
        is_returned = self._skip("return")
        function = self._path()
        if is_returned and self._skip("~="):
            self._want("nil")
            module, found, tube = function.partition(b".tube.")
            if not found:
                raise ValueError
            return LuaCall(module + b".tube", [_packed_text(tube)], is_returned)
        if self._skip(":"):
            function += b":" + self._name().encode()
        return LuaCall(function, self._arguments(), is_returned)

    def _path(self) -> bytes:
        """`a.b.c` or `a.b["c"]` or `a.b[name]`."""
        path = self._name().encode()
        while True:
            if self._skip("."):
                path += b"." + self._name().encode()
            elif self._skip("["):
                path += b"." + _text(self._value())
                self._want("]")
            else:
                return path

    def _arguments(self) -> list[bytes]:
        if self._peek() == "{" or self._kind() == "string":  # f{…} and f"…", as Lua has them
            return [self._value()]
        self._want("(")
        args: list[bytes] = []
        while not self._skip(")"):
            if args:
                self._want(",")
            if self._skip("..."):
                args += self._given
            else:
                args.append(self._value())
        return args

    def _value(self) -> bytes:
        """A literal, or what a name stands for, packed."""
        if self._peek() == "{":
            return self._table()
        kind, token = self._tokens[self._at]
        self._at += 1
        if kind == "string":
            return _packed_text(_unquoted(token))
        if kind == "number":
            is_hexadecimal = token.lstrip("-")[:2] in ("0x", "0X")
            number = float(int(token, 16)) if is_hexadecimal else float(token)
            return _packed(int(number) if number.is_integer() else number)
        if token in ("true", "false", "nil"):
            return _packed({"true": True, "false": False, "nil": None}[token])
        return self._named[token]

    def _table(self) -> bytes:
        """`{a = 1, ["b"] = 2}` or `{1, 2}`."""
        self._depth += 1
        if self._depth > _NESTED_MOST:
            raise ValueError
        self._want("{")
        keys: list[bytes] = []
        values: list[bytes] = []
        while not self._skip("}"):
            if self._skip("["):
                keys.append(self._value())
                self._want("]")
                self._want("=")
            elif self._kind() == "name" and self._peek(1) == "=":
                keys.append(_packed_text(self._name().encode()))
                self._want("=")
            values.append(self._value())
            if not self._skip(",") and not self._skip(";") and self._peek() != "}":
                raise ValueError
        self._depth -= 1
        packer = msgpack.Packer()
        if not keys and values:
            return bytes(packer.pack_array_header(len(values))) + b"".join(values)
        pairs = zip(keys, values, strict=True)
        return bytes(packer.pack_map_header(len(values))) + b"".join(
            key + value for key, value in pairs
        )

    def _name(self) -> str:
        if self._kind() != "name":
            raise ValueError
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _kind(self) -> str:
        return self._tokens[self._at][0]

    def _peek(self, further: int = 0) -> str:
        kind, token = self._tokens[self._at + further]
        return "" if kind == "string" else token

    def _skip(self, token: str) -> bool:
        is_there = self._tokens[self._at] in (("sign", token), ("name", token), ("end", token))
        self._at += is_there
        return is_there

    def _want(self, token: str) -> None:
        if not self._skip(token):
            raise ValueError


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at = 0
    while True:
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise ValueError
        if found.lastgroup == "end":
            tokens.append(("end", "end of text"))
            return tokens
        tokens.append((found.lastgroup, found[found.lastgroup]))
        at = found.end()


def _unquoted(token: str) -> bytes:
    """The bytes that a string in quotes or long brackets stands for."""

    def meaning(escaped: re.Match[str]) -> bytes:
        text = escaped[1]
        if text.isdigit():
            return bytes([int(text)])
        return _ESCAPES.get(text, text).encode("utf-8", "surrogateescape")

    if token.startswith("[["):
        return token[2:-2].removeprefix("\n").encode("utf-8", "surrogateescape")
    inner = token[1:-1]
    parts: list[bytes] = []
    at = 0
    for escaped in re.finditer(r"\\(\d{1,3}|.)", inner, re.DOTALL):
        parts += (inner[at : escaped.start()].encode("utf-8", "surrogateescape"), meaning(escaped))
        at = escaped.end()
    parts.append(inner[at:].encode("utf-8", "surrogateescape"))
    return b"".join(parts)


def _text(packed: bytes) -> bytes:
    """The bytes of a packed string."""
    value = unpacked(packed)
    if not isinstance(value, bytes):
        raise ValueError
    return value


def _idempotent(options: bytes) -> bytes:
    """The packed options of a tube that may be there."""
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
