"""CLUSTER: the nodes as one of them sees them, when it is the only one.

Called by   dispatch.py, through COMMANDS; session.py (HELLO lists the nodes too), admin.py.
Calls       the store (LookAtNode, SetNode, PurgeAll), waiters.py.

Disque is a cluster of equals, and its clients ask for its nodes. An embedded store is one process:
it has an id, it can be leaving, and there is nobody else.

Not here: what leaving means for a request (engine/work/decide.py).
"""

from __future__ import annotations

import re
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from quinque.dialects.command import Command, Right, no_queues
from quinque.errors import BadArgument, BadRequest, NoPermission, printable
from quinque.model.families import JOBS
from quinque.model.work_ops import LookAtNode, NodeView, PurgeAll, SetNode, Take
from quinque.server.address import parse_address
from quinque.server.commands.args import syntax_error
from quinque.server.commands.subcommands import Run, first_word
from quinque.server.connection import Connection
from quinque.stores.pending import after
from quinque.wire.resp import OK, Simple, Value, Verbatim

if TYPE_CHECKING:
    from quinque.server.broker import Broker

_OTHERWISE: Final = "Wrong CLUSTER subcommand or number of arguments"
_NO_SLOTS: Final = "This instance has cluster support disabled"

# Disque's nodes talk to each other on a port 10000 higher, so theirs end here.
_PORT_MOST: Final = 55_535
_PORT: Final = re.compile(rb"[1-9][0-9]{0,4}")

# In HELLO: how willingly a client should use the node, less is better.
_WELL: Final = b"1"
_LEAVING: Final = b"100"


def own_port(connection: Connection) -> str:
    """The port that the client came to; 0 if it came by a unix socket."""
    return connection.local_address.rpartition(":")[2]


def greeting(connection: Connection) -> Value:
    """Disque's answer to HELLO: its version, our id, and each node: id, address, priority.

    The address is empty as it is on every node that has not met another: a node learns its own
    address from others, and the client knows it already.
    """
    node = connection.broker.store.run(LookAtNode())
    port = own_port(connection).encode()
    priority = _LEAVING if node.is_leaving else _WELL
    return [1, node.node_id, [node.node_id, b"", port, priority]]


def empty_jobs(connection: Connection) -> Any:
    """OK, now or when it comes: no job is left, and who waited for one is answered so.

    Raises NoPermission when the user may not touch every queue.
    """
    broker, user = connection.broker, connection.user
    if user is not None and not connection.sees_all():
        raise NoPermission(f"User {user.name} has no permissions to access every queue")
    return after(broker.store.run(PurgeAll(JOBS)), partial(_release_readers, broker))


def _wake_all(broker: Broker, node: NodeView) -> Value:
    """Whoever waits finds out."""
    broker.waiters.wake_all()
    return OK


def _release_readers(broker: Broker, count: int) -> Value:
    """Whoever waits for jobs is told that there is none."""
    for client in list(broker.clients.values()):
        waiting = client.waiting
        if waiting is not None and isinstance(waiting.wait.op, Take):
            broker.waiters.give_up(waiting)
    return OK


def run_myid(connection: Connection, argv: list[bytes]) -> Value:
    """CLUSTER MYID

    This node's id, 40 hexadecimal digits.
    """
    return connection.broker.store.run(LookAtNode()).node_id


def run_nodes(connection: Connection, argv: list[bytes]) -> Value:
    """CLUSTER NODES

    A line for each node: id, address, flags, times of the last ping and pong, and the link.
    """
    node = connection.broker.store.run(LookAtNode())
    flags = "myself,leaving" if node.is_leaving else "myself"
    line = f"{node.node_id.decode()} :{own_port(connection)} {flags} 0 0 connected\n"
    return Verbatim(line.encode())


def run_info(connection: Connection, argv: list[bytes]) -> Value:
    """CLUSTER INFO

    How many nodes there are, and how many of the others can be reached.
    """
    facts = {
        "cluster_state": "ok",
        "cluster_known_nodes": 1,
        "cluster_reachable_nodes": 0,  # without ourselves
        "cluster_size": 1,
        "cluster_stats_messages_sent": 0,
        "cluster_stats_messages_received": 0,
    }
    lines = (f"{name}:{value}\r\n" for name, value in facts.items())
    return Verbatim("".join(lines).encode())


