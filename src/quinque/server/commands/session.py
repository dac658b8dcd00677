"""Commands about the connection itself: PING ECHO HELLO AUTH QUIT RESET SELECT.

Called by   dispatch.py, through COMMANDS.
Calls       users.py; cluster.py for the nodes that HELLO lists.

Not here: its name and other clients (client.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from quinque.dialects.command import NO_REPLY, Command, InMulti, NoReply, no_queues
from quinque.errors import BadArgument, NoAuth, NoSuchProtocol, WrongArity, printable
from quinque.server.commands.args import read_label, read_number, syntax_error
from quinque.server.commands.cluster import greeting
from quinque.server.commands.subcommands import Run
from quinque.server.connection import Connection
from quinque.server.users import User
from quinque.wire.resp import OK, Simple, Value, encode

# The Redis whose commands these are. Clients look here for what they may send, so the number is not
# the broker's own.
REDIS_VERSION: Final = "7.0.0"

_HELLO_FIRST = (
    "HELLO must be called with the client already authenticated, otherwise the"
    " HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and"
    " select the RESP protocol version at the same time"
)


def run_ping(connection: Connection, argv: list[bytes]) -> Value:
    """PING [message]

    Return PONG, or the message.
    """
    if len(argv) > 2:
        raise WrongArity("PING")
    return argv[1] if len(argv) == 2 else Simple(b"PONG")


def run_echo(connection: Connection, argv: list[bytes]) -> Value:
    """ECHO message

    Return the message.
    """
    return argv[1]


def run_select(connection: Connection, argv: list[bytes]) -> Value:
    """SELECT index

    Select database 0, the only one.
    """
    if read_number(argv[1]) != 0:
        raise BadArgument("DB index is out of range")
    return OK


def run_auth(connection: Connection, argv: list[bytes]) -> Value:
    """AUTH [username] password

    Authenticate this connection as a user.
    """
    if len(argv) > 3:
        raise syntax_error()
    name = argv[1] if len(argv) == 3 else None
    connection.user = connection.broker.users.login(name, argv[-1], connection.address)
    return OK


@dataclass(slots=True)
class _Hello:
    """The arguments of HELLO."""

    protocol: int
    login: tuple[bytes, bytes] | None = None
    name: bytes | None = None


def run_hello(connection: Connection, argv: list[bytes]) -> Any:
    """HELLO [protocol [AUTH username password] [SETNAME name]]

    Switch to RESP2 or RESP3, optionally authenticate and set the connection name, and return
    facts about the server. Without a protocol, return the nodes, as Disque clients expect.
    """
    if len(argv) == 1:
        if connection.user is None:
            raise NoAuth
        return greeting(connection)
    hello = _read_hello(argv)
    user = _user_of(connection, hello)
    # Nothing can go wrong any more, so that a refused HELLO has changed nothing.
    connection.user = user
    connection.protocol = hello.protocol
    if hello.name is not None:
        connection.name = hello.name
    return {
        "server": b"quinque",
        "version": REDIS_VERSION.encode(),
        "proto": connection.protocol,
        "id": connection.id,
        "mode": b"standalone",
        "role": b"master",
        "modules": [],
    }


def run_quit(connection: Connection, argv: list[bytes]) -> NoReply:
    """QUIT

    Return OK and close the connection.
    """
    connection.send(encode(OK, connection.protocol))
    connection.close()
    return NO_REPLY


def run_reset(connection: Connection, argv: list[bytes]) -> Value:
    """RESET

    Reset the connection to its initial state.
    """
    connection.protocol = 2
    connection.transaction = None
    connection.name = b""
    connection.register(())
    connection.skip_replies = 0
    connection.user = connection.broker.users.first()
    connection.broker.sessions.leave(connection)
    if connection.is_monitor:
        connection.is_monitor = False
        connection.broker.monitors.remove(connection)
    return Simple(b"RESET")


def _read_hello(argv: list[bytes]) -> _Hello:
    number = read_number(argv[1], "Protocol version is not an integer or out of range")
    if number not in (2, 3):
        raise NoSuchProtocol
    hello = _Hello(number)
    at = 2
    while at < len(argv):
        match [argv[at].upper(), *argv[at + 1 : at + 3]]:
            case [b"AUTH", name, password]:
                hello.login = (name, password)
                at += 3
            case [b"SETNAME", name, *_]:
                hello.name = read_label(name)
                at += 2
            case _:
                option = printable(argv[at][:128])
                raise BadArgument(f"Syntax error in HELLO option '{option}'")
    return hello


def _user_of(connection: Connection, hello: _Hello) -> User:
    if hello.login is not None:
        return connection.broker.users.login(*hello.login, connection.address)
    if connection.user is None:
        raise NoAuth(_HELLO_FIRST)
    return connection.user


def _open(name: str, arity: int, run: Run, in_multi: InMulti) -> Command:
    """A command that a client may send before it has authenticated."""
    return Command(name, "", "", arity, run=run, queues=no_queues, is_open=True, in_multi=in_multi)


COMMANDS: Final = [
    Command("PING", "", "", -1, run=run_ping, queues=no_queues),
    Command("ECHO", "", "", 2, run=run_echo, queues=no_queues),
    Command("SELECT", "", "", 2, run=run_select, queues=no_queues),
    _open("AUTH", -2, run_auth, "refused"),
    _open("HELLO", -1, run_hello, "refused"),
    _open("QUIT", -1, run_quit, "run"),
    _open("RESET", 1, run_reset, "run"),
]
