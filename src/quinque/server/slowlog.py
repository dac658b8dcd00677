"""Requests that took long.

Called by   dispatch.py (adds), commands/admin.py (shows).
Calls       redaction.py.

Not here: how long is long (the setting slowlog-log-slower-than).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from time import time
from typing import TYPE_CHECKING, Final

from quinque.server.redaction import shortened, without_secrets

if TYPE_CHECKING:
    from quinque.server.client import Client

_ARGS_MOST: Final = 32  # as Redis keeps them
_ARG_MOST_BYTES: Final = 128


@dataclass(slots=True)
class SlowRequest:
    id: int
    at_s: int
    spent_us: int
    argv: list[bytes]
    address: str
    client_name: bytes


class SlowLog:
    def __init__(self) -> None:
        self._next_id = 0
        self.requests: deque[SlowRequest] = deque(maxlen=128)

    def resize(self, most: int) -> None:
        if most != self.requests.maxlen:
            self.requests = deque(self.requests, maxlen=most)

    def add(self, client: Client, argv: list[bytes], spent_ns: int) -> None:
        """Newest first; the oldest goes when there are too many."""
        shown = without_secrets(argv)
        if shown is None:
            return
        self.requests.appendleft(
            SlowRequest(
                self._next_id,
                int(time()),
                spent_ns // 1000,
                shortened(shown, _ARGS_MOST, _ARG_MOST_BYTES),
                client.address,
                client.name,
            )
        )
        self._next_id += 1
