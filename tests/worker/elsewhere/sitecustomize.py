"""Linux without what other Unixes lack: Python imports this at its start, from PYTHONPATH.

Called by   every process that test_elsewhere.py starts.
Calls       nothing.

What is removed is what the Python of macOS lacks. What macOS has and refuses is refused here too.

Not here: the functions that macOS does otherwise (`mypy --platform darwin` of `make lint`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import select
import signal
import socket
import sys
from typing import Any

OPEN_MAX = 10_240
NO_LIMIT = 2**63 - 1

LACKING = {
    os: (
        *("posix_fallocate", "posix_fadvise", "fdatasync", "memfd_create", "copy_file_range"),
        *("eventfd", "splice", "pidfd_open", "sched_getaffinity", "sched_setaffinity"),
        *("getrandom", "pipe2", "setns", "unshare", "O_TMPFILE", "O_PATH", "O_DIRECT", "O_NOATIME"),
    ),
    socket: (
        *("TCP_KEEPIDLE", "TCP_USER_TIMEOUT", "TCP_QUICKACK", "TCP_CORK", "TCP_DEFER_ACCEPT"),
        *("SO_PEERCRED", "SO_BINDTODEVICE", "SO_PRIORITY", "SO_MARK", "SOCK_CLOEXEC"),
        *("SOCK_NONBLOCK", "MSG_NOSIGNAL", "MSG_MORE", "MSG_ERRQUEUE", "AF_NETLINK", "AF_PACKET"),
    ),
    select: ("epoll", *(name for name in dir(select) if name.startswith("EPOLL"))),
    signal: (
        *("SIGRTMIN", "SIGRTMAX", "SIGPWR", "SIGPOLL", "SIGCLD", "SIGSTKFLT"),
        *("sigwaitinfo", "sigtimedwait"),
    ),
    fcntl: tuple(name for name in dir(fcntl) if name.startswith(("F_OFD", "F_SEAL", "F_NOTIFY"))),
    resource: ("prlimit", "RLIMIT_NICE", "RLIMIT_SIGPENDING"),
}


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    """There is no /proc and no /sys, and the C library is not glibc."""
    if event in ("open", "os.listdir", "os.scandir") and args[0]:
        path = os.fsdecode(args[0]) if isinstance(args[0], str | bytes) else ""
        if path.startswith(("/proc", "/sys")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    elif event == "ctypes.dlsym" and args[1] == "malloc_trim":
        raise AttributeError("malloc_trim")


_getrlimit, _setrlimit = resource.getrlimit, resource.setrlimit


def _limit_shown(kind: int) -> tuple[int, int]:
    now, most = _getrlimit(kind)
    return (now, NO_LIMIT) if kind == resource.RLIMIT_NOFILE else (now, most)


def _limit_set(kind: int, limits: tuple[int, int]) -> None:
    if kind == resource.RLIMIT_NOFILE:
        if limits[0] > OPEN_MAX:
            raise ValueError("current limit exceeds maximum limit")
        limits = (min(limits[0], _getrlimit(kind)[1]), _getrlimit(kind)[1])
    _setrlimit(kind, limits)


for module, names in LACKING.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
for name, value in {
    "RLIM_INFINITY": NO_LIMIT,
    "getrlimit": _limit_shown,
    "setrlimit": _limit_set,
}.items():
    setattr(resource, name, value)
sys.addaudithook(_refuse)
