"""Replies, as bytes, of the commands that are sent once per message.

Called by   server/dispatch.py, through `reply_each` of a command.
Calls       nothing.

A Value that `encode` then looks through costs as much as the message did on its way through the
store. These are no help that users read, so unlike the rest of a dialect they can be compiled.

Not here: replies of all other commands (beside their parse, in each dialect).
"""

from __future__ import annotations

from quinque.model.ops import Delivery
from quinque.model.work_ops import WorkDelivery


def reply_id(id: bytes, protocol: int) -> bytes:
    """The id."""
    return b"$%d\r\n%b\r\n" % (len(id), id)


def reply_simple_id(id: bytes, protocol: int) -> bytes:
    """The id, as a simple string."""
    return b"+%b\r\n" % id


def reply_whether(was_so: bool, protocol: int) -> bytes:
    """1 if it was so, 0 if not."""
    return b":1\r\n" if was_so else b":0\r\n"


def reply_event(found: Delivery | None, protocol: int) -> bytes:
    """[id, contents], or null."""
    if found is None:
        return b"_\r\n" if protocol == 3 else b"$-1\r\n"
    id, body = found.message_id, found.body
    return b"*2\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(id), id, len(body), body)


def reply_job(found: WorkDelivery | None, protocol: int) -> bytes:
    """[[queue, id, body]], or null."""
    if found is None:
        return b"_\r\n" if protocol == 3 else b"*-1\r\n"
    queue, id, body = found.queue, found.message_id, found.body
    return b"*1\r\n*3\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (
        len(queue),
        queue,
        len(id),
        id,
        len(body),
        body,
    )
