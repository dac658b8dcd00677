"""A real Redis Cluster of several redis-servers, which a test may fail over and reshard.

Called by   tests/conftest.py, and tests of what happens while a cluster changes.
Calls       redis_server.py, cluster_view.py (what a node says of the others).

    with RedisCluster(primaries=3, replicas=1) as cluster:
        cluster.primary_of(slot).kill()
        cluster.wait_until_whole()  # its replica has taken over

Where this file says that all agree, every node that answers says the same of all of them.

Not here: clients of a cluster (redis-py), which slot a queue lies in (stores/redis/keys.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import redis
from redis.exceptions import ReadOnlyError, RedisError, ResponseError

from tests.servers.cluster_view import SLOTS, Row, rows_of
from tests.servers.patience import holds_within, wait_until
from tests.servers.redis_server import RedisServer

_FORMING_TIMEOUT_MS: Final = 1000  # how often nodes talk depends on it; this is about the least
_MOVED_AT_ONCE: Final = 100  # keys
_FAILOVER_S: Final = 6.0  # after five seconds Redis gives up and has to be asked again


class RedisCluster:
    """Primaries with equal shares of the slots, each with as many replicas.

    A primary that says nothing for `node_timeout_ms` is replaced by a replica, within about twice
    that time. Files are in `folder`; without one, in folders that go when the cluster is closed.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *options: str,
        primaries: int = 3,
        replicas: int = 1,
        node_timeout_ms: int = 1000,
        appendonly: bool = False,
    ) -> None:
        """The cluster is whole.

        Raises RedisDidNotStart, or AssertionError which says what did not come true.
        """
        self.nodes: list[RedisServer] = []
        try:
            for number in range(primaries * (1 + replicas)):
                node = RedisServer(
                    folder / str(number) if folder else None,
                    *("--cluster-node-timeout", str(node_timeout_ms)),
                    # However long a replica has heard nothing, it may take over.
                    *("--cluster-replica-validity-factor", "0"),
                    *options,
                    in_cluster=True,
                    appendonly=appendonly,
                    is_awaited=False,
                )
                self.nodes.append(node)
            for node in self.nodes:
                node.wait_until_up()
            self._set_timeout(_FORMING_TIMEOUT_MS)
            self._form(primaries)
            self._set_timeout(node_timeout_ms)
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(node.address for node in self.nodes)

    def client(self) -> redis.RedisCluster:
        """A new client of the whole cluster."""
        return redis.RedisCluster(host="127.0.0.1", port=self._answering()[0].port)

    @property
    def primaries(self) -> list[RedisServer]:
        """Those that have slots, in the order of their first ones."""
        rows = [row for row in self._newest().values() if row.ranges]
        return [self._at(row.port) for row in sorted(rows, key=lambda row: row.ranges[0].start)]

    def primary_of(self, slot: int) -> RedisServer:
        """The node that was last known to have the slot."""
        return self._at(self._primary_row(slot).port)

    def replica_of(self, slot: int) -> RedisServer:
        """A replica of the slot's primary; one that answers, if there is one."""
        primary = self._primary_row(slot)
        replicas = [
            self._at(row.port) for row in self._newest().values() if row.primary_id == primary.id
        ]
        assert replicas, f"the primary of slot {slot} has no replica"
        return max(replicas, key=lambda node: node.is_answering)

    def failover(self, slot: int, *how: str) -> RedisServer:
        """All agree that a replica is the slot's primary instead; that one.

        `how` is nothing (the primary agrees, and nothing is lost), FORCE or TAKEOVER.
        """
        replica = self.replica_of(slot)

        def has_taken_over() -> bool:
            return self.agrees() and self.primary_of(slot) is replica

        def takes_over() -> bool:
            try:
                replica.ask("CLUSTER", "FAILOVER", *how)
            except ResponseError:  # its primary is silent for now, or it has just taken over
                return has_taken_over()
            return holds_within(has_taken_over, _FAILOVER_S)

        wait_until(takes_over, f"{replica.address} is the primary of slot {slot}")
        return replica

    def move_slot(self, slot: int, to: RedisServer) -> None:
        """All agree that the primary `to` has the slot, and it has the slot's keys."""
        self.begin_move(slot, to)
        while self.move_keys(slot, to):
            pass
        self.end_move(slot, to)

    def begin_move(self, slot: int, to: RedisServer) -> None:
        """From here on keys of the slot that its primary does not have are asked for at `to`."""
        source = self.primary_of(slot)
        assert source is not to, f"{to.address} has slot {slot}"
        to.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", _id_of(source))
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", _id_of(to))

    def move_keys(self, slot: int, to: RedisServer, most: int = _MOVED_AT_ONCE) -> int:
        """Some keys of a slot that is being moved are at `to`; how many, 0 if none are left."""
        source = self.primary_of(slot)
        keys: Sequence[bytes] = source.ask("CLUSTER", "GETKEYSINSLOT", slot, most)
        if keys:
            # 0 is the database; it gives up after 5000 ms without a word from there.
            source.ask("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
        return len(keys)

    def end_move(self, slot: int, to: RedisServer) -> None:
        """All agree that `to` has the slot. None of its keys may be left where it was."""
        # The receiver first: if the giver were first, for a moment no node would have the slot.
        for node in dict.fromkeys([to, self.primary_of(slot), *self.primaries]):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", _id_of(to))
        wait_until(
            lambda: self.agrees() and self.primary_of(slot) is to,
            f"{to.address} has slot {slot}",
        )

    def flush(self) -> None:
        """No key is left."""
        for node in self._answering():
            try:
                node.flush()
            except ReadOnlyError:  # a replica
                continue

    def agrees(self) -> bool:
        """Whether all nodes that answer see a whole cluster, the same one, and one of nodes that
        answer."""
        try:
            views = [rows_of(node) for node in self._answering()]
            states = [node.ask("CLUSTER", "INFO") for node in self._answering()]
        except RedisError:  # one has just gone, or is loading
            return False
        told = {frozenset(row.told for row in rows) for rows in views}
        serving = [row for row in views[0] if row.ranges]
        return (
            len(told) == 1
            and sum(len(some) for row in serving for some in row.ranges) == SLOTS
            and all(self._at(row.port).is_answering for row in serving)
            and all(b"cluster_state:ok" in state for state in states)
        )

    def wait_until_whole(self) -> None:
        """All agree, and the replicas that answer follow their primaries."""
        wait_until(self._is_whole, "the nodes agree on a whole cluster")

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _form(self, primaries: int) -> None:
        firsts, seconds = self.nodes[:primaries], self.nodes[primaries:]
        for number, node in enumerate(firsts):
            first, end = (SLOTS * at // primaries for at in (number, number + 1))
            node.ask("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        wait_until(self._have_met, "the nodes know one another")
        for number, node in enumerate(seconds):
            node.ask("CLUSTER", "REPLICATE", _id_of(firsts[number % primaries]))
        self.wait_until_whole()

    def _have_met(self) -> bool:
        """Whether each node knows all others. Each meets each: until they have heard of one another
        from others takes seconds. One that is silent for a second is forgotten, and met again."""
        ids = {_id_of(node) for node in self.nodes}
        views = {node: rows_of(node) for node in self.nodes}
        known = {(node, row.port) for node, rows in views.items() for row in rows}
        for number, node in enumerate(self.nodes):
            for other in self.nodes[:number]:
                if not known >= {(node, other.port), (other, node.port)}:
                    node.ask("CLUSTER", "MEET", "127.0.0.1", other.port, other.bus_port)
        return all({row.id for row in rows} == ids for rows in views.values())

    def _set_timeout(self, timeout_ms: int) -> None:
        for node in self.nodes:
            node.ask("CONFIG", "SET", "cluster-node-timeout", timeout_ms)

    def _is_whole(self) -> bool:
        if not self.agrees():
            return False
        rows = self._newest().values()
        try:
            return all(
                self._at(primary.port).has_followers(
                    {
                        row.port
                        for row in rows
                        if row.primary_id == primary.id and self._at(row.port).is_answering
                    }
                )
                for primary in rows
                if primary.ranges
            )
        except RedisError:
            return False

    def _primary_row(self, slot: int) -> Row:
        rows = [row for row in self._newest().values() if row.has(slot)]
        assert rows, f"no node has slot {slot}"
        return max(rows, key=lambda row: row.epoch)

    def _newest(self) -> dict[str, Row]:
        """What is known of each node, by its id: what the node says itself, if it answers, or else
        what was last heard of it."""
        newest: dict[str, Row] = {}
        for node in self._answering():
            for row in rows_of(node):
                known = newest.get(row.id)
                if known is None or (row.is_self, row.epoch) > (known.is_self, known.epoch):
                    newest[row.id] = row
        return newest

    def _answering(self) -> list[RedisServer]:
        return [node for node in self.nodes if node.is_answering]

    def _at(self, port: int) -> RedisServer:
        return next(node for node in self.nodes if node.port == port)


def _id_of(node: RedisServer) -> str:
    id: bytes = node.ask("CLUSTER", "MYID")
    return id.decode()
