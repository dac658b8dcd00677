"""One client that speaks Tarantool's protocol: packets in, replies out as requests finish.

Called by   the event loop.
Calls       wire/iproto.py, tarantool_requests.py, turn.py.

A request that waits, or that the store has not answered, does not delay those behind it: each reply
has the number of its request. A client is held if it does not read its replies, if the store has
not answered many of its requests, if it joins another session, or during a pause. Then its further
requests wait in line, and soon the broker stops reading from it.

Not here: the effect of a request (tarantool_requests.py), what clients of all protocols share
(client.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from os import urandom
from time import monotonic
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from quinque.dialects.tarantool_errors import described
from quinque.errors import QuinqueError, StoreUnavailable
from quinque.model.limits import WORDS_MOST
from quinque.server import config_commands
from quinque.server.client import (
    HELD_MOST_BYTES,
    REPLIES_MOST_BYTES,
    STRANGER_MOST_BYTES,
    Client,
)
from quinque.server.waiters import Waiting
from quinque.wire.iproto import (
    SALT_BYTES,
    Packet,
    PacketLimits,
    PacketReader,
    error_reply,
    greeting,
    sync_of,
)

if TYPE_CHECKING:
    from quinque.server.broker import Broker
    from quinque.server.tarantool_requests import TarantoolRequests

log = logging.getLogger("quinque.server")

_SERVER_UUID = str(uuid4())  # of this run: nothing is known here by it
# The memory that a packet, and each of its arguments, takes beside its bytes.
_PACKET_BYTES: Final = 320
_ARG_BYTES: Final = 48
# The maximum number of operations of one client, and the maximum bytes of their requests, that the
# store has not answered. Further requests wait, so that a slow store does not fill the memory.
_ASKING_MOST: Final = 16
_ASKING_MOST_BYTES: Final = 1 << 20


class TarantoolConnection(Client):
    def __init__(self, broker: Broker, requests: TarantoolRequests) -> None:
        super().__init__(broker)
        self.protocol = 0
        self.salt = urandom(SALT_BYTES)
        self._asking = 0  # how many operations the store has not answered
        self._asking_bytes = 0
        self.is_joining = False  # a session; whose are the tasks that it takes is not known yet
        self._requests = requests
        self._reader = PacketReader(PacketLimits())
        self._waitings: dict[int, Waiting] = {}
        self._last_waiting = 0
        self.wait_bytes = 0  # of the requests that wait
        self._in_line: list[Packet] = []
        self._in_line_bytes = 0

    # -- the event loop calls these -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.out.append(greeting(_SERVER_UUID, self.salt))
        self.out_bytes = len(self.out[0])
        super().connection_made(transport)
        self.broker.turn.add(self)

    def read_limits(self) -> None:
        config = self.broker.config
        self._reader.set_limits(
            PacketLimits(
                min(config.max_args, WORDS_MOST), config.max_arg_size, config.query_buffer_limit
            )
        )

    @property
    def limits(self) -> PacketLimits:
        return self._reader.limits

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        self.broker.stats.input_bytes += len(data)
        self.active_s = monotonic()
        self._read(data)

    def _read(self, data: bytes) -> None:
        packets = self._reader.feed(data)
        if self._in_line:
            self._put_in_line(packets)
        else:
            self._run(packets)
        if self._has_read_enough(len(packets), sum([len(it.args) for it in packets])):
            self._read_later()
        if self.user is None:
            self._bound_stranger()
        if self._is_finished:
            self.broker.turn.add(self)

    @property
    def _has_more(self) -> bool:
        return self._reader.has_more

    def eof_received(self) -> bool:
        """The client has closed its sending side. It gets the replies to its requests. If it waits
        for a message, the wait ends."""
        self._is_over = True
        if self._waitings or self._lingering is not None:
            return False
        self.broker.turn.add(self)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        # A request that is still being checked must not begin to wait: nothing would end that.
        self._is_closing = self._is_over = True
        self.give_back(has_failed=exc is not None)
        self._transport = None
        self._stop_lingering()
        self._in_line.clear()
        self.broker.farewell(self)
        self._waitings.clear()

    # -- what holds a client ------------------------------------------------------------------

    @property
    def is_owed(self) -> bool:
        return self._asking > 0 or any(each.is_late for each in self._waitings.values())

    @property
    def is_held(self) -> bool:
        return (
            self._is_stuffed
            or self._is_closing
            or self.is_joining
            or self.out_bytes > REPLIES_MOST_BYTES
            or self._asking >= _ASKING_MOST
            or self._asking_bytes > _ASKING_MOST_BYTES
        )

    def begin_asking(self, packets: Sequence[Packet]) -> None:
        """These requests are one operation, which the store has not answered."""
        self._asking += 1
        self._asking_bytes += _size_of(packets)

    def end_asking(self, packets: Sequence[Packet]) -> None:
        """The store has answered it."""
        self._asking -= 1
        self._asking_bytes -= _size_of(packets)

    def _run(self, packets: list[Packet], size_bytes: int = -1) -> None:
        """Run the requests, or put them in line. They take `size_bytes`; -1 means unknown."""
        at, count = 0, len(packets)
        broker, requests = self.broker, self._requests
        most_ns = broker.dispatch.busy_ns + self.budget_ns
        while at < count:
            is_paused = broker.pause_mode and broker.must_pause(self, requests.row_of(packets[at]))
            if is_paused or self.is_held:
                self._put_in_line(packets, at, size_bytes)
                return
            if broker.dispatch.busy_ns > most_ns:  # it has had its part of this turn
                self._put_in_line(packets[at:])
                if not self.out:  # else the turn knows of the client
                    broker.turn.add(self)
                return
            try:
                at = requests.execute(self, packets, at)
            except Exception:
                log.exception(
                    "unexpected error in a request of the IPROTO protocol; disconnecting its client"
                )
                self.drop()
                return

    def _put_in_line(self, packets: list[Packet], start: int = 0, size_bytes: int = -1) -> None:
        self._in_line += packets[start:]
        # As in connection.py: only what has run since is looked at.
        if size_bytes < 0:
            self._in_line_bytes += _size_of(packets[start:])
        else:
            self._in_line_bytes += size_bytes - _size_of(packets[:start])
        if self._in_line_bytes > HELD_MOST_BYTES:
            self._stop_reading()

    def _bound_stranger(self) -> None:
        """A client that has not authenticated sends little: nothing while its requests wait in
        line, and no large packet."""
        if not self._in_line:
            self._reader.refuse_large(STRANGER_MOST_BYTES)
        else:
            self._stop_reading()

    def go_on(self) -> None:
        if self.is_held or not self._in_line:
            return
        packets, self._in_line = self._in_line, []
        size_bytes, self._in_line_bytes = self._in_line_bytes, 0
        self._is_line_full = False
        self._run(packets, size_bytes)
        if self.user is None:
            self._bound_stranger()
        self._read_on()
        if self._is_finished:
            self.broker.turn.add(self)

    def waits(self) -> list[Waiting]:
        return list(self._waitings.values())

    @property
    def wait_count(self) -> int:
        return len(self._waitings)

    def add_waiting(self, waiting: Waiting, packet: Packet) -> int:
        """Record one more wait of the client. Return the number that ends it."""
        self._last_waiting += 1
        self._waitings[self._last_waiting] = waiting
        self.wait_bytes += packet.size_bytes
        return self._last_waiting

    def end_waiting(self, number: int, packet: Packet) -> None:
        if self._waitings.pop(number, None) is not None:
            self.wait_bytes -= packet.size_bytes

    def _stop_waiting(self) -> None:
        """End all waits without a reply: the client gets one error and then nothing more. Tasks
        that arrive for it meanwhile go back."""
        for waiting in self._waitings.values():
            self.broker.waiters.remove(waiting)
        self._waitings.clear()

    def move_waits(self) -> None:
        """Move the client's waits to its current session."""
        for waiting in self._waitings.values():
            if hasattr(waiting.wait.op, "session"):
                waiting.wait.op.session = self.session

    @property
    def _is_finished(self) -> bool:
        """Return whether the client sends no more, and all its requests are answered."""
        is_ending = self._is_over or self._reader.broken is not None
        return is_ending and not self._in_line and not self._asking and not self._reader.has_more

    # -- replies ------------------------------------------------------------------------------

    def send(self, reply: bytes, *, is_write: bool = False) -> None:
        """The reply goes out when the turn ends."""
        if not self.out:
            self.broker.turn.add(self)
        if is_write and self._first_write < 0:
            self._first_write = len(self.out)
        self.out.append(reply)
        self.out_bytes += len(reply)

    def send_all(self, replies: list[bytes], *, is_write: bool) -> None:
        """The replies go out when the turn ends."""
        if not self.out:
            self.broker.turn.add(self)
        if is_write and self._first_write < 0:
            self._first_write = len(self.out)
        self.out += replies
        self.out_bytes += sum(map(len, replies))

    def send_error(self, error: QuinqueError) -> None:
        """Send an error that does not belong to a request."""
        self.send(error_reply(0, *described(error)))

    def flush(self) -> None:
        if self._is_finished and not self._is_closing:
            if self._reader.broken is not None:
                self.send_error(self._reader.broken)
                self._is_misunderstood = True
                self._stop_waiting()
            self._is_closing = True
        self.write_out()
        if self._in_line and not self._is_closing:
            self.broker.loop.call_soon(self.go_on)

    def fail_writes(self, failure: StoreUnavailable) -> None:
        if self._first_write >= 0:
            number, text = described(failure)
            lost = self.out[self._first_write :]
            self.out[self._first_write :] = [
                error_reply(sync_of(reply), number, text) for reply in lost
            ]
            self.close()

    @property
    def buffered_bytes(self) -> int:
        return self._reader.buffered_bytes + self._in_line_bytes

    # -- what a dialect may know of a connection ----------------------------------------------

    def server_uuid(self) -> str:
        return _SERVER_UUID

    def keep_sessions(self, keep_s: str) -> None:
        config_commands.set_live(self.broker.config, [(b"session-ttr", keep_s.encode())])
        self.broker.read_live_settings()


def _size_of(packets: Sequence[Packet]) -> int:
    """About how many bytes packets take in memory."""
    return sum(
        _PACKET_BYTES + _ARG_BYTES * len(packet.args) + packet.size_bytes for packet in packets
    )
