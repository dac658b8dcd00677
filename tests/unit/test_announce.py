"""Which address a broker tells the others: the one that is set, or one it listens on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from quinque.cli.announce import announced_address
from quinque.server.address import Address
from quinque.server.config import Config

REDIS = "redis://127.0.0.1:6379"


def announced(
    config: Config, *listen: str, way_to_store: str = "10.9.8.7"
) -> tuple[Address | None, list[int]]:
    """What is announced by one that listens there, on ports the system chose, and those ports.

    If it is an address of this machine, one can connect to it.
    """

    async def look() -> tuple[Address | None, list[int]]:
        loop = asyncio.get_running_loop()
        servers = []
        for place in listen:
            if place.startswith("/"):
                servers.append(await loop.create_unix_server(asyncio.Protocol, place))
            else:
                servers.append(await loop.create_server(asyncio.Protocol, place, 0))
        names = [sock.getsockname() for server in servers for sock in server.sockets]
        try:
            address = announced_address(config, servers, way_to_store)
            if address is not None and address.host not in ("broker.example", "10.9.8.7"):
                _, writer = await asyncio.open_connection(address.host, address.port)
                writer.close()
            return address, [name[1] for name in names]
        finally:
            for server in servers:
                server.close()
                await server.wait_closed()

    return asyncio.run(look())


def test_the_one_that_is_set_is_announced() -> None:
    for store in (REDIS, "embedded"):
        config = Config(store=store, announce="broker.example:7711")
        assert announced(config, "127.0.0.1")[0] == Address("broker.example", 7711)


def test_else_it_is_the_first_that_is_listened_on() -> None:
    address, ports = announced(Config(store=REDIS), "127.0.0.2", "127.0.0.1")

    assert address == Address("127.0.0.2", ports[0])


def test_a_unix_socket_is_passed_over(tmp_path: Path) -> None:
    address, ports = announced(Config(store=REDIS), str(tmp_path / "socket"), "127.0.0.1")

    assert address == Address("127.0.0.1", ports[1])


def test_whoever_listens_on_a_unix_socket_only_is_not_announced(tmp_path: Path) -> None:
    assert announced(Config(store=REDIS), str(tmp_path / "socket"))[0] is None


def test_nobody_needs_to_be_told_when_there_is_nobody_else() -> None:
    assert announced(Config(), "127.0.0.1")[0] is None


def test_every_address_means_the_one_that_leads_to_the_store() -> None:
    address, ports = announced(Config(store=REDIS), "0.0.0.0")

    assert address == Address("10.9.8.7", ports[0])


@pytest.mark.parametrize("way_to_store", ["127.0.0.1", "::1", ""])
def test_or_to_others_if_the_store_is_on_this_machine(way_to_store: str) -> None:
    address, ports = announced(Config(store=REDIS), "0.0.0.0", way_to_store=way_to_store)

    assert address is not None
    assert address.port == ports[0]


def test_or_to_nobody_if_there_is_no_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quinque.cli.announce._FAR_AWAY", ("255.255.255.255", 9))  # is refused

    address, ports = announced(Config(store=REDIS), "0.0.0.0", way_to_store="")

    assert address == Address("127.0.0.1", ports[0])
