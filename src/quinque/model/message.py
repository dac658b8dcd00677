"""Messages as the engine holds them, and one delivery of one.

Called by   the engine, which alone creates and changes them; stores read them.
Calls       nothing.

Not here: which group has seen what (engine/feed/groups.py), messages of worklists
(engine/work/message.py).
"""

from __future__ import annotations


class Message:
    """The fields of every message. Journaled: id, place, expires_ms, body.

    place       position in the queue: a store-wide increasing stamp (µs)
    expires_ms  0 = never
    body        None when the body is only on disk, at `home`
    home        where the store keeps the body, as the store wrote it
    """

    __slots__ = ("body", "expires_ms", "home", "id", "place")

    def __init__(
        self, id: bytes, place: int, expires_ms: int, body: bytes | None, home: int
    ) -> None:
        self.id = id
        self.place = place
        self.expires_ms = expires_ms
        self.body = body
        self.home = home


class FeedMessage(Message):
    """One message of a feed. Also journaled: is_single.

    place         as above, but a message pushed to the front gets the place before the front one
    is_single     one group works it and its ack removes it (okq); else it lives until it expires
    before/after  neighbours in the order of places
    run           those it is stepped over with; None while it is in no order
    """

    __slots__ = ("after", "before", "is_single", "run")

    def __init__(
        self,
        id: bytes,
        place: int,
        expires_ms: int,
        is_single: bool,
        body: bytes | None,
        home: int,
    ) -> None:
        super().__init__(id, place, expires_ms, body, home)
        self.is_single = is_single
        self.before: FeedMessage | None = None
        self.after: FeedMessage | None = None
        self.run: Run | None = None


class Run:
    """Neighbours in a feed; a reader steps over them at once when all of them have expired."""

    __slots__ = ("count", "first", "last", "until_ms")

    def __init__(self, message: FeedMessage) -> None:
        self.first = self.last = message
        self.count = 0
        self.until_ms = 0  # by then all of them have expired


class Lease:
    """The hold of one group on one message: until when, and how often it was delivered so far."""

    __slots__ = ("deadline_ms", "deliveries", "message")

    def __init__(self, message: FeedMessage, deadline_ms: int, deliveries: int) -> None:
        self.message = message
        self.deadline_ms = deadline_ms
        self.deliveries = deliveries
