"""Commands of two words: CLIENT LIST, CONFIG GET.

Called by   the other files here, to make their tables.
Calls       nothing.

Not here: the lookup of the second word (dispatch.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from quinque.dialects.command import Command, NoReply, no_queues
from quinque.server.connection import Connection
from quinque.wire.resp import Simple, Value

Run = Callable[[Connection, list[bytes]], Value | NoReply]


def first_word(name: str, *rows: Command, run: Run | None = None, otherwise: str = "") -> Command:
    """Make the row of a first word, with these second words and HELP.

    With `run`, the word alone is a command as well. `otherwise` is the error for an unknown second
    word.
    """
    subcommands = {row.name.partition("|")[2].encode(): row for row in rows}
    subcommands[b"HELP"] = _help_row(name, rows)
    arity = -2 if run is None else -1
    return Command(
        name,
        "",
        "",
        arity,
        run=run,
        queues=no_queues,
        subcommands=subcommands,
        otherwise=otherwise,
    )


def with_subcommands(rows: Iterable[Command]) -> Iterator[Command]:
    """Return the rows, each followed by those of its subcommands."""
    for row in rows:
        yield row
        yield from (row.subcommands or {}).values()


def _help_row(name: str, rows: tuple[Command, ...]) -> Command:
    def run_help(connection: Connection, argv: list[bytes]) -> Value:
        return list(map(Simple, lines))

    run_help.__doc__ = f"{name} HELP\n\nShow the subcommands."
    row = Command(f"{name}|HELP", "", "", 2, run=run_help, queues=no_queues)
    lines = [f"{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:".encode()]
    for each in (*rows, row):
        lines += [each.usage.partition(" ")[2].encode(), f"    {each.summary}".encode()]
    return row
