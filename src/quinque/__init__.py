"""Quinque: one broker, five reliable-queue systems, one engine under them.

    with quinque.connect("redis://localhost:4777") as queues:      a running broker
        queues.jobs("emails").add(b"hello")

    with quinque.open("emails.quinque") as queues:                 no server: a folder
        queues.jobs("emails").add(b"hello")

`quinque.aio` has the same for programs on an event loop; errors are in `quinque.errors`. What the
two give is of the classes that are named here, so that programs can name them too.
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
    from quinque.client.sync.events import Event, Events, Group
    from quinque.client.sync.items import Item, Items
    from quinque.client.sync.jobs import Job, Jobs
    from quinque.client.sync.queues import Queues
    from quinque.client.sync.reliable import Element, Reliable
    from quinque.client.sync.tubes import Task, Tube
    from quinque.model.states import State

__all__ = [
    "Codec",
    "Element",
    "Event",
    "Events",
    "Group",
    "Item",
    "Items",
    "Job",
    "Jobs",
    "Queues",
    "QuinqueError",
    "Reliable",
    "State",
    "Task",
    "Tube",
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
    "State": "model.states",
}


def connect(
    url: str,
    *,
    username: str | None = None,
    password: str | None = None,
    ca: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    timeout_s: float = 30.0,
    retries: int = 5,
) -> Queues:
    """The queues of a running broker, or of several that share a store: redis://one:4777,two:4777,
    rediss:// over TLS, or unix:///path/to/socket. Nothing is connected before it is needed.

    `username` and `password` go before those of the URL. `ca`, `certificate` and `key` are files
    (PEM), for TLS. A broker that says nothing for `timeout_s` seconds is not waited for. Brokers
    that do not answer are asked again in so many further rounds as `retries` says.

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
    """The queues in a folder, which this process has to itself: no server runs. What a method
    changed is on the disk when it returns, unless `fsync` says otherwise. Above `maxmemory` bytes
    (0 = no limit) bodies are on the disk only; tubes may be of the kinds that `drivers` are for.

    Raises FolderLocked, JournalDamaged, BadDriver; DiskFull when the disk has no room, and NotDone
    when the folder cannot be used for another reason.
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
