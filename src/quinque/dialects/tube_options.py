"""Readers of arguments of TUBE.* commands: durations, ids, sessions, options.

Called by   tubes.py, while it parses.
Calls       args.py, options.py.

Not here: the commands (tubes.py), data of tasks (task_data.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgpack

from quinque.dialects.args import read_int, read_name, read_seconds
from quinque.dialects.options import EXACT_MOST, Options
from quinque.errors import BadArgument, NoTerm, printable
from quinque.model.limits import NAME_MOST_BYTES, NEVER_MS, SPAN_MOST_MS
from quinque.model.tube_ops import PRIORITY_MOST, SESSION_MOST_BYTES

_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ZERO: Final = ord("0")


class TubeOptions(Options):
    """The arguments after the fixed ones, and their values, packed as a driver reads them."""

    def __init__(self, command: str, argv: list[bytes], at: int) -> None:
        super().__init__(command, argv, at)
        self._said: dict[str | bytes, float | str | bytes] = {}
        self.own_words: list[bytes] = []

    def span(self, word: bytes) -> int:
        """Return the argument after the option: seconds, as milliseconds."""
        span_ms = read_seconds(word.decode(), self.value(), is_endless=True)
        self._said[word.decode().lower()] = span_ms / 1000
        return span_ms

    def whole(self, word: bytes, least: int = 0, most: int = EXACT_MOST) -> int:
        """Return the argument after the option as a whole number."""
        number = read_int(word.decode(), self.value(), least=least, most=most)
        self._said[word.decode().lower()] = number
        return number

    def priority(self) -> int:
        """Return the argument after PRI."""
        return self.whole(b"PRI", most=PRIORITY_MOST)

    def text(self, word: bytes) -> bytes:
        """Return the argument after the option unchanged."""
        text = self.value()
        self._said[word.decode().lower()] = _text_or_bytes(text)
        return text

    def lane(self, word: bytes) -> bytes:
        """Return the argument after the option as the name of a lane."""
        lane = self.text(word)
        if len(lane) > NAME_MOST_BYTES:
            read_name("lane", lane)
        return lane

    def own(self) -> None:
        """Read the two arguments after OPTION: the name of the option, and its value."""
        name = self.value()
        self.own_words.append(name)
        self._said[_text_or_bytes(name)] = _text_or_bytes(self.value())

    def packed(self) -> bytes:
        """Return all options as one map of msgpack, or empty bytes if there are none."""
        return bytes(msgpack.packb(self._said)) if self._said else b""

    def refuse(self, kind: bytes, *terms: str) -> None:
        """Refuse these options, and OPTION with any name, for a built-in tube type.

        Raises NoTerm.
        """
        for term in terms:
            if term in self._said:
                raise NoTerm(kind, term)
        for word in self.own_words:
            raise NoTerm(kind, printable(word[:64]))


def read_tube(text: bytes) -> bytes:
    """Return the name of a tube."""
    return read_name("tube", text)


def read_ids(texts: Sequence[bytes]) -> Sequence[bytes]:
    """Return ids of tasks: whole numbers without leading zeros or signs."""
    for text in texts:
        if not text.isdigit() or (text[0] == _ZERO and len(text) > 1):
            raise BadArgument(
                f"id '{printable(text[:64])}' is not the id of a task: a whole number"
            )
    return texts


def read_signed_seconds(what: str, text: bytes) -> int:
    """Return seconds as milliseconds. A negative number is 0."""
    if text[:1] == b"-":
        read_seconds(what, text[1:], is_endless=True)
        return 0
    return read_seconds(what, text, is_endless=True)


def read_timeout(text: bytes) -> int:
    """Return the time to wait in seconds as milliseconds. 0 or less means no wait."""
    span_ms = read_signed_seconds("timeout", text)
    return span_ms if span_ms < SPAN_MOST_MS else NEVER_MS


def read_session(text: bytes) -> bytes:
    """Return a session: 16 bytes for a UUID, or any other text."""
    if _UUID.fullmatch(text):
        return bytes.fromhex(text.replace(b"-", b"").decode())
    if not 1 <= len(text) <= SESSION_MOST_BYTES:
        raise BadArgument(f"session has {len(text)} bytes; 1 to {SESSION_MOST_BYTES}")
    return text


def _text_or_bytes(text: bytes) -> str | bytes:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text
