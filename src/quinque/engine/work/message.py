"""A message of a worklist, as the engine holds it.

Called by   the engine, which alone creates and changes them; stores read them.
Calls       nothing.

Not here: messages of feeds (model/message.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quinque.model.message import Message
from quinque.model.work_ops import Terms

if TYPE_CHECKING:
    from quinque.engine.work.worklist import Worklist


class WorkMessage(Message):
    """One message of a worklist. All but its number is in the journal.

    due_ms      DELAYED: when it is ready; LEASED: when it comes back; from NEVER_MS on, not at all
    requeues    how often it was made ready again, nacks apart
    deliveries  how often it was handed out since it was added, or redriven
    was_ready   False while its first delay runs
    reason      why it was given back last, or why it is dead
    """

    __slots__ = (
        "after",
        "before",
        "deliveries",
        "due_ms",
        "key",
        "nacks",
        "number",
        "queue",
        "reason",
        "requeues",
        "state",
        "terms",
        "was_ready",
    )

    def __init__(
        self,
        id: bytes,
        place: int,
        expires_ms: int,
        body: bytes | None,
        home: int,
        queue: Worklist,
        terms: Terms,
        state: int,
    ) -> None:
        super().__init__(id, place, expires_ms, body, home)
        self.queue = queue
        self.terms = terms
        self.state = state  # a State, as a plain number: this is looked at often
        self.due_ms = 0
        self.nacks = 0
        self.requeues = 0
        self.deliveries = 0
        self.was_ready = True
        self.reason = b""
        self.key: bytes | None = None
        self.number = 0  # its number in the directory
        self.before: WorkMessage | None = None  # its neighbours in its worklist, in any order
        self.after: WorkMessage | None = None

    @property
    def is_gone(self) -> bool:
        """Return whether its work queue was emptied since it was added, so that it has yet to be
        removed."""
        return self.number < self.queue.first_number
