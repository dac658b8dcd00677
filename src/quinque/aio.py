"""Quinque for programs on an event loop: the same as `quinque`, awaited.

Called by   programs.
Calls       client/aio/, stores/opened.py.

    async with quinque.aio.connect("redis://localhost:4777") as queues:
        await queues.jobs("emails").add(b"hello")

Not here: the objects (client/aio/).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from quinque.client.aio.local import Local
from quinque.client.aio.queues import Queues
from quinque.stores.opened import OpenedStore


def connect(url: str, **settings: Any) -> Queues:
    """As quinque.connect."""
    from quinque.client.aio.broker import Broker

    return Queues(Broker(url, **settings))


def open(
    folder: Path | str,
    *,
    fsync: Literal["always", "everysec", "no"] = "always",
    maxmemory: int = 0,
    drivers: Mapping[str, Any] | None = None,
) -> Queues:
    """As quinque.open; it reads the folder before it returns."""
    return Queues(Local(OpenedStore(folder, fsync=fsync, maxmemory=maxmemory, drivers=drivers)))
