"""CLUSTER: the nodes as one of them sees them.

Called by   dispatch.py, through COMMANDS; session.py (HELLO lists the nodes too), admin.py.
Calls       the store (LookAtNode, FindNodes, SetNode, ForgetNode, PurgeAll), waiters.py.

Disque is a cluster of equals, and its clients ask for its nodes. Here those are the brokers that
share a store. An embedded store is one process: it has an id, it can be leaving, and it is the only
node.

Not here: what leaving means for a request (stores/), how brokers find each other
(stores/redis/nodes.py).
"""

from __future__ import annotations

import re
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, Final

from quinque.dialects.command import Command, Right, no_queues
from quinque.errors import BadArgument, BadRequest, printable
from quinque.model.families import JOBS
from quinque.model.work_ops import (
    FindNodes,
    ForgetNode,
    LookAtNode,
    NodeView,
    PurgeAll,
    SetNode,
    Take,
)
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

# Nodes of Disque connect to each other on a port that is 10000 higher, so theirs end here.
_PORT_MOST: Final = 55_535
_PORT: Final = re.compile(rb"[1-9][0-9]{0,4}")

# In HELLO: the priority of the node for clients, lower is better. As in Disque.
_WELL: Final = b"1"
_DOUBTED: Final = b"10"
_FAILED_OR_LEAVING: Final = b"100"


def own_port(connection: Connection) -> str:
    """Return the port that the client connected to; 0 for a Unix socket."""
    return connection.local_address.rpartition(":")[2]


def greeting(connection: Connection) -> Any:
    """Disque's answer to HELLO, now or when it comes: its version, our id, and each node, this one
    first: id, address, priority.

    The address of a node that has not announced it is empty, as in Disque that of one that has not
    met another; the client knows it already.
    """

    def answer(nodes: list[NodeView]) -> Value:
        rows: list[Value] = [
            [node.node_id, node.host, port_of(node, connection).encode(), _priority(node)]
            for node in nodes
        ]
        return [1, nodes[0].node_id, *rows]

    return after(connection.broker.store.run(FindNodes()), answer)


def port_of(node: NodeView, connection: Connection) -> str:
    """Return the port at which clients reach the node."""
    return str(node.port) if node.port else own_port(connection)


def _priority(node: NodeView) -> bytes:
    if node.is_failed or node.is_leaving:
        return _FAILED_OR_LEAVING
    return _DOUBTED if node.is_doubted else _WELL


def empty_jobs(connection: Connection) -> Any:
    """Remove all jobs, and end the waits for jobs with an empty reply. Returns OK, or a Pending of
    it."""
    broker = connection.broker
    return after(broker.store.run(PurgeAll(JOBS)), partial(_release_readers, broker))


def _wake_all(broker: Broker, node: NodeView) -> Value:
    """Let blocked clients ask again."""
    broker.waiters.wake_all()
    return OK


def _release_readers(broker: Broker, count: int) -> Value:
    """End the waits for jobs with an empty reply."""
    for client in list(broker.clients.values()):
        for waiting in client.waits():
            op = waiting.wait.op
            if isinstance(op, Take) and op.family is JOBS:
                broker.waiters.give_up(waiting)
    return OK


def run_myid(connection: Connection, argv: list[bytes]) -> Value:
    """CLUSTER MYID

    Return the id of this node, 40 hexadecimal digits.
    """
    return connection.broker.store.run(LookAtNode()).node_id


def run_nodes(connection: Connection, argv: list[bytes]) -> Any:
    """CLUSTER NODES

    Return a line for each node: id, address, flags, 0, when it was last seen (ms), and the
    link. This node is first, and its times are 0.
    """

    def answer(nodes: list[NodeView]) -> Value:
        now_ms = connection.broker.store.now_ms()
        return Verbatim("".join(_line(node, connection, now_ms) for node in nodes).encode())

    return after(connection.broker.store.run(FindNodes()), answer)


def run_info(connection: Connection, argv: list[bytes]) -> Any:
    """CLUSTER INFO

    Return the number of nodes, and how many of the others are reachable.
    """
    return after(connection.broker.store.run(FindNodes()), _counts)


def run_meet(connection: Connection, argv: list[bytes]) -> Any:
    """CLUSTER MEET ip port

    Return OK if the node at this address, this one or another, shares this store. Nothing
    changes: nodes that share a store know each other.
    """
    return after(connection.broker.store.run(FindNodes()), partial(_meet, connection, argv))


def run_forget(connection: Connection, argv: list[bytes]) -> Any:
    """CLUSTER FORGET node-id

    Remove a stopped node from the list. A running node would return within a second.
    """
    return after(connection.broker.store.run(FindNodes()), partial(_forget, connection, argv[2]))


