"""Words of a request that are too many for one, as words of several.

Called by   own_calls.py, tube_calls.py and work_calls.py, for commands that take any number of
            messages or ids; aio/jobs.py, which waits for one part after the other.
Calls       nothing.

Not here: commands that take one each (work_calls.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# Of one request: far from the most that a broker takes, and enough to make few of them.
_WORDS_MOST: Final = 1_000
_WORDS_MOST_BYTES: Final = 1 << 20


def parts(words: Sequence[bytes]) -> list[Sequence[bytes]]:
    """The words in their order, in as many parts as there have to be: none is empty."""
    if 0 < len(words) <= _WORDS_MOST and sum(map(len, words)) <= _WORDS_MOST_BYTES:
        return [words]
    found: list[Sequence[bytes]] = []
    part: list[bytes] = []
    size_bytes = 0
    for word in words:
        size_bytes += len(word)
        if part and (len(part) == _WORDS_MOST or size_bytes > _WORDS_MOST_BYTES):
            found.append(part)
            part, size_bytes = [], len(word)
        part.append(word)
    if part:
        found.append(part)
    return found
