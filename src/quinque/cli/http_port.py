"""The HTTP port of a broker: its metrics and probes, put together.

Called by   serve.py, when `http-listen` is set.
Calls       server/metrics.py, server/measuring.py and server/readiness.py (the content), console/
            (HTTP), the system (sockets).

Not here: the paths (console/app.py), the list of metrics (server/metrics.py).
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from quinque.errors.extras import package_missing
from quinque.server.address import parse_address
from quinque.server.broker import Broker
from quinque.server.listener import cannot_listen
from quinque.server.measuring import measure
from quinque.server.metrics import METRICS
from quinque.server.readiness import stall, trouble

if TYPE_CHECKING:
    from quinque.console.port import Port

_PACKAGES: Final = ("starlette", "uvicorn", "prometheus_client")
_BACKLOG: Final = 64


class HttpPort:
    def __init__(self, broker: Broker, addresses: Sequence[str]) -> None:
        """Serve metrics and probes of the broker at these addresses, if there are any.

        Raises BadSetting when a package is missing, or an address is not available.
        """
        self._broker = broker
        self._is_stopping = False
        self._port: Port | None = None
        self.urls: list[str] = []
        if addresses:
            self._open(addresses)

    def begin_to_stop(self) -> None:
        """Let /readyz report that the broker stops. Requests are answered until `stop`."""
        self._is_stopping = True

    async def stop(self) -> None:
        """Close the port."""
        if self._port is not None:
            await self._port.stop()

    def _open(self, addresses: Sequence[str]) -> None:
        for package in _PACKAGES:
            if find_spec(package) is None:
                raise package_missing(package, "http", "http-listen is set")
        # Not at the top: a broker without an HTTP port does not need these packages.
        from quinque.console.app import make_app
        from quinque.console.exposition import Page
        from quinque.console.port import Port

        sockets = bind(addresses)
        self.urls = [url_of(sock) for sock in sockets]
        page = Page(METRICS, partial(measure, self._broker))
        self._port = Port(make_app(page, self._trouble, partial(stall, self._broker)), sockets)

    def _trouble(self) -> str:
        return "the broker is stopping" if self._is_stopping else trouble(self._broker)


def bind(addresses: Sequence[str]) -> list[socket.socket]:
    """Return sockets that listen at the addresses. Raises BadSetting for an address that is not
    available."""
    sockets: list[socket.socket] = []
    for text in addresses:
        address = parse_address(text)
        try:
            places = socket.getaddrinfo(
                address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, _, _, _, place in places:
                sock = socket.socket(family, socket.SOCK_STREAM)
                sockets.append(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.bind(place)
                sock.listen(_BACKLOG)
                sock.setblocking(False)
        except OSError as exc:
            for sock in sockets:
                sock.close()
            raise cannot_listen("http-listen", text, exc) from exc
    return sockets


def url_of(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
