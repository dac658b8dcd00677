"""One client of any protocol: its user, its session and its outgoing replies.

Called by   broker.py and turn.py, for all clients; commands/ (CLIENT LIST, KILL, UNBLOCK).
Calls       the transport.

Not here: requests and what delays them (connection.py for RESP, tarantool_connection.py for
IPROTO).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

from quinque.dialects.command import Command
from quinque.errors import QuinqueError, StoreUnavailable
from quinque.model.families import JOBS
from quinque.model.giving_back import HANDING_OUT
from quinque.model.work_ops import LookAtNode, Take
from quinque.server.users import User
from quinque.server.waiters import Waiting
from quinque.stores.pending import after
from quinque.wire.resp import Value

if TYPE_CHECKING:
    from quinque.server.broker import Broker

log = logging.getLogger("quinque.server")

# More replies than this wait until the earlier ones were sent: the share of one client in one
# iteration.
REPLIES_MOST_BYTES: Final = 1 << 20
# A lease that ends has a time in ms; a number beyond this is of one that does not.
_LEASE_ENDS_MOST_MS: Final = 1 << 50
# How often the broker checks how much a client has read of replies that deliver messages.
_LOOK_S: Final = 0.1
# A TLS transport does not report how many bytes wait below it until there are more than this.
_TLS_UNSEEN_BYTES: Final = 64 << 10
# Nor that a write below it has failed: the connection is lost some iterations of the loop later, 2
# in asyncio and 3 in uvloop.
_TLS_FAILS_WITHIN: Final = 5
# After this time in an iteration, further requests of a client wait for the next one, and other
# clients are served in between. One request may take longer.
BUDGET_NS: Final = 10_000_000
# The same for a client that has not authenticated: anyone can open many such connections.
STRANGER_BUDGET_NS: Final = 500_000
# Of one client, no more requests and words are read in a turn, but for those of the bytes at hand.
# Event loops read a socket up to 32 times, 256 KB each, before they look at another one.
_READ_MOST: Final = 4096
_READ_MOST_WORDS: Final = 16_384
# Requests of a held client beyond this stay in the kernel. Below it we keep reading, because that
# is how we learn that a waiting client has gone.
HELD_MOST_BYTES: Final = 1 << 20
# Until it has authenticated, a client can send an incomplete request of at most this size, and no
# further one.
STRANGER_MOST_BYTES: Final = 64 << 10
STRANGER_MOST_ARGS: Final = 10  # as in Redis
# How long a client that is disconnected may go on sending: if the socket closed with unread bytes,
# the client would see a reset and not the error. Enough for 1 GB on a line of 1 Gbit/s.
_LINGER_S: Final = 10.0
# How long the requests of one EXEC may read, while no other client is served. 10,000 QLENs take 50
# ms; a JSCAN of 10,000 jobs takes 26 ms.
READING_MOST_NS: Final = 250_000_000
# All messages of a queue change with its name, and a queue can be renamed again and again.
RENAMES: Final = ("RENAME", "RENAMENX")
# The memory of a request and of each of its arguments, in addition to their bytes.
_REQUEST_BYTES: Final = 64
_ARG_BYTES: Final = 48


# The messages of one reply: the operation, its result, the session, and after how many bytes for
# the client the reply ends.
_Handed = tuple[Any, Any, bytes, int]
# The same for the replies to requests that were one operation: the messages of each, the replies,
# the session of each if there are several, and where the last reply ends.
_HandedTogether = tuple[Any, Sequence[Any], Sequence[bytes], Sequence[bytes], int]


class Transaction:
    """The requests between MULTI and EXEC, until they have been run."""

    __slots__ = (
        "has_writes",
        "is_broken",
        "is_cut",
        "is_looping",
        "is_reading",
        "reading_ns",
        "renames",
        "requests",
        "size_bytes",
    )

    def __init__(self) -> None:
        self.requests: deque[list[bytes]] = deque()
        self.size_bytes = 0
        self.has_writes = False
        self.renames = 0  # how many of them rename a queue
        self.is_broken = False  # one was refused, so that none will be run
        self.is_looping = False  # a request is being started
        self.is_cut = False  # the store failed, so the other requests are not run
        self.reading_ns = 0  # how long those that have run and only read took
        self.is_reading = False  # the request that is being run only reads, or counts so

    @property
    def has_read_enough(self) -> bool:
        """Whether the requests that have run have kept all other clients waiting for too long."""
        return self.reading_ns > READING_MOST_NS

    def add(self, row: Command, argv: list[bytes]) -> None:
        self.requests.append(argv)
        self.size_bytes += size_of(argv)
        self.has_writes |= row.is_write
        self.renames += row.name in RENAMES

    def spoil(self) -> None:
        """Refuse all requests of the transaction."""
        self.is_broken = True
        self.requests.clear()
        self.size_bytes = 0


def size_of(argv: list[bytes]) -> int:
    """About how many bytes a request takes in memory."""
    return _REQUEST_BYTES + _ARG_BYTES * len(argv) + sum(map(len, argv))


class Client:
    """An asyncio.Protocol in all but name: without that base class it can be compiled."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.id = 0
        self.user: User | None = None
        self.protocol = 2  # of RESP; 0 = the client speaks another one
        self.session = b""  # for which it takes tasks; empty until it is needed
        self.name = b""
        self.lib_name = b""
        self.lib_version = b""
        self.address = ""
        self.local_address = ""
        self.registered: Collection[bytes] = ()
        self.is_monitor = False
        self.transaction: Transaction | None = None  # between MULTI and EXEC
        self.executing: Transaction | None = None  # while EXEC runs
        self.created_s = self.active_s = monotonic()
        self._seen_unsent_bytes = 0
        self.last_command: Command | None = None
        self.out: list[bytes] = []
        self.out_bytes = 0
        self._written_bytes = 0  # by all earlier turns
        # Messages in the replies of this turn. If the replies cannot be sent, they go back.
        self._handed: list[_Handed] = []
        self._handed_together: list[_HandedTogether] = []
        self._unsent: list[_Handed] = []  # of replies whose ends wait for the client to read
        # Of replies whose write may yet turn out to have failed, until an iteration of the loop.
        self._unsure: deque[tuple[int, list[_Handed]]] = deque()
        self._iteration = 0  # counted while there are any
        self._is_looking = False  # how much of these replies the client has read
        self._first_write = -1  # the first reply of this iteration that reports a change
        self._transport: asyncio.Transport | None = None
        self._is_stuffed = False  # the client does not read its replies
        self._is_over = False  # no more will come
        self._is_closing = False
        # Why nothing is read from the client: its line is full, or it has sent enough in this turn.
        self._is_line_full = False
        self._is_ahead = False
        self._read_turn = -1
        self._read_count = 0  # requests that were read in that turn
        self._read_words = 0
        self._is_misunderstood = False  # it gets one error, and its further bytes are dropped
        self._lingering: asyncio.TimerHandle | None = None

    @property
    def budget_ns(self) -> int:
        """How long the client's requests may run in this iteration."""
        return BUDGET_NS if self.user is not None else STRANGER_BUDGET_NS

    # -- what each protocol has its own way for -----------------------------------------------

    def waits(self) -> list[Waiting]:
        """The operation that the client waits for."""
        raise NotImplementedError

    def read_limits(self) -> None:
        """The limits on requests are those of the settings."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Run requests that wait in line in the next iteration, because the client may no longer be
        held."""
        raise NotImplementedError

    def flush(self) -> None:
        """The replies of this turn are out."""
        raise NotImplementedError

    def fail_writes(self, failure: StoreUnavailable) -> None:
        """Report that the changes of this iteration may not be durable, and close."""
        raise NotImplementedError

    def send_error(self, error: QuinqueError) -> None:
        """The error goes out when the turn ends."""
        raise NotImplementedError

    @property
    def buffered_bytes(self) -> int:
        """Return how many bytes of requests were received and not run."""
        raise NotImplementedError

    @property
    def _has_more(self) -> bool:
        """Return whether there are bytes of the client that were not parsed."""
        raise NotImplementedError

    def _read(self, data: bytes) -> None:
        """The requests in these bytes, and in those that were not looked at, have arrived; some of
        them, if they are many."""
        raise NotImplementedError

    # -- the event loop calls these -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # A write goes out at once, and a pause begins if a byte of it does not: so the broker knows
        # which messages were sent. A TLS transport would pause for nothing at 0.
        self._transport.set_write_buffer_limits(1 if self._is_tls else 0, 0)
        self.read_limits()
        self.broker.welcome(self, self._transport)

    @property
    def _is_tls(self) -> bool:
        transport = self._transport
        return transport is not None and transport.get_extra_info("sslcontext") is not None

    def pause_writing(self) -> None:
        self._is_stuffed = True

    def resume_writing(self) -> None:
        self._is_stuffed = False
        self._unsent = []
        self.go_on()

    # -- when the client is not read from ------------------------------------------------------

    def _has_read_enough(self, requests: int, words: int) -> bool:
        """Whether the client's further bytes are for the next turn, now that these requests and
        words were read."""
        ended = self.broker.turn.ended
        if self._read_turn != ended:
            self._read_turn, self._read_count, self._read_words = ended, 0, 0
        self._read_count += requests
        self._read_words += words
        is_much = self._read_count > _READ_MOST or self._read_words > _READ_MOST_WORDS
        return is_much or self._has_more

    def _read_later(self) -> None:
        """The client is read on when the turn has ended."""
        if not self._is_ahead:
            self._is_ahead = True
            if self._transport is not None:
                self._transport.pause_reading()
            self.broker.loop.call_soon(self._catch_up)  # which is after the end of the turn

    def _catch_up(self) -> None:
        self._is_ahead = False
        self._read_on()

    def _stop_reading(self) -> None:
        """The client is read on when its line has been taken."""
        self._is_line_full = True
        if self._transport is not None:
            self._transport.pause_reading()

    def _read_on(self) -> None:
        """Read what the client sends, unless there is a reason not to. A client that is sent away
        is read from, so that the broker learns that it has closed."""
        if self._may_read() and self._has_more and not self._is_closing:
            self._read(b"")
        if self._may_read() and self._transport is not None:
            self._transport.resume_reading()

    def _may_read(self) -> bool:
        return not self._is_line_full and not self._is_ahead and not self.is_gone

    # -- replies ------------------------------------------------------------------------------

    @property
    def is_gone(self) -> bool:
        """Return whether the connection is closed or lost, so that no reply reaches the client."""
        return self._transport is None or self._transport.is_closing()

    @property
    def is_closing(self) -> bool:
        """Return whether the client gets only its outstanding replies."""
        return self._is_closing

    @property
    def is_over(self) -> bool:
        """Return whether the client has closed its sending side: it does not wait for messages."""
        return self._is_over

    @property
    def is_owed(self) -> bool:
        """Return whether the client waits for a reply of the store."""
        raise NotImplementedError

    def hand(self, op: Any, found: Any, session: bytes = b"") -> None:
        """Record that the last reply delivers these messages, to that session if there are several.
        If the reply cannot be sent, the messages return to their queue."""
        # Without a reply (CLIENT REPLY) there is nothing to be sent.
        if found and isinstance(op, HANDING_OUT) and self.out:
            self._handed.append((op, found, session, self._written_bytes + self.out_bytes))

    def hand_each(
        self,
        op: Any,
        found: Sequence[Any],
        replies: Sequence[bytes],
        sessions: Sequence[bytes] = (),
    ) -> None:
        """Do the same for the last replies, each of which delivers a part."""
        if isinstance(op, HANDING_OUT):
            end_bytes = self._written_bytes + self.out_bytes
            self._handed_together.append((op, found, replies, sessions, end_bytes))

    def give_back(self, *, has_failed: bool = False) -> None:
        """The messages of replies that did not go out are for others; with `has_failed`, also those
        that were just written."""
        unsure = [it for _, some in self._unsure for it in some]
        self._unsure.clear()
        for op, found, session, _ in unsure if has_failed else ():
            # The client may have read it all the same.
            may_return = [it for it in found if not _is_delivered_once(op, it)]
            self.broker.give_back(op, may_return, session)
        self._forget_sent()
        if self._unsent and not self.unsent_bytes:
            # The transport has dropped its bytes, so it is unknown how many were sent: the client
            # may have read all but the last reply. A job that may be delivered only once is not
            # delivered again then.
            for op, found, session, _ in self._unsent[:-1]:
                may_return = [it for it in found if not _is_delivered_once(op, it)]
                self.broker.give_back(op, may_return, session)
            del self._unsent[:-1]
        handed = self._unsent + self._take_handed()
        self._unsent = []
        for op, found, session, _ in handed:
            self.broker.give_back(op, found, session)

    def _forget_sent(self) -> None:
        """Messages whose replies have gone out are the client's."""
        unsent_bytes = self.unsent_bytes
        if unsent_bytes:  # else the transport has failed and thrown its bytes away
            sent_bytes = self._written_bytes - unsent_bytes
            self._unsent = [each for each in self._unsent if each[3] > sent_bytes]

    def _look_at_unsent(self) -> None:
        """Forget what was sent, now and later: when a connection fails, it is too late to see."""
        if self._unsent and not self.is_gone:
            self._forget_sent()
            self.broker.loop.call_later(_LOOK_S, self._look_at_unsent)
        else:
            self._is_looking = False

    def _take_handed(self) -> list[_Handed]:
        """Return the messages that the replies of this iteration deliver, in the order of the
        replies."""
        handed, self._handed = self._handed, []
        together, self._handed_together = self._handed_together, []
        for op, found, replies, sessions, end_bytes in together:
            for at in range(len(replies) - 1, -1, -1):
                part = found[at] if isinstance(found[at], list) else [found[at]]
                handed.append((op, part, sessions[at] if sessions else b"", end_bytes))
                end_bytes -= len(replies[at])
        handed.sort(key=_end_bytes)
        return handed

    def mark_write(self) -> None:
        """Record that the next reply reports a change."""
        if self._first_write < 0:
            self._first_write = len(self.out)

    def write_out(self) -> None:
        """The replies of this turn are the transport's."""
        out, transport = self.out, self._transport
        self._first_write = -1
        if transport is not None and out:
            # Of earlier turns: a client has had no time to read the replies of this one, however
            # large they are.
            unsent_bytes = transport.get_write_buffer_size()
            if unsent_bytes > self.broker.config.output_buffer_limit:
                log.warning(
                    "disconnecting client %d: it reads too slowly, %d bytes of replies wait",
                    self.id,
                    unsent_bytes,
                )
                transport.abort()
                transport = None
        if transport is not None and out and self._lingering is None:
            data = out[0] if len(out) == 1 else b"".join(out)
            self.broker.stats.output_bytes += len(data)
            self._write(transport, data)
            self.active_s = monotonic()  # a client that waited for long has just been answered
        if self._handed or self._handed_together:
            self._settle_handed()
        out.clear()
        self.out_bytes = 0
        if self._is_closing and transport is not None and not self.is_owed:
            self._part(transport)

    def _write(self, transport: asyncio.Transport, data: bytes) -> None:
        if transport.is_closing():  # it would throw the bytes away
            return
        self._written_bytes += len(data)
        if len(data) > _TLS_UNSEEN_BYTES and self._is_tls:
            # If the first part does not go out, the second stays where it is seen.
            transport.write(memoryview(data)[:-1])
            transport.write(data[-1:])
        else:
            transport.write(data)

    def _settle_handed(self) -> None:
        """The messages in the replies of this turn are sent; or wait with their replies; or go
        back, if the write has failed or could not be."""
        if self.is_gone or self._lingering is not None:
            self.give_back()
        elif self._is_stuffed:
            self._unsent += self._take_handed()
            self._forget_sent()
            if not self._is_looking:
                self._is_looking = True
                self.broker.loop.call_later(_LOOK_S, self._look_at_unsent)
        elif self._is_tls:
            handed = self._take_handed()
            if handed:
                self._unsure.append((self._iteration + _TLS_FAILS_WITHIN, handed))
            if handed and len(self._unsure) == 1:
                self.broker.loop.call_soon(self._be_sure)
        else:
            self._handed.clear()
            self._handed_together.clear()

    def _be_sure(self) -> None:
        """Replies of some iterations ago have gone out, if the connection is not lost by now."""
        self._iteration += 1
        while self._unsure and self._unsure[0][0] <= self._iteration:
            self._unsure.popleft()
        if self._unsure:
            self.broker.loop.call_soon(self._be_sure)

    def close(self) -> None:
        """Close once the replies are out."""
        self._is_closing = True
        self.broker.forget_monitor(self)
        if not self.out and not self.is_owed and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close now. For a while, only replies that may deliver messages are still sent."""
        self._is_closing = True
        transport = self._transport
        if transport is None:
            return
        if self.out or self.is_owed:
            self.broker.forget_monitor(self)
            self.broker.loop.call_later(_LINGER_S, transport.abort)
        else:
            transport.abort()

    def drop(self) -> None:
        """Close now; all replies that have not been sent are lost, and their messages go back."""
        self._is_closing = True
        self.out.clear()
        self.out_bytes = 0
        if self._transport is not None:
            self._transport.abort()
        self.give_back()

    def _part(self, transport: asyncio.Transport) -> None:
        """Send nothing more. Close, but let a client that broke the protocol close first, for a
        while. Over TLS it closes when it reads that the broker does, and what it sends until then
        is dropped."""
        if not self._is_misunderstood or not transport.can_write_eof():
            transport.close()
        elif self._lingering is None:
            self._lingering = self.broker.loop.call_later(_LINGER_S, transport.close)
            transport.write_eof()

    def _stop_lingering(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def note_reading(self) -> None:
        """A client that has read some of its replies since the last time is active."""
        unsent_bytes = self.unsent_bytes
        if unsent_bytes < self._seen_unsent_bytes:
            self.active_s = monotonic()
        self._seen_unsent_bytes = unsent_bytes

    @property
    def file_number(self) -> int:
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        return sock.fileno() if sock is not None else -1

    # -- what a dialect may know of a connection ----------------------------------------------

    def register(self, queues: Sequence[bytes]) -> None:
        self.registered = dict.fromkeys(queues)

    def consumers(self, queues: Sequence[bytes]) -> Mapping[bytes, Mapping[bytes, int]]:
        return self.broker.consumers(queues)

    def waiting_on(self, queue: bytes) -> int:
        return self.broker.waiters.waiting_on(queue)

    def sees(self, queue: bytes) -> bool:
        return self.user is None or self.user.is_unlimited or self.user.sees(queue)

    def sees_family(self, family: str) -> bool:
        return self.user is None or self.user.sees_family(family)

    def sees_all(self) -> bool:
        return self.user is None or self.user.queues is None

    def taking_session(self) -> bytes:
        return self.broker.sessions.of(self)

    def join_session(self, session: bytes, reply: Value) -> Any:
        return after(self.broker.sessions.join(self, session), lambda _: reply)

    def now_ms(self) -> int:
        return self.broker.store.now_ms()

    def node_id(self) -> bytes:
        return self.broker.store.run(LookAtNode()).node_id


def _end_bytes(handed: _Handed) -> int:
    return handed[3]


def _is_delivered_once(op: Any, delivery: Any) -> bool:
    """Return whether the delivery is of a job with RETRY 0, whose lease does not end."""
    return isinstance(op, Take) and op.family is JOBS and delivery.lease > _LEASE_ENDS_MOST_MS
