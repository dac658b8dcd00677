"""The state of a process, in memory that it shares with its supervisor and that outlives it.

Called by   process.py and runtime.py (write), supervisor.py and health.py (read).
Calls       memory.py, failures.py for the keys of messages.

    header    beat s, finished, failed, held, stalled            40 bytes
    slots     state, length of the id, handler, deliveries,
              until when the lease surely runs s, id             140 bytes each

A slot is a message that the process holds. When a process is killed, its slots stay. So the next
process on the same board knows for which messages a handler ran, which were prefetched, and which
were done but not yet acked. If an id is too long for a slot, the slot has only its key: the failure
is counted, and the message is delivered again when its lease ends. The same happens to a message
without a slot, the 8,193rd.

Not here: how those messages are settled (runtime.py).
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
_SLOT: Final = struct.Struct("<BBHId124s")
_UNTIL: Final = struct.Struct("<d")
_UNTIL_AT: Final = 8  # in a slot
_ID_MOST_BYTES: Final = 124
_KEY_ONLY: Final = 255  # in place of the length of an id that is too long
_SLOTS: Final = 8192
_SIZE: Final = _HEADER.size + _SLOTS * _SLOT.size


class Hand(IntEnum):
    FREE = 0
    HELD = 1
    RUNNING = 2
    DONE = 3
    CRASHED = 4  # its handler ran when the process died, and the failure is counted


class Told(NamedTuple):
    """The header. `beat_s` is on the monotonic clock, which processes share. 0 means not yet."""

    beat_s: float
    finished: int
    failed: int
    held: int
    stalled: int  # handlers whose messages wait and do not end


NOTHING: Final = Told(0.0, 0, 0, 0, 0)  # of a process that has not started


class Left(NamedTuple):
    """A message that a process held when it ended. `id` is empty if it was too long. No other
    consumer gets the message before `ours_until_s`, on the monotonic clock."""

    state: Hand
    handler: int
    id: bytes
    deliveries: int
    ours_until_s: float


class Board:
    def __init__(self, fd: int | None = None) -> None:
        """Open the board of another process by its descriptor, or make one."""
        self.fd = shared_memory(_SIZE) if fd is None else fd
        self._memory = mmap.mmap(self.fd, _SIZE)
        self._free = list(range(_HEADER.size, _SIZE, _SLOT.size))[::-1]

    def read(self) -> Told:
        return Told(*_HEADER.unpack_from(self._memory))

    def write(self, told: Told) -> None:
        _HEADER.pack_into(self._memory, 0, *told)

    def hold(self, messages: Sequence[Message], handler: int, salt: bytes) -> None:
        """Record that the handler with that number holds the messages. The salt is for their
        keys."""
        free, memory = self._free, self._memory
        for message in messages:
            if not free:
                return
            id, length = message.raw_id, len(message.raw_id)
            if length > _ID_MOST_BYTES:
                id, length = key_of(salt, id), _KEY_ONLY
            slot = message.slot = free.pop()
            told = (length, handler, message.deliveries, message.ours_until_s, id)
            _SLOT.pack_into(memory, slot, Hand.HELD, *told)

    def mark(self, message: Message, state: Hand) -> None:
        if message.slot >= 0:
            self._memory[message.slot] = state

    def extend(self, message: Message) -> None:
        """Record until when this process certainly has the lease."""
        if message.slot >= 0:
            _UNTIL.pack_into(self._memory, message.slot + _UNTIL_AT, message.ours_until_s)

    def drop(self, messages: Iterable[Message]) -> None:
        """Record that the messages are no longer held."""
        free, memory = self._free, self._memory
        for message in messages:
            slot = message.slot
            if slot >= 0:
                memory[slot] = Hand.FREE
                free.append(slot)
                message.slot = -1

    def count(self) -> Counter[tuple[int, Hand]]:
        """Count the messages of each handler in each state."""
        found: Counter[tuple[int, Hand]] = Counter()
        for at in self._used():
            state, _, handler, *_ = _SLOT.unpack_from(self._memory, at)
            found[handler, Hand(state)] += 1
        return found

    def crash(self, salts: Sequence[bytes]) -> list[tuple[int, bytes]]:
        """Mark the messages whose handlers ran when the process died. Return the number of the
        handler and the key of each, once. `salts` are those of the handlers of that process."""
        crashed = []
        for at in self._used():
            state, length, handler, _, _, id = _SLOT.unpack_from(self._memory, at)
            if state == Hand.RUNNING:
                self._memory[at] = Hand.CRASHED
                is_key = length == _KEY_ONLY
                crashed.append((handler, id[:8] if is_key else key_of(salts[handler], id[:length])))
        return crashed

    def take_left(self) -> Iterator[Left]:
        """Return the messages that the previous process held, and clear the board."""
        for at in self._used():
            state, length, handler, deliveries, until_s, id = _SLOT.unpack_from(self._memory, at)
            self._memory[at] = Hand.FREE
            id = b"" if length == _KEY_ONLY else id[:length]
            yield Left(Hand(state), handler, id, deliveries, until_s)

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)

    def _used(self) -> Iterator[int]:
        states = self._memory[_HEADER.size :: _SLOT.size]
        return (_HEADER.size + at * _SLOT.size for at, state in enumerate(states) if state)
