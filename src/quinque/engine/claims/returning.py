"""Make the events with which claimed messages are finished or return to their queue.

Called by   stores/embedded/claims.py.
Calls       the function that reads the rows of a chunk, which the store hands it.

A message of a worklist that goes back has its old id, place, terms, key and counters. That it was
delivered stays counted, unless its claim shrank: then no consumer has had it. A nack too many makes
it dead, as everywhere.

In a feed, messages that the group still holds are acked or given back. The others have ended by
themselves. A feed has no dead messages and no delays.

A claim may have any number of messages, so one call closes some chunks: about CLOSE_MOST messages
or CLOSE_MOST_BYTES of rows, and one chunk at least. The caller calls again for the rest.

The rows of a chunk may be damaged on the disk. Its ids are in memory: a job among them that was to
go back is dead, with an empty body and the reason. Families without dead messages lose it.

Not here: carrying the events out (apply.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from quinque.engine.claims.rows import chunk_sizes, pack, unpack
from quinque.engine.claims.subscription import SETTLED, Chunk, Claim, Mark, Subscription
from quinque.engine.feed.decide import removals_most
from quinque.engine.feed.feed import Feed
from quinque.engine.work.decide import NACKED
from quinque.engine.work.worklist import DEAD, DELAYED, READY, Worklist
from quinque.model.claim_events import (
    CHUNKS_CLOSED,
    CLAIM_ACKED,
    CLAIM_FORFEITED,
    CLAIM_RELEASED,
    CLAIM_RETURNED,
    CLAIM_SETTLED,
    CLAIM_SHRUNK,
    CLAIMS_CLOSED,
    ChunksClosed,
    ClaimAcked,
    ClaimEvent,
    ClaimForfeited,
    ClaimReleased,
    ClaimReturned,
    ClaimsClosed,
    ClaimSettled,
    ClaimShrunk,
    Why,
)
from quinque.model.claim_ops import Outcome
from quinque.model.families import JOBS
from quinque.model.limits import NEVER_MS, SETTLE_MOST, TOGETHER_MOST, TOGETHER_MOST_BYTES
from quinque.model.work_ops import PLAIN_TERMS

# The size of one call: 500 messages are about 2 ms of work. A chunk is not divided, so it may be
# 1,000 more.
CLOSE_MOST = SETTLE_MOST  # not Final: a test makes it small
CLOSE_MOST_BYTES: Final = 1 << 20

# The rows of a chunk, packed; or as rows that stand for them, when they are damaged.
Read = Callable[[Chunk], bytes | list[Any]]
Queues = Worklist | Feed | None


class Part(NamedTuple):
    """The result of one call: the events, how many messages they finish and how many go back, by
    the number of their claim; and whether all the claims are closed by then."""

    events: list[ClaimEvent]
    finished: dict[int, int]
    returned: dict[int, int]
    is_whole: bool


class _Room:
    """The remaining work of one call."""

    __slots__ = ("messages", "size_bytes")

    def __init__(self) -> None:
        self.messages = CLOSE_MOST
        self.size_bytes = CLOSE_MOST_BYTES

    @property
    def is_left(self) -> bool:
        return self.messages > 0 and self.size_bytes > 0

    def take(self, messages: int, size_bytes: int = 0) -> None:
        self.messages -= messages
        self.size_bytes -= size_bytes


def close(
    found: Subscription,
    upto: int,
    state: int,
    why: Why,
    queue: Queues,
    read: Read,
    now_ms: int,
    *,
    is_watched: bool = False,
) -> Part:
    """Settle or forfeit the open claims up to that number, as `state` says, and carry this out for
    some messages of the claims that are being closed. `is_watched`: a client waits for the end of
    a message, so each finished message has to be looked at."""
    part = Part([], {}, {}, True)
    room = _Room()
    opened = [claim for claim in found.open_claims() if claim.number <= upto]
    is_whole = True
    for claim in [it for it in found.claims.values() if it.is_closing] + opened:
        if not room.is_left:
            is_whole = False
            break
        if not claim.is_closing:
            ends = (state, int(why), now_ms)
        else:
            ends = (claim.state, claim.why, claim.ended_ms)
        step = _Step(found, claim, queue, read, now_ms, *ends, part, room, is_watched)
        if not step.close():
            is_whole = False
            break
    events = part.events
    if opened and not is_whole:
        closed = ClaimsClosed(
            CLAIMS_CLOSED, found.queue, found.name, opened[-1].number, state, int(why), now_ms
        )
        events = [closed, *events]
    return Part(events, part.finished, part.returned, is_whole)


class _Step:
    """A claim of which some chunks are closed."""

    def __init__(
        self,
        found: Subscription,
        claim: Claim,
        queue: Queues,
        read: Read,
        now_ms: int,
        state: int,
        why: int,
        ended_ms: int,
        part: Part,
        room: _Room,
        is_watched: bool,
    ) -> None:
        self._found = found
        self._claim = claim
        self._queue = queue
        self._read = read
        self._now_ms = now_ms
        self._state = state
        self._why = why
        self._ended_ms = ended_ms
        self._part = part
        self._room = room
        self._is_watched = is_watched

    def close(self) -> bool:
        """Close chunks while there is room; whether these were all."""
        found, claim = self._found, self._claim
        is_settled = self._state == SETTLED
        closed = claim.closed
        is_whole = True
        for chunk in claim.to_close():
            is_whole = self._room.is_left and self._close_chunk(chunk)
            if not is_whole:
                break
            closed = chunk.place + 1
        if is_whole and is_settled:
            self._add(
                ClaimSettled(CLAIM_SETTLED, found.queue, found.name, claim.number, self._ended_ms)
            )
        elif is_whole:
            self._add(
                ClaimForfeited(
                    CLAIM_FORFEITED, found.queue, found.name, claim.number, self._ended_ms
                )
            )
        elif closed > claim.closed:
            self._add(_chunks_closed(found, claim, claim.closed, closed - 1, is_kept=is_settled))
        return is_whole

    def _close_chunk(self, chunk: Chunk) -> bool:
        """Carry the end of the claim out for the chunk's messages; False if some are left."""
        if not self._found.family.is_worklist:
            return not isinstance(self._queue, Feed) or self._close_in_feed(chunk, self._queue)
        if self._state == SETTLED:
            self._settle(chunk)
            return True
        rows = rows_of(chunk, self._read)
        self._room.take(chunk.messages, chunk.body_bytes)
        self._count(0, chunk.messages)
        self._add(*_returned(self._found, self._claim, self._now_ms, Why(self._why), rows))
        return True

    def _settle(self, chunk: Chunk) -> None:
        """The messages of a worklist are finished. Marked ones are in it again, some dead."""
        claim = self._claim
        marked: set[bytes] = set()
        if claim.marks:
            marked = {id for id in unpack(chunk.ids) if id in claim.marks}
        back: list[Sequence[Any]] = []
        dead: list[Sequence[Any]] = []
        if marked:
            limit = self._queue.max_deliveries if isinstance(self._queue, Worklist) else 0
            for row in rows_of(chunk, self._read):
                if row[0] in marked:
                    if row[5] != DEAD:  # it can be read
                        _change(row, claim.marks[row[0]], limit, self._now_ms)
                    (dead if row[5] == DEAD else back).append(row)
        self._add(*_returned(self._found, claim, self._now_ms, Why.NACKED, back))
        self._add(*_returned(self._found, claim, self._now_ms, Why.DEAD, dead))
        self._count(chunk.messages - len(marked), len(marked))
        if marked:
            self._room.take(chunk.messages, chunk.body_bytes)
        elif claim.marks or self._is_watched:
            self._room.take(chunk.messages)
        else:
            self._room.take(1 + len(chunk.keys) // 4)

    def _close_in_feed(self, chunk: Chunk, queue: Feed) -> bool:
        found, claim = self._found, self._claim
        held = still_held(queue, found.group, chunk, self._read)
        back, why = held, Why(self._why)
        if self._state == SETTLED:
            why = Why.NACKED
            nacked = {
                id
                for id in held
                if (mark := claim.marks.get(id)) is not None and mark.outcome == Outcome.NACK
            }
            back = [id for id in held if id in nacked]
            done = [id for id in held if id not in nacked]
            # Every group has to forget a message that is removed, so these may be fewer.
            singles = [
                id
                for id in done
                if (message := queue.messages.get(id)) is not None and message.is_single
            ]
            most = removals_most(queue, CLOSE_MOST)
            is_whole = len(singles) <= most
            if not is_whole:
                done = singles[:most]
            self._count(len(done), 0)
            if done:
                self._add(_acked(found, claim, done))
            if not is_whole:
                # The nacked ones come last: another claim may hold them from then on.
                self._room.take(CLOSE_MOST)
                return False
        if back:
            self._add(_released(found, claim, why, back))
            self._count(0, len(back))
        self._room.take(chunk.messages)
        return True

    def _count(self, finished: int, returned: int) -> None:
        number = self._claim.number
        self._part.finished[number] = self._part.finished.get(number, 0) + finished
        self._part.returned[number] = self._part.returned.get(number, 0) + returned

    def _add(self, *events: ClaimEvent) -> None:
        self._part.events.extend(events)


def shrink(
    found: Subscription, claim: Claim, queue: Queues, read: Read, now_ms: int, keep: int
) -> list[ClaimEvent]:
    """Take some of the last messages after the first `keep` out of the claim. They go back, and so
    does a part of one chunk in the end."""
    events: list[ClaimEvent] = []
    room = _Room()
    messages, first = claim.messages, claim.end
    while messages > keep and room.is_left:
        chunk = claim.chunks.get(first - 1)
        first -= 1
        if chunk is None:
            continue
        messages -= chunk.messages
        room.take(chunk.messages, chunk.body_bytes)
        given = read(chunk)
        if isinstance(given, list):
            events += _lost(found, claim, chunk, queue, read, now_ms)
            continue
        rows = unpack(given)
        stays = max(0, keep - messages)
        events += _shrunk(found, claim, chunk, queue, read, now_ms, rows[stays:])
        if stays:
            place = chunk.place
            code = found.family.code
            border = ClaimShrunk(
                CLAIM_SHRUNK, found.queue, code, found.name, claim.number, place, pack(rows[:stays])
            )
            return [*events, border]
    return [*events, _chunks_closed(found, claim, first, claim.end - 1, is_kept=False)]


def lose(
    found: Subscription, claim: Claim, chunk: Chunk, queue: Queues, read: Read, now_ms: int
) -> list[ClaimEvent]:
    """Take a damaged chunk out of the claim. If the claim holds its messages, the jobs among them
    are dead, and the group of a feed may get its messages again."""
    events: list[ClaimEvent] = []
    if claim.holds and chunk.place >= claim.closed:
        events = _lost(found, claim, chunk, queue, read, now_ms)
    return [*events, without(found, claim, chunk)]


def without(found: Subscription, claim: Claim, chunk: Chunk) -> ChunksClosed:
    """Take the chunk out of the claim; earlier events say what happened to its messages."""
    return _chunks_closed(found, claim, chunk.place, chunk.place, is_kept=False)


def lost_rows(found: Subscription, chunk: Chunk, place: int, reason: bytes) -> list[Any]:
    """Rows for the messages of a damaged chunk: dead ones, with empty bodies, at places from
    `place` on. Empty in a family without dead messages."""
    if found.family is not JOBS:
        return []
    keys = {id: key for key, id in chunk.keys.items()}
    terms = PLAIN_TERMS.as_record()
    return [
        [id, b"", 1, place + at, 0, DEAD, 0, 0, 0, reason, keys.get(id), terms, 0]
        for at, id in enumerate(unpack(chunk.ids))
    ]


def rows_of(chunk: Chunk, read: Read) -> list[Any]:
    """The rows of the chunk, or those that stand for them."""
    given = read(chunk)
    if isinstance(given, list):
        return given
    rows: list[Any] = unpack(given)
    return rows


def settled_ids(claim: Claim, first: int = 0, last: int = NEVER_MS) -> list[bytes]:
    """Packed lists of the ids that closing these chunks of a settled claim finishes, if it is one
    on a worklist: those that no event beside ClaimSettled or ChunksClosed names."""
    chunks = [it for it in claim.to_close() if first <= it.place <= last]
    if not claim.marks:
        return [chunk.ids for chunk in chunks]
    return [pack([id for id in unpack(chunk.ids) if id not in claim.marks]) for chunk in chunks]


def _change(row: Any, mark: Mark, limit: int, now_ms: int) -> None:
    """The row says what the mark makes of the message."""
    deliveries, most = row[2], row[11][3] or limit
    row[9] = mark.reason
    if mark.outcome == Outcome.NACK:
        row[7] += 1
        if not 0 < most <= deliveries:
            row[5] = DELAYED if mark.delay_ms else READY
            row[6] = now_ms + mark.delay_ms if mark.delay_ms else 0
            return
        row[9] = mark.reason or NACKED
    row[4], row[5], row[6] = 0, DEAD, 0


def _lost(
    found: Subscription, claim: Claim, chunk: Chunk, queue: Queues, read: Read, now_ms: int
) -> list[ClaimEvent]:
    """The messages of a damaged chunk are dead, or the group of a feed may have them again."""
    if found.family.is_worklist:
        return _returned(found, claim, now_ms, Why.DEAD, rows_of(chunk, read))
    ids = still_held(queue, found.group, chunk, read) if isinstance(queue, Feed) else []
    return [_released(found, claim, Why.RELEASED, ids)] if ids else []


def _shrunk(
    found: Subscription,
    claim: Claim,
    chunk: Chunk,
    queue: Queues,
    read: Read,
    now_ms: int,
    rows: list[Any],
) -> list[ClaimEvent]:
    """The messages of these rows of the chunk go back as if they had not been delivered."""
    if found.family.is_worklist:
        for row in rows:
            row[2] -= 1
        return _returned(found, claim, now_ms, Why.SHRUNK, rows)
    if not isinstance(queue, Feed):
        return []
    wanted = {row[0] for row in rows}
    ids = [id for id in still_held(queue, found.group, chunk, read) if id in wanted]
    return [_released(found, claim, Why.SHRUNK, ids)] if ids else []


def still_held(queue: Feed, group_name: bytes, chunk: Chunk, read: Read) -> list[bytes]:
    """The ids of the chunk that the group holds with no deadline."""
    group = queue.groups.get(group_name)
    if group is None:
        return []
    # Another message may have the id of one that has expired, and another claim may have that. Its
    # place is a later one; but where messages are put to the front, only the rows tell.
    places: dict[bytes, int] = {}
    if queue.has_front:
        places = {row[0]: row[3] for row in rows_of(chunk, read)}
    held, least, most = group.held, chunk.least_place, chunk.most_place
    return [
        id
        for id in unpack(chunk.ids)
        if (lease := held.get(id)) is not None
        and lease.deadline_ms >= NEVER_MS
        and places.get(id, least) <= lease.message.place <= places.get(id, most)
    ]


def _acked(found: Subscription, claim: Claim, ids: list[bytes]) -> ClaimAcked:
    code = found.family.code
    return ClaimAcked(CLAIM_ACKED, found.queue, code, found.group, found.name, claim.number, ids)


def _chunks_closed(
    found: Subscription, claim: Claim, first: int, last: int, *, is_kept: bool
) -> ChunksClosed:
    return ChunksClosed(CHUNKS_CLOSED, found.queue, found.name, claim.number, first, last, is_kept)


def _returned(
    found: Subscription, claim: Claim, now_ms: int, why: Why, rows: Sequence[Sequence[Any]]
) -> list[ClaimEvent]:
    """The rows are messages again: some to an event, so that a body can be read back alone."""
    events: list[ClaimEvent] = []
    at = 0
    for size in chunk_sizes([row[1] for row in rows], TOGETHER_MOST, TOGETHER_MOST_BYTES):
        events.append(
            ClaimReturned(
                CLAIM_RETURNED,
                found.queue,
                found.family.code,
                found.name,
                claim.number,
                now_ms,
                int(why),
                rows[at : at + size],
            )
        )
        at += size
    return events


def _released(found: Subscription, claim: Claim, why: Why, ids: list[bytes]) -> ClaimReleased:
    return ClaimReleased(
        CLAIM_RELEASED,
        found.queue,
        found.family.code,
        found.group,
        found.name,
        claim.number,
        int(why),
        ids,
    )
