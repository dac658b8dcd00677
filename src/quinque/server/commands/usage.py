"""The arguments of a command, read from its usage line.

Called by   catalog.py, for COMMAND DOCS; redis-cli makes its hints from that.
Calls       nothing.

    QSTATUS [queue ...] [GROUPS group ...]      lower case: an argument     [ ]   may be left out
    CLIENT REPLY ON|OFF|SKIP                    upper case: the word        ...   may be repeated
                                                                            |     one of these

An upper-case word and the argument after it belong together: GROUPS group. If several arguments or
alternatives follow it in a bracket, it belongs to all of them: [RATE n s], [REPLY id|all]. A
repeated argument may be written once or twice: id ..., id [id ...].

Not here: the check of a request against its usage (each command's own parse).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from quinque.wire.resp import Simple, Value

_PIECE: Final = re.compile(r"\.\.\.|[\[\]|]|[^\s\[\]|]+")


@dataclass(slots=True)
class Argument:
    """An argument, a block of several, or a choice of several."""

    name: str
    kind: str  # string, key, pure-token, block or oneof
    token: str = ""
    is_optional: bool = False
    is_multiple: bool = False
    has_multiple_token: bool = False  # the token is repeated before each value
    arguments: list[Argument] = field(default_factory=list)

    def documentation(self) -> Value:
        """Return the argument as COMMAND DOCS shows it."""
        shown: dict[bytes | str, Value] = {"name": self.name.encode(), "type": self.kind.encode()}
        if self.token:
            shown["token"] = self.token.encode()
        flags: list[Value] = []
        if self.is_optional:
            flags.append(Simple(b"optional"))
        if self.is_multiple:
            flags.append(Simple(b"multiple"))
        if self.has_multiple_token:
            flags.append(Simple(b"multiple_token"))
        if flags:
            shown["flags"] = flags
        if self.arguments:
            shown["arguments"] = [argument.documentation() for argument in self.arguments]
        return shown


def arguments_of(usage: str, name: str) -> list[Argument]:
    """Return the arguments that may follow `name`, in order."""
    pieces = _PIECE.findall(usage)[len(name.split("|")) :]
    pieces.reverse()
    arguments = _alternatives(pieces)
    assert not pieces, f"a bracket too many in: {usage}"
    return arguments


def words_of(usage: str, name: str) -> list[str]:
    """Return the upper-case words that may follow `name`."""
    pieces = _PIECE.findall(usage)[len(name.split("|")) :]
    return [piece for piece in pieces if piece[0].isalpha() and piece.isupper()]


def _alternatives(pieces: list[str]) -> list[Argument]:
    """Everything up to the closing bracket or the end; `pieces` has its first piece last."""
    ways = [_sequence(pieces)]
    while pieces and pieces[-1] == "|":
        pieces.pop()
        ways.append(_sequence(pieces))
    if len(ways) == 1:
        return ways[0]
    token = _word_of_all(ways)
    choices = [_block(way) for way in ways]
    return [Argument(token.lower() or choices[0].name, "oneof", token, arguments=choices)]


def _word_of_all(ways: list[list[Argument]]) -> str:
    """Return the word before all alternatives, which is removed from the first one; or an empty
    one.

    In REPLY id|all no other way begins with a word; in FILTERBY MODULE module|ACLCAT category the
    first has two.
    """
    first, *others = (way[0] for way in ways)
    if first.kind == "pure-token" and len(ways[0]) > 1 and not ways[0][1].is_optional:
        return ways[0].pop(0).token
    if first.kind == "pure-token" or any(other.token for other in others):
        return ""
    token, first.token = first.token, ""
    return token


def _sequence(pieces: list[str]) -> list[Argument]:
    arguments: list[Argument] = []
    while pieces and pieces[-1] not in ("]", "|"):
        piece = pieces.pop()
        if piece == "...":
            _repeat(arguments, ends_bracket=pieces[-1:] == ["]"])
        elif piece == "[":
            _add_bracket(arguments, _block(_alternatives(pieces)))
            assert pieces.pop() == "]"
        elif piece.isupper():
            arguments.append(Argument(piece.lower(), "pure-token", piece))
        elif arguments and arguments[-1].kind == "pure-token" and not arguments[-1].is_optional:
            arguments[-1] = Argument(piece, _kind(piece), arguments[-1].token)
        else:
            arguments.append(Argument(piece, _kind(piece)))
    return arguments


def _repeat(arguments: list[Argument], *, ends_bracket: bool) -> None:
    """Mark the argument before the dots as repeated; all of them in [part attempt chunks ...]."""
    last = arguments[-1]
    if ends_bracket and all(map(_is_plain, arguments)):
        arguments[:] = [_block(arguments[:])]
    arguments[-1].is_multiple = True
    arguments[-1].has_multiple_token = last.is_optional and bool(last.token)


def _add_bracket(arguments: list[Argument], inner: Argument) -> None:
    """There is one more that may be left out; but in id [id ...] there is one that is repeated."""
    inside = inner.arguments if inner.kind == "block" else [inner]
    count = len(inside)
    before = arguments[-count:]
    if inner.is_multiple and [(it.name, it.kind) for it in before] == [
        (it.name, it.kind) for it in inside
    ]:
        arguments[-count:] = [_block(before)]
        arguments[-1].is_multiple = True
    else:
        inner.is_optional = True
        arguments.append(inner)


def _block(arguments: list[Argument]) -> Argument:
    """Make a block of the arguments. A word before several plain ones belongs to the block."""
    first, *others = arguments
    if not others:
        return first
    name, token = first.name, ""
    if first.kind != "pure-token" and not first.arguments and all(map(_is_plain, others)):
        token, first.token = first.token, ""
        name = "_".join(argument.name for argument in arguments)
    return Argument(name, "block", token, arguments=arguments)


def _is_plain(argument: Argument) -> bool:
    return not (argument.token or argument.arguments or argument.is_optional)


def _kind(name: str) -> str:
    return "key" if name in ("queue", "tube") else "string"
