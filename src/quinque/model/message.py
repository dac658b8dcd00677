"""A message as the engine holds it, and one delivery of it.

Called by   the engine, which alone creates and changes them; stores read them.
Calls       nothing.

Not here: which group has seen what (engine/groups.py).
"""

from __future__ import annotations


class Message:
    """One message of one queue.

    Journaled: id, place, expires_ms, is_single, body. The rest is bookkeeping.

        place       position in the queue: a store-wide increasing stamp (µs); a message pushed to
                    the front gets the place before the front one
        is_single   one group works it and its ack removes it (okq); else it lives until it expires
        body        None when the body is only on disk, at `home`
        home        where the store keeps the body, as the store wrote it
        before/after  neighbours in the order of places
    """

    __slots__ = ("after", "before", "body", "expires_ms", "home", "id", "is_single", "place")

    def __init__(
        self,
        id: bytes,
        place: int,
        expires_ms: int,
        is_single: bool,
        body: bytes | None,
        home: int,
    ) -> None:
        self.id = id
        self.place = place
        self.expires_ms = expires_ms
        self.is_single = is_single
        self.body = body
        self.home = home
        self.before: Message | None = None
        self.after: Message | None = None


class Lease:
    """One group's hold on one message: until when, and how often it was delivered so far."""

    __slots__ = ("deadline_ms", "deliveries", "message")

    def __init__(self, message: Message, deadline_ms: int, deliveries: int) -> None:
        self.message = message
        self.deadline_ms = deadline_ms
        self.deliveries = deliveries
