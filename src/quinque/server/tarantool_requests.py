"""Requests of Tarantool's protocol, by their types; calls that are alike, together.

Called by   tarantool_connection.py, for the requests of one client in turn.
Calls       tarantool_calls.py, users.py.

A client that has not authenticated may only do so, and send what every client sends when it
connects.

Not here: packets (wire/iproto.py), what holds a client (tarantool_connection.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgpack

from quinque.dialects.command import Command
from quinque.dialects.lua_calls import read_expression
from quinque.dialects.tarantool_args import LUA, unpacked
from quinque.dialects.tarantool_errors import BAD_PACKET, NO_SPACE, UNKNOWN_REQUEST
from quinque.errors import BadRequest, BadTuple, NoAuth, NoPermission, QuinqueError
from quinque.model.families import TUBES
from quinque.model.limits import TOGETHER_MOST, TOGETHER_MOST_BYTES
from quinque.server.tarantool_calls import Asked, TarantoolCalls, named
from quinque.wire import iproto
from quinque.wire.iproto import Packet

if TYPE_CHECKING:
    from quinque.server.broker import Broker
    from quinque.server.tarantool_connection import TarantoolConnection

# Spaces of the schema, which clients read when they connect: they are empty here.
_SCHEMA_SPACES_MOST: Final = 511
_NO_TUPLES: Final = b"\x81\x30\x90"
_NOTHING: Final = b"\x80"
_CHAP: Final = b"chap-sha1"
_IDENTITY: Final = bytes(
    msgpack.packb(
        {iproto.PROTOCOL_VERSION: 3, iproto.FEATURES: [], iproto.AUTH_METHOD: _CHAP.decode()}
    )
)


class TarantoolRequests:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._calls = TarantoolCalls(broker)

    def row_of(self, packet: Packet) -> Command | None:
        """The row in which the request is counted, or None."""
        # An EVAL mostly creates a tube, so it is counted there. During a pause it always waits.
        if packet.kind == iproto.EVAL:
            return self._broker.dispatch.commands.get("TUBE.CREATE")
        try:
            return self._calls.find(packet.body.get(iproto.FUNCTION, b""))[1]
        except QuinqueError:
            return None

    def execute(self, client: TarantoolConnection, packets: list[Packet], at: int) -> int:
        """Run the request at `at`, and those after it that are one operation with it; the number of
        the next one. Their replies, or their places among the waiting, are settled, and the time is
        charged to the client's part of the turn."""
        dispatch = self._broker.dispatch
        started_ns = dispatch.clock_ns()
        end = self._execute(client, packets, at)
        dispatch.busy_ns += dispatch.clock_ns() - started_ns
        return end

    def _execute(self, client: TarantoolConnection, packets: list[Packet], at: int) -> int:
        packet = packets[at]
        kind = packet.kind
        if kind == iproto.CALL or kind == iproto.CALL_16:
            packed_name = packet.body.get(iproto.FUNCTION, b"")
            if client.user is None:
                self._calls.refuse(client, packet.sync, NoAuth(), function=named(packed_name))
                return at + 1
            try:
                call, row = self._calls.find(packed_name)
            except QuinqueError as error:
                self._calls.refuse(client, packet.sync, error)
                return at + 1
            end = at + 1
            if call.verb.gather is not None and end < len(packets):
                end = _alike_until(packets, at, call.verb.varies)
            self._calls.call(client, Asked(call, row, packets[at:end]))
            return end
        try:
            self._answer_other(client, packet)
        except QuinqueError as error:
            self._calls.refuse(client, packet.sync, error)
        return at + 1

    def _answer_other(self, client: TarantoolConnection, packet: Packet) -> None:
        kind = packet.kind
        if kind == iproto.PING:
            client.send(iproto.reply(packet.sync, _NOTHING))
        elif kind == iproto.EVAL:
            self._evaluate(client, packet)
        elif kind == iproto.AUTH:
            self._authenticate(client, packet)
            client.send(iproto.reply(packet.sync, _NOTHING))
        elif kind == iproto.ID:
            client.send(iproto.reply(packet.sync, _IDENTITY))
        elif kind == iproto.SELECT:
            space = unpacked(packet.body.get(iproto.SPACE, b"\xc0"))
            if type(space) is not int:
                raise BadTuple(BAD_PACKET, "Invalid MsgPack - packet body")
            if space > _SCHEMA_SPACES_MOST:
                raise BadTuple(NO_SPACE, f"Space '{space}' does not exist")
            client.send(iproto.reply(packet.sync, _NO_TUPLES))
        # A client that watches gets no events here, and no reply by the protocol.
        elif kind != iproto.WATCH and kind != iproto.UNWATCH:
            raise BadTuple(UNKNOWN_REQUEST, f"Unknown request type {kind}")

    def _evaluate(self, client: TarantoolConnection, packet: Packet) -> None:
        user = client.user
        if user is None:
            raise NoAuth
        # The function is known only from the text, and the broker reads no text for such a user.
        if not user.rights or (user.families is not None and TUBES.name not in user.families):
            raise NoPermission(f"User {user.name} has no permissions to evaluate expressions")
        expression = unpacked(packet.body.get(iproto.EXPRESSION, b"\xa0"))
        if not isinstance(expression, bytes):
            raise BadTuple(LUA, "an expression is a string")
        lua = read_expression(expression, packet.args, client.limits)
        call, row = self._calls.find(msgpack.packb(lua.function, use_bin_type=False))
        packet.args = lua.args
        asked = Asked(call, row, [packet])
        asked.is_returned, asked.is_forgiving = lua.is_returned, lua.is_forgiving
        self._calls.call(client, asked)

    def _authenticate(self, client: TarantoolConnection, packet: Packet) -> None:
        """Authenticate the client as that user. Raises WrongPass, BadRequest, LimitReached."""
        name = unpacked(packet.body.get(iproto.USER, b"\xa0"))
        given = [unpacked(arg) for arg in packet.args[:3]] or [_CHAP, b""]
        if not isinstance(name, bytes) or len(given) != 2 or not isinstance(given[1], bytes):
            raise BadRequest("a user, a method and a scramble are required")
        if given[0] != _CHAP:
            raise BadRequest("the only method of authentication is chap-sha1")
        login = self._broker.users.login_by_scramble
        client.user = login(name, client.salt, given[1], client.address)


def _alike_until(packets: list[Packet], at: int, varies: bool) -> int:
    """The end of the calls that are one operation with the one at `at`."""
    first = packets[at]
    name, kind, rest = first.body[iproto.FUNCTION], first.kind, first.args[varies:]
    if varies and not first.args:
        return at + 1
    end, most = at + 1, min(len(packets), at + TOGETHER_MOST)
    size_bytes = first.size_bytes
    while end < most:
        packet = packets[end]
        if (
            packet.kind != kind
            or packet.body.get(iproto.FUNCTION) != name
            or packet.args[varies:] != rest
            or (varies and not packet.args)
        ):
            break
        size_bytes += packet.size_bytes
        if size_bytes > TOGETHER_MOST_BYTES:
            break
        end += 1
    return end
