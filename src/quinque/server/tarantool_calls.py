"""Run calls of Tarantool's functions, and send their replies now or later.

Called by   tarantool_requests.py, for each call, or for several that are one operation.
Calls       dialects/tarantool.py (parse, reply), the store (run), waiters.py, users.py.

The order of checks: the client has authenticated, the function exists, and the user has the
permission for the tube.

Not here: requests other than calls, and which calls can be merged (tarantool_requests.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from quinque.dialects.command import Command, Wait
from quinque.dialects.tarantool import body_of, find_call, values_of
from quinque.dialects.tarantool_args import LUA, unpacked
from quinque.dialects.tarantool_errors import described
from quinque.dialects.tarantool_tasks import task_bodies
from quinque.dialects.tarantool_verbs import Call, Join, Known, Request
from quinque.errors import (
    BadTuple,
    LimitReached,
    NoAuth,
    NoPermission,
    NotDefined,
    NoTube,
    QuinqueError,
    printable,
)
from quinque.model.limits import NAME_MOST_BYTES
from quinque.server.together import FOR_ALL
from quinque.server.waiters import Waiting, is_something
from quinque.stores.pending import Pending
from quinque.wire import iproto
from quinque.wire.iproto import Packet

if TYPE_CHECKING:
    from quinque.server.broker import Broker
    from quinque.server.tarantool_connection import TarantoolConnection

log = logging.getLogger("quinque.server")

# Names of functions are cached by their bytes, but not unknown names. Such a name includes the
# tube, after words such as box.queue.
_CALLS_MOST: Final = 4096
_FUNCTION_MOST_BYTES: Final = NAME_MOST_BYTES + 256
# One connection may have this part of all requests that may wait, and at least a fixed number.
_WAITS_SHARE: Final = 10
_WAITS_LEAST: Final = 16
_NO_TUPLES: Final = b"\x81\x30\x90"


class Asked:
    """Requests that are one operation: the calls, and the row that counts them."""

    __slots__ = ("call", "is_returned", "packets", "row", "is_forgiving")

    def __init__(self, call: Call, row: Command, packets: Sequence[Packet]) -> None:
        self.call = call
        self.row = row
        self.packets = packets
        self.is_returned = True
        self.is_forgiving = False


class TarantoolCalls:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._run = broker.store.run
        self._calls: dict[bytes, tuple[Call, Command]] = {}

    def find(self, packed_name: bytes) -> tuple[Call, Command]:
        """Return the function and its row, by the name in the request. Raises NotDefined."""
        found = self._calls.get(packed_name)
        if found is not None:
            return found
        name = unpacked(packed_name) if packed_name else b""
        if not isinstance(name, bytes):
            raise BadTuple(LUA, "the name of a function is a string")
        if len(name) > _FUNCTION_MOST_BYTES:
            raise NotDefined(name)
        call = find_call(name)
        word, _, subword = call.verb.command.partition("|")
        row: Command | None = self._broker.dispatch.commands.get(word)
        if row is not None and subword:
            row = (row.subcommands or {}).get(subword.encode())
        if row is None:
            raise NotDefined(name)
        if len(self._calls) >= _CALLS_MOST:
            self._calls.clear()
        self._calls[packed_name] = call, row
        return call, row

    def call(self, client: TarantoolConnection, asked: Asked) -> None:
        """Run calls that are one operation, or one by one if that cannot be."""
        call, row = asked.call, asked.row
        dispatch = self._broker.dispatch
        started_ns = dispatch.clock_ns()
        try:
            self._perform(client, asked)
        except QuinqueError as error:
            self._refuse_or_split(client, asked, error)
        except Exception:
            self._apologize(client, asked)
        spent_ns = dispatch.clock_ns() - started_ns
        row.calls += len(asked.packets)
        row.spent_ns += spent_ns
        client.last_command = row
        if spent_ns > self._broker.slow_ns:
            self._broker.note_slow(client, row, [row.name.encode(), call.tube], spent_ns)

    def _apologize(self, client: TarantoolConnection, asked: Asked) -> None:
        log.exception("unexpected error in %s", printable(asked.call.function))
        for packet in asked.packets:
            text = "internal error; the broker's log has the details"
            client.send(iproto.error_reply(packet.sync, LUA, text))

    def _check(self, client: TarantoolConnection, row: Command, tubes: Sequence[bytes]) -> None:
        """Check that the client is allowed to do that. Raises NoAuth, NoPermission."""
        if client.user is None:
            raise NoAuth
        if not client.user.is_unlimited:
            client.user.check(row.name, row.group, row.right, tubes)

    def _request_of(self, client: TarantoolConnection, asked: Asked) -> Request:
        """Return the request of the calls, if their client has the permission. They call the same
        function, so one check is enough. Raises NoAuth, NoPermission."""
        call = asked.call
        self._check(client, asked.row, (call.tube,) if call.tube else ())
        request = call.verb.parse(call, asked.packets[0].args, client)
        if not call.tube and hasattr(request, "queue"):
            self._check(client, asked.row, (request.queue,))
        if len(asked.packets) > 1:
            assert call.tube, "calls of one tube are gathered, and no others"
            assert call.verb.gather is not None
            call.verb.gather(request, [packet.args for packet in asked.packets])
        return request

    def _perform(self, client: TarantoolConnection, asked: Asked, *, is_part: bool = False) -> None:
        """Run the calls. Only this function sends them to the store, so each call is checked."""
        request = self._request_of(client, asked)
        if isinstance(request, Known):
            self._reply(client, asked, asked.packets[0], request.values)
            return
        if (
            len(asked.packets) > 1
            and not is_part
            and isinstance(request, Wait)
            and request.timeout_ms
        ):
            room = self._room(client)
            if 0 < room < len(asked.packets):
                self._perform_parts(client, asked, room)
                return
        if isinstance(request, Join):
            result = self._broker.sessions.join(client, request.session)
        else:
            if isinstance(request, Wait):
                self._broker.serve_first(request.queues)
                if (
                    self._waits_ahead(client, asked, request)
                    and self._broker.waiters.part_for(request) is None
                ):
                    for behind in self._wait_each(client, asked):
                        self._broker.waiters.stand(behind)
                    return
            result = self._run(request.op if isinstance(request, Wait) else request)
        if not isinstance(result, Pending):
            self._answer(client, asked, request, result)
        elif self._waits_ahead(client, asked, request):
            # In line from here on: clients that come meanwhile stand behind, and notifications of
            # the store are not missed.
            if len(asked.packets) == 1:
                waiting = self._wait(client, asked, asked.packets[0], request)
                assert waiting is not None
                self._broker.waiters.expect(waiting, result)
            else:
                self._wait_together(client, asked, result)
        else:
            self._ask(client, asked, request, result)

    def _perform_parts(self, client: TarantoolConnection, asked: Asked, first: int) -> None:
        """Run the `first` calls, which may wait, and then the others, which may not. In one
        operation, none would be in line while the store works, and later calls would come before
        them."""
        for packets in (asked.packets[:first], asked.packets[first:]):
            part = Asked(asked.call, asked.row, packets)
            try:
                self._perform(client, part, is_part=True)
            except QuinqueError as error:
                self._refuse_or_split(client, part, error)

    def _waits_ahead(self, client: TarantoolConnection, asked: Asked, request: Request) -> bool:
        return (
            isinstance(request, Wait)
            and request.timeout_ms > 0
            and self._why_full(client, asked.packets) is None
            and not client.is_over
        )

    def _ask(
        self, client: TarantoolConnection, asked: Asked, request: Any, pending: Pending
    ) -> None:
        """The calls are answered when the store has answered."""
        client.begin_asking(asked.packets)
        client.is_joining |= isinstance(request, Join)

        pending.then(
            partial(self._told, client, asked, request),
            partial(self._told_not, client, asked, request),
        )

    def _told(self, client: TarantoolConnection, asked: Asked, request: Any, result: Any) -> None:
        """The store has answered."""
        if client.is_gone:
            client.end_asking(asked.packets)
            op = request.op if isinstance(request, Wait) else request
            self._broker.give_back(op, result)
        else:
            go_on = partial(self._answer_late, client, asked, request, result)
            self._let_go(client, asked, request, go_on)

    def _told_not(
        self, client: TarantoolConnection, asked: Asked, request: Any, error: QuinqueError
    ) -> None:
        """The store has refused."""
        go_on = partial(self._refuse_or_split, client, asked, error)
        self._let_go(client, asked, request, go_on)

    def _let_go(
        self,
        client: TarantoolConnection,
        asked: Asked,
        request: Any,
        go_on: Callable[[], None],
    ) -> None:
        client.end_asking(asked.packets)
        if isinstance(request, Join):
            client.is_joining = False
        try:
            go_on()
        except QuinqueError as error:
            self._refuse_or_split(client, asked, error)
        except Exception:
            self._apologize(client, asked)
        client.broker.turn.add(client)

    def _answer_late(
        self, client: TarantoolConnection, asked: Asked, request: Any, result: Any
    ) -> None:
        waiting = self._answer(client, asked, request, result)
        if waiting is not None:
            self._broker.waiters.serve_late(waiting)

    def _answer(
        self, client: TarantoolConnection, asked: Asked, request: Any, result: Any
    ) -> Waiting | None:
        """Reply to the calls, each with its item. Calls without an item wait, or get an empty
        reply. Return the only call, if it waits."""
        if isinstance(request, Join):
            client.move_waits()
        packets = asked.packets
        if len(packets) == 1:
            if isinstance(request, Wait) and request.timeout_ms and not is_something(result):
                return self._wait(client, asked, packets[0], request)
            values = values_of(asked.call, request, result, client)
            self._reply(client, asked, packets[0], values)
            client.hand(request.op if isinstance(request, Wait) else request, result)
            return None
        op = request.op if isinstance(request, Wait) else request
        answered = len(result)
        if any(item is None for item in result):
            self._answer_each(client, asked, request, result)
        else:
            replies = iproto.replies(packets[:answered], task_bodies(result))
            client.send_all(replies, is_write=asked.row.right == "write")
            client.hand_each(op, result, replies)
        # Fewer results than requested may be due to their size.
        for packet in packets[answered:]:
            self._again(client, asked, packet)
        return None

    def _answer_each(
        self, client: TarantoolConnection, asked: Asked, request: Any, result: Any
    ) -> None:
        """Reply to calls of which some have nothing to reply with."""
        reply_each = asked.call.verb.reply_each
        assert reply_each is not None, "a gathered call needs a reply for each"
        op = request.op if isinstance(request, Wait) else request
        for packet, item in zip(asked.packets, result, strict=False):
            try:
                self._reply(client, asked, packet, reply_each(request, item))
                if item is not None:
                    client.hand(op, [item])
            except QuinqueError as error:
                self.refuse(client, packet.sync, error, asked)

    def _again(self, client: TarantoolConnection, asked: Asked, packet: Packet) -> None:
        """Run one of several calls by itself."""
        alone = Asked(asked.call, asked.row, [packet])
        try:
            self._perform(client, alone)
        except QuinqueError as error:
            self.refuse(client, packet.sync, error, alone)

    def _wait_together(self, client: TarantoolConnection, asked: Asked, pending: Pending) -> None:
        """Put the calls, which the store got as one operation, in line one by one."""
        self._broker.waiters.expect_all(self._wait_each(client, asked), pending, FOR_ALL)

    def _wait_each(self, client: TarantoolConnection, asked: Asked) -> list[Waiting]:
        waitings: list[Waiting] = []
        for packet in asked.packets:
            alone = Asked(asked.call, asked.row, [packet])
            request = asked.call.verb.parse(asked.call, packet.args, client)
            waiting = self._wait(client, alone, packet, request)
            assert waiting is not None
            waitings.append(waiting)
        return waitings

    def _wait(
        self, client: TarantoolConnection, asked: Asked, packet: Packet, request: Any
    ) -> Waiting | None:
        """The call stands in line; None if its client is about to close."""
        if client.is_over:  # it has closed, and would not get what it waits for
            self._broker.turn.add(client)
            return None
        why_full = self._why_full(client, [packet])
        if why_full is not None:
            raise LimitReached(why_full)
        waiters = self._broker.waiters

        def answer(result: Any) -> None:
            client.end_waiting(number, packet)
            try:
                values = values_of(asked.call, request, result, client)
                self._reply(client, asked, packet, values)
                client.hand(request.op, result)
            except QuinqueError as error:
                self.refuse(client, packet.sync, error, asked)
            except Exception:
                self._apologize(client, asked)

        def refuse(error: QuinqueError) -> None:
            client.end_waiting(number, packet)
            self.refuse(client, packet.sync, error, asked)

        waiting = waiters.add(client, request, answer, refuse)
        number = client.add_waiting(waiting, packet)
        return waiting

    def _why_full(self, client: TarantoolConnection, packets: Sequence[Packet]) -> str | None:
        """Why these requests of the client may not wait; None if they may."""
        count, most = len(packets), self._broker.config.max_blocked_clients
        if self._broker.waiters.count + count > most:
            return f"{most} requests are blocked already (max-blocked-clients)"
        most = max(_WAITS_LEAST, most // _WAITS_SHARE)
        if client.wait_count + count > most:
            return f"{most} requests of this connection are blocked already (max-blocked-clients)"
        most_bytes = client.limits.packet_bytes
        if client.wait_bytes + sum(packet.size_bytes for packet in packets) > most_bytes:
            return (
                f"the blocked requests of this connection have at most {most_bytes} bytes"
                " (query-buffer-limit)"
            )
        return None

    def _room(self, client: TarantoolConnection) -> int:
        """Return how many more requests of the client may wait."""
        most = self._broker.config.max_blocked_clients
        own = max(_WAITS_LEAST, most // _WAITS_SHARE) - client.wait_count
        return max(0, min(most - self._broker.waiters.count, own))

    # -- replies ------------------------------------------------------------------------------

    def _reply(
        self, client: TarantoolConnection, asked: Asked, packet: Packet, values: list[bytes]
    ) -> None:
        body = body_of(values if asked.is_returned else [], as_tuples=packet.kind == iproto.CALL_16)
        client.send(iproto.reply(packet.sync, body), is_write=asked.row.right == "write")

    def _refuse_or_split(
        self, client: TarantoolConnection, asked: Asked, error: QuinqueError
    ) -> None:
        """Refuse a single call. Run several one by one, because one of them may be the cause."""
        is_for_each = len(asked.packets) == 1 or isinstance(error, (*FOR_ALL, NoAuth, NoPermission))
        for packet in asked.packets:
            if is_for_each:
                self.refuse(client, packet.sync, error, asked)
            else:
                self._again(client, asked, packet)

    def refuse(
        self,
        client: TarantoolConnection,
        sync: int,
        error: QuinqueError,
        asked: Asked | None = None,
        function: bytes = b"",
    ) -> None:
        if asked is not None:
            if asked.is_forgiving and isinstance(error, NoTube):
                client.send(iproto.reply(sync, _NO_TUPLES))
                return
            asked.row.failed_calls += 1
        self._broker.stats.errors[error.code] += 1
        function = asked.call.function if asked is not None else function
        client.send(iproto.error_reply(sync, *described(error, function)))
        if error.closes:
            client.close()


def named(packed_name: bytes) -> bytes:
    """The name of a function as it was sent, to be shown; empty if it is not a name."""
    try:
        name = unpacked(packed_name) if packed_name else b""
    except BadTuple:
        return b""
    return name if isinstance(name, bytes) else b""
