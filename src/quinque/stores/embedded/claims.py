"""Operations on subscriptions and claims: settle, decide, append, apply.

Called by   store.py.
Calls       engine/claims/ (rules), worklists.py and feed_operations.py (queues), books.py.

The events of one operation are journaled together: the first takes the room of all, so none of the
others is refused.

Not here: filling a claim (claim_filling.py), the rows of a claim (engine/claims/rows.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from quinque.engine.claims import decide, returning
from quinque.engine.claims.apply import apply, apply_subscribed
from quinque.engine.claims.due import is_stalled, lapsed_claims, stale_number
from quinque.engine.claims.rows import ROW_BYTES, unpack
from quinque.engine.claims.subscription import Chunk, Claim, Subscription
from quinque.engine.claims.views import claim_view, subscription_view
from quinque.engine.feed.feed import Feed
from quinque.engine.queue import Queue
from quinque.engine.work.worklist import READY, Worklist
from quinque.errors import (
    BadArgument,
    DiskFull,
    JournalDamaged,
    NoClaim,
    NoSubscription,
    NotDone,
    StoreUnavailable,
    printable,
)
from quinque.model.claim_events import (
    CLAIM_PLAYED,
    CLAIMS_PURGED,
    UNSUBSCRIBED,
    ClaimAcked,
    ClaimEvent,
    ClaimMarked,
    ClaimPlayed,
    ClaimReleased,
    ClaimReturned,
    ClaimShrunk,
    ClaimsPurged,
    Unsubscribed,
    Why,
)
from quinque.model.claim_ops import (
    ClaimView,
    DropClaims,
    FindClaims,
    LookAtClaims,
    MarkClaim,
    OpenClaims,
    PlayClaim,
    PurgeClaims,
    ReadClaim,
    ReleaseClaims,
    RenewClaims,
    SettleClaims,
    SubscriptionView,
)
from quinque.model.limits import FILL_MOST_BYTES
from quinque.stores.embedded.claim_changes import changes_of
from quinque.stores.embedded.feed_operations import FeedOperations
from quinque.stores.embedded.worklists import Worklists
from quinque.stores.no_tubes import refuse_tubes

_RETRY_MS: Final = 200  # how often a full disk is tried again
_DAMAGED_RETRY_MS: Final = 60_000

log = logging.getLogger("quinque.journal")


class Claims:
    def __init__(self, lists: Worklists, feeds: FeedOperations) -> None:
        self.books = lists.books
        self.lists = lists
        self.feeds = feeds
        self._subscriptions = lists.books.subscriptions
        now_ms = lists.books.clock.now_us() // 1000
        for found in self._subscriptions.all():
            found.renewed_ms = now_ms
        self._subscriptions.set_soonest()
        self.runners: dict[type, Callable[[Any], Any]] = {
            OpenClaims: self._open,
            ReadClaim: self._read,
            PlayClaim: self._play,
            MarkClaim: self._mark,
            SettleClaims: self._settle,
            PurgeClaims: self._purge,
            ReleaseClaims: self._release,
            RenewClaims: self._renew,
            LookAtClaims: self._look_at,
            FindClaims: self._find_claims,
            DropClaims: self._drop,
        }

    # -- one method per operation -------------------------------------------------------------

    def _open(self, op: OpenClaims) -> SubscriptionView:
        self._check_shard(op.shard)
        refuse_tubes(op.family)
        now_ms = self._begin()
        if op.family.is_worklist:
            self.lists.check_family(op.family, op.queue)
        else:
            self.feeds.find(op.family, op.queue)
        found = self._found(op.queue, op.subscription, now_ms)
        event = decide.open_(found, op, self._subscriptions.last_epoch)
        self.books.journal.append(event)
        opened = apply_subscribed(self._subscriptions, event, now_ms)
        if event.is_new:
            opened.segment = self.books.journal.segment
        return self._view(opened)

    def _read(self, op: ReadClaim) -> list[bytes]:
        self._check_shard(op.shard)
        found = self._found(op.queue, op.subscription, self._begin())
        if found is None:
            raise NoClaim(op.subscription, op.number, "is not there")
        claim = decide.claim_to_read(found, op.number)
        given: list[bytes] = []
        room_bytes = FILL_MOST_BYTES
        for number in range(op.chunk, op.chunk + op.count):
            chunk = claim.chunks.get(number)
            if chunk is None and number < max(claim.chunks):
                raise NoClaim(op.subscription, op.number, f"lacks chunk {number}: it was damaged")
            if chunk is None or room_bytes <= 0:
                break
            given.append(self._rows(chunk))
            room_bytes -= len(given[-1])
        return given

    def _play(self, op: PlayClaim) -> ClaimView:
        found = self.fenced(op.queue, op.subscription, op.epoch, op.shard)
        claim = decide.claim_to_read(found, op.number)
        events: list[ClaimEvent] = [ClaimPlayed(CLAIM_PLAYED, op.queue, op.subscription, op.number)]
        now_ms = self.books.at_ms
        if 0 < op.keep < claim.messages and claim.is_open:
            queue = self._queue_of(found)
            events += returning.shrink(found, claim, queue, self._rows, now_ms, op.keep)
        self._carry(found, events)
        return claim_view(claim, now_ms)

    def _mark(self, op: MarkClaim) -> int:
        self._check_shard(op.shard)
        found = self._found(op.queue, op.subscription, self._begin())
        if found is None:
            raise NoClaim(op.subscription, op.number, "is not there")
        event = decide.mark(found, op)
        if event.ids:
            self._carry(found, [event])
        return len(event.ids)

    def _settle(self, op: SettleClaims) -> int:
        found = self.fenced(op.queue, op.subscription, op.epoch, op.shard)
        queue = self._queue_of(found)
        events: list[ClaimEvent] = []
        finished = 0
        for claim in found.open_claims():
            if claim.number <= op.number:
                some, count = returning.settle(found, claim, queue, self._rows, self.books.at_ms)
                events += some
                finished += count
        self._notice(found, op.number)
        self._carry(found, events)
        return finished

    def _purge(self, op: PurgeClaims) -> int:
        self._check_shard(op.shard)
        found = self._found(op.queue, op.subscription, self._begin())
        if found is None:
            return 0
        event, count = decide.purge(found, op)
        if count:
            self._carry(found, [event])
        return count

    def _release(self, op: ReleaseClaims) -> int:
        found = self.fenced(op.queue, op.subscription, op.epoch, op.shard)
        claims = [claim for claim in found.open_claims() if claim.number <= op.number]
        return self._give_back(found, claims, Why.RELEASED)

    def _renew(self, op: RenewClaims) -> int:
        return len(self.fenced(op.queue, op.subscription, op.epoch, op.shard).open_claims())

    def _look_at(self, op: LookAtClaims) -> SubscriptionView | None:
        self._check_shard(op.shard)
        found = self._found(op.queue, op.subscription, self._begin())
        return None if found is None else self._view(found)

    def _find_claims(self, op: FindClaims) -> list[SubscriptionView]:
        now_ms = self._begin()
        all_ = self._subscriptions.all() if op.queue is None else self._subscriptions.of(op.queue)
        views: list[SubscriptionView] = []
        for each in all_:
            found = self._found(each.queue, each.name, now_ms)
            if found is not None:
                views.append(self._view(found))
        return views

    def _drop(self, op: DropClaims) -> int | None:
        self._check_shard(op.shard)
        found = self._found(op.queue, op.subscription, self._begin())
        if found is None:
            return None
        last_epoch = max(found.epoch, self._subscriptions.last_epoch)
        gone = Unsubscribed(UNSUBSCRIBED, found.queue, found.name, last_epoch)
        count = self._give_back(found, found.open_claims(), Why.RELEASED, [gone])
        self._subscriptions.segment = self.books.journal.segment
        return count

    # -- time ---------------------------------------------------------------------------------

    def settle_due(self, now_ms: int) -> None:
        """What nobody renewed goes back, what was kept for long enough is gone: in the first of
        the subscriptions where something is due."""
        for found in self._subscriptions.all():
            if found.due_ms() > now_ms:
                continue
            try:
                self._settle_one(found, now_ms)
            except (DiskFull, StoreUnavailable):
                self._subscriptions.soonest_ms = now_ms + _RETRY_MS
                return
            break
        self._subscriptions.set_soonest()

    def info(self) -> dict[str, int | str]:
        now_ms = self.books.clock.now_us() // 1000
        all_ = self._subscriptions.all()
        claims = [claim for found in all_ for claim in found.open_claims()]
        return {
            "claims_open": len(claims),
            "claims_stalled": sum(
                len(found.open_claims()) for found in all_ if is_stalled(found, now_ms)
            ),
            "claimed_messages": sum(claim.messages for claim in claims),
        }

    def count_chunks(self) -> int:
        return sum(
            len(claim.chunks)
            for found in self._subscriptions.all()
            for claim in found.claims.values()
        )

    # -- shared steps -------------------------------------------------------------------------

    def fenced(self, queue: bytes, name: bytes, epoch: int, shard: int) -> Subscription:
        """The subscription, whose lease begins anew. Raises NoSubscription, Superseded."""
        self._check_shard(shard)
        now_ms = self._begin()
        found = self._found(queue, name, now_ms)
        if found is None:
            raise NoSubscription(name, queue)
        decide.check_epoch(found, epoch)
        found.renewed_ms = now_ms
        return found

    def _found(self, queue: bytes, name: bytes, now_ms: int) -> Subscription | None:
        """The subscription as it is now."""
        found = self._subscriptions.find(queue, name)
        if found is not None and found.due_ms() <= now_ms:
            self._settle_one(found, now_ms)
        return found

    def _settle_one(self, found: Subscription, now_ms: int) -> None:
        self.books.at_ms = now_ms
        lapsed = lapsed_claims(found, now_ms)
        if lapsed:
            try:
                self._give_back(found, lapsed, Why.FORFEITED)
            except (JournalDamaged, NotDone) as exc:
                # The claims of this subscription stay as they are, and all others go on.
                if not found.retry_ms:
                    text = "claims of the subscription %s of queue %s cannot be given back: %s"
                    log.error(text, printable(found.name), printable(found.queue), exc)
                found.retry_ms = now_ms + _DAMAGED_RETRY_MS
        stale = stale_number(found, now_ms)
        if stale:
            self._carry(found, [ClaimsPurged(CLAIMS_PURGED, found.queue, found.name, stale)])

    def _give_back(
        self,
        found: Subscription,
        claims: Sequence[Claim],
        why: Why,
        then: Sequence[ClaimEvent] = (),
    ) -> int:
        """The claims are forfeited; how many messages went back."""
        queue = self._queue_of(found)
        events: list[ClaimEvent] = []
        back = 0
        for claim in claims:
            some, count = returning.release(found, claim, queue, self._rows, self.books.at_ms, why)
            events += some
            back += count
        self._carry(found, [*events, *then])
        return back

    def _carry(self, found: Subscription, events: Sequence[ClaimEvent]) -> None:
        """The events are journaled and carried out, all or none."""
        books, journal = self.books, self.books.journal
        spare_bytes = sum(map(_record_bytes, events[1:]))
        is_noted = journal.notes is not None
        for number, event in enumerate(events):
            queue = self._queue_of(found)
            journal.append(event, 0 if number else spare_bytes)
            if is_noted:
                for change in changes_of(found, queue, event):
                    journal.note(change)
            changed = apply(books.subscriptions, found, queue, event, journal.body_home())
            books.bodies.came(changed.came, [it.body for it in changed.came if it.body is not None])
            books.bodies.went(changed.went)
            if isinstance(event, ClaimReturned) and isinstance(queue, Worklist):
                if any(row[5] == READY for row in event.rows):
                    self.lists.has_work(queue)
            elif isinstance(event, ClaimReleased):
                books.ready.add(found.queue)
            if queue is not None:
                books.set_alarm(queue)
            if isinstance(queue, Feed):
                self.feeds.drop_if_empty(queue)

    def _notice(self, found: Subscription, number: int) -> None:
        """Whoever waits for the end of one of these messages looks again."""
        if not self.books.watched or not found.family.is_worklist:
            return
        ids = [id for id in self.books.watched if id.startswith(b"D-")]  # not names of queues
        for claim in found.open_claims():
            if ids and claim.number <= number:
                where = claim.where(unpack)
                self.books.ready.update(id for id in ids if id in where)

    def _queue_of(self, found: Subscription) -> Worklist | Feed | None:
        queue: Queue | None = self.books.queues.get(found.queue)
        if queue is None or queue.family is not found.family:
            return None
        assert isinstance(queue, Worklist | Feed)
        return queue

    def _rows(self, chunk: Chunk) -> bytes:
        return self.books.bodies.of(chunk)

    def _view(self, found: Subscription) -> SubscriptionView:
        now_ms = self.books.at_ms
        queue: Worklist | Feed | None = self._queue_of(found)
        if isinstance(queue, Worklist) and queue.soonest_ms <= now_ms:
            self.lists.settle_some(queue, now_ms, 500)
            queue = self._queue_of(found)
        return subscription_view(found, queue, self.books.stamp_us, now_ms)

    def _begin(self) -> int:
        self.books.at_ms = now_ms = self.books.clock.now_us() // 1000
        return now_ms

    def _check_shard(self, shard: int) -> None:
        if shard:
            raise BadArgument(f"there is no shard {shard}: the queue has 1")


def _record_bytes(event: ClaimEvent) -> int:
    """Room that is enough for the record of the event; 5 bytes say how long a name or an id is, and
    64 are for its numbers."""
    size_bytes = 64 + len(event.queue) + len(event.subscription)
    if isinstance(event, ClaimReturned):
        for row in event.rows:
            size_bytes += ROW_BYTES + len(row[0]) + len(row[1]) + len(row[9]) + len(row[10] or b"")
    elif isinstance(event, ClaimShrunk):
        size_bytes += len(event.rows)
    elif isinstance(event, ClaimAcked | ClaimReleased | ClaimMarked):
        size_bytes += 5 * len(event.ids) + sum(map(len, event.ids)) + 1100
    return size_bytes
