"""Redis-style patterns on raw bytes: `*`, `?`, `[a-z]`, `[^a-z]`, and `\\` to take a byte as it is.

Called by   config_commands.py (CONFIG GET), users.py (the queues a user may touch).
Calls       nothing.

Not here: what the matched names mean.
"""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=1024)
def compile_glob(pattern: bytes) -> re.Pattern[bytes]:
    """A regular expression whose `fullmatch` is true for the names the pattern means.

    Matching takes at most len(pattern) * len(name) steps, whoever wrote the pattern.
    """
    pieces: list[bytes] = [b""]
    at = 0
    while at < len(pattern):
        if pattern[at : at + 1] == b"*":
            pieces.append(b"")
            at += 1
            continue
        atom, at = _atom(pattern, at)
        pieces[-1] += atom
    first, *middle = pieces
    if not middle:
        return re.compile(first, re.DOTALL)
    last = middle.pop()
    # Each middle piece is taken where it first fits and never given back (an atomic group): a
    # later place could only leave less for the rest. Plain `.*` tries every place, and a
    # pattern such as *a*a*a*a*b then never ends.
    taken = b"".join(b"(?>.*?" + piece + b")" for piece in middle if piece)
    return re.compile(first + taken + b".*" + last, re.DOTALL)


def _atom(pattern: bytes, at: int) -> tuple[bytes, int]:
    """The expression for the one byte described at `at`, and where the next begins."""
    here = pattern[at : at + 1]
    if here == b"?":
        return b".", at + 1
    if here == b"[":
        return _set(pattern, at + 1)
    if here == b"\\" and at + 1 < len(pattern):
        at += 1
        here = pattern[at : at + 1]
    return re.escape(here), at + 1


def _set(pattern: bytes, at: int) -> tuple[bytes, int]:
    """The expression for `[...]`; like Redis, a set nobody closed ends with the pattern."""
    is_negated = pattern[at : at + 1] == b"^"
    at += is_negated
    members: set[int] = set()
    while at < len(pattern) and pattern[at] != ord("]"):
        if pattern[at] == ord("\\") and at + 1 < len(pattern):
            at += 1
            members.add(pattern[at])
            at += 1
        elif at + 2 < len(pattern) and pattern[at + 1] == ord("-"):
            low, high = sorted((pattern[at], pattern[at + 2]))
            members.update(range(low, high + 1))
            at += 3
        else:
            members.add(pattern[at])
            at += 1
    if is_negated:
        members = set(range(256)) - members
    if not members:
        return b"(?!)", at + 1  # nothing is in an empty set
    return b"[" + b"".join(b"\\x%02x" % byte for byte in sorted(members)) + b"]", at + 1
