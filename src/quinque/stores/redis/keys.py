"""Which keys there are in Redis, and where in a cluster.

Called by   calls.py and store.py (keys of slots), worklists.py and looks.py (slots of ids).
Calls       nothing.

A queue lies in the slot its name hashes to. All keys of a slot share the slot's tag in braces, so
that one script may use all of them:

    quinque:{a7}:ready:mail       the tag {a7}, the kind of key, the queue
    D-dcb833cf-8YL1NT17e9+wsA/09NqxscQI-05a1
               ^^^ 18 bits: the slot of the message (14), 4 random ones

A script gets the keys `quinque:{tag}:slot` of the slots it is about, and makes the other keys from
them (scripts/lib/key.lua). What comes after the kind is the queue's name as it is, and always last,
so that no name can be taken for another key; where there are two names, the length of the first
comes before it.

Not here: what is done with them (scripts/).
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

SLOTS: Final = 16384  # of every Redis Cluster
ALL_SLOTS: Final = b"quinque:slots"  # SET: tags of the slots that have, or had, a queue

_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_VALUES: Final = {letter: value for value, letter in enumerate(_BASE64)}
_ID_SLOT_AT: Final = 11  # after "D-dcb833cf-"


class Key(NamedTuple):
    """One kind of key: the part after `quinque:{tag}:`, its type, what it holds."""

    name: str
    type: str
    meaning: str


KEYS: Final = (
    Key("slot", "HASH", "of the slot: last_place (µs), last_number, at_ms, events (in feeds)"),
    Key("queues", "HASH", "queue -> code of its family; who is not here is not there"),
    Key("alarms", "ZSET", "queue by when time next makes something of it due (ms)"),
    Key("worklists", "ZSET", "worklist by its number in the slot, for scans"),
    Key("busy", "ZSET", "worklist that has something ready, or had, by when its turn comes (µs)"),
    Key("messages", "ZSET", "id of a message in a worklist by its number in the slot, for scans"),
    Key("message:<id>", "HASH", "a message in a worklist: queue, body, place, terms, state, …"),
    Key("worklist:<queue>", "HASH", "since_ms, active_ms, came, went, and what is set for it"),
    Key("ready:<queue>", "ZSET", "id by place"),
    Key("delayed:<queue>", "ZSET", "id by place"),
    Key("dead:<queue>", "ZSET", "id by place"),
    Key("due:<queue>", "ZSET", "id by when its lease or its delay ends (ms)"),
    Key("expires:<queue>", "ZSET", "id by when its life ends (ms); all that are not dead"),
    Key("keys:<queue>", "HASH", "key -> id of the message that lives under it"),
    Key("feed:<queue>", "HASH", "of a feed: groups_ever, has_chosen_ids"),
    Key("order:<queue>", "ZSET", "id by place, in a feed"),
    Key("bodies:<queue>", "HASH", "id -> body, in a feed"),
    Key("expiries:<queue>", "ZSET", "id by when its life ends (ms), in a feed"),
    Key("singles:<queue>", "SET", "ids that one group works and whose ack removes them"),
    Key("groups:<queue>", "HASH", "group -> its number, the place it has come to"),
    Key("deadlines:<queue>", "ZSET", "group by when its first lease ends (ms), or earlier"),
    Key("held:<length>:<queue>:<group>", "ZSET", "id by when its lease ends (ms)"),
    Key("again:<length>:<queue>:<group>", "ZSET", "id by place: the group may have it again"),
    Key("deliveries:<length>:<queue>:<group>", "ZSET", "id by deliveries, where they are not 1"),
    Key("detached:<length>:<queue>:<group>", "ZSET", "as held, of messages that were flushed"),
    Key("detached_expiries:<length>:<queue>:<group>", "ZSET", "when the lives of those end (ms)"),
)


def node_key(name: str) -> bytes:
    """The HASH of a broker: id, is_leaving."""
    return b"quinque:node:" + name.encode()


def slot_key(slot: int) -> bytes:
    """The key a script is called with, for this slot."""
    return b"quinque:{%b}:slot" % tags()[slot]


def slot_of(queue: bytes) -> int:
    """The slot a queue lies in."""
    return crc_hqx(queue, 0) % SLOTS


def slot_of_tag(tag: bytes) -> int:
    return crc_hqx(tag, 0) % SLOTS


def slot_of_id(message_id: bytes) -> int:
    """The slot a message of a worklist lies in; any, if that is no id."""
    bits = 0
    for letter in message_id[_ID_SLOT_AT : _ID_SLOT_AT + 3]:
        bits = bits << 6 | _VALUES.get(letter, 0)
    return bits >> 4


def with_slot(random: bytes, slot: int) -> bytes:
    """Random bytes, of which the first 14 bits are the slot."""
    start = int.from_bytes(random[:3], "big") & 0x3FF | slot << 10
    return start.to_bytes(3, "big") + random[3:]


@cache
def tags() -> Sequence[bytes]:
    """The tag of each slot: the first short text that hashes to it. Takes 100 ms, once."""
    found: dict[int, bytes] = {}
    number = 0
    while len(found) < SLOTS:
        text = _in_base36(number)
        found.setdefault(slot_of_tag(text), text)
        number += 1
    return [found[slot] for slot in range(SLOTS)]


def _in_base36(number: int) -> bytes:
    text = b""
    while number or not text:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit : digit + 1] + text
    return text
