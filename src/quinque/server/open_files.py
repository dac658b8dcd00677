"""How many clients this process can have, as each is an open file.

Called by   cli/serve.py at the start, config_commands.py for CONFIG SET.
Calls       the system.

Not here: the number of clients that is wanted (config.py: max-clients).
"""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from typing import Final

from quinque.server.config import Config

_FILES_OF_OUR_OWN: Final = 32  # listeners, segments, the event loop
_FILES_OF_HTTP: Final = 72  # as many connections as console/port.py accepts, and its listeners
_OPEN_MAX: Final = 10_240  # of macOS


def clients_allowed(config: Config) -> tuple[int, int]:
    """Raise the limit of open files to what `max_clients` needs, if the system permits it. Return
    how many clients there may be, and how many files."""
    ours = _FILES_OF_OUR_OWN + (_FILES_OF_HTTP if config.http_listen else 0)
    files = _open_files_allowed(config.max_clients + ours)
    return max(1, files - ours), files


def _open_files_allowed(wanted: int) -> int:
    """How many files this process may open from here on: as many as the system lets it."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS says that there is no limit, and then refuses more than OPEN_MAX.
    for limit in (most, max(now, wanted), max(now, _OPEN_MAX)):
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
            break
    now, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if now == resource.RLIM_INFINITY else now
