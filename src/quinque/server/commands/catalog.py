"""COMMAND: the table of commands, for clients.

Called by   dispatch.py, through COMMANDS.
Calls       usage.py.

All facts are read from the rows: permissions from the right of a command, the places of its queues
from its `queues`, its effect and arguments from its docstring.

Not here: the rows (dialects/, and the other files here).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from quinque.dialects.args import check_count
from quinque.dialects.command import Command, no_queues
from quinque.errors import BadArgument, BadRequest
from quinque.model.glob import compile_glob
from quinque.server.commands.args import syntax_error
from quinque.server.commands.subcommands import Run, first_word, with_subcommands
from quinque.server.commands.usage import arguments_of, words_of
from quinque.server.connection import Connection
from quinque.wire.resp import NULL_ARRAY, Simple, Value

# A request with this many invented arguments shows where a command has its queues: more than any
# command has before its first queue.
_PROBE: Final = [b"word %d" % number for number in range(10)]


def run_command(connection: Connection, argv: list[bytes]) -> Value:
    """COMMAND

    Return every command: name, arity, flags, positions of its queues, categories and
    subcommands.
    """
    return [_entry(row) for row in connection.broker.dispatch.commands.values()]


def run_count(connection: Connection, argv: list[bytes]) -> Value:
    """COMMAND COUNT

    Return the number of commands, without subcommands.
    """
    return len(connection.broker.dispatch.commands)


def run_info(connection: Connection, argv: list[bytes]) -> Value:
    """COMMAND INFO [command-name ...]

    Return the entries of COMMAND for these commands, null for an unknown one.
    """
    if len(argv) == 2:
        return run_command(connection, argv)
    check_count("commands", argv[2:])
    rows = [_find(connection, name) for name in argv[2:]]
    return [NULL_ARRAY if row is None else _entry(row) for row in rows]


def run_docs(connection: Connection, argv: list[bytes]) -> Value:
    """COMMAND DOCS [command-name ...]

    Return the documentation of these commands, or of all. Unknown commands are omitted.
    """
    rows: Iterable[Command | None] = connection.broker.dispatch.commands.values()
    if len(argv) > 2:
        check_count("commands", argv[2:])
        rows = [_find(connection, name) for name in argv[2:]]
    return _documentation(row for row in rows if row is not None)


def run_list(connection: Connection, argv: list[bytes]) -> Value:
    """COMMAND LIST [FILTERBY MODULE module|ACLCAT category|PATTERN pattern]

    Return the names of the commands, or of those in a category or that match a pattern.
    """
    rows = connection.broker.dispatch.commands.values()
    match [argv[2].upper(), argv[3].upper(), *argv[4:]] if len(argv) > 3 else argv[2:]:
        case []:
            return [_name(row) for row in rows]
        case [b"FILTERBY", b"MODULE", _]:
            return []
        case [b"FILTERBY", b"ACLCAT", category]:
            wanted = category.lower()
            chosen = [row for row in with_subcommands(rows) if wanted in _categories(row)]
        case [b"FILTERBY", b"PATTERN", pattern]:
            matches = compile_glob(pattern[:128].lower()).fullmatch
            chosen = [row for row in with_subcommands(rows) if matches(_name(row))]
        case _:
            raise syntax_error()
    return [_name(row) for row in chosen]


def run_getkeys(connection: Connection, argv: list[bytes]) -> Value:
    """COMMAND GETKEYS command [argument ...]

    Return the queues that the given request would access.
    """
    row, request = connection.broker.dispatch.row_of(argv[2:]), argv[2:]
    if row is None:
        raise BadRequest("Invalid command specified")
    if not _queue_positions(row)[0] and not _moves_queues(row):
        raise BadRequest("The command has no key arguments")
    count, arity = len(request), row.arity
    if count != arity and (arity >= 0 or count < -arity):
        raise BadArgument("Invalid number of arguments specified for command")
    return list(row.queues(request))


def _find(connection: Connection, name: bytes) -> Command | None:
    """The row of "client" or of "client|list"."""
    word, _, subcommand = name.upper().partition(b"|")
    row = connection.broker.dispatch.commands.get(word.decode("latin-1"))
    if row is None or not subcommand:
        return row
    return (row.subcommands or {}).get(subcommand)


def _entry(row: Command) -> Value:
    subcommands = (row.subcommands or {}).values()
    return [
        _name(row),
        row.arity,
        [Simple(flag) for flag in _flags(row)],
        *_queue_positions(row),
        [Simple(b"@" + category) for category in _categories(row)],
        [],  # tips
        [],  # key specifications
        [_entry(subcommand) for subcommand in subcommands],
    ]


def _documentation(rows: Iterable[Command]) -> Value:
    documentation: dict[bytes | str, Value] = {}
    for row in rows:
        shown: dict[bytes | str, Value] = {
            "summary": (row.summary or f"Commands that begin with {row.name}.").encode(),
            "since": row.since.encode(),
            "group": (row.group or "server").encode(),
        }
        arguments = arguments_of(row.usage, row.name)
        if arguments:
            shown["arguments"] = [argument.documentation() for argument in arguments]
        if row.subcommands is not None:
            shown["subcommands"] = _documentation(row.subcommands.values())
        documentation[_name(row)] = shown
    return documentation


def _name(row: Command) -> bytes:
    return row.name.lower().encode()


def _flags(row: Command) -> Iterator[bytes]:
    match row.right:
        case "read":
            yield b"readonly"
        case "write":
            yield b"write"
        case "admin":
            yield b"admin"
        case _ if row.is_fast:
            yield b"fast"
    if row.is_blocking:
        yield b"blocking"
    if row.is_open:
        yield b"no_auth"
    if _moves_queues(row):
        yield b"movablekeys"


def _categories(row: Command) -> Sequence[bytes]:
    found = [(row.group or "server").encode()]
    if row.right:
        found.append(row.right.encode())
    if row.is_blocking:
        found.append(b"blocking")
    return found


def _queue_positions(row: Command) -> tuple[int, int, int]:
    """The first and the last place of a queue, -1 when it is the end, and the step between."""
    places = [_PROBE.index(name) for name in row.queues(_PROBE)]
    if not places:
        return 0, 0, 0
    last = -1 if places[-1] == len(_PROBE) - 1 and len(places) > 1 else places[-1]
    return places[0], last, places[1] - places[0] if len(places) > 1 else 1


def _moves_queues(row: Command) -> bool:
    """Return whether an option of the command can change where its queues are."""
    plain = list(row.queues(_PROBE))
    for word in words_of(row.usage, row.name):
        # In the middle it may end the queues, and at the front they may begin after its number.
        for at in (1, len(_PROBE) // 2):
            probe = [*_PROBE[:at], word.encode(), b"1", *_PROBE[at + 2 :]]
            if len(list(row.queues(probe))) != len(plain):
                return True
    return False


def _row(word: str, arity: int, run: Run) -> Command:
    return Command(f"COMMAND|{word}", "", "", arity, run=run, queues=no_queues)


COMMANDS: Final = [
    first_word(
        "COMMAND",
        _row("COUNT", 2, run_count),
        _row("INFO", -2, run_info),
        _row("DOCS", -2, run_docs),
        _row("LIST", -2, run_list),
        _row("GETKEYS", -3, run_getkeys),
        run=run_command,
    ),
]
