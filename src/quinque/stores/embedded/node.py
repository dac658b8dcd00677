"""What this broker is called among others, in the ids it makes and to its clients.

Called by   work_operations.py (asks, changes), recover.py (reads it back), compact.py (keeps it).
Calls       nothing.

Not here: the commands that show it (server/commands/cluster.py).
"""

from __future__ import annotations


class Node:
    """What this broker is called; `id` is empty until somebody asks."""

    __slots__ = ("id", "is_leaving", "segment")

    def __init__(self) -> None:
        self.id = b""
        self.is_leaving = False
        self.segment = 0  # the journal segment that has it on record
