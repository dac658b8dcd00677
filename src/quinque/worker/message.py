"""A message as a handler has it, and as the worker keeps it until it is settled.

Called by   sources.py, which make them; handlers, which may ask for one.
Calls       nothing.

Not here: what becomes of it (desk.py).
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from typing import Any, Final

_NO_SLOT: Final = -1


class Message:
    """What was delivered. Handlers read `id`, `queue`, `body`, `deliveries` (this one included, as
    far as the family counts them) and `is_held`, and may say how far they are."""

    __slots__ = (
        "raw_id",
        "queue",
        "raw",
        "body",
        "deliveries",
        "is_held",
        "error",
        "result",
        "told",
        "started_s",
        "extend_s",
        "slot",
        "on_progress",
    )

    def __init__(self, queue: str, raw_id: bytes, raw: bytes, deliveries: int) -> None:
        self.raw_id = raw_id
        self.queue = queue
        self.raw = raw  # the body as it is in the queue
        self.body: Any = None
        self.deliveries = deliveries
        self.is_held = True  # until the lease is known to be lost
        self.error: BaseException | None = None
        self.result: Any = None
        self.told: bytes | None = None  # the result, as it is told
        self.started_s = 0.0  # 0 = not yet
        self.extend_s = 0.0  # when its lease is to be extended
        self.slot = _NO_SLOT
        self.on_progress: Callable[[Message, Any], None] | None = None

    @property
    def id(self) -> str:
        return self.raw_id.decode("utf-8", "surrogateescape")

    def progress(self, value: Any) -> None:
        """Whoever follows the progress of handlers is told this: see App.progress."""
        if self.on_progress is not None:
            self.on_progress(self, value)

    def __repr__(self) -> str:
        return f"Message({self.queue!r}, {self.id!r})"


def reason_of(error: BaseException, most_bytes: int) -> bytes:
    """The error and its traceback in so many bytes: the error first, then where it was raised, then
    who called that, as far as there is room."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{type(error).__name__}: {error}"]
    lines += [
        f"  {frame.filename}:{frame.lineno} in {frame.name}: {frame.line or ''}"
        for frame in reversed(frames)
    ]
    text = "\n".join(lines).encode("utf-8", "replace")
    return text[:most_bytes].decode("utf-8", "ignore").encode()


def result_body(message: Message) -> bytes:
    """What its handler returned, as JSON. Raises TypeError when JSON cannot say it."""
    told = {"id": message.id, "queue": message.queue, "result": message.result}
    return json.dumps(told).encode()
