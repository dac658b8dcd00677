"""Ports of 127.0.0.1 for servers that must be told theirs, and come back to it after a kill.

Called by   redis_server.py, tests/server/broker.py.
Calls       nothing.

Not here: servers that choose for themselves, and are not killed.
"""

from __future__ import annotations

import socket
from typing import Final

_MOST: Final = 55_535  # of a node that CLUSTER MEET accepts: Redis adds 10,000 to it


class ReservedPort:
    """A port that nobody else is given until this is closed, whether something listens or not.

    A socket is bound to it and never listens. Linux lets a server listen beside it if both have
    SO_REUSEADDR, as redis-server and a broker do. Here that is set after binding: the port was a
    free one.
    """

    def __init__(self) -> None:
        unfit: list[socket.socket] = []
        while (sock := _bound()).getsockname()[1] > _MOST:
            unfit.append(sock)  # or the next might be given the same
        for other in unfit:
            other.close()
        self._socket = sock
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()


def _bound() -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock
