"""Tubes: how their tasks are taken, finished, kept, released and buried.

Called by   runtime.py, which chooses it for handlers of tubes.
Calls       the client's Runner, for what has to be waited for.

A task is its session's, and the process is one session: when it dies its tasks are ready at once,
by themselves. In tubes whose tasks have times, a task that failed rests, and one that is worked is
touched; elsewhere neither is possible, or needed.

Not here: the other families (sources.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from quinque.errors import NoTube
from quinque.model.ops import Op
from quinque.model.task_bodies import plain
from quinque.model.tube_ops import (
    KINDS,
    AckTasks,
    BuryTasks,
    LookAtTube,
    ReleaseTasks,
    TakeTasks,
    TouchTasks,
    TubeView,
)
from quinque.worker.message import Message
from quinque.worker.sources import Source

_OWN: Final = b""  # the session of whatever runs the operation
_SHARE: Final = 3


class TubeSource(Source):
    """A lease is touched when a third of it has passed, by that third."""

    extends = True
    returns_at_once = True
    _kind: bytes | None = None
    _has_times = False

    async def take(self, count: int, wait_ms: int) -> list[Message]:
        """Raises NoTube: what kind of tube it should be, a worker does not know."""
        if self._kind is None:
            await self._look()
        try:
            found = await self._run(TakeTasks(self._queue, _OWN, count), wait_ms)
        except NoTube:
            self._kind = None  # a tube that is created again may be of another
            raise
        return [self._taken(it.message_id, plain(it.body), 1) for it in found or ()]

    def ack(self, messages: Sequence[Message]) -> list[Op]:
        return [AckTasks(self._queue, _OWN, [message.raw_id for message in messages])]

    def give_back(self, messages: Sequence[Message], are_begun: bool = False) -> list[Op]:
        return [ReleaseTasks(self._queue, _OWN, [message.raw_id for message in messages])]

    def delay_s(self, wanted_s: float) -> float:
        return wanted_s if self._has_times else 0.0

    def retry(self, message: Message, delay_s: float) -> list[Op]:
        delay_ms = round(delay_s * 1000)
        return [ReleaseTasks(self._queue, _OWN, [message.raw_id], delay_ms)]

    def bury(self, messages: Sequence[Message], parts: int = 1) -> list[Op]:
        """Bury the tasks until a client kicks them. A tube has no room for the reason: that is in
        the log."""
        return [BuryTasks(self._queue, [message.raw_id for message in messages])]

    def forget(self, messages: Sequence[Message]) -> list[Op]:
        return []

    def extend(self, messages: Sequence[Message]) -> list[Op]:
        by_ms = self._lease_ms // _SHARE
        return [TouchTasks(self._queue, _OWN, [message.raw_id], by_ms) for message in messages]

    def lease_s(self, result: Any) -> float:
        return self.handler.lease_s if result[0] is not None else 0.0

    def crashed(self, ids: Sequence[bytes], why: str) -> list[Op]:
        """They are ready already: their session has ended with its process."""
        return []

    async def ready(self) -> int:
        view: TubeView | None = await self._run(LookAtTube(self._queue))
        return 0 if view is None else view.ready

    async def _look(self) -> None:
        view: TubeView | None = await self._run(LookAtTube(self._queue))
        if view is None:
            raise NoTube(self._queue)
        self._kind = view.kind
        kind = KINDS.get(view.kind)
        self._has_times = kind is not None and kind.has_times
        self.first_extend_s = self.handler.lease_s / _SHARE if self._has_times else float("inf")
