"""Sockets to listen on: TCP, unix, TLS.

Called by   cli/serve.py.
Calls       connection.py or tarantool_connection.py for each client that comes.

Not here: what an address looks like (address.py).
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
from collections.abc import Callable
from pathlib import Path
from typing import cast

from quinque.errors import BadSetting
from quinque.server.address import parse_address
from quinque.server.broker import Broker
from quinque.server.config import Config
from quinque.server.connection import Connection
from quinque.server.tarantool_connection import TarantoolConnection
from quinque.server.tarantool_requests import TarantoolRequests

_BACKLOG = 511


async def listen(broker: Broker) -> list[asyncio.Server]:
    """Every address for clients that speak RESP is listened on. Raises BadSetting, naming the bad
    one."""
    config = broker.config

    def connect() -> asyncio.Protocol:
        return cast(asyncio.Protocol, Connection(broker))

    context = tls_context(config) if config.tls_listen else None
    servers = await _listen_on(broker, "listen", config.listen, connect)
    try:
        servers += await _listen_on(broker, "tls-listen", config.tls_listen, connect, context)
    except BadSetting:
        close(servers)
        raise
    return servers


async def listen_for_tarantool(broker: Broker) -> list[asyncio.Server]:
    """Every address for clients that speak IPROTO is listened on. Raises BadSetting likewise."""
    requests = TarantoolRequests(broker)

    def connect() -> asyncio.Protocol:
        return cast(asyncio.Protocol, TarantoolConnection(broker, requests))

    return await _listen_on(broker, "tarantool-listen", broker.config.tarantool_listen, connect)


def close(servers: list[asyncio.Server]) -> None:
    """Nobody can connect any more."""
    for server in servers:
        server.close()


async def _listen_on(
    broker: Broker,
    setting: str,
    texts: list[str],
    connect: Callable[[], asyncio.Protocol],
    context: ssl.SSLContext | None = None,
) -> list[asyncio.Server]:
    loop = broker.loop
    servers: list[asyncio.Server] = []
    for text in texts:
        address = parse_address(text)
        try:
            if address.is_unix:
                _make_way(Path(address.path))
                server = await loop.create_unix_server(
                    connect, address.path, backlog=_BACKLOG, ssl=context
                )
            else:
                server = await loop.create_server(
                    connect, address.host or None, address.port, backlog=_BACKLOG, ssl=context
                )
        except OSError as exc:
            close(servers)
            raise BadSetting(f"{setting} {text}: {exc.strerror or exc}") from exc
        servers.append(server)
    return servers


def addresses(servers: list[asyncio.Server]) -> list[str]:
    """Where clients can reach the broker, ports chosen by the system included."""
    found: list[str] = []
    for server in servers:
        for sock in server.sockets:
            if sock.family == socket.AF_UNIX:
                found.append(f"unix:{sock.getsockname()}")
            else:
                host, port = sock.getsockname()[:2]
                found.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    return found


def tls_context(config: Config) -> ssl.SSLContext:
    """Raises BadSetting when the files cannot be used."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(config.tls_cert, config.tls_key)
        if config.tls_ca:
            context.load_verify_locations(config.tls_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as exc:
        raise BadSetting(f"tls-cert, tls-key or tls-ca cannot be used: {exc}") from exc
    return context


def _make_way(path: Path) -> None:
    """A socket left behind by a broker that was killed is removed; anything else is not."""
    if path.exists() and stat.S_ISSOCK(os.stat(path).st_mode):
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
