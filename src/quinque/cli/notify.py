"""Report to systemd that the broker is ready, runs, or stops.

Called by   serve.py.
Calls       the system: one datagram to the socket that $NOTIFY_SOCKET names.

A unit of `Type=notify` waits for READY=1; one with `WatchdogSec=` restarts a broker whose event
loop is blocked. Without $NOTIFY_SOCKET, nothing is sent.

Not here: the unit (examples/systemd/quinque.service).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


class Notifier:
    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        """`variables` are those of the environment."""
        variables = os.environ if variables is None else variables
        # A name that begins with @ is not a file; on the wire it begins with a zero byte.
        name = variables.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        is_for_us = variables.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        span_us = variables.get("WATCHDOG_USEC", "") if is_for_us else ""
        # Twice as often as systemd requires.
        self.watchdog_s = int(span_us) / 2_000_000 if span_us.isdigit() else 0.0

    def ready(self, status: str) -> None:
        """Report that the broker serves clients."""
        self._send(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        self._send("STOPPING=1\nSTATUS=stopping")

    def alive(self) -> None:
        """Report that the event loop runs."""
        self._send("WATCHDOG=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)  # a broker does not wait for its watchdog
            try:
                sock.sendto(text.encode(), self._address)
            except OSError:
                pass
