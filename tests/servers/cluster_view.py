"""What a node of a Redis Cluster says of all nodes: CLUSTER NODES, read.

Called by   redis_cluster.py.
Calls       nothing.

    id host:port@bus[,name] flags primary's-id-or-- ping pong epoch link slots…

Not here: whether the nodes agree (redis_cluster.py).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.servers.redis_server import RedisServer

SLOTS: Final = 16384


class Row(NamedTuple):
    """One node, as a node tells of it."""

    id: str
    port: int
    is_self: bool
    primary_id: str  # "" if it is a primary
    epoch: int  # the later one is right about who has a slot
    ranges: tuple[range, ...]  # of slots

    def has(self, slot: int) -> bool:
        return any(slot in some for some in self.ranges)

    @property
    def told(self) -> tuple[object, ...]:
        """What nodes that agree tell alike."""
        return self.id, self.port, self.primary_id, self.ranges


def rows_of(node: RedisServer) -> list[Row]:
    """All nodes, as this one tells of them."""
    text: bytes = node.ask("CLUSTER", "NODES")
    return [_row(line.split()) for line in text.decode().splitlines()]


def _row(words: list[str]) -> Row:
    id, address, flags, primary_id, _, _, epoch, _, *ranges = words
    return Row(
        id,
        int(address.partition("@")[0].rpartition(":")[2]),
        "myself" in flags.split(","),
        primary_id.removeprefix("-"),
        int(epoch),
        tuple(_slots(text) for text in ranges if not text.startswith("[")),  # [: on the move
    )


def _slots(text: str) -> range:
    """Of `5-7` or `5`."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)
