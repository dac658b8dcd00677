"""Redis-style patterns on raw bytes: `*`, `?`, `[a-z]`, `[^a-z]`, and `\\` to take a byte as it is.

Called by   config_commands.py (CONFIG GET), users.py (the queues a user may touch).
Calls       nothing.

Not here: what the matched names mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

# Patterns that are longer than this together are matched one by one: to read 100 KiB as one
# expression takes half a second, once more than to read each.
JOINED_MOST_BYTES: Final = 4096
# Bytes of a name times bytes of a pattern that are compared in the time of a look at a name, and as
# how many of them a short pattern counts.
_LOOK_COST: Final = 1280
_SHORT_COST: Final = 256


@lru_cache(maxsize=1024)
def compile_glob(pattern: bytes) -> re.Pattern[bytes]:
    """A regular expression whose `fullmatch` is true for the names the pattern means.

    No place in a name is tried twice for the same piece between two stars. Matching takes time in
    proportion to the name, times the longest piece at worst.
    """
    pieces: list[list[bytes]] = [[]]
    at = 0
    while at < len(pattern):
        if pattern[at : at + 1] == b"*":
            pieces.append([])
            at += 1
            continue
        atom, at = _atom(pattern, at)
        pieces[-1].append(atom)
    first, *middle = pieces
    if not middle:
        return re.compile(b"".join(first), re.DOTALL)
    last = middle.pop()
    # Each middle piece is matched at the first place where it fits, without backtracking (an atomic
    # group): a later place could only leave less for the rest. Plain `.*` tries every place, and
    # then a pattern such as *a*a*a*a*b takes forever. The last piece can only be at the end.
    taken = b"".join(b"(?>.*?" + b"".join(piece) + b")" for piece in middle if piece)
    rest = b".{%d,}+(?<=%s)" % (len(last), b"".join(last))
    return re.compile(b"".join(first) + taken + rest, re.DOTALL)


def matcher(patterns: Sequence[bytes]) -> Callable[[bytes], object]:
    """A test that is true for each name that one of the patterns means; there is at least one.
    100 patterns that begin with letters take little more time than one."""
    if sum(map(len, patterns)) <= JOINED_MOST_BYTES:
        return _joined(tuple(patterns)).fullmatch
    tests = [compile_glob(pattern).fullmatch for pattern in patterns]
    return lambda name: any(test(name) for test in tests)


class MatchCost:
    """The cost of a comparison of a name with all of the patterns, in units of a name lookup, about
    1 µs.

    A pattern that ends with its first star fails early. Any other may read the whole name: a short
    one takes about 0.2 µs, a long one takes time in proportion to its length times that of the
    name.
    """

    def __init__(self, patterns: tuple[bytes, ...]) -> None:
        starred = [pattern for pattern in patterns if b"*" in pattern[:-1]]
        self._each = _SHORT_COST * len(starred)
        self._by_length = sum(map(len, starred))

    def of(self, name: bytes) -> int:
        return (self._each + self._by_length * len(name)) // _LOOK_COST


match_cost: Final = lru_cache(maxsize=64)(MatchCost)


@lru_cache(maxsize=64)
def _joined(patterns: tuple[bytes, ...]) -> re.Pattern[bytes]:
    tests = [compile_glob(pattern).pattern for pattern in patterns]
    return re.compile(b"|".join(b"(?:%s)" % test for test in tests), re.DOTALL)


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
    """The expression for `[...]`; as in Redis, a set without `]` ends with the pattern."""
    is_negated = pattern[at : at + 1] == b"^"
    at += is_negated
    ranges: list[bytes] = []
    while at < len(pattern) and pattern[at] != ord("]"):
        if pattern[at] == ord("\\") and at + 1 < len(pattern):
            low = high = pattern[at + 1]
            at += 2
        elif at + 2 < len(pattern) and pattern[at + 1] == ord("-"):
            low, high = sorted((pattern[at], pattern[at + 2]))
            at += 3
        else:
            low = high = pattern[at]
            at += 1
        ranges.append(b"\\x%02x-\\x%02x" % (low, high))
    if not ranges:
        return b"." if is_negated else b"(?!.).", at + 1  # an empty set matches no character
    return b"[" + b"^" * is_negated + b"".join(ranges) + b"]", at + 1
