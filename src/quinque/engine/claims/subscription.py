"""Subscriptions, their claims, and the chunks these consist of.

Called by   apply.py (writes), decide.py, due.py and views.py (read), stores.
Calls       nothing.

    subscription ── claim 4 SETTLED ── chunks     readable until the next one is settled
                 ── claim 5 SEALED  ── chunks
                 ── claim 6 FILLING ── chunks     only the newest is being filled

A claim of many messages is closed some chunks at a time. It is settled or forfeited at once, and
`is_closing` until that is true of all its messages. The chunks before `closed` are done with:

    chunks   0 … closed … end
             ├─ done ─┤├ still claimed ┤

To a store a chunk is a message whose body is its rows: it can leave memory and is written again by
compaction like any other.

Not here: the rules (decide.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from quinque.model.claim_ops import ClaimState
from quinque.model.families import Family
from quinque.model.limits import CLAIM_KEPT_MS, NEVER_MS
from quinque.model.message import Message

FILLING = int(ClaimState.FILLING)
SEALED = int(ClaimState.SEALED)
SETTLED = int(ClaimState.SETTLED)
FORFEITED = int(ClaimState.FORFEITED)

Unpack = Callable[[bytes], Sequence[bytes]]


class Chunk(Message):
    """Some rows of a claim; `place` is its number in it, `body` the packed rows.

    ids     packed: a list of as many ids as there are rows, in their order
    keys    of the messages that have one, its key: id by key
    """

    __slots__ = ("body_bytes", "ids", "keys", "least_place", "messages", "most_place")

    def __init__(
        self,
        number: int,
        rows: bytes,
        home: int,
        ids: bytes,
        messages: int,
        body_bytes: int,
        least_place: int,
        most_place: int,
        keys: dict[bytes, bytes],
    ) -> None:
        super().__init__(b"", number, 0, rows, home)
        self.ids = ids
        self.messages = messages
        self.body_bytes = body_bytes
        self.least_place = least_place
        self.most_place = most_place
        self.keys = keys


class Mark:
    """The outcome of one message when its claim is settled."""

    __slots__ = ("delay_ms", "outcome", "reason")

    def __init__(self, outcome: int, delay_ms: int, reason: bytes) -> None:
        self.outcome = outcome
        self.delay_ms = delay_ms
        self.reason = reason


class Claim:
    """`returned` counts messages of chunks that are not closed which went back to a worklist, by an
    event of their own. `done` counts messages of closed chunks that the claim still has."""

    __slots__ = (
        "_most_end",
        "_unread",
        "_where",
        "began_ms",
        "body_bytes",
        "chunks",
        "closed",
        "done",
        "end",
        "ended_ms",
        "is_closing",
        "marks",
        "messages",
        "number",
        "plays",
        "returned",
        "state",
        "why",
    )

    def __init__(self, number: int, began_ms: int) -> None:
        self.number = number
        self.state = FILLING
        self.plays = 0
        self.began_ms = began_ms
        self.ended_ms = 0
        self.chunks: dict[int, Chunk] = {}
        self.end = 0  # the number of the next chunk
        self._most_end = 0  # the largest that `end` has been: a claim that shrinks ends earlier
        self.is_closing = False
        self.why = 0  # its messages go back, while it is closing
        self.closed = 0
        self.done = 0
        self.messages = 0
        self.body_bytes = 0
        self.marks: dict[bytes, Mark] = {}
        self.returned = 0
        self._where: dict[bytes, int] | None = None  # chunks by id, from the first lookup on
        self._unread: list[int] = []  # the numbers of chunks that came since then

    @property
    def is_open(self) -> bool:
        return self.state == FILLING or self.state == SEALED

    @property
    def holds(self) -> bool:
        """Return whether messages of it are claimed: neither finished nor returned to their
        queue."""
        return self.is_closing or self.is_open

    def add(self, chunk: Chunk) -> None:
        self.chunks[chunk.place] = chunk
        if chunk.place < self._most_end:  # it takes the place of another: the index has its ids
            self._where = None
        elif self._where is not None:
            self._unread.append(chunk.place)
        self.end = max(self.end, chunk.place + 1)
        self._most_end = max(self._most_end, self.end)
        self.messages += chunk.messages
        self.body_bytes += chunk.body_bytes

    def take_out(self, number: int) -> Chunk | None:
        """Remove the chunk from the claim and return it, if it exists."""
        chunk = self.chunks.pop(number, None)
        if chunk is not None:
            self.messages -= chunk.messages
            self.body_bytes -= chunk.body_bytes
        return chunk

    def in_order(self) -> list[Chunk]:
        return [self.chunks[number] for number in sorted(self.chunks)]

    def to_close(self) -> Iterator[Chunk]:
        """The chunks that are not closed, in their order. Damaged chunks are missing."""
        for number in range(self.closed, self.end):
            chunk = self.chunks.get(number)
            if chunk is not None:
                yield chunk

    def has(self, id: bytes, unpack: Unpack) -> bool:
        """Return whether the message is in the claim, and neither finished nor returned to its
        queue."""
        number = self._index(unpack).get(id, -1)
        return number >= self.closed and number in self.chunks

    def among(self, ids: set[bytes], unpack: Unpack) -> set[bytes]:
        """Those of the ids that has() is true for."""
        where = self._index(unpack)
        # A store may have many small claims, and a client ask for many ids.
        both = [id for id in where if id in ids] if len(where) < len(ids) else ids
        return {id for id in both if self.has(id, unpack)}

    def _index(self, unpack: Unpack) -> dict[bytes, int]:
        """The number of its chunk for each id; of some chunks that were taken out as well."""
        where = self._where
        if where is not None and not self._unread:
            return where
        if where is None:
            where = {}
            self._unread = list(self.chunks)
        for number in self._unread:
            chunk = self.chunks.get(number)
            if chunk is not None:
                where.update(dict.fromkeys(unpack(chunk.ids), number))
        # Only when all are read: without memory for that, the next lookup reads them again.
        self._where = where
        self._unread = []
        return where


class Subscription:
    """`renewed_ms` is not journaled: after a restart the lease runs from the start again."""

    __slots__ = (
        "claims",
        "created_us",
        "epoch",
        "family",
        "group",
        "is_awaited",
        "is_known",
        "lease_ms",
        "name",
        "queue",
        "release_ms",
        "renewed_ms",
        "retry_ms",
        "segment",
        "settled",
    )

    def __init__(self, queue: bytes, name: bytes, family: Family, group: bytes) -> None:
        self.queue = queue
        self.name = name
        self.family = family
        self.group = group
        self.epoch = 0
        self.created_us = 0  # 0 = unknown
        self.settled = 0
        self.lease_ms = 0
        self.release_ms = 0
        self.renewed_ms = 0
        self.retry_ms = 0  # what could not be settled is tried again then
        self.is_awaited = False  # each tick goes on with what a client asked for
        self.claims: dict[int, Claim] = {}  # by number, the oldest first
        self.segment = 0  # the journal segment that last recorded all of it
        # False only while a journal is read: its first record is gone, and one that says all of it
        # again comes later.
        self.is_known = True

    @property
    def newest(self) -> int:
        """The number of the last claim that was begun."""
        return max(self.settled, *self.claims) if self.claims else self.settled

    def open_claims(self) -> list[Claim]:
        return [claim for claim in self.claims.values() if claim.is_open]

    def held_claims(self) -> list[Claim]:
        """Return the claims with messages that are neither finished nor returned to their queue."""
        return [claim for claim in self.claims.values() if claim.holds]

    def is_closing(self, upto: int = NEVER_MS) -> bool:
        """Return whether one of its claims up to that number is being closed."""
        return any(it.is_closing and it.number <= upto for it in self.claims.values())

    def kept_until_ms(self, claim: Claim) -> int:
        """When the claim, which is finished, is removed. A forfeited one stays until the next claim
        is begun: a reader that comes back late learns from it that the messages are in the queue
        again."""
        if claim.state == FORFEITED and claim.number == self.newest:
            return NEVER_MS
        return claim.ended_ms + CLAIM_KEPT_MS

    def due_ms(self) -> int:
        """Return when time next changes the subscription, or a tick continues its work."""
        due_ms = 0 if self.is_awaited else NEVER_MS
        for claim in self.claims.values():
            if claim.is_closing:
                due_ms = 0
            elif not claim.is_open:
                due_ms = min(due_ms, self.kept_until_ms(claim))
            elif self.release_ms:
                due_ms = min(due_ms, self.renewed_ms + self.release_ms)
        return max(due_ms, self.retry_ms)


class Subscriptions:
    """All subscriptions of a store, by queue and name. Nothing is due in any of them before
    `soonest_ms`."""

    __slots__ = ("_by_queue", "last_epoch", "segment", "soonest_ms")

    def __init__(self) -> None:
        self._by_queue: dict[bytes, dict[bytes, Subscription]] = {}
        self.soonest_ms = NEVER_MS
        self.last_epoch = 0  # the newest epoch of removed subscriptions
        self.segment = 0  # the journal segment that last recorded it

    def find(self, queue: bytes, name: bytes) -> Subscription | None:
        return self._by_queue.get(queue, {}).get(name)

    def add(self, subscription: Subscription) -> None:
        self._by_queue.setdefault(subscription.queue, {})[subscription.name] = subscription

    def remove(self, subscription: Subscription) -> None:
        of_queue = self._by_queue[subscription.queue]
        del of_queue[subscription.name]
        if not of_queue:
            del self._by_queue[subscription.queue]

    def of(self, queue: bytes) -> list[Subscription]:
        """Return those on one queue, in the order of their names."""
        of_queue = self._by_queue.get(queue, {})
        return [of_queue[name] for name in sorted(of_queue)]

    def all(self) -> list[Subscription]:
        return [each for queue in sorted(self._by_queue) for each in self.of(queue)]

    def due(self, now_ms: int) -> list[tuple[bool, bytes, bytes, Subscription]]:
        """Return those where something is due, in the order of their names: first those that are
        done at once, then those of which claims are being closed, or whose client waits."""
        return sorted(
            (each.is_awaited or each.is_closing(), queue, name, each)
            for queue, some in self._by_queue.items()
            for name, each in some.items()
            if each.due_ms() <= now_ms
        )

    def remind(self, subscription: Subscription) -> None:
        """Time may change something of this one."""
        self.soonest_ms = min(self.soonest_ms, subscription.due_ms())

    def set_soonest(self) -> None:
        self.soonest_ms = min(
            (each.due_ms() for some in self._by_queue.values() for each in some.values()),
            default=NEVER_MS,
        )
