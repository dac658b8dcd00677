"""The id of this broker among others, in the ids it makes and to its clients.

Called by   work_operations.py (asks, changes), replay.py (reads it back), compact.py (keeps it).
Calls       nothing.

Not here: the commands that show it (server/commands/cluster.py).
"""

from __future__ import annotations


class Node:
    """The identity of this broker; `id` is empty until it is needed."""

    __slots__ = ("host", "id", "is_leaving", "port", "segment")

    def __init__(self) -> None:
        self.id = b""
        self.is_leaving = False
        self.host = b""  # where clients reach it, if that was announced; not on record
        self.port = 0
        self.segment = 0  # the journal segment that has it on record
