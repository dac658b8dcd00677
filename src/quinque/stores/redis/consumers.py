"""Consumers of events queues that are connected to other brokers.

Called by   served.py (once a second, and at the end), feeds.py (Count).
Calls       the script consumers.

A broker writes down how many consumers it has when that has changed, at most once a second, and
again now and then. What it wrote counts for half a minute, so that consumers of a broker that was
killed are gone after that.

Not here: which clients are consumers (server/broker.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import msgpack

from quinque.model.work_ops import NodeView
from quinque.stores.consumers import Counts
from quinque.stores.redis.calls import Arg, Call, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import CONSUMERS
from quinque.stores.redis.nodes import known_node

_KEPT_MS: Final = 30_000  # as okq has it
_AGAIN_MS: Final = 10_000
# Of one broker: as many as a reply of QSTATUS has. A name has up to 1,024 bytes.
_ROWS_MOST: Final = 10_000
_BYTES_MOST: Final = 1_000_000
_NONE: Final = b""


def share(edge: Edge) -> Steps:
    """The other brokers know how many consumers this one has."""
    node: NodeView = yield from known_node(edge)
    shared = edge.shared_consumers
    packed = _packed(edge.consumers.own())
    now_ms = edge.now_ms()
    is_old = bool(packed) and now_ms - shared.at_ms >= _AGAIN_MS
    if packed != shared.packed or is_old:
        yield [Call("consumers", [CONSUMERS], [node.node_id, _KEPT_MS, 1, packed])]
        shared.packed, shared.at_ms = packed, now_ms


def retire(edge: Edge) -> Steps:
    """This broker has no consumers any more."""
    if edge.shared_consumers.packed and edge.node is not None:
        yield [Call("consumers", [CONSUMERS], [edge.node.node_id, _KEPT_MS, 1, _NONE])]


def look_call(edge: Edge) -> Call:
    """Ask for what other brokers wrote down. Messages are counted even if this fails."""
    argv: list[Arg] = [_NONE if edge.node is None else edge.node.node_id, _KEPT_MS, 0, _NONE]
    return Call("consumers", [CONSUMERS], argv, may_fail=True)


def note(edge: Edge, reply: Sequence[Any]) -> None:
    """The consumers of other brokers are known, by queue and group."""
    counts: dict[bytes, dict[bytes, int]] = {}
    for packed in reply:
        for queue, group, count in msgpack.unpackb(packed, raw=True):
            groups = counts.setdefault(queue, {})
            groups[group] = groups.get(group, 0) + count
    edge.consumers.elsewhere = counts


def _packed(counts: Counts) -> bytes:
    """The counts, as far as they are to be shared; empty if there are none."""
    every = (
        (queue, group, count)
        for queue, groups in sorted(counts.items())
        for group, count in sorted(groups.items())
    )
    rows: list[tuple[bytes, bytes, int]] = []
    size_bytes = 0
    for row in islice(every, _ROWS_MOST):
        size_bytes += len(row[0]) + len(row[1])
        if size_bytes > _BYTES_MOST:
            break
        rows.append(row)
    packed: bytes = msgpack.packb(rows) if rows else _NONE
    return packed
