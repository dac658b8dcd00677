"""The keys in Redis, and their slots in a cluster.

Called by   calls.py and store.py (keys of slots), worklists.py and looks.py (slots of ids).
Calls       nothing.

A queue lies in the slot its name hashes to, as a key of Redis does. All keys of a slot share the
slot's tag in braces, so that one script may use all of them:

    quinque:{a7}:ready:mail       the tag {a7}, the kind of key, the queue
    D-dcb833cf-8YL1NT17e9+wsA/09NqxscQI-05a1
               ^^^ 18 bits: the slot of the message (14), 4 random ones

A script gets the key `quinque:{tag}:slot` of the slot it is about, and makes the other keys from it
(scripts/lib/slot_prefix.lua). After the kind comes the queue's name as it is, and always
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
EVENT_IDS: Final = b"quinque:event_ids"
CONSUMERS: Final = b"quinque:consumers"
COPY_MARK: Final = b"quinque:copy"
# Formed like the key of a slot; no slot has a tag of this length.
SESSIONS: Final = b"quinque:{sessions}:slot"

_SLOT: Final = b"}:slot"
_NEVER: Final = b"}:never"
_QUIET: Final = b"}:quiet"
_TALLY: Final = b"}:tally"
_COUNT: Final = b"}:count"
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"


class Key(NamedTuple):
    """A type of key: the part after `quinque:{tag}:` or `quinque:`, its Redis type, and its
    contents."""

    name: str
    type: str
    meaning: str


KEYS: Final = (
    Key("slot", "HASH", "at_ms, last_place (µs), last_id, last_turn, …, events, rows"),
    Key("queues", "HASH", "queue -> code of its family, for every queue that exists"),
    Key("alarms", "ZSET", "queue by the time of its next due action (ms)"),
    Key("awaited", "STRING", "exists while a client blocks until a message of the slot ends"),
    Key("record", "STREAM", "lifecycle log: packed entries, by row number"),
    Key("worklists", "ZSET", "worklist by its number in the slot, for scans"),
    Key("busy", "ZSET", "worklist that has or had ready messages, by the time of its turn (µs)"),
    Key("messages", "HASH", "id of a message in a worklist -> its place, options and short body"),
    Key("bodies", "HASH", "id of a message in a worklist -> its body, if that is long"),
    Key(
        "progress",
        "HASH",
        "id of a message in a worklist -> nacks, requeues, …, if not as at first",
    ),
    Key("worklist:<queue>", "HASH", "since_ms, active_ms, came, went, claimed, its settings"),
    Key("ready:<queue>", "ZSET", "id by place"),
    Key("delayed:<queue>", "ZSET", "id by place"),
    Key("dead:<queue>", "ZSET", "id by place"),
    Key(
        "due:<queue>",
        "ZSET",
        "id by the end of its lease or delay (ms), or by its turn if the family has turns",
    ),
    Key(
        "expires:<queue>",
        "ZSET",
        "id by the end of its time to live (ms), for all messages that are not dead",
    ),
    Key("keys:<queue>", "HASH", "unique key -> id of the unfinished message that has it"),
    Key(
        "gone:<number>:<family>:<queue>",
        "ZSET",
        "ids of messages still to be deleted, of a deleted worklist",
    ),
    Key(
        "tasks:<queue>",
        "HASH",
        "id of a task of the tube -> its times, priority, lane and short body",
    ),
    Key("taken:<queue>", "HASH", "id -> the session that has taken the task"),
    Key(
        "lanes:<queue>",
        "HASH",
        "lane of the tube -> number of taken tasks, and the id that is in `ready`",
    ),
    Key("lane_tasks:<queue>", "ZSET", "length:lane, priority, id of each ready task, by 0"),
    Key(
        "taken_by:<session>",
        "ZSET",
        "id:tube of each task that the session has taken, by time (ms)",
    ),
    Key("takers", "SET", "sessions that have or had taken tasks in the slot"),
    Key(
        "swept:<number>:<queue>",
        "HASH",
        "as tasks: tasks still to be deleted, of a tube that was dropped or emptied",
    ),
    Key("feed:<queue>", "HASH", "groups_ever, has_chosen_ids of an events queue"),
    Key("order:<queue>", "ZSET", "id by place, in an events queue"),
    Key("bodies:<queue>", "HASH", "id -> body, in an events queue; in a tube, if the body is long"),
    Key("expiries:<queue>", "ZSET", "id by the end of its time to live (ms), in an events queue"),
    Key("singles:<queue>", "SET", "ids of events for one group, which the ack removes"),
    Key("groups:<queue>", "HASH", "group -> its number and its position"),
    Key(
        "deadlines:<queue>", "ZSET", "group by the end of its first lease (ms), or an earlier time"
    ),
    Key("held:<length>:<queue>:<group>", "ZSET", "id by the end of its lease (ms)"),
    Key(
        "again:<length>:<queue>:<group>",
        "ZSET",
        "id by place, of messages that the group gets again",
    ),
    Key(
        "deliveries:<length>:<queue>:<group>",
        "ZSET",
        "id by number of deliveries, if that is not 1",
    ),
    Key("detached:<length>:<queue>:<group>", "ZSET", "as held, for messages that were flushed"),
    Key(
        "detached_expiries:<length>:<queue>:<group>",
        "ZSET",
        "id of these by the end of its time to live (ms)",
    ),
    Key(
        "timers",
        "ZSET",
        "kind:names of a subscription, batch, deleted queue or tube, by due time (ms)",
    ),
    Key("subscription:<length>:<queue>:<subscription>", "HASH", "epoch, its claims, …"),
    Key("claim:<number>:<length>:<queue>:<subscription>", "HASH", "state, messages, plays, …"),
    Key("claim_rows:<number>:<length>:<queue>:<subscription>", "LIST", "chunks of packed rows"),
    Key("claim_ids:<number>:<length>:<queue>:<subscription>", "LIST", "packed ids of each chunk"),
    Key(
        "claim_keys:<number>:<length>:<queue>:<subscription>",
        "HASH",
        "unique key -> id of the claimed message that has it",
    ),
    Key(
        "claim_marks:<number>:<length>:<queue>:<subscription>",
        "HASH",
        "id -> chunk, outcome, delay_ms, reason, for messages that are not to be acked",
    ),
    Key(
        "published",
        "HASH",
        "length:queue:length:sink:run -> its last batch, and until when it is known (ms)",
    ),
    Key(
        "stage:<length>:<queue>:<length>:<sink>:<number>:<run>", "HASH", "is_decided, … of a batch"
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
        "pieces still to be added to the queue, of a decided batch",
    ),
    Key(
        "stage_undecided:<length>:<queue>:<length>:<sink>:<run>",
        "ZSET",
        "numbers of the staged batches of a run that are not decided",
    ),
)

# The keys of queues of items begin with the queue's name as it is, because they are the keys that
# the clients of Redis Work Queue use.
ITEM_KEYS: Final = (
    Key("<queue>:queue", "LIST", "ids; new ones on the left, the first one on the right"),
    Key("<queue>:processing", "LIST", "ids that a worker has; the last leased id on the left"),
    Key("<queue>:item:<id>", "STRING", "the data; an item exists as long as this key"),
    Key("<queue>:lease:<id>", "STRING", "exists until the lease ends; Redis removes it then"),
    Key("<queue>:leased_by_session:<id>", "STRING", "the same, where older clients look for it"),
    Key(
        "<queue>:cleaning",
        "LIST",
        "ids that a cleaner of older clients is moving; brokers do not add ids",
    ),
)

# Of sessions that take tasks: all of them lie together, in a place like that of a slot.
SESSION_KEYS: Final = (
    Key("connections", "HASH", "session -> number of its connections, at all brokers"),
    Key("broker:<broker>", "HASH", "session -> number of its connections at this broker"),
    Key("totals", "HASH", "broker -> number of its connections that belong to a session"),
    Key("heard", "ZSET", "broker by the time it was last seen (ms), by the clock of Redis"),
    Key("beaten", "STRING", "the time of the last heartbeat of any broker (ms)"),
    Key("keeps", "HASH", "broker -> how long its sessions are kept after it stops responding (ms)"),
    Key("left", "ZSET", "session without connections, by the time at which it ends (ms)"),
    Key("shared", "SET", "sessions that took, or may have taken, tasks through several brokers"),
    Key(
        "unsaid",
        "SET",
        "sessions that a store left when it was closed, and that are kept for a while",
    ),
)

# Of the store as a whole: each of these stands alone, in a slot of its own.
SHARED_KEYS: Final = (
    Key("slots", "SET", "tags of the slots that have, or had, a queue"),
    Key(
        "partitions",
        "HASH",
        "partitioned worklist -> number of slots to write, number of slots to read",
    ),
    Key("brokers", "HASH", "id of a running broker -> when it was last seen, its address, …"),
    Key("node:<name>", "HASH", "id, is_leaving of a broker, running or not"),
    Key(
        "event_ids",
        "HASH",
        "number of a share of the ids -> token of the broker that has it, end of its lease (ms)",
    ),
    Key("consumers", "HASH", "id of a broker -> its consumers of events queues, packed"),
    Key("copy", "HASH", "during a copy into this store: the source and the progress"),
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