def run_reset(connection: Connection, argv: list[bytes]) -> Any:
    """CLUSTER RESET [SOFT|HARD]

    Remove all jobs and job queues. With HARD, this node also gets a new id.
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

    With YES, clients cannot block here for jobs any more, and HELLO sends them to other nodes.
    Without an argument, return whether this is set.
    """
    broker = connection.broker
    if len(argv) > 3:
        raise BadArgument(_OTHERWISE)
    if len(argv) == 2:
        return Simple(b"yes" if broker.store.run(LookAtNode()).is_leaving else b"no")
    word = argv[2].upper()
    if word not in (b"YES", b"NO"):
        raise BadArgument("CLUSTER LEAVING must be yes or no")
    connection.mark_write()
    return after(broker.store.run(SetNode(is_leaving=word == b"YES")), partial(_wake_all, broker))


def run_saveconfig(connection: Connection, argv: list[bytes]) -> Value:
    """CLUSTER SAVECONFIG

    Return OK: the store already has the state of the nodes.
    """
    return OK


def run_slots(connection: Connection, argv: list[bytes]) -> Value:
    """CLUSTER SLOTS

    Return the error of a Redis without Redis Cluster, so that clients that probe for a cluster
    stop.
    """
    raise BadRequest(_NO_SLOTS)


def run_shards(connection: Connection, argv: list[bytes]) -> Value:
    """CLUSTER SHARDS

    Return the error of a Redis without Redis Cluster, so that clients that probe for a cluster
    stop.
    """
    raise BadRequest(_NO_SLOTS)


def _line(node: NodeView, connection: Connection, now_ms: int) -> str:
    """Return the line of a node in CLUSTER NODES."""
    flags = ["myself"] if node.is_self else []
    if node.is_doubted:
        flags.append("fail" if node.is_failed else "fail?")
    if node.is_leaving:
        flags.append("leaving")
    heard_ms = 0 if node.is_self else now_ms - node.unheard_ms
    link = "disconnected" if node.is_doubted else "connected"
    address = f"{node.host.decode()}:{port_of(node, connection)}"
    return f"{node.node_id.decode()} {address} {','.join(flags) or 'noflags'} 0 {heard_ms} {link}\n"


def _counts(nodes: list[NodeView]) -> Value:
    reachable = [node for node in nodes[1:] if not node.is_doubted and not node.is_leaving]
    facts = {
        "cluster_state": "ok",
        "cluster_known_nodes": len(nodes),
        "cluster_reachable_nodes": len(reachable),  # without ourselves
        "cluster_size": len(nodes),
        "cluster_stats_messages_sent": 0,
        "cluster_stats_messages_received": 0,
    }
    lines = (f"{name}:{value}\r\n" for name, value in facts.items())
    return Verbatim("".join(lines).encode())


def _meet(connection: Connection, argv: list[bytes], nodes: list[NodeView]) -> Value:
    host, port = printable(argv[2][:128]), printable(argv[3][:128])
    if _is_own(connection, nodes[0], host, port):
        return OK
    there = [node for node in nodes[1:] if _is_at(node, host, port, nodes[0].host)]
    if there:
        unheard_ms = min(node.unheard_ms for node in there)
        if all(node.is_doubted for node in there):
            raise BadRequest(
                f"cannot meet {host}:{port}: it shares this store, but was last seen "
                f"{unheard_ms // 1000} s ago"
            )
        return OK
    if _ip(host) is None or not _PORT.fullmatch(argv[3]) or int(port) > _PORT_MOST:
        raise BadArgument(f"Invalid node address specified: {host}:{port}")
    if connection.broker.config.store == "embedded":
        raise BadRequest(f"cannot meet {host}:{port}: only one node can use this store")
    raise BadRequest(f"cannot meet {host}:{port}: no node at this address shares this store")


def _forget(connection: Connection, node_id: bytes, nodes: list[NodeView]) -> Any:
    shown = printable(node_id[:128])
    for node in nodes:
        if node.node_id == node_id:
            break
    else:
        raise BadRequest(f"Unknown node {shown}")
    if node.is_self:
        raise BadRequest("a node cannot forget itself")
    if not node.is_doubted:
        raise BadRequest(f"node {shown} is running and would return within a second; stop it first")
    return after(connection.broker.store.run(ForgetNode(node_id)), lambda nothing: OK)


def _is_own(connection: Connection, own: NodeView, host: str, port: str) -> bool:
    """Return whether this is an address of this node, as far as the node knows."""
    listen = connection.broker.config.listen + connection.broker.config.tls_listen
    addresses = [address for address in map(parse_address, listen) if not address.is_unix]
    came_to, _, came_to_port = connection.local_address.rpartition(":")
    hosts = {own.host.decode(), came_to.strip("[]"), *(address.host for address in addresses)}
    ports = {str(own.port), came_to_port, *(str(address.port) for address in addresses)}
    ip = _ip(host)
    is_here = host in hosts - {""} or (ip is not None and ip.is_loopback)
    return is_here and port in ports - {"0"}


def _is_at(node: NodeView, host: str, port: str, own_host: bytes) -> bool:
    """Return whether clients reach the node there. A loopback address is every address of this
    machine."""
    if str(node.port) != port:
        return False
    ip, node_ip = _ip(host), _ip(node.host.decode())
    if ip is None or node_ip is None:
        return node.host.decode() == host
    return ip == node_ip or (ip.is_loopback and node.host == own_host)


def _ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


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
