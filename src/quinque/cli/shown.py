"""Print the results of commands that use a broker, as text or with --json.

Called by the commands that use a broker (cli/queue.py and its neighbours).
Calls       nothing.

With --json, a command prints one JSON document and nothing else: an array if it lists something,
else an object. Bodies and names that are not UTF-8 are in base64, under a name that says so.

Names and bodies come from clients. They are printed without control characters, which would change
the terminal, and without characters that reverse the direction of text.

Not here: the results (cli/verbs.py).
"""

from __future__ import annotations

import json
import shutil
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import IO, Any, Final
from unicodedata import combining, east_asian_width

import click

Row = Mapping[str, Any]

_NUMBERS: Final = (int, float, type(None))
_NOTHING: Final = "–"  # for an unknown value
_TURNING: Final = (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_CONTROLS: Final = {
    **{code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))},
    **{code: f"\\u{code:04x}" for code in _TURNING},
    # In words that were typed, Python stores bytes that are not UTF-8 as surrogates.
    **{code: f"\\x{code - 0xDC00:02x}" for code in range(0xDC80, 0xDD00)},
    9: "\\t",
    10: "\\n",
    13: "\\r",
}
_LEAST_CUT: Final = 20  # characters of a cell that remain if a row is too long


class Output:
    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.so_far: dict[str, Any] = {}  # results that stay even if the command fails

    def rows(self, rows: Sequence[Row], columns: Mapping[str, str]) -> None:
        """Print one line for each row. `columns` are fields and their headings. JSON has all
        fields."""
        if self.as_json:
            click.echo(json.dumps([_plain(row) for row in rows]))
            return
        cells = [[_cell(name, row.get(name)) for name in columns] for row in rows]
        right = [
            all(isinstance(row.get(name), _NUMBERS) for row in rows) and name != "id"
            for name in columns
        ]
        for line in table(list(columns.values()), cells, right):
            click.echo(line)

    def one(self, fields: Row) -> None:
        """Print one object, one line for each field. Fields that are None are left out."""
        if self.as_json:
            click.echo(json.dumps(_plain(fields)))
            return
        shown = {name: value for name, value in fields.items() if value is not None}
        width = max(len(_head(name)) for name in shown)
        for name, value in shown.items():
            lines = value if isinstance(value, list) else [value]
            for at, line in enumerate(lines):
                head = _head(name) if at == 0 else ""
                text = (
                    ", ".join(f"{_head(k)} {_cell(k, v)}" for k, v in line.items())
                    if isinstance(line, Mapping)
                    else _cell(name, line)
                )
                click.echo(f"{click.style(head.ljust(width), bold=True)}  {text}")

    def done(self, sentence: str, fields: Row) -> None:
        """Report success, as a sentence or as an object."""
        click.echo(json.dumps(_plain(fields)) if self.as_json else text_of(sentence))

    def nothing(self, sentence: str) -> None:
        """Print a note that the list is empty, at a terminal."""
        if not self.as_json and is_terminal(sys.stderr):
            click.echo(f"quinque: {text_of(sentence)}", err=True)

    def failed(self, why: str, code: int) -> None:
        """Report an error: on stderr, and with --json also as an object."""
        lines = why.splitlines()
        if self.as_json:
            told = {"error": "\n".join(map(text_of, lines)), "exit_code": code}
            click.echo(json.dumps(told | _plain(self.so_far)))
        for line in lines:
            click.secho(f"quinque: {text_of(line)}", fg="red", err=True)


def table(head: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """Print lines of columns. At a terminal, the last column is cut to the width."""
    rows = [list(head), *(list(row) for row in cells)]
    widths = [max(width_of(row[at]) for row in rows) for at in range(len(head))]
    if is_terminal(sys.stdout):
        others = sum(widths[:-1]) + 2 * (len(widths) - 1)
        most = max(_LEAST_CUT, shutil.get_terminal_size().columns - others)
        widths[-1] = min(widths[-1], most)
        for row in rows:
            row[-1] = cut(row[-1], most)
    lines = []
    for at, row in enumerate(rows):
        line = "  ".join(
            " " * (width - width_of(cell)) + cell
            if is_right
            else cell + " " * (width - width_of(cell))
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ).rstrip()
        lines.append(click.style(line, bold=True) if at == 0 else line)
    return lines


def text_of(value: bytes | str) -> str:
    """Escape control characters."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    return value.translate(_CONTROLS)


def is_terminal(stream: IO[str] | None) -> bool:
    """Return whether a file is a terminal. A file that was closed before the start is None."""
    return stream is not None and stream.isatty()


def width_of(text: str) -> int:
    """Return the width of the text in columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def cut(text: str, most: int) -> str:
    """Cut the text to `most` columns of a terminal."""
    if width_of(text) <= most:
        return text
    kept, room = "", most - 1
    for character in text:
        room -= _columns(character)
        if room < 0:
            break
        kept += character
    return f"{kept}…"


def span_text(span_s: float) -> str:
    """Return a duration in its two largest units, such as 2h 5m."""
    if span_s < 60:
        return f"{span_s:.3g}s"
    left = round(span_s)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number or parts:
            parts.append(f"{number}{unit}")
    return " ".join(parts[:2])


def _columns(character: str) -> int:
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def _head(name: str) -> str:
    """Return the label before the value of a field."""
    return name.removesuffix("_s").replace("_", " ")


def _cell(name: str, value: Any) -> str:
    if value is None:
        return _NOTHING
    if name.endswith("_s"):
        return span_text(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    return text_of(value)


def _plain(value: Any) -> Any:
    """Return the same as JSON can express it."""
    if isinstance(value, Mapping):
        plain: dict[str, Any] = {}
        for name, each in value.items():
            if not isinstance(each, bytes | str):
                plain[name] = _plain(each)
                continue
            # Words that were typed contain each byte that is not UTF-8 as a surrogate.
            data = each if isinstance(each, bytes) else each.encode("utf-8", "surrogateescape")
            try:
                plain[name] = data.decode()
            except UnicodeDecodeError:
                plain[f"{name}_base64"] = b64encode(data).decode()
        return plain
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
