"""One client, whatever protocol it speaks: who it is, and its replies on their way out.

Called by   broker.py and turn.py, for all clients; commands/ (CLIENT LIST, KILL, UNBLOCK).
Calls       the transport.

Not here: requests and what holds them (connection.py for RESP, tarantool_connection.py for
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
from quinque.model.giving_back import HANDING_OUT
from quinque.model.work_ops import LookAtNode
from quinque.server.users import User
from quinque.server.waiters import Waiting
from quinque.stores.pending import after
from quinque.wire.resp import Value

if TYPE_CHECKING:
    from quinque.server.broker import Broker

log = logging.getLogger("quinque.server")

# Replies beyond this wait until the earlier ones have gone out: one turn's worth for one client.
REPLIES_MOST_BYTES: Final = 1 << 20
# After so long in a turn, the further requests of a client wait for the next turn, and others come
# in between. One request may take longer.
BUDGET_NS: Final = 10_000_000
# Requests of a held client beyond this stay in the kernel. Below it we keep reading, because that
# is how we learn that a waiting client has gone.
HELD_MOST_BYTES: Final = 1 << 20
# Until it has authenticated, a client may begin a request of this size, and have none that waits.
STRANGER_MOST_BYTES: Final = 64 << 10
STRANGER_MOST_ARGS: Final = 10  # as in Redis
# For so long a client that is sent away may go on sending: closed on bytes that are not read, it
# would hear of a reset, and not what was wrong. Enough for 1 GB on a line of 1 Gbit/s.
_LINGER_S: Final = 10.0
# The memory that a request and each of its arguments take beside their bytes.
_REQUEST_BYTES: Final = 64
_ARG_BYTES: Final = 48


# An operation, what it found, for which session, and how many replies there were with this one.
_Handed = tuple[Any, Any, bytes, int]


class Transaction:
    """The requests between MULTI and EXEC, until they have been run."""

    __slots__ = (
        "has_writes",
        "is_broken",
        "is_cut",
        "is_looping",
        "reading_ns",
        "requests",
        "size_bytes",
    )

    def __init__(self) -> None:
        self.requests: deque[list[bytes]] = deque()
        self.size_bytes = 0
        self.has_writes = False
        self.is_broken = False  # one was refused, so that none will be run
        self.is_looping = False  # a request is being started
        self.is_cut = False  # the store failed, so that the rest is not run
        self.reading_ns = 0  # how long those that have run and only read took

    def add(self, row: Command, argv: list[bytes]) -> None:
        self.requests.append(argv)
        self.size_bytes += size_of(argv)
        self.has_writes |= row.is_write

    def spoil(self) -> None:
        """None of the requests will be run."""
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
        # What the replies of this turn hand out. If they cannot go out, it goes back.
        self._handed: list[_Handed] = []
        self._unsent: list[_Handed] = []  # of a reply whose end waits for the client to read
        self._first_write = -1  # the first reply of this turn that says something was changed
        self._transport: asyncio.Transport | None = None
        self._is_stuffed = False  # the client does not read its replies
        self._is_over = False  # no more will come
        self._is_closing = False
        self._is_misunderstood = False  # it is told what is wrong, and what more comes is dropped
        self._lingering: asyncio.TimerHandle | None = None

    # -- what each protocol has its own way for -----------------------------------------------

    def waits(self) -> list[Waiting]:
        """What the client waits for."""
        raise NotImplementedError

    def read_limits(self) -> None:
        """The limits on requests are those of the settings."""
        raise NotImplementedError

    def go_on(self) -> None:
        """What held the client may have ended: what waits in line is run in the next turn."""
        raise NotImplementedError

    def flush(self) -> None:
        """The replies of this turn are out."""
        raise NotImplementedError

    def fail_writes(self, failure: StoreUnavailable) -> None:
        """What this turn changed for this client is not known to be durable: say so, and close."""
        raise NotImplementedError

    def send_error(self, error: QuinqueError) -> None:
        """The error goes out when the turn ends."""
        raise NotImplementedError

    @property
    def buffered_bytes(self) -> int:
        """How much of its requests has come and has not been run."""
        raise NotImplementedError

    # -- the event loop calls these -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.read_limits()
        self.broker.welcome(self, self._transport)

    def pause_writing(self) -> None:
        self._is_stuffed = True

    def resume_writing(self) -> None:
        self._is_stuffed = False
        self._unsent = []
        self.go_on()

    # -- replies ------------------------------------------------------------------------------

    @property
    def is_gone(self) -> bool:
        """Whether the connection is closed or lost, so that nothing reaches the client."""
        return self._transport is None or self._transport.is_closing()

    @property
    def is_closing(self) -> bool:
        """Whether the client gets nothing but the replies that it is still owed."""
        return self._is_closing

    @property
    def is_over(self) -> bool:
        """Whether the client has said that no more will come: it does not wait for anything."""
        return self._is_over

    @property
    def is_owed(self) -> bool:
        """Whether the client gets an answer that the store has yet to give."""
        raise NotImplementedError

    def hand(self, op: Any, found: Any, session: bytes = b"") -> None:
        """The reply that was just sent hands out what was found, to that session if it is for
        several. If the reply cannot go out, the messages go back."""
        if found and isinstance(op, HANDING_OUT):
            self._handed.append((op, found, session, len(self.out)))

    def give_back(self) -> None:
        """The messages of replies that did not go out are for others."""
        handed = self._unsent + self._handed
        self._unsent, self._handed = [], []
        for op, found, session, _ in handed:
            self.broker.give_back(op, found, session)

    def mark_write(self) -> None:
        """The next reply says that something was changed."""
        if self._first_write < 0:
            self._first_write = len(self.out)

    def write_out(self) -> None:
        """The replies of this turn are the transport's."""
        out, transport = self.out, self._transport
        self._first_write = -1
        last: list[_Handed] = []
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
        if self._handed:
            if self.is_gone or self._lingering is not None:
                self.give_back()
            elif self._handed[-1][3] == len(out):
                last = self._handed[-1:]
            self._handed = []
        if transport is not None and out and self._lingering is None:
            data = out[0] if len(out) == 1 else b"".join(out)
            self.broker.stats.output_bytes += len(data)
            transport.write(data)
            self.active_s = monotonic()  # a client that waited for long has just been answered
            if self._is_stuffed:
                self._unsent = last
        out.clear()
        self.out_bytes = 0
        if self._is_closing and transport is not None and not self.is_owed:
            self._part(transport)

    def close(self) -> None:
        """Close once the replies are out."""
        self._is_closing = True
        self.broker.forget_monitor(self)
        if not self.out and not self.is_owed and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close now; only replies that may hand out messages are still sent, for a while."""
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
        """Nothing more is said. Closed; but who is misunderstood may close first, for a while."""
        if not self._is_misunderstood:
            transport.close()
        elif self._lingering is None:
            self._lingering = self.broker.loop.call_later(_LINGER_S, transport.close)
            if transport.can_write_eof():
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
