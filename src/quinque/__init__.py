"""Quinque: a message broker that implements five reliable-queue systems on one engine.

    with quinque.connect("redis://localhost:4777") as queues:      a running broker
        queues.jobs("emails").add(b"hello")

    with quinque.open("emails.quinque") as queues:                 no server: a folder
        queues.jobs("emails").add(b"hello")

`quinque.aio` has the same API for asyncio programs. Errors are in `quinque.errors`. The classes of
queues and messages are exported here for type annotations.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from quinque.errors import QuinqueError
from quinque.version import __version__

if TYPE_CHECKING:
    from quinque.client.codecs import Codec
    from quinque.client.spans import Seconds
    from quinque.client.sync.events import Event, Events, Group
    from quinque.client.sync.items import Item, Items
    from quinque.client.sync.jobs import Job, Jobs
    from quinque.client.sync.queues import Queues
    from quinque.client.sync.reliable import Element, Reliable
    from quinque.client.sync.tubes import Task, Tube
    from quinque.model.ops import GroupCount, QueueCount
    from quinque.model.own_ops import Inspected
    from quinque.model.states import State
    from quinque.model.tube_ops import TubeView
    from quinque.model.work_ops import QueueView, WorkView

__all__ = [
    "Codec",
    "Element",
    "Event",
    "Events",
    "Group",
    "GroupCount",
    "Inspected",
    "Item",
    "Items",
    "Job",
    "Jobs",
    "QueueCount",
    "QueueView",
    "Queues",
    "QuinqueError",
    "Reliable",
    "State",
    "Task",
    "Tube",
    "TubeView",
    "WorkView",
    "__version__",
    "connect",
    "open",
]

# Where the classes are. They are imported when they are needed: a broker needs none of them.
_HOMES = {
    "Codec": "client.codecs",
    **dict.fromkeys(("Event", "Events", "Group"), "client.sync.events"),
    **dict.fromkeys(("Item", "Items"), "client.sync.items"),
    **dict.fromkeys(("Job", "Jobs"), "client.sync.jobs"),
    "Queues": "client.sync.queues",
    **dict.fromkeys(("Element", "Reliable"), "client.sync.reliable"),
    **dict.fromkeys(("Task", "Tube"), "client.sync.tubes"),
    **dict.fromkeys(("GroupCount", "QueueCount"), "model.ops"),
    "Inspected": "model.own_ops",
    "State": "model.states",
    "TubeView": "model.tube_ops",
    **dict.fromkeys(("QueueView", "WorkView"), "model.work_ops"),
}


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
) -> Queues:
    """Return the queues of a running broker, or of several brokers that share a store.

    `url` is redis://host:4777, rediss://host:4777 for TLS, unix:///path/to/socket, or several
    addresses: redis://one:4777,two:4777. The client connects on the first request.

    `username` and `password` override those of the URL. `ca`, `certificate` and `key` are PEM files
    for TLS. A request fails if the broker does not answer within `timeout_s`, in seconds or as a
    timedelta. If no broker answers, the client tries all of them again up to `retries` times.

    Raises BadSetting.
    """
    from quinque.client.sync.broker import Broker
    from quinque.client.sync.queues import Queues

    broker = Broker(
        url,
        username=username,
        password=password,
        ca=ca,
        certificate=certificate,
        key=key,
        timeout_s=timeout_s,
        retries=retries,
    )
    return Queues(broker)


def open(
    folder: Path | str,
    *,
    fsync: Literal["always", "everysec", "no"] = "always",
    maxmemory: int = 0,
    drivers: Mapping[str, Any] | None = None,
) -> Queues:
    """Open the queues in a data directory, without a server. Only this process can use them.

    When a method returns, its changes are on disk, unless `fsync` is changed. Beyond `maxmemory`
    bytes, message bodies are only on disk; 0 means no limit. `drivers` adds tube types.

    Raises FolderLocked if another process uses the directory, JournalDamaged, BadDriver, DiskFull
    if the disk is full, and NotDone if the directory cannot be used for another reason.
    """
    from quinque.client.sync.local import Local
    from quinque.client.sync.queues import Queues
    from quinque.stores.opened import OpenedStore

    return Queues(Local(OpenedStore(folder, fsync=fsync, maxmemory=maxmemory, drivers=drivers)))


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'quinque' has no attribute '{name}'")
    return getattr(import_module(f"quinque.{home}"), name)
