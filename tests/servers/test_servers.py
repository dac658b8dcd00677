"""What other tests take for granted of the servers they start, and would not notice if it were
otherwise."""

from __future__ import annotations

import socket

import pytest

from tests.servers.ports import ReservedPort
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisDidNotStart, RedisServer


def test_a_reserved_port_is_nobody_elses_though_nothing_listens_there() -> None:
    port = ReservedPort()

    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port.number))

    port.close()


def test_a_killed_server_comes_back_to_its_address_with_what_it_kept() -> None:
    with RedisServer(None, "--appendfsync", "always", appendonly=True) as server:
        address, pid = server.address, server.pid
        server.ask("SET", "key", "kept")

        server.kill()
        server.restart()

        assert server.ask("GET", "key") == b"kept"
        assert server.address == address
        assert server.pid != pid


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(RedisDidNotStart, match="nonsense"):
        RedisServer(None, "--nonsense", "yes")


def test_a_slot_moves_with_its_keys_and_all_agree(redis_cluster: RedisCluster) -> None:
    with redis_cluster.client() as client:
        for number in range(250):
            client.set(f"{{tag}}{number}", number)
        slot = client.keyslot("{tag}")
        was = redis_cluster.primary_of(slot)
        to = next(node for node in redis_cluster.primaries if node is not was)

        redis_cluster.move_slot(slot, to)

        assert redis_cluster.primary_of(slot) is to
        assert to.ask("CLUSTER", "COUNTKEYSINSLOT", slot) == 250
        assert was.ask("CLUSTER", "COUNTKEYSINSLOT", slot) == 0
        redis_cluster.move_slot(slot, was)
