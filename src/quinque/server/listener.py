"""Sockets to listen on: TCP, unix, TLS.

Called by   cli/serve.py.
Calls       connection.py for each client that comes.

Not here: what an address looks like (address.py).
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
from pathlib import Path
from typing import cast

from quinque.errors import BadSetting
from quinque.server.address import parse_address
from quinque.server.broker import Broker
from quinque.server.config import Config
from quinque.server.connection import Connection

_BACKLOG = 511


async def listen(broker: Broker) -> list[asyncio.Server]:
    """Every address of the settings is listened on. Raises BadSetting, naming the bad one."""
    loop, config = broker.loop, broker.config
    servers: list[asyncio.Server] = []

    def connect() -> asyncio.Protocol:
        return cast(asyncio.Protocol, Connection(broker))

    context = tls_context(config) if config.tls_listen else None
    for setting, texts in (("listen", config.listen), ("tls-listen", config.tls_listen)):
        for text in texts:
            address = parse_address(text)
            is_tls = context if setting == "tls-listen" else None
            try:
                if address.is_unix:
                    _make_way(Path(address.path))
                    server = await loop.create_unix_server(
                        connect, address.path, backlog=_BACKLOG, ssl=is_tls
                    )
                else:
                    server = await loop.create_server(
                        connect, address.host or None, address.port, backlog=_BACKLOG, ssl=is_tls
                    )
            except OSError as exc:
                for made in servers:
                    made.close()
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
