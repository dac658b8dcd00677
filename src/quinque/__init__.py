"""Quinque: one broker, five reliable-queue systems, one engine under them.

    with quinque.connect("redis://localhost:4777") as queues:      a running broker
        queues.jobs("emails").add(b"hello")

    with quinque.open("emails.quinque") as queues:                 no server: a folder
        queues.jobs("emails").add(b"hello")

`quinque.aio` has the same for programs on an event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from quinque.errors import QuinqueError
from quinque.version import __version__

if TYPE_CHECKING:
    from quinque.client.sync.queues import Queues

__all__ = ["QuinqueError", "__version__", "connect", "open"]


def connect(url: str, **settings: Any) -> Queues:
    """The queues of a running broker, or of several that share a store. `settings` are those of
    client/sync/broker.py:Broker: username, password, ca, certificate, key, timeout_s, retries,
    connections."""
    from quinque.client.sync.broker import Broker
    from quinque.client.sync.queues import Queues

    return Queues(Broker(url, **settings))


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

    Raises FolderLocked, JournalDamaged, BadDriver, and OSError when the folder cannot be used.
    """
    from quinque.client.sync.local import Local
    from quinque.client.sync.queues import Queues
    from quinque.stores.opened import OpenedStore

    return Queues(Local(OpenedStore(folder, fsync=fsync, maxmemory=maxmemory, drivers=drivers)))
