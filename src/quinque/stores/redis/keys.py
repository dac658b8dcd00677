"""Which keys there are in Redis, and where in a cluster.

Called by   calls.py and store.py (keys of slots), worklists.py and looks.py (slots of ids).
Calls       nothing.

A queue lies in the slot its name hashes to, as a key of Redis does. All keys of a slot share the
slot's tag in braces, so that one script may use all of them:

    quinque:{a7}:ready:mail       the tag {a7}, the kind of key, the queue
    D-dcb833cf-8YL1NT17e9+wsA/09NqxscQI-05a1
               ^^^ 18 bits: the slot of the message (14), 4 random ones

A script gets the key `quinque:{tag}:slot` of the slot it is about, and makes the other keys from it
(scripts/lib/slot_prefix.lua). What comes after the kind is the queue's name as it is, and always
last, so that no name can be taken for another key; where there are two names, the length of the
first comes before it.

Not here: what is done with them (scripts/).
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

from quinque.stores.id_slots import SLOTS as SLOTS
from quinque.stores.id_slots import slot_of as slot_of
from quinque.stores.id_slots import slot_of_id as slot_of_id

ALL_SLOTS: Final = b"quinque:slots"
PARTITIONS: Final = b"quinque:partitions"
BROKERS: Final = b"quinque:brokers"
COPY_MARK: Final = b"quinque:copy"
# As if it were that of a slot; no slot has so long a tag.
SESSIONS: Final = b"quinque:{sessions}:slot"

_SLOT: Final = b"}:slot"
_NEVER: Final = b"}:never"
_QUIET: Final = b"}:quiet"
_TALLY: Final = b"}:tally"
_COUNT: Final = b"}:count"
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"


class Key(NamedTuple):
    """One kind of key: the part after `quinque:{tag}:` or `quinque:`, its type, what it holds."""

    name: str
    type: str
    meaning: str


KEYS: Final = (
    Key("slot", "HASH", "at_ms, last_place (µs), last_id, last_turn, …, events (in feeds), rows"),
    Key("queues", "HASH", "queue -> code of its family; who is not here is not there"),
    Key("alarms", "ZSET", "queue by when time next makes something of it due (ms)"),
    Key("awaited", "STRING", "is there while somebody waits for a message of the slot to end"),
    Key("record", "STREAM", "what became of messages: packed entries, by the number of a row"),
    Key("worklists", "ZSET", "worklist by its number in the slot, for scans"),
    Key("busy", "ZSET", "worklist that has something ready, or had, by when its turn comes (µs)"),
    Key("messages", "HASH", "id of a message in a worklist -> its place, its terms, a short body"),
    Key("bodies", "HASH", "id of such a message -> its body, if that is long"),
    Key(
        "progress", "HASH", "id of such a message -> nacks, requeues, …, unless all is as at first"
    ),
    Key("worklist:<queue>", "HASH", "since_ms, active_ms, came, went, claimed, what is set for it"),
    Key("ready:<queue>", "ZSET", "id by place"),
    Key("delayed:<queue>", "ZSET", "id by place"),
    Key("dead:<queue>", "ZSET", "id by place"),
    Key(
        "due:<queue>",
        "ZSET",
        "id by when its lease or its delay ends (ms), or by its turn if its family keeps those",
    ),
    Key("expires:<queue>", "ZSET", "id by when its life ends (ms); all that are not dead"),
    Key("keys:<queue>", "HASH", "key -> id of the message that lives under it"),
    Key(
        "gone:<number>:<family>:<queue>",
        "ZSET",
        "ids of messages that have to go yet, of a worklist that is gone",
    ),
    Key(
        "tasks:<queue>",
        "HASH",
        "id of a task of the tube -> its times, priority, lane, a short body",
    ),
    Key("taken:<queue>", "HASH", "id -> the session that has taken the task"),
    Key("lanes:<queue>", "HASH", "lane of the tube -> how many are taken, which id is in `ready`"),
    Key("lane_tasks:<queue>", "ZSET", "length:lane, priority, id of each ready task, by 0"),
    Key("taken_by:<session>", "ZSET", "id:tube of what the session has taken, by when (ms)"),
    Key("takers", "SET", "sessions that have taken something in the slot, or had"),
    Key(
        "swept:<number>:<queue>",
        "HASH",
        "as tasks: what has to go yet, of a tube that was dropped or emptied",
    ),
    Key("feed:<queue>", "HASH", "of a feed: groups_ever, has_chosen_ids"),
    Key("order:<queue>", "ZSET", "id by place, in a feed"),
    Key("bodies:<queue>", "HASH", "id -> body, in a feed; in a tube, if that is long"),
    Key("expiries:<queue>", "ZSET", "id by when its life ends (ms), in a feed"),
    Key("singles:<queue>", "SET", "ids that one group works and whose ack removes them"),
    Key("groups:<queue>", "HASH", "group -> its number, the place it has come to"),
    Key("deadlines:<queue>", "ZSET", "group by when its first lease ends (ms), or earlier"),
    Key("held:<length>:<queue>:<group>", "ZSET", "id by when its lease ends (ms)"),
    Key("again:<length>:<queue>:<group>", "ZSET", "id by place: the group may have it again"),
    Key("deliveries:<length>:<queue>:<group>", "ZSET", "id by deliveries, where they are not 1"),
    Key("detached:<length>:<queue>:<group>", "ZSET", "as held, of messages that were flushed"),
    Key("detached_expiries:<length>:<queue>:<group>", "ZSET", "when the lives of those end (ms)"),
    Key(
        "timers",
        "ZSET",
        "kind:names of a subscription, batch, gone queue or tube, by when it is due (ms)",
    ),
    Key("subscription:<length>:<queue>:<subscription>", "HASH", "epoch, which claims it has, …"),
    Key("claim:<number>:<length>:<queue>:<subscription>", "HASH", "state, messages, plays, …"),
    Key("claim_rows:<number>:<length>:<queue>:<subscription>", "LIST", "chunks of packed rows"),
    Key("claim_ids:<number>:<length>:<queue>:<subscription>", "LIST", "packed ids of each chunk"),
    Key(
        "claim_keys:<number>:<length>:<queue>:<subscription>",
        "HASH",
        "key -> id of the claimed message that lives under it",
    ),
    Key(
        "claim_marks:<number>:<length>:<queue>:<subscription>",
        "HASH",
        "id -> chunk, outcome, delay_ms, reason, of messages that are not to be acked",
    ),
    Key("published", "HASH", "length:queue:length:sink:run -> its last batch, until when (ms)"),
    Key(
        "stage:<length>:<queue>:<length>:<sink>:<number>:<run>", "HASH", "of a batch: is_decided, …"
    ),
    Key(
        "stage_parts:<length>:<queue>:<length>:<sink>:<number>:<run>",
        "HASH",
        "part attempt chunk -> pieces, messages, body_bytes",
    ),
    Key(
        "stage_rows:<length>:<queue>:<length>:<sink>:<number>:<run>",
        "HASH",
        "part attempt chunk piece -> packed messages",
    ),
    Key(
        "stage_todo:<length>:<queue>:<length>:<sink>:<number>:<run>",
        "LIST",
        "pieces that have to move yet, of a batch that is decided",
    ),
)

# Of queues of items: they begin with the queue's name as it is, because they are the keys that the
# clients of Redis Work Queue use.
ITEM_KEYS: Final = (
    Key("<queue>:queue", "LIST", "ids; new ones on the left, the first one on the right"),
    Key("<queue>:processing", "LIST", "ids that a worker has; the one leased last on the left"),
    Key("<queue>:item:<id>", "STRING", "the data; an item is there as long as this is"),
    Key("<queue>:lease:<id>", "STRING", "is there while the lease runs; Redis removes it then"),
    Key("<queue>:leased_by_session:<id>", "STRING", "the same, where older clients look for it"),
    Key(
        "<queue>:cleaning",
        "LIST",
        "ids that a cleaner of older clients is moving; brokers add none",
    ),
)

# Of sessions that take tasks: all of them lie together, in a place like that of a slot.
SESSION_KEYS: Final = (
    Key("connections", "HASH", "session -> how many connections are of it, at all brokers"),
    Key("broker:<broker>", "HASH", "session -> how many are, at that broker"),
    Key("totals", "HASH", "broker -> how many of its connections are of a session"),
    Key("heard", "ZSET", "broker by when it was last heard of (ms), by the clock of Redis"),
    Key("keeps", "HASH", "broker -> how long sessions are kept that lose it (ms)"),
    Key("left", "ZSET", "session that nobody is of, by when it ends (ms)"),
    Key("shared", "SET", "sessions that took, or may have, through several brokers"),
    Key("unsaid", "SET", "sessions that a store left when it was closed, kept for a while"),
)

# Of the store as a whole: each of these stands alone, in a slot of its own.
SHARED_KEYS: Final = (
    Key("slots", "SET", "tags of the slots that have, or had, a queue"),
    Key("partitions", "HASH", "worklist that is spread -> in how many slots it is written, read"),
    Key("brokers", "HASH", "id of a broker that runs -> when it was heard of, where it is, …"),
    Key("node:<name>", "HASH", "of a broker, whether it runs or not: id, is_leaving"),
    Key("copy", "HASH", "while a copy is made into this store: source, and how far it is"),
)


def node_key(name: str) -> bytes:
    """The HASH of a broker, whether it runs or not: id, is_leaving."""
    return b"quinque:node:" + name.encode()


def slot_key(slot: int) -> bytes:
    """The key a script is called with, for this slot."""
    return b"quinque:{%b}:slot" % tags()[slot]


def guarded_keys(key: bytes, is_recorded: bool = True, is_counted: bool = False) -> Sequence[bytes]:
    """The KEYS of a script that is about this key.

    A script uses more keys of its slot than it could name. While the slot moves to another server,
    some of them are here and some there, and a script that finds half of a queue must not begin. So
    it names one more, which never exists: of several keys of a moving slot one is then always
    missing, and Redis answers TRYAGAIN until the slot is wholly there.

    There are four of that kind, and which of them is named tells the script whether what it
    changes goes on record, and whether it is to say how much that was (scripts/lib/record.lua).
    """
    if not key.endswith(_SLOT):
        return (key,)
    if is_recorded:
        never = _COUNT if is_counted else _NEVER
    else:
        never = _TALLY if is_counted else _QUIET
    return (key, key[: -len(_SLOT)] + never)


@lru_cache(maxsize=SLOTS)
def slot_of_key(key: bytes) -> int:
    """The slot where a cluster has this key."""
    return slot_of(key)


def slot_of_tag(tag: bytes) -> int:
    return crc_hqx(tag, 0) % SLOTS


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
