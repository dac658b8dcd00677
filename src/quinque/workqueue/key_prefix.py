"""KeyPrefix: names that begin alike, such as the keys of one queue.

Called by   programs that use the library; keys.py.
Calls       nothing.

Not here: which keys a queue has (keys.py).
"""

from __future__ import annotations


class KeyPrefix:
    """`KeyPrefix("jobs").of(":queue")` is "jobs:queue": nothing is put between."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def of(self, name: str) -> str:
        return self.prefix + name

    @classmethod
    def concat(cls, prefix: KeyPrefix, name: str) -> KeyPrefix:
        """Return a longer prefix."""
        return cls(prefix.of(name))
