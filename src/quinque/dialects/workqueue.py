"""The items family: the methods of Redis Work Queue as WQ.* commands of the broker.

Called by   server/dispatch.py, through COMMANDS.
Calls       args.py, options.py, quick_replies.py.

Redis Work Queue has no server and so no commands: its clients use keys of Redis. On a Redis store,
these commands use the same keys.

    WQ.ADD  add_item             WQ.LEASE     lease       WQ.LEN    queue_len, processing
    WQ.ADDUNIQUE add_unique_item WQ.COMPLETE  complete    WQ.CLEAN  light_clean, deep_clean

WQ.EXTEND, WQ.PEEK and WQ.SHOW are Quinque extensions.

Not here: the Python library (quinque.workqueue), the rules (engine/work/).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from quinque.dialects.args import read_int, read_name
from quinque.dialects.command import Command, Session, Wait
from quinque.dialects.options import PEEK_COUNT, Options
from quinque.dialects.quick_replies import (
    reply_item,
    reply_share_of_named,
    reply_share_of_whethers,
    reply_whether,
)
from quinque.errors import WrongArity
from quinque.model.families import ITEMS
from quinque.model.limits import NEVER_MS, SPAN_MOST_MS
from quinque.model.own_ops import AddItems, Cleaned, CleanItems, Complete, ExtendLeases
from quinque.model.states import State
from quinque.model.work_ops import (
    Browse,
    LookAt,
    QueueView,
    Show,
    Take,
    WorkDelivery,
    WorkView,
)
from quinque.wire.resp import NULL_ARRAY, OK, Value


def parse_add(argv: list[bytes]) -> AddItems:
    """WQ.ADD queue id data [id data ...]

    Add items at the back, with the ids that you choose. Returns the number of new items. An
    existing item is not changed.
    """
    if len(argv) % 2:
        raise WrongArity("WQ.ADD")
    return AddItems(ITEMS, read_name("queue", argv[1]), _ids(argv[2::2]), argv[3::2])


def gather_add(op: AddItems, words: list[bytes]) -> bool:
    """Merge requests for one queue, unless an id is invalid."""
    op.message_ids, op.bodies = _ids(words[::2]), words[1::2]
    return True


def reply_number(were_so: Sequence[bool] | None) -> Value:
    """The number of items for which the command took effect."""
    return sum(were_so or ())


def parse_addunique(argv: list[bytes]) -> AddItems:
    """WQ.ADDUNIQUE queue id data

    Add an item whose id is certainly new. If an item with this id exists, its data are
    replaced.
    """
    queue, id = read_name("queue", argv[1]), _id(argv[2])
    return AddItems(ITEMS, queue, [id], argv[3:4], is_known_new=True)


def reply_ok(were_new: Sequence[bool]) -> Value:
    """OK, as a simple string."""
    return OK


def parse_lease(argv: list[bytes], session: Session) -> Wait:
    """WQ.LEASE queue lease-ms [COUNT n] [BLOCK ms]

    Lease the first item, or up to COUNT, for the given time. If there is none, BLOCK waits for
    one up to the given time; a negative number waits forever.
    """
    queue, lease_ms = read_name("queue", argv[1]), _lease_ms(argv[2])
    take = Take(ITEMS, [queue], lease_ms=lease_ms)
    timeout_ms = 0
    options = Options("WQ.LEASE", argv, 3)
    for word in options:
        match word:
            case b"COUNT":
                take.count = options.number(least=1)
            case b"BLOCK":
                timeout_ms = options.number(least=-SPAN_MOST_MS, most=SPAN_MOST_MS)
            case _:
                raise options.refused()
    take.is_waiting = timeout_ms != 0
    return Wait(take, [queue], b"", timeout_ms if timeout_ms >= 0 else NEVER_MS)


def gather_lease(wait: Wait, same: list[bytes]) -> bool:
    """Merge requests for one item each that do not wait."""
    take = wait.op
    assert isinstance(take, Take)
    if take.count != 1 or wait.timeout_ms:
        return False
    take.count = len(same)
    return True


def reply_lease(asked: Wait, found: list[WorkDelivery] | None, session: Session) -> Value:
    """[[id, data], …], which is empty if the request does not wait; null if the wait is over."""
    if found is None:
        return NULL_ARRAY
    return [[item.message_id, item.body] for item in found]


def parse_complete(argv: list[bytes]) -> Complete:
    """WQ.COMPLETE queue id [id ...]

    Complete the items of any worker and remove them. Returns the number of items that existed.
    """
    return Complete(ITEMS, read_name("queue", argv[1]), _ids(argv[2:]), is_leased=False)


def gather_ids(op: Complete | ExtendLeases, ids: list[bytes]) -> bool:
    """Merge requests for one queue, unless an id is invalid."""
    op.message_ids = _ids(ids)
    return True


def parse_extend(argv: list[bytes]) -> ExtendLeases:
    """WQ.EXTEND queue lease-ms id [id ...]

    Set the leases to end after the given time from now. This can extend or shorten them.
    Returns the number of leases that had not ended.
    """
    queue, lease_ms = read_name("queue", argv[1]), _lease_ms(argv[2])
    return ExtendLeases(ITEMS, queue, list(dict.fromkeys(_ids(argv[3:]))), lease_ms)


def parse_len(argv: list[bytes]) -> LookAt:
    """WQ.LEN queue

    Return the number of queued items and of items being processed.
    """
    return LookAt(ITEMS, read_name("queue", argv[1]))


def reply_len(queue: QueueView | None) -> Value:
    """{queued: number, processing: number}"""
    if queue is None:
        return {"queued": 0, "processing": 0}
    return {"queued": queue.ready, "processing": queue.leased}


def parse_peek(argv: list[bytes]) -> Browse:
    """WQ.PEEK queue [STATE state] [COUNT n]

    Return the first queued items, or those in STATE, up to COUNT (10). STATE is queued or
    processing. Nothing changes.
    """
    peek = Browse(ITEMS, read_name("queue", argv[1]), State.READY, PEEK_COUNT)
    options = Options("WQ.PEEK", argv, 2)
    for word in options:
        match word:
            case b"STATE":
                peek.state = options.state(_STATES)
            case b"COUNT":
                peek.count = options.number(least=1)
            case _:
                raise options.refused()
    return peek


def reply_peek(items: list[WorkView]) -> Value:
    """[[id, state, ms, data], …]. `ms` is the remaining time of the lease, null without one."""
    return [_shown(item) for item in items]


def parse_show(argv: list[bytes]) -> Show:
    """WQ.SHOW queue id

    Return the current state of an item, also if it is leased, or null. Nothing changes.
    """
    return Show(ITEMS, _id(argv[2]), read_name("queue", argv[1]))


def reply_show(item: WorkView | None) -> Value:
    """[id, state, ms, data], as in WQ.PEEK; or null."""
    return NULL_ARRAY if item is None else _shown(item)


def _shown(item: WorkView) -> Value:
    word = b"processing" if item.state is State.LEASED else b"queued"
    return [item.message_id, word, item.due_within_ms, item.body]


def parse_clean(argv: list[bytes]) -> CleanItems:
    """WQ.CLEAN queue [DEEP] [CURSOR cursor] [COUNT n]

    Requeue items that workers abandoned: a slice of about COUNT ids (1000), from the CURSOR of
    the previous reply, until that is 0. DEEP checks every item. The broker cleans by itself,
    but not deeply.
    """
    clean = CleanItems(ITEMS, read_name("queue", argv[1]), is_deep=False)
    options = Options("WQ.CLEAN", argv, 2)
    for word in options:
        match word:
            case b"DEEP":
                clean.is_deep = True
            case b"CURSOR":
                clean.cursor = options.number()
            case b"COUNT":
                clean.count = options.number(least=1)
            case _:
                raise options.refused()
    return clean


def reply_clean(done: Cleaned) -> Value:
    """{cursor, looked-at, returned, dropped, doubled}, each with a number."""
    return {
        "cursor": done.cursor,
        "looked-at": done.looked_at,
        "returned": done.returned,
        "dropped": done.dropped,
        "doubled": done.doubled,
    }


def _id(text: bytes) -> bytes:
    return read_name("id", text)


def _ids(texts: Sequence[bytes]) -> Sequence[bytes]:
    for text in texts:
        _id(text)
    return texts


def _lease_ms(text: bytes) -> int:
    return read_int("lease-ms", text, least=1, most=SPAN_MOST_MS)


def _on_ids(name: str, arity: int, parse: Callable[..., Any]) -> Command:
    """Make a row for a command whose last arguments are ids."""
    row = Command(name, _ITEMS, "write", arity, parse, reply_number)
    row.gather, row.reply_each, row.reply_share = gather_ids, reply_whether, reply_share_of_named
    row.varies, row.varies_on = -arity - 1, True
    return row


_ITEMS: Final = ITEMS.name
_STATES: Final = {b"queued": State.READY, b"processing": State.LEASED}
COMMANDS: Final = [
    Command(
        "WQ.ADD",
        _ITEMS,
        "write",
        -4,
        parse_add,
        reply_number,
        gather=gather_add,
        reply_each=reply_whether,
        reply_share=reply_share_of_whethers,
        varies=2,
        varies_on=True,
        words_each=2,
    ),
    Command("WQ.ADDUNIQUE", _ITEMS, "write", 4, parse_addunique, reply_ok),
    Command(
        "WQ.LEASE",
        _ITEMS,
        "write",
        -3,
        parse_lease,
        reply_lease,
        with_session=True,
        gather=gather_lease,
        reply_each=reply_item,
        varies=0,
        is_blocking=True,
    ),
    _on_ids("WQ.COMPLETE", -3, parse_complete),
    _on_ids("WQ.EXTEND", -4, parse_extend),
    Command("WQ.LEN", _ITEMS, "read", 2, parse_len, reply_len),
    Command("WQ.PEEK", _ITEMS, "read", -2, parse_peek, reply_peek),
    Command("WQ.SHOW", _ITEMS, "read", 3, parse_show, reply_show),
    Command("WQ.CLEAN", _ITEMS, "write", -2, parse_clean, reply_clean),
]
