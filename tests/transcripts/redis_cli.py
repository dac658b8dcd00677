"""Replies as redis-cli shows them, and the sessions that pages of the documentation show.

Called by   test_pages.py.
Calls       wire/inline.py, whose quoting redis-cli shares.

    127.0.0.1:4777> QADD orders 60 "one book"
    "1700000000000000"
    # 1.5 s later
    127.0.0.1:4777> QNOTIFY billing 2 letters
    (nil)
    (2.00s)

Not here: replies byte by byte (notation.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

PROMPT = "127.0.0.1:4777> "

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LATER = re.compile(r"# ([0-9.]+) s later")
_TOOK = re.compile(r"\(([0-9.]+)s\)")
_ESCAPED = {0x22: '\\"', 0x5C: "\\\\", 10: "\\n", 13: "\\r", 9: "\\t", 7: "\\a", 8: "\\b"}


@dataclass(slots=True)
class Exchange:
    """What is typed, after how long, what is shown, and how long that took."""

    line_number: int
    later_ms: float
    typed: str
    shown: str = ""
    took_ms: float = 0


def sessions(page: str) -> Iterator[Exchange]:
    """Everything that is typed at the prompt in the console blocks of a page, in order."""
    for block in _BLOCK.finditer(page):
        if not block[1].startswith(PROMPT):
            continue
        first = page.count("\n", 0, block.start(1)) + 1
        later_ms = 0.0
        found: Exchange | None = None
        for number, line in enumerate(block[1].splitlines(), start=first):
            later = _LATER.fullmatch(line)
            if later:
                later_ms += float(later[1]) * 1000
            elif line.startswith(PROMPT):
                if found is not None:
                    yield found
                found = Exchange(number, later_ms, line.removeprefix(PROMPT))
                later_ms = 0.0
            elif found is not None and (took := _TOOK.fullmatch(line)):
                found.took_ms = float(took[1]) * 1000
            elif found is not None and line:
                found.shown += line + "\n"
        if found is not None:
            yield found


def as_shown(reply: bytes) -> str:
    """The text for one whole RESP2 reply."""
    text, rest = _value(reply, "")
    assert rest == b"", f"{rest!r} follows the reply"
    return text


def _value(data: bytes, indent: str) -> tuple[str, bytes]:
    head, _, rest = data.partition(b"\r\n")
    kind, text = head[:1], head[1:].decode()
    if kind == b"+":
        return text + "\n", rest
    if kind == b"-":
        return f"(error) {text}\n", rest
    if kind == b":":
        return f"(integer) {text}\n", rest
    count = int(text)
    if count < 0:
        return "(nil)\n", rest
    if kind == b"$":
        return f'"{_repr(rest[:count])}"\n', rest[count + 2 :]
    assert kind == b"*", data
    if count == 0:
        return "(empty array)\n", rest
    width = len(text)
    out: list[str] = []
    for number in range(1, count + 1):
        shown, rest = _value(rest, indent + " " * (width + 2))
        out.append(f"{indent if number > 1 else ''}{number:>{width}}) {shown}")
    return "".join(out), rest


def _repr(data: bytes) -> str:
    return "".join(
        _ESCAPED.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in data
    )
