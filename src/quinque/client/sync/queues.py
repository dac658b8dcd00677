"""All queues of a broker, or of a store in this process.

Called by   quinque.connect and quinque.open.
Calls       the queues of each family.

Not here: what it runs on (runner.py).
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Literal, TypeVar, overload

from quinque.client.codecs import Codec, Name, Untyped
from quinque.client.spans import Seconds
from quinque.client.sync.events import Events
from quinque.client.sync.items import Items
from quinque.client.sync.jobs import Jobs
from quinque.client.sync.reliable import Reliable
from quinque.client.sync.runner import Runner
from quinque.client.sync.tubes import Tube

T = TypeVar("T")


class Queues:
    """The queues of a broker or store. As a context manager, it is closed at the end."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner

    @overload
    def events(
        self, name: str | bytes, codec: Literal["bytes"] = "bytes", *, ttl: Seconds = 86_400
    ) -> Events[bytes]: ...
    @overload
    def events(
        self, name: str | bytes, codec: Untyped, *, ttl: Seconds = 86_400
    ) -> Events[Any]: ...
    @overload
    def events(self, name: str | bytes, codec: Codec[T], *, ttl: Seconds = 86_400) -> Events[T]: ...
    def events(
        self, name: str | bytes, codec: Name | Codec[Any] = "bytes", *, ttl: Seconds = 86_400
    ) -> Events[Any]:
        """Return the events queue of that name. The first event creates it."""
        return Events(self.runner, name, codec, ttl=ttl)

    @overload
    def reliable(self, name: str | bytes, codec: Literal["bytes"] = "bytes") -> Reliable[bytes]: ...
    @overload
    def reliable(self, name: str | bytes, codec: Untyped) -> Reliable[Any]: ...
    @overload
    def reliable(self, name: str | bytes, codec: Codec[T]) -> Reliable[T]: ...
    def reliable(self, name: str | bytes, codec: Name | Codec[Any] = "bytes") -> Reliable[Any]:
        """Return the reliable queue of that name. The first element creates it."""
        return Reliable(self.runner, name, codec)

    @overload
    def items(self, name: str | bytes, codec: Literal["bytes"] = "bytes") -> Items[bytes]: ...
    @overload
    def items(self, name: str | bytes, codec: Untyped) -> Items[Any]: ...
    @overload
    def items(self, name: str | bytes, codec: Codec[T]) -> Items[T]: ...
    def items(self, name: str | bytes, codec: Name | Codec[Any] = "bytes") -> Items[Any]:
        """Return the items queue of that name. The first item creates it."""
        return Items(self.runner, name, codec)

    @overload
    def jobs(
        self,
        name: str | bytes,
        codec: Literal["bytes"] = "bytes",
        *,
        ttl: Seconds | None = None,
        retry: Seconds | None = None,
        max_deliveries: int = 0,
    ) -> Jobs[bytes]: ...
    @overload
    def jobs(
        self,
        name: str | bytes,
        codec: Untyped,
        *,
        ttl: Seconds | None = None,
        retry: Seconds | None = None,
        max_deliveries: int = 0,
    ) -> Jobs[Any]: ...
    @overload
    def jobs(
        self,
        name: str | bytes,
        codec: Codec[T],
        *,
        ttl: Seconds | None = None,
        retry: Seconds | None = None,
        max_deliveries: int = 0,
    ) -> Jobs[T]: ...
    def jobs(
        self,
        name: str | bytes,
        codec: Name | Codec[Any] = "bytes",
        *,
        ttl: Seconds | None = None,
        retry: Seconds | None = None,
        max_deliveries: int = 0,
    ) -> Jobs[Any]:
        """Return the job queue of that name. The first job creates it."""
        return Jobs(self.runner, name, codec, ttl=ttl, retry=retry, max_deliveries=max_deliveries)

    @overload
    def tube(self, name: str | bytes, codec: Literal["bytes"] = "bytes") -> Tube[bytes]: ...
    @overload
    def tube(self, name: str | bytes, codec: Untyped) -> Tube[Any]: ...
    @overload
    def tube(self, name: str | bytes, codec: Codec[T]) -> Tube[T]: ...
    def tube(self, name: str | bytes, codec: Name | Codec[Any] = "bytes") -> Tube[Any]:
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
