"""Find the address of this broker that the other brokers give to their clients.

Called by   serve.py.
Calls       the system, for the routes of this machine.

Not here: how other brokers learn it (stores/redis/nodes.py), the replies to clients
(server/commands/cluster.py).
"""

from __future__ import annotations

import socket
from asyncio import Server
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from quinque.server.address import Address, is_every_host, parse_address
from quinque.server.config import Config

_HERE: Final = "127.0.0.1"
_FAR_AWAY: Final = ("192.0.2.1", 9)  # reserved for documentation


def announced_address(
    config: Config, servers: Iterable[Server], way_to_store: str
) -> Address | None:
    """Return the setting `announce`, or the first address that the broker listens on. None if there
    are no other brokers, or no such address.

    If the broker listens on every address of this machine, return the one that the machine uses to
    reach the store (`way_to_store`), or to reach other machines if the store is on this machine.
    """
    if config.announce:
        return parse_address(config.announce)
    if config.store == "embedded":
        return None
    for server in servers:
        for sock in server.sockets:
            if sock.family != socket.AF_UNIX:
                host, port = sock.getsockname()[:2]
                return Address(_outside(way_to_store) if is_every_host(host) else host, port)
    return None


def _outside(way_to_store: str) -> str:
    """Return an address of this machine that other machines can probably reach."""
    if way_to_store and not ip_address(way_to_store).is_loopback:
        return way_to_store
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_FAR_AWAY)  # only finds the route: nothing is sent
        except OSError:
            return _HERE
        return str(probe.getsockname()[0])
