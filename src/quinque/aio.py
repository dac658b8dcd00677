"""The API of `quinque` for asyncio programs.

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

from quinque.client.aio.events import Event, Events, Group
from quinque.client.aio.items import Item, Items
from quinque.client.aio.jobs import Job, Jobs
from quinque.client.aio.local import Local
from quinque.client.aio.queues import Queues
from quinque.client.aio.reliable import Element, Reliable
from quinque.client.aio.tubes import Task, Tube
from quinque.client.spans import Seconds
from quinque.stores.opened import OpenedStore

__all__ = [
    "Element",
    "Event",
    "Events",
    "Group",
    "Item",
    "Items",
    "Job",
    "Jobs",
    "Queues",
    "Reliable",
    "Task",
    "Tube",
    "connect",
    "open",
]


def connect(
    url: str,
    *,
    username: str | None = None,
    password: str | None = None,
    ca: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    timeout_s: Seconds = 30.0,
    retries: int = 5,
    connections: int = 4,
) -> Queues:
    """Return the queues of a broker, like quinque.connect.

    Tasks share up to `connections` connections, and the client sends their requests together. A
    task that blocks on a queue uses its own connection.
    """
    from quinque.client.aio.broker import Broker

    broker = Broker(
        url,
        username=username,
        password=password,
        ca=ca,
        certificate=certificate,
        key=key,
        timeout_s=timeout_s,
        retries=retries,
        connections=connections,
    )
    return Queues(broker)


def open(
    folder: Path | str,
    *,
    fsync: Literal["always", "everysec", "no"] = "always",
    maxmemory: int = 0,
    drivers: Mapping[str, Any] | None = None,
) -> Queues:
    """Open the queues in a data directory, like quinque.open. The directory is read at once."""
    return Queues(Local(OpenedStore(folder, fsync=fsync, maxmemory=maxmemory, drivers=drivers)))
