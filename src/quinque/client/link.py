"""Pack requests and read replies, for sockets of threads and of event loops.

Called by   aio/edge.py and sync/edge.py, which have the sockets; calls.py for the words.
Calls       hiredis, which packs requests and reads replies.

Not here: sockets, and what happens when a broker does not answer (aio/broker.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final
from weakref import WeakMethod

import hiredis

from quinque.errors import BadArgument, ProtocolBroken

Word = bytes | str | int

READ_BYTES: Final = 1 << 16
CLOSED: Final = "the broker closed the connection"
LATE: Final = "the broker did not answer in time"
UNREAD: Final = "the broker did not read the request beyond the part that it refused"
_LAST: Final = f"{ProtocolBroken.code} {ProtocolBroken.begins}"


class Reply(Exception):
    """An error reply; its text is the line after the minus sign."""


class NotSent(ConnectionError):
    """The connection was lost before anything was sent on it, or read by the broker."""


def packed(requests: Sequence[Sequence[Word]]) -> bytes:
    """Pack the requests. Raises BadArgument for an argument of a wrong type."""
    if len(requests) == 1:
        return _packed(requests[0])
    return b"".join([_packed(words) for words in requests])


def _packed(words: Sequence[Word]) -> bytes:
    # hiredis converts no int: the process would crash if a signal handler raised meanwhile.
    plain = tuple([b"%d" % word if type(word) is int else word for word in words])
    try:
        data: bytes = hiredis.pack_command(plain)  # type: ignore[arg-type, unused-ignore]  # of any length
    except (TypeError, UnicodeEncodeError) as error:
        raise BadArgument(f"a request cannot be sent: {error}") from error
    return data


class Replies:
    """The replies that have come so far."""

    def __init__(self, on_last: Callable[[Reply], None]) -> None:
        """`on_last` is called with the last error of a broker that closes the connection: it
        carried out neither that request nor any later one."""
        called = WeakMethod(on_last)

        def refused(text: str) -> Reply:
            reply = Reply(text)
            if text.startswith(_LAST) and (call := called()) is not None:
                call(reply)
            return reply

        self._reader = hiredis.Reader(notEnoughData=_MORE, replyError=refused)
        self.feed: Callable[[bytes], None] = self._reader.feed

    def take_into(self, replies: list[Any], most: int) -> None:
        """Append the complete replies to the list, until it has `most`.

        Raises ConnectionAbortedError when this is not a broker.
        """
        try:
            # In one call, so that a signal handler that raises loses no reply.
            replies.extend(islice(iter(self._reader.gets, _MORE), most - len(replies)))
        except hiredis.ProtocolError as error:
            raise ConnectionAbortedError("the server is not a Quinque broker") from error


_MORE: Final = object()  # the reader returns it while a reply is incomplete
