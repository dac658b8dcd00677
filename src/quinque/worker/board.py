"""What a process tells its supervisor, and what it leaves behind when it dies: memory both share.

Called by   process.py and runtime.py (write), supervisor.py and health.py (read).
Calls       nothing.

    header    beat s, finished, failed, held, stalled            40 bytes
    slots     state, handler, failures, length of the id, id     128 bytes each

A slot is a message in hand. When a process is killed its slots are as they were, so that the next
process on the same board knows what was being worked, what was only held, and what was done but not
yet said to be. What does not fit (an id of more than 124 bytes, the 1,025th message) is not
written: it comes back when its lease ends.

Not here: what is done about those (runtime.py).
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from quinque.worker.message import Message

_HEADER: Final = struct.Struct("<dQQQQ")
_SLOT: Final = struct.Struct("<BBBB124s")
_SLOTS: Final = 1024
_HANDLERS_MOST: Final = 255
_SIZE: Final = _HEADER.size + _SLOTS * _SLOT.size


class Hand(IntEnum):
    FREE = 0
    HELD = 1
    RUNNING = 2
    DONE = 3


class Told(NamedTuple):
    """The header. `beat_s` is of the monotonic clock, which processes share; 0 = not yet."""

    beat_s: float
    finished: int
    failed: int
    held: int
    stalled: int  # handlers that have work and do none


class Left(NamedTuple):
    """A message that a process had in hand when it ended."""

    state: Hand
    handler: int
    failures: int
    id: bytes


class Board:
    def __init__(self, fd: int | None = None) -> None:
        """One that another process made, by its descriptor; or a new one."""
        if fd is None:
            with tempfile.TemporaryFile() as file:
                file.truncate(_SIZE)
                self.fd = os.dup(file.fileno())
        else:
            self.fd = fd
        self._memory = mmap.mmap(self.fd, _SIZE)
        self._free = list(range(_HEADER.size, _SIZE, _SLOT.size))[::-1]

    def read(self) -> Told:
        return Told(*_HEADER.unpack_from(self._memory))

    def write(self, told: Told) -> None:
        _HEADER.pack_into(self._memory, 0, *told)

    def hold(self, messages: Sequence[Message], handler: int, failures: Sequence[int]) -> None:
        """They are in hand."""
        free, memory = self._free, self._memory
        if handler > _HANDLERS_MOST:
            return
        for message, failed in zip(messages, failures, strict=True):
            id = message.raw_id
            if not free or len(id) > 124:
                continue
            message.slot = free.pop()
            _SLOT.pack_into(memory, message.slot, Hand.HELD, handler, min(failed, 255), len(id), id)

    def mark(self, message: Message, state: Hand) -> None:
        if message.slot >= 0:
            self._memory[message.slot] = state

    def drop(self, message: Message) -> None:
        """It is not in hand any more."""
        if message.slot >= 0:
            self._memory[message.slot] = Hand.FREE
            self._free.append(message.slot)
            message.slot = -1

    def take_left(self) -> Iterator[Left]:
        """What the process before this one had in hand; the board is empty then."""
        for at in range(_HEADER.size, _SIZE, _SLOT.size):
            state, handler, failures, length, id = _SLOT.unpack_from(self._memory, at)
            if state:
                self._memory[at] = Hand.FREE
                yield Left(Hand(state), handler, failures, id[:length])
        self.write(Told(0.0, 0, 0, 0, 0))

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)
