"""Messages, groups, worklists, subscriptions and batches as they are now, each as one event.

Called by   compact.py (writes them again), copy_out.py (hands them to another store).
Calls       engine/tubes/decide.py (tubes and tasks).

Not here: what these events do when they are read back (engine/feed/apply.py,
engine/work/apply.py, engine/tubes/apply.py, engine/claims/apply.py, staged.py).
"""

from __future__ import annotations

from typing import Final

from quinque.engine.claims.subscription import Chunk, Subscription
from quinque.engine.feed.feed import Feed
from quinque.engine.feed.groups import Group
from quinque.engine.tubes.decide import kept as task_kept
from quinque.engine.tubes.decide import tube_kept
from quinque.engine.tubes.task import Task
from quinque.engine.tubes.tube import Tube
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import LEASED, Worklist
from quinque.model.claim_events import (
    CHUNK_KEPT,
    SUBSCRIPTION_KEPT,
    ChunkKept,
    SubscriptionKept,
)
from quinque.model.events import (
    GROUP_KEPT,
    KEPT,
    WORK_KEPT,
    WORKLIST_KEPT,
    GroupKept,
    Kept,
    WorkKept,
    WorklistKept,
)
from quinque.model.limits import NEVER_MS
from quinque.model.message import FeedMessage
from quinque.model.stage_events import PUBLISHED_KEPT, STAGE_KEPT, PublishedKept, StageKept
from quinque.model.tube_events import TaskKept, TubeKept
from quinque.stores.embedded.staged import Batch, PublishedMark, Run

_NO_LIMIT: Final = 1 << 62


def group_kept(queue: Feed, group: Group) -> GroupKept:
    return GroupKept(GROUP_KEPT, queue.name, queue.family.code, group.name, group.cursor)


def kept_in_feed(queue: Feed, message: FeedMessage, body: bytes) -> Kept:
    return Kept(
        KEPT,
        queue.name,
        queue.family.code,
        message.id,
        message.place,
        message.expires_ms,
        message.is_single,
        _past(queue, message),
        _holds(queue, message),
        body,
    )


def message_kept(queue: Worklist, message: WorkMessage, body: bytes) -> WorkKept | TaskKept:
    """The message of the worklist, which may be a tube."""
    if isinstance(queue, Tube) and isinstance(message, Task):
        return task_kept(queue, message, body)
    return kept_in_worklist(queue, message, body)


def list_kept(queue: Worklist) -> WorklistKept | TubeKept:
    """The worklist, which may be a tube."""
    return tube_kept(queue) if isinstance(queue, Tube) else worklist_kept(queue)


def kept_in_worklist(queue: Worklist, message: WorkMessage, body: bytes) -> WorkKept:
    due_ms = message.due_ms if message.due_ms < NEVER_MS else 0
    if queue.turns is not None and message.state == LEASED:
        due_ms = queue.turns.get(message.id, 0)
    return WorkKept(
        WORK_KEPT,
        queue.name,
        queue.family.code,
        message.id,
        message.place,
        message.terms.as_record(),
        message.key,
        message.state,
        message.expires_ms,
        due_ms,
        message.nacks,
        message.requeues,
        message.deliveries,
        message.was_ready,
        message.reason,
        body,
    )


def worklist_kept(queue: Worklist) -> WorklistKept:
    rate = queue.rate
    return WorklistKept(
        WORKLIST_KEPT,
        queue.name,
        queue.family.code,
        queue.since_ms,
        queue.active_ms,
        queue.came,
        queue.went,
        queue.is_paused_in,
        queue.is_paused_out,
        queue.max_deliveries,
        rate.count if rate is not None else 0,
        rate.span_ms if rate is not None else 0,
        rate.full_us if rate is not None else 0,
        queue.ends_ms if queue.ends_ms < NEVER_MS else 0,
        queue.keeps_expired,
    )


def subscription_kept(found: Subscription, marks_most: int = _NO_LIMIT) -> SubscriptionKept:
    """The subscription, without the marks of claims that have more than `marks_most`."""
    return SubscriptionKept(
        SUBSCRIPTION_KEPT,
        found.queue,
        found.family.code,
        found.name,
        found.group,
        found.epoch,
        found.lease_ms,
        found.release_ms,
        found.settled,
        [
            (
                number,
                claim.state,
                claim.plays,
                claim.began_ms,
                claim.ended_ms,
                None
                if len(claim.marks) > marks_most
                else [
                    (id, it.outcome, it.delay_ms, it.reason)
                    for id, it in sorted(claim.marks.items(), key=lambda row: row[0])
                ],
                *((claim.why, claim.closed) if claim.is_closing else ()),
            )
            for number, claim in sorted(found.claims.items())
        ],
        found.created_us,
    )


def chunk_kept(found: Subscription, number: int, chunk: Chunk, rows: bytes) -> ChunkKept:
    return ChunkKept(
        CHUNK_KEPT, found.queue, found.family.code, found.name, number, chunk.place, rows
    )


def stage_kept(batch: Batch) -> StageKept:
    queue, sink, run, number = batch.name
    return StageKept(
        STAGE_KEPT,
        queue,
        batch.family.code,
        sink,
        run,
        number,
        batch.began_ms,
        batch.parts,
        batch.done,
        batch.content,
        batch.keep_ms,
    )


def published_kept(run: Run, mark: PublishedMark) -> PublishedKept:
    return PublishedKept(PUBLISHED_KEPT, *run, mark.number, mark.until_ms, mark.content)


def _past(queue: Feed, message: FeedMessage) -> list[bytes] | None:
    """The groups that have come as far as the message, where their cursors do not tell: a group
    that ended may have come further than a message that was put to the front after that."""
    if message.place > queue.front_until:
        return None
    return [group.name for group in queue.groups.values() if message.place <= group.cursor]


def _holds(queue: Feed, message: FeedMessage) -> list[tuple[bytes, int, int]]:
    """Return the hold of each group on the message, as Kept records it."""
    rows: list[tuple[bytes, int, int]] = []
    for group in queue.groups.values():
        if not group.held and not group.again:
            continue
        # Both: what is held may be a flushed message that had the same id.
        rows += [
            (group.name, lease.deadline_ms, lease.deliveries)
            for lease in (group.held.get(message.id), group.again.get(message.id))
            if lease is not None and lease.message is message
        ]
    return rows
