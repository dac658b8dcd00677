"""The slot of a queue, and how the id of a message tells it.

Called by   stores, when they make ids; the Redis store, to find a message by its id.
Calls       nothing.

A Redis Cluster has 16,384 slots, and a client that acks names an id and no queue. So every id of a
message in a worklist tells the slot of its queue, whichever store made it: then it can be copied
from any store to any other.

    D-dcb833cf-8YL1NT17e9+wsA/09NqxscQI-05a1
               ^^^ 18 bits: the slot of the message (14), 4 random ones

Not here: keys (stores/redis/keys.py), what else is in an id (stores/chance.py).
"""

from __future__ import annotations

from binascii import b2a_base64, crc_hqx
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

SLOTS: Final = 16384  # of every Redis Cluster

_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_VALUES: Final = {letter: value for value, letter in enumerate(_BASE64)}
ID_RANDOM_BYTES: Final = 18  # that an id is made from: 24 letters
_ID_SLOT_AT: Final = 11  # after "D-dcb833cf-"


def slot_of(queue: bytes) -> int:
    """The slot a queue lies in: the one Redis would put a key of that name in. So names with the
    same text in braces lie together."""
    start = queue.find(b"{")
    if start >= 0:
        end = queue.find(b"}", start)
        if end > start + 1:
            queue = queue[start + 1 : end]
    return crc_hqx(queue, 0) % SLOTS


def slot_of_id(message_id: bytes) -> int:
    """The slot of a message of a worklist; any slot, if the id is not valid."""
    return _slot_of_letters(message_id[_ID_SLOT_AT : _ID_SLOT_AT + 3])


def make_ids(random: bytes, slot: int, node_id: bytes, tail: bytes) -> list[bytes]:
    """Make an id of every 18 random bytes, with the slot in it. The tail is how it ends."""
    text = b2a_base64(random, newline=False)
    node, starts = node_id[:8], _slot_letters(slot)
    return [
        b"D-%b-%b%b-%b" % (node, starts[text[at + 2]], text[at + 3 : at + 24], tail)
        for at in range(0, len(text), 24)
    ]


@lru_cache(maxsize=1 << 16)
def _slot_of_letters(letters: bytes) -> int:
    bits = 0
    for letter in letters:
        bits = bits << 6 | _VALUES.get(letter, 0)
    return bits >> 4


@lru_cache(maxsize=1024)
def _slot_letters(slot: int) -> Sequence[bytes]:
    """The three letters of an id that contain the slot, by the third random letter: 4 bits of that
    one stay."""
    starts = [b""] * 128
    for value, letter in enumerate(_BASE64):
        bits = slot << 4 | value & 0xF
        starts[letter] = bytes(_BASE64[bits >> shift & 0x3F] for shift in (12, 6, 0))
    return starts
