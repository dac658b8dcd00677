"""Ports of 127.0.0.1 for servers that must be told theirs, and come back to it after a kill.

Called by   redis_server.py.
Calls       nothing.

Not here: servers that choose for themselves (a broker listens on port 0 and says which it got).
"""

from __future__ import annotations

import socket


class ReservedPort:
    """A port that nobody else is given until this is closed, whether something listens or not.

    A socket is bound to it and never listens. Linux lets a server listen beside it if both have
    SO_REUSEADDR, as redis-server does. Here that is set after binding: the port was a free one.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()
