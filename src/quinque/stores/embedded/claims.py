"""Operations on subscriptions and claims: settle, decide, append, apply.

Called by   store.py.
Calls       engine/claims/ (rules), worklists.py and feed_operations.py (queues), books.py.

The events of one step are journaled together: the first takes the room of all, so none of the
others is refused.

A claim may have any number of messages, so what becomes of them is true some chunks at a time. The
operation takes the first step and each tick another one; the client gets its reply after the last.
The journal knows which claims are being closed, so a restart goes on with them.

Not here: filling a claim (claim_filling.py), the rows of a claim (engine/claims/rows.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from quinque.engine.claims import decide, returning
from quinque.engine.claims.apply import apply, apply_subscribed
from quinque.engine.claims.due import is_stalled, lapsed_claims, stale_number
from quinque.engine.claims.rows import pack, unpack
from quinque.engine.claims.subscription import FORFEITED, SETTLED, Chunk, Claim, Subscription
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
    QuinqueError,
    StoreUnavailable,
    Superseded,
    printable,
)
from quinque.model.claim_events import (
    CLAIM_PLAYED,
    CLAIMS_PURGED,
    UNSUBSCRIBED,
    ChunksClosed,
    ClaimEvent,
    ClaimPlayed,
    ClaimReleased,
    ClaimReturned,
    ClaimSettled,
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
from quinque.model.limits import FILL_MOST_BYTES, NEVER_MS
from quinque.stores.embedded.claim_changes import changes_of
from quinque.stores.embedded.feed_operations import FeedOperations
from quinque.stores.embedded.journal import segment_of
from quinque.stores.embedded.worklists import Worklists
from quinque.stores.no_tubes import refuse_tubes
from quinque.stores.pending import Pending

_RETRY_MS: Final = 200  # how often a full disk is tried again
_UNREAD_RETRY_MS: Final = 60_000  # and a disk that cannot be read
_NO_ROWS: Final = pack([])
_ONE_WORTH: Final = 25  # to look after a subscription is the work of so many messages

log = logging.getLogger("quinque.journal")


Closing = SettleClaims | ReleaseClaims | DropClaims


class _Asked:
    """A client waits until the claims from `first` to `last` are closed, and then gets the `count`;
    or it waits until the claim of a PlayClaim has shrunk."""

    __slots__ = ("answer", "count", "first", "last", "op")

    def __init__(self, op: Closing | PlayClaim, first: int = 0, last: int = 0) -> None:
        self.op = op
        self.first = first
        self.last = last
        self.count = 0
        self.answer = Pending()

    def add(self, part: returning.Part) -> None:
        counts = part.finished if isinstance(self.op, SettleClaims) else part.returned
        self.count += sum(n for number, n in counts.items() if self.first <= number <= self.last)


class Claims:
    def __init__(self, lists: Worklists, feeds: FeedOperations) -> None:
        self.books = lists.books
        self.lists = lists
        self.feeds = feeds
        self._subscriptions = lists.books.subscriptions
        self._asked: dict[Subscription, list[_Asked]] = {}
        self._answers: list[tuple[Pending, Any]] = []  # of those who waited, until the step is over
        self._damaged: list[tuple[Chunk, JournalDamaged]] = []  # found by the step under way
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
        event = decide.open_(found, op, self._subscriptions.last_epoch, now_ms)
        self.books.journal.append(event)
        opened = apply_subscribed(self._subscriptions, event, now_ms)
        if event.is_new:
            opened.segment = self.books.journal.segment
        return self._view(opened)

    def _read(self, op: ReadClaim) -> list[bytes]:
        self._check_shard(op.shard)
        found = self._found(op.queue, op.subscription, self._begin())
        if found is None:
            raise NoClaim(op.subscription, op.number, "does not exist")
        claim = decide.claim_to_read(found, op.number)
        given: list[bytes] = []
        room_bytes = FILL_MOST_BYTES
        for number in range(op.chunk, min(op.chunk + op.count, claim.end)):
            if room_bytes <= 0:
                break
            chunk = claim.chunks.get(number)
            if chunk is not None:
                given.append(self._read_chunk(found, claim, chunk))
            else:
                given.append(_NO_ROWS)  # it was damaged
            room_bytes -= len(given[-1])
        return given

    def _play(self, op: PlayClaim) -> ClaimView | Pending:
        found = self.fenced(op.queue, op.subscription, op.epoch, op.shard)
        claim = decide.claim_to_read(found, op.number)
        played = ClaimPlayed(CLAIM_PLAYED, op.queue, op.subscription, op.number)
        if self._has_shrunk(found, op, [played]):
            return claim_view(claim, self.books.at_ms)
        return self._wait(found, _Asked(op))

    def _mark(self, op: MarkClaim) -> int:
        self._check_shard(op.shard)
        found = self._found(op.queue, op.subscription, self._begin())
        if found is None:
            raise NoClaim(op.subscription, op.number, "does not exist")
        if op.epoch:
            decide.check_epoch(found, op.epoch)
        event = decide.mark(found, op)
        if event.ids:
            self._carry(found, [event])
        return len(event.ids)

    def _settle(self, op: SettleClaims) -> int | Pending:
        found = self.fenced(op.queue, op.subscription, op.epoch, op.shard)
        return self._close(found, op, op.number, SETTLED)

    def _purge(self, op: PurgeClaims) -> int:
        self._check_shard(op.shard)
        found = self._found(op.queue, op.subscription, self._begin())
        if found is None:
            return 0
        event, count = decide.purge(found, op)
        if count:
            self._carry(found, [event])
        return count

    def _release(self, op: ReleaseClaims) -> int | Pending:
        found = self.fenced(op.queue, op.subscription, op.epoch, op.shard)
        return self._close(found, op, op.number, FORFEITED)

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
        rows = 0
        for each in all_:
            if op.sees is not None and not op.sees(each.queue):
                continue
            found = self._found(each.queue, each.name, now_ms)
            if found is not None:
                views.append(self._view(found))
                rows += 1 + len(found.claims)
                if 0 < op.most < rows:
                    break
        return views

    def _drop(self, op: DropClaims) -> int | Pending | None:
        self._check_shard(op.shard)
        found = self._found(op.queue, op.subscription, self._begin())
        return None if found is None else self._close(found, op, NEVER_MS, FORFEITED)

    # -- time ---------------------------------------------------------------------------------

    def settle_due(self, now_ms: int) -> None:
        """In some of the subscriptions where something is due: return claims that were not renewed,
        remove claims that were kept long enough, and go on with claims that are being closed."""
        room = returning.CLOSE_MOST
        # Those with much to do go last, one with each tick: each takes many ticks.
        for is_long, _, _, found in self._subscriptions.due(now_ms):
            if room <= 0:
                break
            room -= _ONE_WORTH + sum(claim.messages for claim in found.open_claims())
            if is_long:
                room = 0
            self.books.at_ms = now_ms
            if found.is_awaited:
                found.renewed_ms = now_ms  # its client waits, and renews nothing
            try:
                if not self._settle_one(found, now_ms):
                    self._go_on(found)
            except (DiskFull, StoreUnavailable):
                self._subscriptions.soonest_ms = now_ms + _RETRY_MS
                return
            except NotDone as exc:
                self._try_later(found, now_ms, exc)
        self._subscriptions.set_soonest()
        self._reply()

    @property
    def is_awaited(self) -> bool:
        """Whether a client waits for claims that ticks close."""
        return bool(self._asked)

    def info(self) -> dict[str, int | str]:
        now_ms = self.books.clock.now_us() // 1000
        all_ = self._subscriptions.all()
        claims = [claim for found in all_ for claim in found.open_claims()]
        return {
            "claims_open": len(claims),
            "claims_stalled": sum(
                len(found.open_claims()) for found in all_ if is_stalled(found, now_ms)
            ),
            "claimed_messages": sum(
                claim.messages - claim.done for found in all_ for claim in found.held_claims()
            ),
        }

    def count_chunks(self) -> int:
        return sum(
            len(claim.chunks)
            for found in self._subscriptions.all()
            for claim in found.claims.values()
        )

    # -- shared steps -------------------------------------------------------------------------

    def fenced(self, queue: bytes, name: bytes, epoch: int, shard: int) -> Subscription:
        """Restart the subscription's lease, and return it. Raises NoSubscription, Superseded."""
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

    def lose_chunk(
        self, found: Subscription, claim: Claim, chunk: Chunk, why: JournalDamaged
    ) -> bool:
        """Take a damaged chunk out of its claim: its jobs are dead, and the group of a feed may get
        its events again. False while a settled claim is being closed and has yet to finish the
        chunk's messages. Raises DiskFull."""
        if claim.is_closing and claim.state == SETTLED and chunk.place >= claim.closed:
            self.books.heal(segment_of(chunk.home))
            return False
        queue = self._queue_of(found)
        read = partial(self._lost_rows, found, why)
        self._carry(found, returning.lose(found, claim, chunk, queue, read, self.books.at_ms))
        self._damaged = [(chunk, why)]
        self._tell_damage(found)
        return True

    def _settle_one(self, found: Subscription, now_ms: int) -> bool:
        """Forfeit claims that were not renewed, and remove claims that were kept long enough.
        Return whether some were forfeited."""
        self.books.at_ms = now_ms
        is_lapsed = bool(lapsed_claims(found, now_ms))
        if is_lapsed:
            try:
                self._close_some(found, NEVER_MS, FORFEITED, Why.FORFEITED)
            except NotDone as exc:
                self._try_later(found, now_ms, exc)
        stale = stale_number(found, now_ms)
        if stale:
            self._carry(found, [ClaimsPurged(CLAIMS_PURGED, found.queue, found.name, stale)])
        return is_lapsed

    def _try_later(self, found: Subscription, now_ms: int, exc: NotDone) -> None:
        """The disk cannot be read. The claims stay as they are, and all others go on."""
        if not found.retry_ms:
            text = "claims of the subscription %s of queue %s cannot be closed: %s"
            log.error(text, printable(found.name), printable(found.queue), exc)
        found.retry_ms = now_ms + _UNREAD_RETRY_MS

    def _close(self, found: Subscription, op: Closing, upto: int, state: int) -> int | Pending:
        """Close open claims up to that number; return how many messages that finished, or how many
        went back, or a Pending of that while some are left."""
        asked = _Asked(op, found.settled + 1, min(upto, found.newest))
        asked.add(self._close_some(found, upto, state, Why.RELEASED, op))
        if found.is_closing(upto):
            return self._wait(found, asked)
        self._reply()
        return asked.count

    def _close_some(
        self,
        found: Subscription,
        upto: int,
        state: int,
        why: Why,
        op: Closing | None = None,
    ) -> returning.Part:
        """As returning.close() says. A subscription that is dropped is gone when all are closed."""
        ids = self._watched_ids(found)
        part = returning.close(
            found,
            upto,
            state,
            why,
            self._queue_of(found),
            self._reader(found),
            self.books.at_ms,
            is_watched=bool(ids),
        )
        events = part.events
        if not found.family.is_worklist:
            self._damaged = []  # its messages are not in the rows alone, and none is lost
        is_gone = part.is_whole and isinstance(op, DropClaims)
        # A settled claim would keep what it cannot give out.
        gone: list[ClaimEvent] = [
            returning.without(found, claim, chunk)
            for chunk, _ in self._damaged
            for claim in found.claims.values()
            if claim.chunks.get(chunk.place) is chunk
        ]
        if is_gone:
            last_epoch = max(found.epoch, self._subscriptions.last_epoch)
            gone.append(Unsubscribed(UNSUBSCRIBED, found.queue, found.name, last_epoch))
        self._notice(found, events, ids)
        self._carry(found, [*events, *gone])
        if is_gone:
            self._subscriptions.segment = self.books.journal.segment
        self._tell_damage(found)
        found.retry_ms = 0
        for asked in list(self._asked.get(found, ())):
            asked.add(part)
            if is_gone:
                self._answer(found, asked, _last_answer(asked))
        return part

    def _has_shrunk(
        self, found: Subscription, op: PlayClaim, first: Sequence[ClaimEvent] = ()
    ) -> bool:
        """The claim is a step nearer to having `op.keep` messages. Whether it has, or is closed."""
        claim = decide.claim_to_read(found, op.number)
        events = list(first)
        if 0 < op.keep < claim.messages and claim.is_open:
            queue, now_ms = self._queue_of(found), self.books.at_ms
            events += returning.shrink(found, claim, queue, self._reader(found), now_ms, op.keep)
        self._carry(found, events)
        self._tell_damage(found)
        return not (0 < op.keep < claim.messages and claim.is_open)

    # -- steps that ticks take ----------------------------------------------------------------

    def _wait(self, found: Subscription, asked: _Asked) -> Pending:
        """Continue the client's operation with each tick, and send the reply at the end."""
        self._asked.setdefault(found, []).append(asked)
        found.is_awaited = True
        self._subscriptions.remind(found)
        return asked.answer

    def _go_on(self, found: Subscription) -> None:
        """Do one step more, and answer the clients for whom it was the last one."""
        if found.is_closing():
            self._close_some(found, 0, FORFEITED, Why.RELEASED)
        else:
            self._step_for_first(found)
        for asked in list(self._asked.get(found, ())):
            if not isinstance(asked.op, PlayClaim | DropClaims) and not found.is_closing(
                asked.last
            ):
                self._answer(found, asked, asked.count)

    def _step_for_first(self, found: Subscription) -> None:
        """A step for the client that waits longest, of those whose claims are not being closed."""
        for asked in self._asked.get(found, ()):
            op = asked.op
            if isinstance(op, PlayClaim):
                try:
                    decide.check_epoch(found, op.epoch)
                    if self._has_shrunk(found, op):
                        view = claim_view(found.claims[op.number], self.books.at_ms)
                        self._answer(found, asked, view)
                except (NoClaim, Superseded) as error:
                    self._answer(found, asked, error)
                return
            if isinstance(op, DropClaims):
                # Claims that were begun meanwhile are released too.
                asked.last = found.newest
                self._close_some(found, NEVER_MS, FORFEITED, Why.RELEASED, op)
                return

    def _answer(self, found: Subscription, asked: _Asked, result: Any) -> None:
        """Stop the client's wait; it gets the result when the step is over."""
        waiting = self._asked[found]
        waiting.remove(asked)
        if not waiting:
            del self._asked[found]
            found.is_awaited = False
        self._answers.append((asked.answer, result))

    def _reply(self) -> None:
        """Clients learn what they waited for; some may ask for more at once."""
        answers, self._answers = self._answers, []
        for answer, result in answers:
            if isinstance(result, QuinqueError):
                answer.fail(result)
            else:
                answer.settle(result)

    # -- rows ---------------------------------------------------------------------------------

    def _read_chunk(self, found: Subscription, claim: Claim, chunk: Chunk) -> bytes:
        """The rows of the chunk, packed; no rows if it was damaged, and is set aside."""
        try:
            return self.books.bodies.of(chunk)
        except JournalDamaged as exc:
            self.lose_chunk(found, claim, chunk, exc)
            return _NO_ROWS

    def _reader(self, found: Subscription) -> returning.Read:
        """Reads the chunks of a step."""
        self._damaged = []
        return partial(self._rows, found)

    def _rows(self, found: Subscription, chunk: Chunk) -> bytes | list[Any]:
        """The rows of the chunk, packed; those of dead messages if it is damaged."""
        try:
            return self.books.bodies.of(chunk)
        except JournalDamaged as exc:
            if all(it is not chunk for it, _ in self._damaged):
                self._damaged.append((chunk, exc))
            return self._lost_rows(found, exc, chunk)

    def _lost_rows(self, found: Subscription, why: JournalDamaged, chunk: Chunk) -> list[Any]:
        first = self.books.next_place()
        self.books.stamp_us = first + chunk.messages - 1
        return returning.lost_rows(found, chunk, first, str(why).encode())

    def _tell_damage(self, found: Subscription) -> None:
        """The log names the chunks that the last step found to be damaged."""
        for chunk, why in self._damaged:
            ids = unpack(chunk.ids)
            log.error(
                "set aside %d claimed messages, %s to %s, of queue %s (subscription %s): %s. %s",
                chunk.messages,
                printable(ids[0]),
                printable(ids[-1]),
                printable(found.queue),
                printable(found.name),
                why,
                self.books.journal.copy_aside(chunk.home),
            )
            self.books.heal(segment_of(chunk.home))
        self._damaged = []

    def _carry(self, found: Subscription, events: Sequence[ClaimEvent]) -> None:
        """The events are journaled and carried out, all or none."""
        books, journal = self.books, self.books.journal
        spare_bytes = journal.bytes_of(events[1:])
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

    def _watched_ids(self, found: Subscription) -> set[bytes]:
        """The messages whose end a client waits for, and that may be in claims."""
        if not self.books.watched or not found.family.is_worklist:
            return set()
        return {id for id in self.books.watched if id.startswith(b"D-")}  # not names of queues

    def _notice(self, found: Subscription, events: Sequence[ClaimEvent], ids: set[bytes]) -> None:
        """Wake the clients that wait for the end of a message that the events finish."""
        for event in events if ids else ():
            if isinstance(event, ClaimSettled | ChunksClosed):
                last = event.last if isinstance(event, ChunksClosed) else NEVER_MS
                for chunk in found.claims[event.number].to_close():
                    if chunk.place > last:
                        break
                    self.books.ready.update(ids.intersection(unpack(chunk.ids)))

    def _queue_of(self, found: Subscription) -> Worklist | Feed | None:
        queue: Queue | None = self.books.queues.get(found.queue)
        if queue is None or queue.family is not found.family:
            return None
        assert isinstance(queue, Worklist | Feed)
        return queue

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
            raise BadArgument(f"no shard {shard}: the number of shards is 1")


def _last_answer(asked: _Asked) -> Any:
    """The answer to a client whose subscription is gone."""
    if isinstance(asked.op, PlayClaim):
        return NoSubscription(asked.op.subscription, asked.op.queue)
    return asked.count
