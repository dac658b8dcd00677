"""All queues of a broker, or of a store in this process.

Called by   quinque.connect and quinque.open.
Calls       the queues of each family.

Not here: what it runs on (runner.py).
"""

from __future__ import annotations

from types import TracebackType

from quinque.client.codecs import Codec
from quinque.client.sync.events import Events
from quinque.client.sync.items import Items
from quinque.client.sync.jobs import Jobs
from quinque.client.sync.reliable import Reliable
from quinque.client.sync.runner import Runner
from quinque.client.sync.tubes import Tube


class Queues:
    """The queues of a broker or store. As a context manager, it is closed at the end."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner

    def events(
        self, name: str | bytes, codec: str | Codec = "bytes", *, ttl: float = 86_400
    ) -> Events:
        """Return the events queue of that name. The first event creates it."""
        return Events(self.runner, name, codec, ttl=ttl)

    def reliable(self, name: str | bytes, codec: str | Codec = "bytes") -> Reliable:
        """Return the reliable queue of that name. The first element creates it."""
        return Reliable(self.runner, name, codec)

    def items(self, name: str | bytes, codec: str | Codec = "bytes") -> Items:
        """Return the items queue of that name. The first item creates it."""
        return Items(self.runner, name, codec)

    def jobs(
        self,
        name: str | bytes,
        codec: str | Codec = "bytes",
        *,
        ttl: float | None = None,
        retry: float | None = None,
        max_deliveries: int = 0,
    ) -> Jobs:
        """Return the job queue of that name. The first job creates it."""
        return Jobs(self.runner, name, codec, ttl=ttl, retry=retry, max_deliveries=max_deliveries)

    def tube(self, name: str | bytes, codec: str | Codec = "bytes") -> Tube:
        """Return the tube of that name. `make` creates it."""
        return Tube(self.runner, name, codec)

    def close(self) -> None:
        """Close all connections or files."""
        self.runner.close()

    def __enter__(self) -> Queues:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
