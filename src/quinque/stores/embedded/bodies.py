"""Bodies beyond maxmemory live on disk only.

Called by   the operations: as messages come and go, at each commit, and to deliver one.
Calls       journal.py to read a body back.

`maxmemory` is for bodies. Past it, the bodies of new messages leave memory as soon as they are on
the disk, and are read back, and checked, when they are delivered.

Not here: when a message goes (engine/).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quinque.model.message import Message
from quinque.stores.embedded.journal import Journal, body_bytes, check_home


class Bodies:
    def __init__(self, journal: Journal, maxmemory: int) -> None:
        self.maxmemory = maxmemory  # bytes; 0 = no limit
        self.in_memory = 0  # bytes
        self.on_disk = 0  # messages whose body is only there
        self.count = 0  # messages
        self.came_now = 0  # messages that came in this turn
        self.total_bytes = 0  # of all bodies, wherever they are
        self._journal = journal
        self._leaving: list[Message] = []
        self._moving: list[tuple[Message, int]] = []

    def came(self, messages: Sequence[Message], bodies: Iterable[bytes]) -> None:
        """Messages came, with their bodies in memory."""
        size_bytes = sum(map(len, bodies))
        self.in_memory += size_bytes
        self.total_bytes += size_bytes
        self.count += len(messages)
        self.came_now += len(messages)
        if self.maxmemory and self.in_memory > self.maxmemory:
            self._leaving += messages

    def leave(self, messages: Iterable[Message]) -> None:
        """The bodies of these messages need not be in memory: they leave it when they are on the
        disk."""
        self._leaving += messages

    def went(self, messages: Iterable[Message]) -> None:
        """Messages are gone."""
        for message in messages:
            self.count -= 1
            if message.body is None:
                self.on_disk -= 1
                self.total_bytes -= body_bytes(message.home)
            else:
                self.in_memory -= len(message.body)
                self.total_bytes -= len(message.body)
                message.body = None  # so that committed() passes it over

    def committed(self) -> None:
        """The bodies of this turn are on the disk: drop those that must leave memory."""
        for message, home in self._moving:
            message.home = home
        self._moving.clear()
        for message in self._leaving:
            if message.body is not None:
                self.in_memory -= len(message.body)
                self.on_disk += 1
                message.home = check_home(message.home, message.body)
                message.body = None
        self._leaving.clear()

    def of(self, message: Message) -> bytes:
        """The body, wherever it is. Raises JournalDamaged."""
        return message.body if message.body is not None else self._journal.read(message.home)

    def size_of(self, message: Message) -> int:
        """Return the size of the body, in memory or on disk."""
        return len(message.body) if message.body is not None else body_bytes(message.home)

    def emptied(self, message: Message, home: int) -> None:
        """The message, whose body was only on the disk, has an empty one at `home`."""
        self.total_bytes -= body_bytes(message.home)
        message.home = check_home(message.home, b"")
        self._moving.append((message, check_home(home, b"")))

    def moved(self, message: Message, home: int, body: bytes) -> None:
        """Compaction wrote the message again, at `home`, where it can be read once committed."""
        self._moving.append((message, home if message.body is not None else check_home(home, body)))
