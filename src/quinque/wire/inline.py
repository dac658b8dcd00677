"""Inline requests: a line of words, for people with a terminal.

Called by   wire/requests.py.
Calls       nothing.

Quoting as in Redis: "double quotes" know \\n \\r \\t \\b \\a and \\xHH, 'single quotes' know only
\\'; a closing quote must be followed by a blank or the end. An opening one may stand in a word.

Not here: arrays of bulk strings (wire/requests.py).
"""

from __future__ import annotations

import re
from typing import Final

# A word may end in quotes, and then a blank must follow. There is no backtracking (*+), because a
# line with many escapes and no end would take too long.
_WORD: Final = re.compile(
    rb"""([^\ \t\r\n"']*+)
        (?: "((?:\\.|[^"\\])*+)" | '((?:\\'|[^'\\]|\\(?!'))*+)' )?+ (?:\s++|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_MEANING: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}


def split_inline(line: bytes) -> list[bytes] | None:
    """Return the words of a line, or None if its quotes do not balance."""
    words: list[bytes] = []
    at = 0
    # \v and \f are blanks between words, but do not end one.
    line = line.strip(b" \t\r\n\0").lstrip()
    while at < len(line):
        found = _WORD.match(line, at)
        if found is None:
            return None
        word, double, single = found.groups()
        if double is not None:
            word += _ESCAPE.sub(_unescape, double)
        elif single is not None:
            word += single.replace(b"\\'", b"'")
        words.append(word)
        at = found.end()
    return words


def _unescape(found: re.Match[bytes]) -> bytes:
    if found[1] is not None:
        return bytes.fromhex(found[1].decode())
    return _MEANING.get(found[2], found[2])
