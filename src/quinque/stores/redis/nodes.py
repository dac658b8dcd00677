"""The brokers that share the store: the id of each, where it is, when it was last seen.

Called by   runners.py, worklists.py (a broker that leaves has others accept messages),
            served.py (beats once a second, and a last word).
Calls       the scripts look_at_node, set_node, beat and forget_node.

A broker's id is kept for as long as it may come back. Each beat writes that the broker runs, with
the time of Redis itself, so that no two clocks are ever compared. A broker that has not announced
its address (a program with a store of its own) is not written down.

Not here: what clients see of them (server/commands/cluster.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from quinque.errors import NoReplicas
from quinque.model.limits import NODE_FORGOTTEN_MS, NODE_KEPT_MS
from quinque.model.ops import Op
from quinque.model.work_ops import Announce, FindNodes, ForgetNode, LookAtNode, NodeView, SetNode
from quinque.stores.redis.calls import Arg, Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import BROKERS, node_key
from quinque.version import __version__

_KEEP_EVERY_MS: Final = 3_600_000  # far less than NODE_KEPT_MS


def known_node(edge: Edge) -> Steps:
    """This broker, which has an id from here on."""
    if edge.node is None:
        yield from _keep_name(edge, edge.chance.node_id())
    return edge.node


def beat(edge: Edge) -> Steps:
    """The others know that this broker lives, if it has an address."""
    node: NodeView = yield from known_node(edge)
    if edge.now_ms() - edge.named_ms > _KEEP_EVERY_MS:
        node = yield from _keep_name(edge, node.node_id)
    if node.port:
        yield [_beat_call(node, 0)]


def find_others(edge: Edge) -> Steps:
    """As beat(); and the NodeViews of the others."""
    node: NodeView = yield from known_node(edge)
    (reply,) = yield [_beat_call(node, NODE_FORGOTTEN_MS)]
    others = [
        NodeView(id, bool(is_leaving), host, port, unheard_ms, is_self=False)
        for id, is_leaving, host, port, unheard_ms in reply
    ]
    return sorted(others, key=lambda other: other.node_id)


def stand_in(edge: Edge) -> Steps:
    """Return another broker, which accepts jobs that this one refuses while it drains.

    Raises NoReplicas when there is none that lives and stays.
    """
    others: list[NodeView] = yield from find_others(edge)
    staying = [other for other in others if not other.is_leaving and not other.is_doubted]
    if not staying:
        raise NoReplicas("this node is leaving and accepts no new jobs; there is no other node")
    return staying[int.from_bytes(edge.chance.take(2), "big") % len(staying)]


def retire(edge: Edge) -> Steps:
    """Remove this broker from the list that others see."""
    if edge.node is not None and edge.node.port:
        yield [Call("forget_node", [BROKERS], [edge.node.node_id])]


def look_at_node(op: LookAtNode, edge: Edge) -> Steps:
    return (yield from known_node(edge))


def set_node(op: SetNode, edge: Edge) -> Steps:
    node: NodeView = yield from known_node(edge)
    argv: list[Arg] = [
        edge.chance.node_id() if op.is_renamed else node.node_id,
        b"" if op.is_leaving is None else int(op.is_leaving),
        NODE_KEPT_MS,
    ]
    (reply,) = yield [Call("set_node", [node_key(edge.node_name)], argv)]
    was, node = node, _note(edge, reply)
    if node.port:
        if op.is_renamed:
            yield [Call("forget_node", [BROKERS], [was.node_id])]
        yield from beat(edge)
    return node


def announce(op: Announce, edge: Edge) -> Steps:
    node: NodeView = yield from known_node(edge)
    edge.node = replace(node, host=op.host, port=op.port)
    yield from find_others(edge)  # so that brokers that are gone are forgotten without a request
    return edge.node


def find_nodes(op: FindNodes, edge: Edge) -> Steps:
    others: list[NodeView] = yield from find_others(edge)
    return [edge.node, *others]


def forget_node(op: ForgetNode, edge: Edge) -> Steps:
    yield [Call("forget_node", [BROKERS], [op.node_id])]


def _beat_call(node: NodeView, forgotten_ms: int) -> Call:
    argv: list[Arg] = [
        *(node.node_id, int(node.is_leaving), node.port, __version__.encode(), node.host),
        forgotten_ms,
    ]
    return Call("beat", [BROKERS], argv)


def _keep_name(edge: Edge, node_id: bytes) -> Steps:
    """This broker, whose id, or one it had before, is its own for a long time from now."""
    argv: list[Arg] = [node_id, NODE_KEPT_MS]
    (reply,) = yield [Call("look_at_node", [node_key(edge.node_name)], argv)]
    edge.named_ms = edge.now_ms()
    return _note(edge, reply)


def _note(edge: Edge, reply: Sequence[Any]) -> NodeView:
    """This broker, as Redis has it; its address is what was announced."""
    node = edge.node or NodeView(b"", False)
    edge.node = replace(node, node_id=reply[0], is_leaving=bool(reply[1]))
    return edge.node


RUNNERS: Final[dict[type[Op], Runner]] = {
    LookAtNode: look_at_node,
    SetNode: set_node,
    Announce: announce,
    FindNodes: find_nodes,
    ForgetNode: forget_node,
}
