"""One handler: its function, its queue and its settings.

Called by   app.py, which makes them; all modules that use one.
Calls       nothing.

Not here: the effect of the settings in each family (sources.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any, Final, TypedDict

from quinque.client.codecs import Codec, Name
from quinque.client.spans import Seconds
from quinque.errors import BadSetting
from quinque.model.families import Family
from quinque.worker.backoff import Backoff

TASKS: Final = 100  # tasks of one handler at a time, in an event loop
BATCH: Final = 256  # maximum to prefetch: as many as a broker puts into one operation
DELIVERIES: Final = 10  # default for the number of deliveries
_WITH_MESSAGE: Final = 2  # parameters of a function that takes the message as well
_NAMED: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

Function = Callable[..., Any]


class Settings(TypedDict, total=False):
    """The settings of a handler: see App.add."""

    family: str
    codec: Name | Codec[Any]
    group: str
    lease: Seconds
    max_deliveries: int | None
    backoff: Backoff | tuple[Seconds, Seconds]
    timeout: Seconds | None
    concurrency: int
    batch: int
    results: str | None
    dead: str | None


@dataclass(frozen=True)
class Handler:
    """One handler and its settings.

    `max_deliveries` None means the limit of the queue, or DELIVERIES if the queue sets no limit; 0
    means no limit. `concurrency` 0 means the setting of the worker, and TASKS for a coroutine.
    Without `timeout_s`, a handler has no time limit.
    """

    function: Function
    queue: bytes
    family: Family
    codec: Codec[Any]
    group: bytes
    lease_s: float
    max_deliveries: int | None
    backoff: Backoff
    timeout_s: float | None
    concurrency: int
    batch: int
    results: bytes | None  # the job queue for return values
    dead: bytes  # the job queue for messages that failed too often, if the family has no dead state

    @property
    def name(self) -> str:
        return self.queue.decode("utf-8", "replace")

    @property
    def called(self) -> str:
        """The name of the function, or of the class of a callable object."""
        function = _unwrapped(self.function)
        return str(getattr(function, "__qualname__", type(function).__qualname__))

    @cached_property
    def salt(self) -> bytes:
        """The salt for the keys of messages, which is the same in every process that has a handler
        for this queue (failures.py)."""
        names = (self.family.name.encode(), self.queue, self.group)
        told = b"".join(b"%d:%b" % (len(name), name) for name in names)
        return blake2b(told, digest_size=blake2b.SALT_SIZE).digest()

    @property
    def is_async(self) -> bool:
        return _is(inspect.iscoroutinefunction, self.function)

    @property
    def overtime(self) -> str:
        return f"the handler took longer than {self.timeout_s:g} s"

    @property
    def limit(self) -> int:
        """The maximum number of failures if the worker counts them. 0 means no limit."""
        return DELIVERIES if self.max_deliveries is None else self.max_deliveries


def wants_message(function: Function) -> bool:
    """Return whether the function takes the message as well as the body. Raises BadSetting if it
    takes neither, or if a call does not run it."""
    name = getattr(function, "__name__", repr(function))
    if _is(inspect.isgeneratorfunction, function) or _is(inspect.isasyncgenfunction, function):
        raise BadSetting(f"handler {name} is a generator: a handler must not yield")
    try:
        told = list(inspect.signature(function).parameters.values())
    except ValueError:  # some functions that are written in C have no signature
        return False
    named = [it for it in told if it.kind in _NAMED]
    needed = [it for it in named if it.default is inspect.Parameter.empty]
    takes_any = any(it.kind is inspect.Parameter.VAR_POSITIONAL for it in told)
    is_short = any(
        it.kind is inspect.Parameter.KEYWORD_ONLY and it.default is inspect.Parameter.empty
        for it in told
    )
    if not (named or takes_any) or len(needed) > _WITH_MESSAGE or is_short:
        raise BadSetting(f"handler {name} must take a body, or a body and a message")
    return len(needed) == _WITH_MESSAGE


def _is(kind: Callable[[Function], bool], function: Function) -> bool:
    """Return whether the function, or the call of a callable object, is of that kind."""
    function = _unwrapped(function)
    return any(kind(it) for it in (function, getattr(function, "__call__", function)))  # noqa: B004


def _unwrapped(function: Function) -> Function:
    while isinstance(function, partial):
        function = function.func
    return function
