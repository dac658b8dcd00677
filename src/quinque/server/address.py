"""Where a listener listens: `host:port` or `unix:path`, as text and as parts.

Called by   address_kinds.py to check a setting, listener.py to open the socket.
Calls       nothing.

    127.0.0.1:4777     one address of this machine
    :4777              every address of this machine
    [::1]:4777         an IPv6 address stands in brackets, as in a URL
    localhost:0        the system picks a free port
    unix:/run/q.sock   a unix socket

Not here: opening anything (listener.py).
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from quinque.errors import BadSetting

# sockaddr_un has 108 bytes for the path on Linux, and 104 on macOS and the BSDs; the last of them
# is the closing NUL.
MOST_PATH_BYTES = 107 if sys.platform == "linux" else 103

_TCP = re.compile(r"(?P<host>\[[\w:.%]+\]|[\w.-]*):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP address (`host` and `port`), or a unix socket (`path` is not empty)."""

    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def is_unix(self) -> bool:
        return self.path != ""


def is_every_host(host: str) -> bool:
    """Return whether the host stands for all addresses of the machine. A client cannot connect to
    it."""
    return host in ("", "0.0.0.0", "::")


def parse_address(text: str) -> Address:
    """Parse an address into its parts.

    Raises BadSetting when the text is neither `host:port` nor `unix:path`.
    """
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path.isprintable() or not 1 <= len(path.encode()) <= MOST_PATH_BYTES:
            raise BadSetting(f"{text!r} needs a printable path of 1 to {MOST_PATH_BYTES} bytes")
        return Address(path=path)
    parts = _TCP.fullmatch(text)
    if parts is None or int(parts["port"]) > 65535:
        raise BadSetting(f"{text!r} is not an address")
    return Address(host=parts["host"].strip("[]"), port=int(parts["port"]))
