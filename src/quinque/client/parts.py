"""Split long lists of arguments into several requests.

Called by   own_calls.py, tube_calls.py and work_calls.py, for commands that take any number of
            messages or ids; aio/jobs.py, which waits for one part after the other.
Calls       nothing.

Not here: commands that take one each (work_calls.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# In one request: far below the limit of a broker, and enough to need few requests.
_WORDS_MOST: Final = 1_000
_WORDS_MOST_BYTES: Final = 1 << 20


def parts(words: Sequence[bytes]) -> list[Sequence[bytes]]:
    """Split the arguments, in their order, into parts that fit into one request. No part is
    empty."""
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
