"""Shorten a request and remove passwords, so that other users may see it.

Called by   broker.py (MONITOR), slowlog.py.
Calls       nothing.

Not here: the permissions of MONITOR and SLOWLOG.
"""

from __future__ import annotations

from quinque.server.config import SETTINGS

REDACTED = b"(redacted)"
_SECRETS = {name.encode() for name, setting in SETTINGS.items() if setting.kind.is_secret}


def without_secrets(argv: list[bytes]) -> list[bytes] | None:
    """The request with passwords made unreadable; None when nothing of it may be shown."""
    word = argv[0].upper()
    if word in (b"AUTH", b"HELLO"):
        return None
    if word == b"CONFIG" and argv[1:2] and argv[1].upper() == b"SET":
        shown = list(argv)
        for at in range(3, len(argv), 2):
            if argv[at - 1].lower() in _SECRETS:
                shown[at] = REDACTED
        return shown
    return argv


def shortened(argv: list[bytes], args_most: int, bytes_most: int) -> list[bytes]:
    """Return the first `args_most` arguments, the first `bytes_most` bytes of each, and how much is
    left out."""
    kept = [arg if len(arg) <= bytes_most else _cut(arg, bytes_most) for arg in argv[:args_most]]
    if len(argv) > args_most:
        kept[-1] = b"... (%d more arguments)" % (len(argv) - args_most + 1)
    return kept


def _cut(arg: bytes, bytes_most: int) -> bytes:
    return arg[:bytes_most] + b"... (%d more bytes)" % (len(arg) - bytes_most)
