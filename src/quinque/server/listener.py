"""Sockets to listen on: TCP, unix, TLS.

Called by   cli/serve.py.
Calls       connection.py or tarantool_connection.py for each client that comes.

Not here: what an address looks like (address.py).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
import stat
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import cast

from quinque.errors import AddressInUse, BadSetting
from quinque.server.address import parse_address
from quinque.server.broker import Broker, shown_address
from quinque.server.config import Config
from quinque.server.connection import Connection
from quinque.server.tarantool_connection import TarantoolConnection
from quinque.server.tarantool_requests import TarantoolRequests

_BACKLOG = 511
_HANDSHAKE_S = 10.0
# Handshakes that are allowed when all places are taken, so that their clients can get an error.
_HANDSHAKES_LEAST = 16

log = logging.getLogger("quinque.server")


async def listen(broker: Broker) -> list[asyncio.Server]:
    """Listen on every address for RESP. Raises BadSetting, which names the address that failed."""
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
    """Listen on every address for IPROTO. Raises BadSetting like `listen`."""
    requests = TarantoolRequests(broker)

    def connect() -> asyncio.Protocol:
        return cast(asyncio.Protocol, TarantoolConnection(broker, requests))

    return await _listen_on(broker, "tarantool-listen", broker.config.tarantool_listen, connect)


def close(servers: list[asyncio.Server]) -> None:
    """Accept no more connections."""
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
    is_plain = context is None
    servers: list[asyncio.Server] = []
    for text in texts:
        address = parse_address(text)
        try:
            if address.is_unix:
                _make_way(Path(address.path))
                server = await loop.create_unix_server(
                    connect, address.path, backlog=_BACKLOG, start_serving=is_plain
                )
            else:
                server = await loop.create_server(
                    connect,
                    address.host or None,
                    address.port,
                    backlog=_BACKLOG,
                    start_serving=is_plain,
                )
            if context is not None:
                server = cast(asyncio.Server, _TlsServer(broker, server, connect, context))
        except OSError as exc:
            close(servers)
            raise cannot_listen(setting, text, exc) from exc
        servers.append(server)
    return servers


def cannot_listen(setting: str, text: str, error: OSError) -> BadSetting:
    """The error for an address of that setting which cannot be listened on."""
    if error.errno == errno.EADDRINUSE:
        return AddressInUse(f"{setting}: {text} is in use; choose another address with --{setting}")
    if error.errno == errno.EADDRNOTAVAIL:
        return AddressInUse(f"{setting}: {text} is not an address of this machine")
    return BadSetting(f"{setting}: cannot listen on {text}: {error.strerror or error}")


class _TlsServer:
    """Accepts connections at the sockets of a server that does not serve them, and does the TLS
    handshakes. It counts the handshakes in progress, and logs those that fail."""

    def __init__(
        self,
        broker: Broker,
        server: asyncio.Server,
        connect: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext,
    ) -> None:
        self._broker = broker
        self._server = server
        self._connect = connect
        self._context = context
        self._listening = [sock.dup() for sock in server.sockets]
        self._handshakes: set[asyncio.Task[None]] = set()
        for sock in self._listening:
            sock.setblocking(False)
            sock.listen(_BACKLOG)
        self._accepting = [broker.loop.create_task(self._accept(sock)) for sock in self._listening]

    @property
    def sockets(self) -> tuple[object, ...]:
        return tuple(self._server.sockets)

    def close(self) -> None:
        for task in (*self._accepting, *self._handshakes):
            task.cancel()
        for sock in self._listening:
            sock.close()
        self._server.close()

    async def _accept(self, listening: socket.socket) -> None:
        broker, loop = self._broker, self._broker.loop
        while True:
            try:
                sock, address = await loop.sock_accept(listening)
            except OSError as exc:  # mostly that no file descriptor is left
                log.error("cannot accept a TLS client: %s", exc.strerror or exc)
                await asyncio.sleep(1)
                continue
            most = max(_HANDSHAKES_LEAST, broker.config.max_clients - len(broker.clients))
            if len(self._handshakes) >= most:
                broker.stats.connections += 1
                broker.stats.refused_connections += 1
                sock.close()
                continue
            task = loop.create_task(self._shake_hands(sock, shown_address(address)))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, sock: socket.socket, address: str) -> None:
        """The socket is that of a client, or closed."""
        try:
            await self._broker.loop.connect_accepted_socket(
                self._connect, sock, ssl=self._context, ssl_handshake_timeout=_HANDSHAKE_S
            )
        except OSError as exc:
            why = str(exc) or "the client closed the connection"
            log.warning("TLS handshake with %s failed: %s", address, why)
            sock.close()


def addresses(servers: list[asyncio.Server]) -> list[str]:
    """Return the addresses where clients reach the broker, with the ports that the system chose."""
    found: list[str] = []
    for server in servers:
        for sock in server.sockets:
            if sock.family == socket.AF_UNIX:
                found.append(f"unix:{sock.getsockname()}")
            else:
                host, port = sock.getsockname()[:2]
                found.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    return found


def open_to_all(broker: Broker, servers: list[asyncio.Server]) -> list[str]:
    """The addresses at which other machines can connect without a password."""
    config = broker.config
    if config.requirepass or broker.users.are_named:
        return []
    return [
        address
        for server in servers
        # With tls-ca, clients need a certificate.
        if not (config.tls_ca and isinstance(server, _TlsServer))
        for address in addresses([server])
        if not address.startswith("unix:") and not _is_loopback(address)
    ]


def _is_loopback(address: str) -> bool:
    return ip_address(address.rpartition(":")[0].strip("[]").partition("%")[0]).is_loopback


def tls_context(config: Config) -> ssl.SSLContext:
    """Make the TLS context. Raises BadSetting if the files cannot be used."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(config.tls_cert, config.tls_key)
        if config.tls_ca:
            context.load_verify_locations(config.tls_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as exc:
        raise BadSetting(f"cannot use tls-cert, tls-key or tls-ca: {exc}") from exc
    return context


def _make_way(path: Path) -> None:
    """Remove a socket that a killed broker left, and no other file.

    Raises OSError if another process listens on it, or it is another type of file.
    """
    if path.exists():
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise OSError(errno.EEXIST, "the file exists and is not a socket")
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)  # the queue of one that listens may be full
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
                return
            except BlockingIOError:
                pass
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