def run_meet(connection: Connection, argv: list[bytes]) -> Value:
    """CLUSTER MEET ip port

    Answer OK if that is this node itself. No other can be met: this store is kept by one node.
    """
    host, port = printable(argv[2][:128]), printable(argv[3][:128])
    try:
        ip = ip_address(host)
    except ValueError:
        ip = None
    if ip is None or not _PORT.fullmatch(argv[3]) or int(port) > _PORT_MOST:
        raise BadArgument(f"Invalid node address specified: {host}:{port}")
    if int(port) not in _own_ports(connection) or not (
        ip.is_loopback or str(ip) in _own_hosts(connection)
    ):
        raise BadRequest(f"cannot meet {host}:{port}: this store is kept by one node")
    return OK


def run_forget(connection: Connection, argv: list[bytes]) -> Value:
    """CLUSTER FORGET node-id

    No other node is known that could be forgotten: this is refused.
    """
    if argv[2] == connection.broker.store.run(LookAtNode()).node_id:
        raise BadRequest("a node cannot forget itself")
    raise BadRequest(f"Unknown node {printable(argv[2][:128])}")


def run_reset(connection: Connection, argv: list[bytes]) -> Any:
    """CLUSTER RESET [SOFT|HARD]

    Every job and every queue of jobs is gone; with HARD, this node has another id as well.
    """
    word = argv[2].upper() if len(argv) == 3 else b"SOFT"
    if len(argv) > 3:
        raise BadArgument(_OTHERWISE)
    if word not in (b"SOFT", b"HARD"):
        raise syntax_error()
    done = empty_jobs(connection)
    if word == b"HARD":
        store = connection.broker.store
        done = after(done, lambda ok: after(store.run(SetNode(is_renamed=True)), lambda node: ok))
    connection.mark_write()
    return done


def run_leaving(connection: Connection, argv: list[bytes]) -> Any:
    """CLUSTER LEAVING [YES|NO]

    With YES, nobody waits here for jobs any more, and HELLO tells clients to go elsewhere; without
    an argument, whether it is so.
    """
    broker = connection.broker
    if len(argv) > 3:
        raise BadArgument(_OTHERWISE)
    if len(argv) == 2:
        return Simple(b"yes" if broker.store.run(LookAtNode()).is_leaving else b"no")
    word = argv[2].upper()
    if word not in (b"YES", b"NO"):
        raise BadArgument("CLUSTER LEAVING is yes or no")
    connection.mark_write()
    return after(broker.store.run(SetNode(is_leaving=word == b"YES")), partial(_wake_all, broker))


def run_saveconfig(connection: Connection, argv: list[bytes]) -> Value:
    """CLUSTER SAVECONFIG

    Answer OK: what is known of the nodes is in the journal already.
    """
    return OK


def run_slots(connection: Connection, argv: list[bytes]) -> Value:
    """CLUSTER SLOTS

    Refused as a Redis without Redis Cluster does, so that clients that probe for one stop here.
    """
    raise BadRequest(_NO_SLOTS)


def run_shards(connection: Connection, argv: list[bytes]) -> Value:
    """CLUSTER SHARDS

    Refused as a Redis without Redis Cluster does, so that clients that probe for one stop here.
    """
    raise BadRequest(_NO_SLOTS)


def _own_ports(connection: Connection) -> set[int]:
    listen = connection.broker.config.listen + connection.broker.config.tls_listen
    addresses = map(parse_address, listen)
    ports = {address.port for address in addresses if not address.is_unix}
    return ports | {int(own_port(connection))}


def _own_hosts(connection: Connection) -> set[str]:
    listen = connection.broker.config.listen + connection.broker.config.tls_listen
    addresses = map(parse_address, listen)
    hosts = {address.host for address in addresses if not address.is_unix}
    return hosts | {connection.local_address.rpartition(":")[0].strip("[]")}


def _row(word: str, right: Right, arity: int, run: Run, family: str = "") -> Command:
    return Command(f"CLUSTER|{word}", family, right, arity, run=run, queues=no_queues)


COMMANDS: Final = [
    first_word(
        "CLUSTER",
        _row("MYID", "read", 2, run_myid),
        _row("NODES", "read", 2, run_nodes),
        _row("INFO", "read", 2, run_info),
        _row("MEET", "admin", 4, run_meet),
        _row("FORGET", "admin", 3, run_forget),
        _row("RESET", "admin", -2, run_reset, JOBS.name),
        _row("LEAVING", "admin", -2, run_leaving),
        _row("SAVECONFIG", "admin", 2, run_saveconfig),
        _row("SLOTS", "", 2, run_slots),
        _row("SHARDS", "", 2, run_shards),
        otherwise=_OTHERWISE,
    ),
]
