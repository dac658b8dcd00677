"""One client of RESP: parse its requests, run them in order, and send replies at the end of an
iteration.

Called by   the event loop.
Calls       wire/requests.py, turn.py.

Requests run at the end of an event loop iteration, unless the client is held: it waits for a
message, the server is paused, or it does not read its replies. Then its further requests wait in
line, and soon the broker stops reading from it. So a client can use up neither memory nor time.

Not here: the effect of a request (dispatch.py), what clients of all protocols share (client.py).
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from quinque.errors import QuinqueError, StoreUnavailable
from quinque.server.client import (
    HELD_MOST_BYTES,
    REPLIES_MOST_BYTES,
    STRANGER_MOST_ARGS,
    STRANGER_MOST_BYTES,
    Client,
    size_of,
)
from quinque.server.waiters import Waiting
from quinque.wire.requests import RequestLimits, RequestReader
from quinque.wire.resp import encode_error

if TYPE_CHECKING:
    from quinque.server.broker import Broker


class Connection(Client):
    """A client that speaks RESP."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.waiting: Waiting | None = None
        self.is_asking = False  # the store has not answered yet
        self.skip_replies = 0  # of the next requests; -1 = of all (CLIENT REPLY)
        self._reader = RequestReader(RequestLimits())
        self._in_line: list[list[bytes]] = []
        self._in_line_bytes = 0

    # -- the event loop calls these -----------------------------------------------------------

    def read_limits(self) -> None:
        """The limits on requests are those of the settings."""
        config = self.broker.config
        self._reader.set_limits(
            RequestLimits(config.max_args, config.max_arg_size, config.query_buffer_limit)
        )

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        broker = self.broker
        broker.stats.input_bytes += len(data)
        self.active_s = monotonic()
        self._read(data)

    def _read(self, data: bytes) -> None:
        """The requests in these bytes have arrived. If they are many, the others are read when the
        turn has ended: a client's bytes can be more requests than other clients can wait for."""
        requests = self._reader.feed(data)
        self.broker.turn.arrived(self, requests)
        words = sum(map(len, requests)) + self._reader.escapes
        if self._has_read_enough(len(requests), words):
            self._read_later()

    @property
    def _has_more(self) -> bool:
        return self._reader.has_more

    def eof_received(self) -> bool:
        """The client has closed its sending side. It gets the replies to its requests. If it waits
        for a message, the wait ends."""
        self._is_over = True
        if self.waiting is not None or self._lingering is not None:
            return False
        self.broker.turn.arrived(self, [])
        # TLS knows no half-closed connections.
        return self._transport is None or self._transport.get_extra_info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        # A request that is still being checked must not begin to wait: nothing would end that.
        self._is_closing = self._is_over = True
        self.give_back(has_failed=exc is not None)
        self._transport = None
        self._stop_lingering()
        self._in_line.clear()
        self.transaction = None
        self.broker.farewell(self)
        self.waiting = None

    # -- what holds a client ------------------------------------------------------------------

    def waits(self) -> list[Waiting]:
        return [] if self.waiting is None else [self.waiting]

    @property
    def is_owed(self) -> bool:
        return self.is_asking or (self.waiting is not None and self.waiting.is_late)

    @property
    def is_held(self) -> bool:
        return (
            self.waiting is not None
            or self.is_asking
            or self._is_stuffed
            or self._is_closing
            or self.out_bytes > REPLIES_MOST_BYTES
        )

    @property
    def must_wait(self) -> bool:
        """Return whether requests that arrive now have to wait in line."""
        return bool(self._in_line) or self.is_held

    def put_in_line(
        self,
        requests: list[list[bytes]],
        start: int = 0,
        size_bytes: int = -1,
        *,
        first: bool = False,
    ) -> None:
        """The requests from number `start` on wait until what holds the client has ended; `first`,
        before those that wait already. All requests take `size_bytes`; -1 = it is not known."""
        waiting = requests[start:] if start else requests
        if first:
            self._in_line[:0] = waiting
        else:
            self._in_line += waiting
        # A long line is put back after each request: only the one that has run is looked at.
        if size_bytes < 0:
            self._in_line_bytes += sum(map(size_of, waiting))
        else:
            self._in_line_bytes += size_bytes - sum(map(size_of, requests[:start]))
        if self._in_line_bytes > HELD_MOST_BYTES:
            self._stop_reading()

    def put_off(self, requests: list[list[bytes]], start: int, size_bytes: int) -> None:
        """The requests from number `start` on wait for the next turn, because the client has had
        its part of this one."""
        if start < len(requests):
            self.put_in_line(requests, start, size_bytes)
            if not self.out:  # else the turn knows of the client
                self.broker.turn.add(self)

    def bound_stranger(self) -> None:
        """A client that has not authenticated sends little: nothing while its requests wait in
        line, and no large request. A client that has just authenticated is read on."""
        if self.user is not None:
            self._read_on()
        elif self._in_line:
            self._stop_reading()
        else:
            self._reader.refuse_large(STRANGER_MOST_ARGS, STRANGER_MOST_BYTES)
            self._read_on()

    def go_on(self) -> None:
        """Run what waits in line in the next turn, or close a client that ends, if nothing holds
        the client any more."""
        # The requests stay in line until then: others that have arrived in this turn come after.
        if (self._in_line or self.is_ending) and not self.is_held:
            self.broker.turn.arrived(self, [])

    def take_line(self) -> tuple[list[list[bytes]], int]:
        """The requests that waited in line, which the caller runs, and what they take in bytes. The
        client is read again, unless it has not authenticated (`bound_stranger`)."""
        requests, self._in_line = self._in_line, []
        size_bytes, self._in_line_bytes = self._in_line_bytes, 0
        self._is_line_full = False
        if self.user is not None:
            self._read_on()
        return requests, size_bytes

    @property
    def is_ending(self) -> bool:
        is_over = self._is_over and not self._reader.has_more
        return is_over or self._reader.broken is not None

    def end(self) -> None:
        """Close, once all requests have been answered; say what was wrong with the bytes, if so."""
        if self.must_wait:
            return
        if self._reader.broken is not None:
            self.send_error(self._reader.broken)
            self._is_misunderstood = True
        self.close()

    # -- replies ------------------------------------------------------------------------------

    def send(self, reply: bytes) -> None:
        """The reply goes out when the turn ends."""
        if self.skip_replies:
            if self._in_line:  # no reply will go out and let it go on
                self.broker.turn.add(self)
            return
        if not self.out:
            self.broker.turn.add(self)
        self.out.append(reply)
        self.out_bytes += len(reply)

    def send_all(self, replies: list[bytes]) -> None:
        """The replies go out when the turn ends; no CLIENT REPLY is in force."""
        if not self.out:
            self.broker.turn.add(self)
        self.out += replies
        self.out_bytes += sum(map(len, replies))

    def flush(self) -> None:
        self.write_out()
        if self._in_line:
            self.go_on()
        elif self.is_ending:  # no other code looks after a client that waited
            self.broker.turn.arrived(self, [])

    def fail_writes(self, failure: StoreUnavailable) -> None:
        """Report that the changes of this iteration may not be durable, and close."""
        if self._first_write >= 0:
            del self.out[self._first_write :]
            self.out.append(encode_error(failure.code, str(failure)))
            self.close()

    @property
    def buffered_bytes(self) -> int:
        queued_bytes = self.transaction.size_bytes if self.transaction is not None else 0
        return self._reader.buffered_bytes + self._in_line_bytes + queued_bytes

    def send_error(self, error: QuinqueError) -> None:
        self.send(encode_error(error.code, str(error)))
