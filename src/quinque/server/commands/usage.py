"""The arguments of a command, read from its usage line.

Called by   catalog.py, for COMMAND DOCS; redis-cli makes its hints from that.
Calls       nothing.

    QSTATUS [queue ...] [GROUPS group ...]      lower case: an argument     [ ]   may be left out
    CLIENT REPLY ON|OFF|SKIP                    upper case: the word        ...   may be repeated
                                                                            |     one of these

An upper-case word and the argument after it belong together: GROUPS group.

Not here: whether a request follows its usage (each command's own parse).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from quinque.wire.resp import Simple, Value

_PIECE: Final = re.compile(r"\.\.\.|[\[\]|]|[^\s\[\]|]+")


@dataclass(slots=True)
class Argument:
    """One argument, or several in a block, or one of several."""

    name: str
    kind: str  # string, key, pure-token, block or oneof
    token: str = ""
    is_optional: bool = False
    is_multiple: bool = False
    arguments: list[Argument] = field(default_factory=list)

    def documentation(self) -> Value:
        """As COMMAND DOCS shows it."""
        shown: dict[bytes | str, Value] = {"name": self.name.encode(), "type": self.kind.encode()}
        if self.token:
            shown["token"] = self.token.encode()
        flags: list[Value] = []
        if self.is_optional:
            flags.append(Simple(b"optional"))
        if self.is_multiple:
            flags.append(Simple(b"multiple"))
        if flags:
            shown["flags"] = flags
        if self.arguments:
            shown["arguments"] = [argument.documentation() for argument in self.arguments]
        return shown


def arguments_of(usage: str, name: str) -> list[Argument]:
    """What may follow `name`, in order."""
    pieces = _PIECE.findall(usage)[len(name.split("|")) :]
    pieces.reverse()
    arguments = _alternatives(pieces)
    assert not pieces, f"a bracket too many in: {usage}"
    return arguments


def words_of(usage: str, name: str) -> list[str]:
    """The upper-case words that may follow `name`."""
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
    choices = [_block(way) for way in ways]
    return [Argument(choices[0].name, "oneof", arguments=choices)]


def _sequence(pieces: list[str]) -> list[Argument]:
    arguments: list[Argument] = []
    while pieces and pieces[-1] not in ("]", "|"):
        piece = pieces.pop()
        if piece == "...":
            arguments[-1].is_multiple = True
        elif piece == "[":
            argument = _block(_alternatives(pieces))
            assert pieces.pop() == "]"
            argument.is_optional = True
            arguments.append(argument)
        elif piece.isupper():
            arguments.append(Argument(piece.lower(), "pure-token", piece))
        elif arguments and arguments[-1].kind == "pure-token" and not arguments[-1].is_optional:
            arguments[-1] = Argument(piece, _kind(piece), arguments[-1].token)
        else:
            arguments.append(Argument(piece, _kind(piece)))
    return arguments


def _block(arguments: list[Argument]) -> Argument:
    if len(arguments) == 1:
        return arguments[0]
    return Argument(arguments[0].name, "block", arguments=arguments)


def _kind(name: str) -> str:
    return "key" if name in ("queue", "tube") else "string"
