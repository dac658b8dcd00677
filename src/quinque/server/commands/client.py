"""CLIENT: what a connection is called, and what is done to other connections.

Called by   dispatch.py, through COMMANDS.
Calls       broker.py (clients, pausing), waiters.py (UNBLOCK), client_line.py.

Not here: logging in and out (session.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

from quinque.dialects.command import NO_REPLY, Command, NoReply, Right, no_queues
from quinque.errors import BadArgument, BadRequest, Unblocked, printable
from quinque.model.limits import SPAN_MOST_MS
from quinque.server.client import Client
from quinque.server.commands.args import read_label, read_number, read_switch, syntax_error
from quinque.server.commands.client_line import client_line
from quinque.server.commands.subcommands import Run, first_word
from quinque.server.connection import Connection
from quinque.wire.resp import OK, Value, Verbatim, encode

# Every client here is a normal one; there are no clients of the other types.
_TYPES: Final = (b"NORMAL", b"MASTER", b"REPLICA", b"SLAVE", b"PUBSUB")


def run_id(connection: Connection, argv: list[bytes]) -> Value:
    """CLIENT ID

    Return the number of this connection, which is never used for another one.
    """
    return connection.id


def run_info(connection: Connection, argv: list[bytes]) -> Value:
    """CLIENT INFO

    Return the line of CLIENT LIST for this connection.
    """
    return _lines([connection], connection, argv)


def run_setname(connection: Connection, argv: list[bytes]) -> Value:
    """CLIENT SETNAME connection-name

    Set the name of this connection for lists and logs.
    """
    connection.name = read_label(argv[2])
    return OK


def run_getname(connection: Connection, argv: list[bytes]) -> Value:
    """CLIENT GETNAME

    Return the name of this connection, or null.
    """
    return connection.name or None


def run_setinfo(connection: Connection, argv: list[bytes]) -> Value:
    """CLIENT SETINFO LIB-NAME libname|LIB-VER libver

    Set the library name or version of the client, for CLIENT LIST.
    """
    label = printable(argv[2][:128])
    match argv[2].upper():
        case b"LIB-NAME":
            connection.lib_name = read_label(argv[3], label)
        case b"LIB-VER":
            connection.lib_version = read_label(argv[3], label)
        case _:
            raise BadArgument(f"Unrecognized option '{label}'")
    return OK


def run_no_evict(connection: Connection, argv: list[bytes]) -> Value:
    """CLIENT NO-EVICT ON|OFF

    Return OK: clients are never evicted.
    """
    read_switch(argv[2], b"ON", b"OFF")
    return OK


def run_no_touch(connection: Connection, argv: list[bytes]) -> Value:
    """CLIENT NO-TOUCH ON|OFF

    Return OK: the last access time of a queue is not used.
    """
    read_switch(argv[2], b"ON", b"OFF")
    return OK


def run_reply(connection: Connection, argv: list[bytes]) -> Value | NoReply:
    """CLIENT REPLY ON|OFF|SKIP

    Turn the replies to this connection on or off. SKIP omits the reply to the next command.
    """
    match argv[2].upper():
        case b"ON":
            connection.skip_replies = 0
            return OK
        case b"OFF":
            connection.skip_replies = -1
        case b"SKIP":
            if connection.skip_replies >= 0:  # not OFF
                connection.skip_replies = 2  # this command counts as well
        case _:
            raise syntax_error()
    return NO_REPLY


def run_list(connection: Connection, argv: list[bytes]) -> Value:
    """CLIENT LIST [TYPE type|ID client-id ...]

    Return a line for each connection.
    """
    clients = connection.broker.clients
    match [argv[2].upper(), *argv[3:]] if len(argv) > 2 else []:
        case []:
            chosen = list(clients.values())
        case [b"TYPE", kind]:
            chosen = list(clients.values()) if _is_normal(kind) else []
        case [b"ID", *ids] if ids:
            numbers = [read_number(text, "Invalid client ID") for text in ids]
            if min(numbers) < 1:
                raise BadArgument("Invalid client ID")
            chosen = [clients[number] for number in numbers if number in clients]
        case _:
            raise syntax_error()
    return _lines(chosen, connection, argv)


@dataclass(slots=True)
class _Filter:
    """The clients that CLIENT KILL selects. None selects any."""

    id: int | None = None
    address: str | None = None
    local_address: str | None = None
    user: str | None = None
    least_age_s: int | None = None
    is_normal: bool = True
    skip_me: bool = True

    def means(self, client: Client) -> bool:
        user = client.user.name if client.user is not None else None
        return (
            self.is_normal
            and self.id in (None, client.id)
            and self.address in (None, client.address)
            and self.local_address in (None, client.local_address)
            and self.user in (None, user)
            and (self.least_age_s is None or monotonic() - client.created_s >= self.least_age_s)
        )


def run_kill(connection: Connection, argv: list[bytes]) -> Value | NoReply:
    """CLIENT KILL address|option value [option value ...]

    Close the connections that match ID, ADDR, LADDR, USER, TYPE and MAXAGE, and return their
    number. This connection is closed only with SKIPME NO. With only an address, return OK, or
    an error if no connection has it.
    """
    by_address = len(argv) == 3
    if by_address:
        chosen = _Filter(address=_text(argv[2]), skip_me=False)
    else:
        chosen = _read_filter(connection, argv[2:])
    victims = list(filter(chosen.means, connection.broker.clients.values()))
    if chosen.skip_me and connection in victims:
        victims.remove(connection)
    if by_address and not victims:
        raise BadRequest("No such client")
    for client in victims:
        if client is not connection:
            client.abort()
    reply = OK if by_address else len(victims)
    if connection not in victims:
        return reply
    connection.send(encode(reply, connection.protocol))
    connection.close()
    return NO_REPLY


def run_pause(connection: Connection, argv: list[bytes]) -> Value:
    """CLIENT PAUSE timeout [WRITE|ALL]

    Delay the commands of all clients for the given milliseconds, or only commands that write.
    CLIENT commands are not delayed.
    """
    for_ms = read_number(argv[2], "timeout is not an integer or out of range")
    if for_ms < 0:
        raise BadArgument("timeout is negative")
    if for_ms > SPAN_MOST_MS:
        raise BadArgument("timeout is out of range")
    if len(argv) > 4:
        raise syntax_error()
    match argv[3].upper() if len(argv) == 4 else b"ALL":
        case b"ALL":
            connection.broker.pause("ALL", for_ms)
        case b"WRITE":
            connection.broker.pause("WRITE", for_ms)
        case _:
            raise BadArgument("CLIENT PAUSE mode must be WRITE or ALL")
    return OK


def run_unpause(connection: Connection, argv: list[bytes]) -> Value:
    """CLIENT UNPAUSE

    End the pause and run the delayed commands.
    """
    connection.broker.unpause()
    return OK


def run_unblock(connection: Connection, argv: list[bytes]) -> Value:
    """CLIENT UNBLOCK client-id [TIMEOUT|ERROR]

    Unblock another client, as if its timeout ended or with an error. Returns 1, or 0 if it is
    not blocked.
    """
    client = connection.broker.clients.get(read_number(argv[2]))
    reason = argv[3].upper() if len(argv) == 4 else b"TIMEOUT"
    if len(argv) > 4 or reason not in (b"TIMEOUT", b"ERROR"):
        raise BadArgument("CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
    waits = [] if client is None else client.waits()
    waiters = connection.broker.waiters
    for waiting in waits:
        if reason == b"TIMEOUT":
            waiters.give_up(waiting)
        else:
            waiters.remove(waiting)
            waiting.refuse(Unblocked())
    return int(bool(waits))


def _lines(clients: Iterable[Client], asking: Connection, argv: list[bytes]) -> Value:
    # A command is a client's last one only after it has run; here its own is meant.
    asking.last_command = asking.broker.dispatch.row_of(argv)
    now_s = monotonic()
    return Verbatim(b"".join(client_line(client, now_s) + b"\n" for client in clients))


def _read_filter(connection: Connection, words: list[bytes]) -> _Filter:
    """Return the options of `words`, which come in pairs. Raises BadArgument."""
    if len(words) % 2:
        raise syntax_error()
    chosen = _Filter()
    for option, value in zip(words[::2], words[1::2], strict=True):
        match option.upper():
            case b"ID":
                chosen.id = read_number(value, "client-id should be greater than 0")
                if chosen.id < 1:
                    raise BadArgument("client-id should be greater than 0")
            case b"ADDR":
                chosen.address = _text(value)
            case b"LADDR":
                chosen.local_address = _text(value)
            case b"USER":
                chosen.user = _text(value)
                if not connection.broker.users.has(chosen.user):
                    raise BadArgument(f"No such user '{printable(value[:128])}'")
            case b"TYPE":
                chosen.is_normal = _is_normal(value)
            case b"MAXAGE":
                chosen.least_age_s = read_number(value, "maxage is not an integer or out of range")
                if chosen.least_age_s < 1:
                    raise BadArgument("maxage should be greater than 0")
            case b"SKIPME":
                chosen.skip_me = read_switch(value, b"YES", b"NO")
            case _:
                raise syntax_error()
    return chosen


def _is_normal(kind: bytes) -> bool:
    if kind.upper() not in _TYPES:
        raise BadArgument(f"Unknown client type '{printable(kind[:128])}'")
    return kind.upper() == b"NORMAL"


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _row(word: str, right: Right, arity: int, run: Run) -> Command:
    return Command(f"CLIENT|{word}", "", right, arity, run=run, queues=no_queues)


COMMANDS: Final = [
    first_word(
        "CLIENT",
        _row("ID", "", 2, run_id),
        _row("INFO", "", 2, run_info),
        _row("SETNAME", "", 3, run_setname),
        _row("GETNAME", "", 2, run_getname),
        _row("SETINFO", "", 4, run_setinfo),
        _row("NO-EVICT", "", 3, run_no_evict),
        _row("NO-TOUCH", "", 3, run_no_touch),
        replace(_row("REPLY", "", 3, run_reply), in_multi="refused"),
        _row("LIST", "admin", -2, run_list),
        _row("KILL", "admin", -3, run_kill),
        _row("PAUSE", "admin", -3, run_pause),
        _row("UNPAUSE", "admin", 2, run_unpause),
        _row("UNBLOCK", "admin", -3, run_unblock),
    ),
]
