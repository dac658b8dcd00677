"""The message that a handler gets, with the state that the worker needs until it is settled.

Called by   sources.py, which make them; handlers, which may take one.
Calls       nothing.

Not here: how it is settled (desk.py).
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from typing import Any, Final

from quinque.errors import printable

_NO_SLOT: Final = -1


class Message:
    """A delivered message. Handlers read `id`, `queue`, `body`, `deliveries` (including this one)
    and `is_held`, and can report their progress."""

    __slots__ = (
        "raw_id",
        "queue",
        "raw",
        "body",
        "deliveries",
        "is_lost",
        "is_abandoned",
        "error",
        "result",
        "told",
        "taken_s",
        "started_s",
        "ended_s",
        "thread",
        "extend_s",
        "ours_until_s",
        "slot",
        "on_progress",
    )

    def __init__(self, queue: str, raw_id: bytes, raw: bytes, deliveries: int) -> None:
        self.raw_id = raw_id
        self.queue = queue
        self.raw = raw  # the body as it is stored in the queue
        self.body: Any = None
        self.deliveries = deliveries
        self.is_lost = False  # whether its lease is known to be lost
        self.is_abandoned = False  # whether its handler took too long and was abandoned
        self.error: BaseException | None = None
        self.result: Any = None
        self.told: bytes | None = None  # the result, encoded
        self.taken_s = 0.0
        self.started_s = 0.0  # 0 = not yet
        self.ended_s = 0.0  # when its handler ended or was abandoned; 0 = not yet
        self.thread = 0  # the thread of its handler, if it has a timeout
        self.extend_s = 0.0  # when to extend its lease
        self.ours_until_s = float("inf")  # no other consumer gets it before this time
        self.slot = _NO_SLOT
        self.on_progress: Callable[[Message, Any], None] | None = None

    @property
    def id(self) -> str:
        return self.raw_id.decode("utf-8", "surrogateescape")

    @property
    def is_held(self) -> bool:
        """False if another consumer may have the message: the lease is lost, or the handler has
        exceeded its timeout."""
        return not (self.is_lost or self.is_abandoned)

    def progress(self, value: Any) -> None:
        """Report progress to the hooks of App.progress. The handler does not count as stalled."""
        if self.on_progress is not None:
            self.on_progress(self, value)

    def __repr__(self) -> str:
        return f"Message({self.queue!r}, {self.id!r})"

    def __str__(self) -> str:
        """Name the message for log lines."""
        queue = self.queue.encode("utf-8", "replace")
        return f"message {printable(self.raw_id)} of queue {printable(queue)}"


def reason_of(error: BaseException, most_bytes: int) -> bytes:
    """Return the error and its traceback in at most `most_bytes`: first the error, then the place
    that raised it, then the callers; then the same of its cause."""
    lines: list[str] = []
    chain: list[BaseException] = [error]
    seen: set[int] = set()
    while chain and len(lines) < most_bytes:
        one = chain.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        lines.append(f"{'from ' if lines else ''}{type(one).__name__}: {text_of(one)}")
        lines += [
            f"  {frame.filename}:{frame.lineno} in {frame.name}: {frame.line or ''}"
            for frame in reversed(traceback.extract_tb(one.__traceback__))
        ]
        if isinstance(one, BaseExceptionGroup):
            chain += one.exceptions
        before = one.__cause__ if one.__suppress_context__ else one.__context__
        if before is not None:
            chain.append(before)
    text = "\n".join(lines).encode("utf-8", "replace")
    return text[:most_bytes].decode("utf-8", "ignore").encode()


def text_of(error: BaseException) -> str:
    """Return the text of the error."""
    try:
        return str(error)
    except BaseException as worse:  # __str__ belongs to the program, and may raise any error
        return f"the text of the error is not available: {type(worse).__name__}"


def result_body(message: Message) -> bytes:
    """Return the result of the handler as JSON. Raises TypeError or ValueError if JSON cannot
    express it."""
    told = {"id": message.id, "queue": message.queue, "result": message.result}
    return json.dumps(told, allow_nan=False).encode()
