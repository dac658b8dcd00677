"""Filling claims: messages leave a worklist, or are held by a group, and lie in a chunk.

Called by   store.py.
Calls       claims.py (finds, checks), engine/claims/ (rules), worklists.py, feed_operations.py.

A chunk is one record, so it is in the claim as a whole or not at all; when there is no room for the
next one, the claim has what it got so far.

Not here: what becomes of a claim (claims.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quinque.engine.claims import decide
from quinque.engine.claims.apply import apply_claimed, apply_sealed
from quinque.engine.claims.rows import chunk_sizes, pack
from quinque.engine.claims.subscription import FILLING, Subscription
from quinque.engine.claims.views import claim_view
from quinque.engine.feed.decide import reserve
from quinque.engine.feed.feed import Feed
from quinque.engine.queue import Queue
from quinque.engine.work.worklist import Worklist
from quinque.errors import DiskFull, NotDone
from quinque.model.claim_events import CLAIM_SEALED, CLAIMED, Claimed, ClaimSealed
from quinque.model.claim_ops import ClaimView, FillClaim
from quinque.model.events import Expired
from quinque.model.limits import FILL_MOST, FILL_MOST_BYTES, SETTLE_MOST
from quinque.model.message import Message
from quinque.model.ops import Reserve
from quinque.model.rows import CHUNK_ROWS_MOST
from quinque.stores.embedded.books import ASIDE_MOST
from quinque.stores.embedded.claim_changes import claimed_change
from quinque.stores.embedded.claims import Claims
from quinque.stores.embedded.feed_operations import LOOKS_MOST
from quinque.stores.embedded.journal import SPARE_BYTES


class ClaimFilling:
    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._books = claims.books
        self.runners: dict[type, Callable[[Any], Any]] = {FillClaim: self._fill}

    def _fill(self, op: FillClaim) -> ClaimView | None:
        found = self._claims.fenced(op.queue, op.subscription, op.epoch, op.shard)
        claim = decide.claim_to_fill(found, op.number)
        now_ms = self._books.at_ms
        if claim is not None and claim.state != FILLING:
            return claim_view(claim, now_ms)
        if found.family.is_worklist:
            self._fill_from_worklist(found, op, now_ms)
        else:
            self._fill_from_feed(found, op, now_ms)
        claim = found.claims.get(op.number)
        if claim is None:
            return None
        if op.seals:
            sealed = ClaimSealed(CLAIM_SEALED, op.queue, op.subscription, op.number)
            self._books.journal.append(sealed)
            apply_sealed(found, sealed)
        return claim_view(claim, now_ms)

    def _fill_from_worklist(self, found: Subscription, op: FillClaim, now_ms: int) -> None:
        lists = self._claims.lists
        was_ready = op.queue in self._books.ready
        queue = lists.settled(found.family, op.queue, now_ms)
        if queue is None:
            return
        bodies: list[bytes] = []
        for _ in range(ASIDE_MOST):
            messages = lists.to_take(queue, min(op.count, FILL_MOST), now_ms)
            if self._books.is_for_others(op.queue, was_ready):
                messages = []
            if op.until_place:
                messages = [it for it in messages if it.place <= op.until_place]
            bodies = self._read(queue, messages, FILL_MOST_BYTES)
            if bodies or not messages:
                break
        at = 0
        for size in chunk_sizes(bodies):
            some, some_bodies = messages[at : at + size], bodies[at : at + size]
            rows = decide.rows_to_claim(some, some_bodies)
            try:
                self._add_chunk(found, op.number, queue, rows, 0)
            except DiskFull:
                if at:
                    break
                raise
            at += size
        queue.set_soonest()
        self._books.set_alarm(queue)

    def _fill_from_feed(self, found: Subscription, op: FillClaim, now_ms: int) -> None:
        feeds = self._claims.feeds
        queue = feeds.find(found.family, op.queue, found.group)
        left = min(op.count, FILL_MOST)
        room_bytes = FILL_MOST_BYTES
        filled = aside = 0
        looks = LOOKS_MOST
        wanted = Reserve(found.family, op.queue, found.group, 1)
        while queue is not None and left > 0 and room_bytes > 0:
            group = queue.groups.get(found.group)
            if group is not None and group.deadlines.next_ms <= now_ms and not group.again:
                # More lapsed than was settled at once, and they go before what is new.
                feeds.settle_some(queue, now_ms, SETTLE_MOST, must=True)
            most = min(left, CHUNK_ROWS_MOST)
            event = reserve(queue, wanted, now_ms, most, removes=looks > 0)
            if event is None:
                break
            if isinstance(event, Expired):
                feeds.remove(queue, event)
                looks -= 1
                continue
            ids = event.ids
            if op.until_place:
                ids = [id for id in ids if queue.messages[id].place <= op.until_place]
            if not ids:
                break
            try:
                taken = self._claim_from_feed(found, op.number, queue, ids, room_bytes)
            except (DiskFull, NotDone):
                if filled:
                    break
                raise
            aside += not taken[0]
            if aside == ASIDE_MOST:
                break
            room_bytes -= taken[1]
            left -= taken[0]
            filled += taken[0]
            if not looks:  # as much as is found with one look at each expired message
                break
        if queue is not None:
            self._books.set_alarm(queue)

    def _claim_from_feed(
        self, found: Subscription, number: int, queue: Feed, ids: Sequence[bytes], room_bytes: int
    ) -> tuple[int, int]:
        """The first of these messages are in the claim; how many, and how large they are."""
        messages = [queue.messages[id] for id in ids]
        bodies = self._read(queue, messages, room_bytes)
        if not bodies:
            return 0, 0
        size = chunk_sizes(bodies)[0]
        messages, bodies = messages[:size], bodies[:size]
        group = queue.groups.get(found.group)
        last = messages[-1].place
        # A redelivery does not move the group on: the event has the group's cursor.
        cursor = last if group is None or last > group.cursor else group.cursor
        rows = decide.feed_rows_to_claim(queue, found.group, messages, bodies)
        self._add_chunk(found, number, queue, rows, cursor)
        queue.groups[found.group].segment = self._books.journal.segment
        return size, sum(map(len, bodies))

    def _add_chunk(
        self,
        found: Subscription,
        number: int,
        queue: Worklist | Feed,
        rows: list[list[Any]],
        cursor: int,
    ) -> None:
        """The rows are the claim's next chunk."""
        books, journal = self._books, self._books.journal
        claim = found.claims.get(number)
        event = Claimed(
            CLAIMED,
            found.queue,
            found.family.code,
            found.name,
            found.group,
            number,
            claim.end if claim is not None else 0,
            books.at_ms,
            cursor,
            pack(rows),
        )
        journal.append(event, SPARE_BYTES)
        changed = apply_claimed(books.subscriptions, queue, event, journal.body_home(), rows)
        if journal.notes is not None:
            chunk = found.claims[number].chunks[event.chunk]
            journal.note(claimed_change(found, number, chunk))
        books.bodies.came(changed.came, [event.rows])
        books.bodies.went(changed.went)

    def _read(self, queue: Queue, messages: Sequence[Message], room_bytes: int) -> list[bytes]:
        """The bodies of the first messages, as many as fit. None if the first was damaged and is
        set aside."""
        bodies = [it.body for it in messages if it.body is not None]
        if len(bodies) == len(messages) and sum(map(len, bodies)) <= room_bytes:
            return bodies
        return self._books.read_or_set_aside(queue, messages, room_bytes)
