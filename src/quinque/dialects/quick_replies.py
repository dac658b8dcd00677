"""Replies, as bytes, of the commands that clients send once for each message.

Called by   server/dispatch.py, through `reply_each` of a command; dialects, for replies about many.
Calls       nothing.

To make a Value and encode it would take as long as the store needs for the message. These
docstrings are not help texts, so this module can be compiled, unlike the rest of a dialect.

Not here: replies of all other commands (next to their parser, in each dialect).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quinque.errors import NotTaken
from quinque.model.limits import NAME_MOST_BYTES
from quinque.model.ops import Delivery
from quinque.model.task_bodies import MARK
from quinque.model.tube_ops import TaskView
from quinque.model.work_ops import WorkDelivery
from quinque.wire.resp import encode_error

# The header of a string by its length, after the end of the line before it, for names, ids and most
# bodies. To join bytes takes half the time of making them from numbers.
_BEFORE: Final = [b"\r\n$%d\r\n" % length for length in range(NAME_MOST_BYTES + 1)]
# The letter of each task state, after the end of the line before it, by number.
_LETTERS: Final = [b"\r\n$1\r\nr", b"\r\n$1\r\n~", b"\r\n$1\r\nt", b"\r\n$1\r\n!"]
_GONE: Final = b"\r\n$1\r\n-"
_MARK_BYTE: Final = MARK[0]
_NOT_TAKEN: Final = encode_error(NotTaken.code, str(NotTaken()))
_BEFORE_ONE: Final = [b"*1" + before for before in _BEFORE]


def reply_id(id: bytes, protocol: int) -> bytes:
    """The id."""
    return b"$%d\r\n%b\r\n" % (len(id), id)


def reply_simple_id(id: bytes, protocol: int) -> bytes:
    """The id, as a simple string."""
    return b"+%b\r\n" % id


def reply_whether(was_so: bool, protocol: int) -> bytes:
    """1 if it was done, 0 if not."""
    return b":1\r\n" if was_so else b":0\r\n"


def reply_share_of_whethers(were_so: list[bool], protocol: int, words: list[bytes]) -> bytes:
    """The number of messages for which it was done."""
    return b":%d\r\n" % sum(were_so)


def reply_share_of_named(were_so: list[bool], protocol: int, ids: list[bytes]) -> bytes:
    """The number of messages for which it was done, each counted once."""
    return b":%d\r\n" % len({id for id, was_so in zip(ids, were_so, strict=False) if was_so})


def reply_event(found: Delivery | None, protocol: int) -> bytes:
    """[id, contents], or [id, contents, deliveries] if the deliveries are known, or null."""
    if found is None:
        return b"_\r\n" if protocol == 3 else b"$-1\r\n"
    id, body = found.message_id, found.body
    if found.deliveries:
        end = (len(id), id, len(body), body, found.deliveries)
        return b"*3\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n:%d\r\n" % end
    return b"*2\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(id), id, len(body), body)


def reply_job(found: WorkDelivery | None, protocol: int) -> bytes:
    """[[queue, id, body]], or null."""
    if found is None:
        return b"_\r\n" if protocol == 3 else b"*-1\r\n"
    return _one_delivery(found)


def reply_one_id(id: bytes, protocol: int) -> bytes:
    """[id]"""
    return _BEFORE_ONE[len(id)] + id + b"\r\n"


def encoded_ids(ids: Sequence[bytes]) -> bytes:
    """[id, …]"""
    parts = [_BEFORE[len(id)] + id for id in ids]
    return b"*%d" % len(ids) + b"".join(parts) + b"\r\n"


def encoded_deliveries(given: Sequence[WorkDelivery]) -> bytes:
    """[[queue, id, element], …]"""
    parts = [b"*%d" % len(given)]
    for one in given:
        queue, id, body = one.queue, one.message_id, one.body
        parts += (b"\r\n*3", _BEFORE[len(queue)], queue, _BEFORE[len(id)], id, _before(body), body)
    parts.append(b"\r\n")
    return b"".join(parts)


def reply_element(found: WorkDelivery | None, protocol: int) -> bytes:
    """[[queue, id, element]], or none of them."""
    return b"*0\r\n" if found is None else _one_delivery(found)


def reply_acks(were_so: list[bool], protocol: int, ids: list[bytes]) -> bytes:
    """For each id, [id] if it was done, [] if not."""
    if False not in were_so:  # nearly always
        before = _BEFORE_ONE[len(ids[0])]
        if len(ids) == 1:
            return before + ids[0] + b"\r\n"
        if len(set(map(len, ids))) == 1:
            return before + (b"\r\n" + before).join(ids) + b"\r\n"
    return b"".join(
        [
            _BEFORE_ONE[len(id)] + id + b"\r\n" if was_so else b"*0\r\n"
            for id, was_so in zip(ids, were_so, strict=True)
        ]
    )


def reply_share_of_ids(ids: list[bytes], protocol: int, words: list[bytes]) -> bytes:
    """[id, …]"""
    return encoded_ids(ids)


def reply_share_of_elements(given: list[WorkDelivery], protocol: int, words: list[bytes]) -> bytes:
    """[[queue, id, element], …]"""
    return encoded_deliveries(given)


def reply_share_of_acks(were_so: list[bool], protocol: int, ids: list[bytes]) -> bytes:
    """The ids for which it was done."""
    return encoded_ids([id for id, was_so in zip(ids, were_so, strict=True) if was_so])


def reply_item(found: WorkDelivery | None, protocol: int) -> bytes:
    """[[id, data]], or no such pair."""
    if found is None:
        return b"*0\r\n"
    id, data = found.message_id, found.body
    return b"*1\r\n*2\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(id), id, len(data), data)


def reply_task(found: TaskView | None, protocol: int) -> bytes:
    """[id, state, data], or null."""
    if found is None:
        return b"_\r\n" if protocol == 3 else b"*-1\r\n"
    return encoded_task(found)


def reply_acked_task(found: TaskView | None, protocol: int) -> bytes:
    """[id, state, data], or the error that the task was not taken."""
    return _NOT_TAKEN if found is None else encoded_task(found)


def reply_share_of_acked_tasks(
    found: list[TaskView | None], protocol: int, ids: list[bytes]
) -> bytes:
    """[[id, state, data], …] with null for tasks that were not taken; for one id the same as
    above."""
    if len(ids) == 1:
        return reply_acked_task(found[0], protocol)
    return b"*%d\r\n" % len(found) + b"".join([reply_task(task, protocol) for task in found])


def encoded_task(task: TaskView) -> bytes:
    """[id, state, data]"""
    body = task.body
    if body and body[0] == _MARK_BYTE:
        body = body[1:]
    state = task.state
    letter = _GONE if state is None else _LETTERS[state]
    return b"".join((b"*3\r\n:", task.message_id, letter, _before(body), body, b"\r\n"))


def encoded_tasks(tasks: Sequence[TaskView]) -> bytes:
    """[[id, state, data], …]"""
    return b"*%d\r\n" % len(tasks) + b"".join([encoded_task(task) for task in tasks])


def _one_delivery(found: WorkDelivery) -> bytes:
    queue, id, body = found.queue, found.message_id, found.body
    before = _before(body)
    parts = (b"*1\r\n*3", _BEFORE[len(queue)], queue, _BEFORE[len(id)], id, before, body, b"\r\n")
    return b"".join(parts)


def _before(body: bytes) -> bytes:
    length = len(body)
    return _BEFORE[length] if length <= NAME_MOST_BYTES else b"\r\n$%d\r\n" % length
