"""The reliable family with the commands of RedisRQ: RQ.PUSH RQ.POP RQ.ACK RQ.RECOVER RQ.INSPECT
RQ.INFO; and the extension RQ.UNPOP.

Called by   server/dispatch.py, through COMMANDS.
Calls       options.py, quick_replies.py.

An undelivered element is ready. A delivered element is leased until it is acked: its lease never
ends.

    RQ.POP [count] [COUNT n] [BLOCK ms] queue [queue ...]

    RQ.POP 10 k1 k2            a count, and names, as in the README of RedisRQ
    RQ.POP COUNT 10 k1 k2      the same                           as RedisRQ reads it
    RQ.POP 10                  the queue 10: there is no other argument
    RQ.POP COUNT 1 10 k2       the queues 10 and k2: the count is already given

Not here: commands on a queue by its name (keys.py), the rules (engine/work/).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from quinque.dialects.args import check_count
from quinque.dialects.command import Command, Session, Wait
from quinque.dialects.options import EXACT_MOST, read_any_queue
from quinque.dialects.quick_replies import (
    encoded_deliveries,
    encoded_ids,
    reply_acks,
    reply_element,
    reply_one_id,
    reply_share_of_acks,
    reply_share_of_elements,
    reply_share_of_ids,
)
from quinque.errors import EmptyKey, WrongUsage
from quinque.model.families import RELIABLE
from quinque.model.limits import NEVER_MS, SPAN_MOST_MS
from quinque.model.own_ops import RELIABLE_TERMS, Complete, Inspect, Inspected, Recover, Undeliver
from quinque.model.queue_ops import FindFamilies
from quinque.model.work_ops import Add, LookAt, QueueView, Take, WorkDelivery
from quinque.wire.resp import Encoded, Value

# The texts of RedisRQ's C code, which programs may compare.
_POP_USAGE: Final = (
    "RQ.POP <count:uint> [ BLOCK <milliseconds:int> ] <queue1:string> [ <queue2:string> [ ... ] ]"
)
_RECOVER_USAGE: Final = "RQ.RECOVER <key> <count:uint> <elapsed:uint>"
_INSPECT_USAGE: Final = "RQ.INSPECT <key> [ PENDING ] <start:int> <count:uint>"

# Requests for more elements are not merged: they cost little more than their elements.
_FEW: Final = 16

_NUMBER: Final = re.compile(rb"0|-?[1-9][0-9]{0,18}")  # without leading zeros or signs, as in Redis


def parse_push(argv: list[bytes]) -> Add:
    """RQ.PUSH queue element [element ...]

    Add elements at the end of the queue, which is created if it does not exist. Returns their
    ids in order.
    """
    return Add(RELIABLE, read_any_queue(argv[1]), argv[2:], RELIABLE_TERMS)


def gather_push(add: Add, elements: list[bytes]) -> bool:
    """Merge requests for one queue."""
    add.bodies = elements
    return True


def reply_push(ids: list[bytes]) -> Value:
    """[id, …]"""
    return Encoded(encoded_ids(ids))


def parse_pop(argv: list[bytes], session: Session) -> Wait:
    """RQ.POP [count] [COUNT n] [BLOCK ms] queue [queue ...]

    Take an element, or up to COUNT: those of the first queue, then those of the second. They
    stay delivered until they are acked. If there is none, BLOCK waits for one up to the given
    time; a negative number waits forever.
    """
    if len(argv) == 2:
        queues = [read_any_queue(argv[1])]
        return Wait(Take(RELIABLE, queues), queues, b"", timeout_ms=0)
    at, count, block_ms = _options_of_pop(argv)
    if count < 0:
        raise WrongUsage(_POP_USAGE)
    check_count("queues", argv[at:])
    queues = list(dict.fromkeys(map(read_any_queue, argv[at:])))
    if not count:  # there is no reason to wait
        return Wait(FindFamilies(()), (), b"", timeout_ms=0)
    timeout_ms = NEVER_MS if not 0 <= block_ms <= SPAN_MOST_MS else block_ms
    take = Take(RELIABLE, queues, count, is_waiting=timeout_ms > 0, is_drained=len(queues) > 1)
    return Wait(take, queues, b"", timeout_ms)


def gather_pop(wait: Wait, same: list[bytes]) -> int:
    """Merge requests for a few elements each from the same queue."""
    op = wait.op
    if not isinstance(op, Take) or op.count > _FEW or len(op.queues) != 1:
        return 0
    share = op.count
    op.count = share * len(same)
    return share


def reply_pop(asked: Wait, found: list[WorkDelivery] | None, session: Session) -> Value:
    """[[queue, id, element], …]; or null if the time is over."""
    if found is None:
        return None
    return Encoded(encoded_deliveries(found))


def parse_ack(argv: list[bytes], session: Session) -> Complete:
    """RQ.ACK queue id [id ...]

    Ack delivered elements and remove them. Returns the ids that were delivered, or null if the
    queue does not exist.
    """
    return Complete(RELIABLE, read_any_queue(argv[1]), argv[2:], is_leased=True)


def gather_ack(complete: Complete, ids: list[bytes]) -> bool:
    """Merge requests for one queue."""
    complete.message_ids = ids
    return True


def reply_ack(asked: Complete, were_so: list[bool] | None, session: Session) -> Value:
    """[id, …]; or null."""
    if were_so is None:
        return None
    pairs = zip(asked.message_ids, were_so, strict=True)
    return Encoded(encoded_ids([id for id, was_so in pairs if was_so]))


def parse_unpop(argv: list[bytes]) -> Undeliver:
    """RQ.UNPOP queue id [id ...]

    Undo the delivery of elements that no consumer has seen: they are undelivered again, in their
    place. Elements that were delivered more than once stay delivered. Returns the number of
    elements.
    """
    queue = read_any_queue(argv[1])
    ids = dict.fromkeys(argv[2:])
    return Undeliver(RELIABLE, [WorkDelivery(queue, id, b"", 0, 0) for id in ids])


def reply_unpop(count: int) -> Value:
    """The number of elements."""
    return count


def parse_recover(argv: list[bytes]) -> Recover:
    """RQ.RECOVER queue count elapsed

    Deliver again up to count elements whose last delivery was at least elapsed milliseconds
    ago, starting with the oldest delivery, each element once.
    """
    queue, words = read_any_queue(argv[1]), argv[2:]
    if words[0].upper() == b"PENDING":
        del words[0]
    numbers = [_number(text) for text in words[:2]]
    if len(numbers) < 2 or None in numbers:
        raise WrongUsage(_RECOVER_USAGE)
    count, elapsed_ms = (max(0, min(number or 0, EXACT_MOST)) for number in numbers)
    return Recover(RELIABLE, queue, count, elapsed_ms)


def reply_recover(found: list[WorkDelivery] | None) -> Value:
    """[[id, element], …]; or null."""
    if found is None:
        return None
    return [[element.message_id, element.body] for element in found]


def parse_inspect(argv: list[bytes], session: Session) -> Inspect:
    """RQ.INSPECT queue [PENDING] start count

    Return count elements from index start, or from the end if start is negative: the
    undelivered elements, or with PENDING the delivered ones.
    """
    queue, words = read_any_queue(argv[1]), argv[2:]
    is_pending = words[0].upper() == b"PENDING"
    start, count = [*map(_number, words[is_pending : is_pending + 2]), None][:2]
    if start is None or count is None or count <= 0:
        # As in RedisRQ, a missing queue, or one of another family, is reported first.
        start = count = 0
    start = max(-EXACT_MOST, min(start, EXACT_MOST))
    return Inspect(RELIABLE, queue, is_pending, start, min(count, EXACT_MOST))


def reply_inspect(asked: Inspect, found: list[Inspected] | None, session: Session) -> Value:
    """[[id, element], …]; with PENDING [[id, element, time of the last delivery, milliseconds since
    then, deliveries], …]"""
    if found is None:
        raise EmptyKey
    if not asked.count:
        raise WrongUsage(_INSPECT_USAGE)
    if not asked.is_leased:
        return [[element.message_id, element.body] for element in found]
    now_ms = session.now_ms()
    return [
        [
            element.message_id,
            element.body,
            element.delivered_ms,
            max(0, now_ms - element.delivered_ms),
            element.deliveries,
        ]
        for element in found
    ]


def parse_info(argv: list[bytes]) -> LookAt:
    """RQ.INFO queue

    Return the number of undelivered and of delivered elements.
    """
    return LookAt(RELIABLE, read_any_queue(argv[1]))


def reply_info(queue: QueueView | None) -> Value:
    """["undelivered", number, "delivered", number]"""
    if queue is None:
        raise EmptyKey
    return [b"undelivered", queue.ready, b"delivered", queue.leased]


def _options_of_pop(argv: list[bytes]) -> tuple[int, int, int]:
    """Return the index of the first queue, the count, and the time to wait.

    An argument is an option only if a number and at least one name follow. So a queue may have any
    name.
    """
    count: int | None = None
    block_ms: int | None = None
    at, end = 1, len(argv)
    if end > 2 and argv[1].isdigit():
        count = _number(argv[1])
        at += count is not None
    while at + 2 < end:
        word = argv[at].upper()
        if word == b"COUNT" and count is None:
            number = count = _number(argv[at + 1])
        elif word == b"BLOCK" and block_ms is None:
            number = block_ms = _number(argv[at + 1])
        else:
            break
        if number is None:
            break
        at += 2
    return at, 1 if count is None else count, block_ms or 0


def _queues_of_pop(argv: list[bytes]) -> Sequence[bytes]:
    return argv[_options_of_pop(argv)[0] :]


def _number(text: bytes) -> int | None:
    """Return a whole number of 64 bits, or None."""
    if not _NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


COMMANDS: Final = [
    Command(
        "RQ.PUSH",
        RELIABLE.name,
        "write",
        -3,
        parse_push,
        reply_push,
        gather=gather_push,
        reply_each=reply_one_id,
        reply_share=reply_share_of_ids,
        varies=2,
        varies_on=True,
    ),
    Command(
        "RQ.POP",
        RELIABLE.name,
        "write",
        -2,
        parse_pop,
        reply_pop,
        queues=_queues_of_pop,
        with_session=True,
        gather=gather_pop,
        reply_each=reply_element,
        reply_share=reply_share_of_elements,
        varies=0,
        is_blocking=True,
    ),
    Command(
        "RQ.ACK",
        RELIABLE.name,
        "write",
        -3,
        parse_ack,
        reply_ack,
        with_session=True,
        gather=gather_ack,
        reply_words=reply_acks,
        reply_share=reply_share_of_acks,
        varies=2,
        varies_on=True,
    ),
    Command("RQ.UNPOP", RELIABLE.name, "write", -3, parse_unpop, reply_unpop),
    Command("RQ.RECOVER", RELIABLE.name, "write", -3, parse_recover, reply_recover),
    Command(
        "RQ.INSPECT", RELIABLE.name, "read", -4, parse_inspect, reply_inspect, with_session=True
    ),
    Command("RQ.INFO", RELIABLE.name, "read", 2, parse_info, reply_info),
]
