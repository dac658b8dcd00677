"""What a process tells its supervisor, and what it leaves behind when it dies: memory both share.

Called by   process.py and runtime.py (write), supervisor.py and health.py (read).
Calls       memory.py, failures.py for the keys of messages.

    header    beat s, finished, failed, held, stalled            40 bytes
    slots     state, length of the id, handler, id               128 bytes each

A slot is a message in hand. When a process is killed its slots are as they were, so that the next
process on the same board knows what was being worked, what was only held, and what was done but not
yet said to be. Of an id that has no room there is the key: its failure is counted, and it comes
back when its lease ends. So does what has no slot, the 8,193rd message.

Not here: what is done about those (runtime.py).
"""

from __future__ import annotations

import mmap
import os
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from quinque.worker.failures import key_of
from quinque.worker.memory import shared_memory
from quinque.worker.message import Message

_HEADER: Final = struct.Struct("<dQQQQ")
_SLOT: Final = struct.Struct("<BBH124s")
_ID_MOST_BYTES: Final = 124
_KEY_ONLY: Final = 255  # the length of an id that has no room
_SLOTS: Final = 8192
_SIZE: Final = _HEADER.size + _SLOTS * _SLOT.size


class Hand(IntEnum):
    FREE = 0
    HELD = 1
    RUNNING = 2
    DONE = 3
    CRASHED = 4  # it was being worked when the process died, and that is counted


class Told(NamedTuple):
    """The header. `beat_s` is of the monotonic clock, which processes share; 0 = not yet."""

    beat_s: float
    finished: int
    failed: int
    held: int
    stalled: int  # handlers that have work and do none


NOTHING: Final = Told(0.0, 0, 0, 0, 0)  # of a process that has not begun


class Left(NamedTuple):
    """A message that a process had in hand when it ended; `id` is empty if it had no room."""

    state: Hand
    handler: int
    id: bytes


class Board:
    def __init__(self, fd: int | None = None) -> None:
        """One that another process made, by its descriptor; or a new one."""
        self.fd = shared_memory(_SIZE) if fd is None else fd
        self._memory = mmap.mmap(self.fd, _SIZE)
        self._free = list(range(_HEADER.size, _SIZE, _SLOT.size))[::-1]

    def read(self) -> Told:
        return Told(*_HEADER.unpack_from(self._memory))

    def write(self, told: Told) -> None:
        _HEADER.pack_into(self._memory, 0, *told)

    def hold(self, messages: Sequence[Message], handler: int, salt: bytes) -> None:
        """They are in hand, of the handler of that number; its salt is for their keys."""
        free, memory = self._free, self._memory
        for message in messages:
            if not free:
                return
            id, length = message.raw_id, len(message.raw_id)
            if length > _ID_MOST_BYTES:
                id, length = key_of(salt, id), _KEY_ONLY
            message.slot = free.pop()
            _SLOT.pack_into(memory, message.slot, Hand.HELD, length, handler, id)

    def mark(self, message: Message, state: Hand) -> None:
        if message.slot >= 0:
            self._memory[message.slot] = state

    def drop(self, messages: Iterable[Message]) -> None:
        """They are not in hand any more."""
        free, memory = self._free, self._memory
        for message in messages:
            slot = message.slot
            if slot >= 0:
                memory[slot] = Hand.FREE
                free.append(slot)
                message.slot = -1

    def count(self) -> Counter[tuple[int, Hand]]:
        """How many messages of each handler are in which hand."""
        found: Counter[tuple[int, Hand]] = Counter()
        for at in self._used():
            state, _, handler, _ = _SLOT.unpack_from(self._memory, at)
            found[handler, Hand(state)] += 1
        return found

    def crash(self, salts: Sequence[bytes]) -> list[tuple[int, bytes]]:
        """Its process died, whose handlers had these salts: the handler's number and the key of
        each that was being worked, told once."""
        crashed = []
        for at in self._used():
            state, length, handler, id = _SLOT.unpack_from(self._memory, at)
            if state == Hand.RUNNING:
                self._memory[at] = Hand.CRASHED
                is_key = length == _KEY_ONLY
                crashed.append((handler, id[:8] if is_key else key_of(salts[handler], id[:length])))
        return crashed

    def take_left(self) -> Iterator[Left]:
        """What the process before this one had in hand; the board is empty then."""
        for at in self._used():
            state, length, handler, id = _SLOT.unpack_from(self._memory, at)
            self._memory[at] = Hand.FREE
            yield Left(Hand(state), handler, b"" if length == _KEY_ONLY else id[:length])

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)

    def _used(self) -> Iterator[int]:
        states = self._memory[_HEADER.size :: _SLOT.size]
        return (_HEADER.size + at * _SLOT.size for at, state in enumerate(states) if state)
