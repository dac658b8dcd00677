"""Apply the records of a journal, in the order they were written.

Called by   recover.py, for each segment of a folder; survey.py.
Calls       engine/feed/apply.py and engine/work/apply.py (rules), recover_claims.py,
            recover_tubes.py, staged.py.

Not here: the files, and what is wrong with them (recover.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from quinque.engine.claims.subscription import Subscriptions
from quinque.engine.feed.apply import APPLY as APPLY_TO_FEED
from quinque.engine.feed.apply import APPLY_WITH_BODY as APPLY_TO_FEED_WITH_BODY
from quinque.engine.feed.feed import Feed
from quinque.engine.queue import Queue
from quinque.engine.tubes.apply import APPLY as APPLY_TO_TUBE
from quinque.engine.tubes.sessions import Sessions
from quinque.engine.tubes.tube import Tube
from quinque.engine.work.apply import APPLY as APPLY_TO_WORK
from quinque.engine.work.apply import APPLY_WITH_BODY as APPLY_TO_WORK_WITH_BODY
from quinque.engine.work.apply import apply_replaced
from quinque.engine.work.directory import Directory
from quinque.engine.work.worklist import Worklist
from quinque.errors import JournalDamaged
from quinque.model.events import (
    ADDED,
    AS_EVENT,
    CONFIGURED,
    EXPIRED,
    FLUSHED,
    FORGOTTEN,
    GROUP_KEPT,
    KEPT,
    LEASED,
    LOST,
    NAMED,
    OPENED,
    REMOVED,
    STORED,
    WORK_KEPT,
    WORKLIST_KEPT,
    Removed,
)
from quinque.model.families import BY_CODE, TUBES, Family
from quinque.model.message import Message
from quinque.model.own_events import MOVED_BACK, NUMBERED, RENAMED, REPLACED, Renamed
from quinque.model.stage_events import AS_STAGE_EVENT
from quinque.model.tube_events import SESSION_ENDED, TUBE_KEPT
from quinque.stores.embedded.bodies import Bodies
from quinque.stores.embedded.changes import renamed
from quinque.stores.embedded.former_names import FormerNames
from quinque.stores.embedded.journal import pack_home, segment_of
from quinque.stores.embedded.node import Node
from quinque.stores.embedded.numbers import Numbers
from quinque.stores.embedded.record import Recorder
from quinque.stores.embedded.records import VERSION, Batch, read_records
from quinque.stores.embedded.recover_claims import KINDS as CLAIM_KINDS
from quinque.stores.embedded.recover_claims import finish_claims, replay_claim
from quinque.stores.embedded.recover_tubes import KINDS as TASK_KINDS
from quinque.stores.embedded.recover_tubes import end_session, finish_sessions, replay_tasks
from quinque.stores.embedded.staged import Stages

# Until a record says which it is.
_UNKNOWN: Final = Family("unknown", 0, "")

_AHEAD_MS: Final = 1_000  # a stamp is later than the clock when many are made at once

_WITH_BODY: Final = frozenset({STORED, KEPT, ADDED, WORK_KEPT, REPLACED})
_WITH_FAMILY: Final = frozenset({GROUP_KEPT, CONFIGURED, WORKLIST_KEPT, TUBE_KEPT})
_WITH_THE_GONE: Final = frozenset({EXPIRED, REMOVED, FLUSHED, FORGOTTEN})


@dataclass
class Recovered:
    """The contents of a data directory."""

    queues: dict[bytes, Queue] = field(default_factory=dict)
    sessions: Sessions = field(default_factory=Sessions)
    directory: Directory = field(default_factory=Directory)
    subscriptions: Subscriptions = field(default_factory=Subscriptions)
    stages: Stages = field(default_factory=Stages)
    node: Node = field(default_factory=Node)
    numbers: Numbers = field(default_factory=Numbers)
    former_names: FormerNames = field(default_factory=FormerNames)
    stamp_us: int = 0
    now_ms: int = 0
    records: int = 0
    messages: int = 0
    cut_bytes: int = 0
    cut_where: str = ""
    previous_bytes: int = 0  # what the segment read last says of the one before it
    record: Recorder | None = None  # gets what it does not have


def replay_batch(done: Recovered, bodies: Bodies, segment: int, batch: Batch, path: Path) -> None:
    """Apply the records of one batch. Raises JournalDamaged when one is of another version."""
    try:
        _replay_records(done, bodies, segment, batch, path)
    except (LookupError, TypeError, ValueError) as exc:
        raise JournalDamaged(
            f"{path} at byte {batch.start}: unknown record type; a newer version may have "
            "written it"
        ) from exc


def _replay_records(
    done: Recovered, bodies: Bodies, segment: int, batch: Batch, path: Path
) -> None:
    done.now_ms = max(done.now_ms, batch.now_ms)
    news = done.record
    if news is not None and not news.is_news(segment, batch.start, batch.now_ms, done.queues):
        news = None
    for record_start, record_end, record in read_records(batch):
        kind = record[0]
        if kind == OPENED:
            if not 1 <= record[1] <= VERSION:
                raise JournalDamaged(
                    f"{path} has version {record[1]}; this release reads version {VERSION} "
                    "and older"
                )
            done.stamp_us = max(done.stamp_us, record[3])
            done.previous_bytes = record[4]
        elif kind != LOST:
            done.records += 1
            if kind in _WITH_BODY:
                home = pack_home(segment, record_start, record_end - record_start)
                _replay_with_body(done, bodies, record, home)
                if news is not None:
                    news.tell(record, None, ())
            elif kind in TASK_KINDS:
                home = pack_home(segment, record_start, record_end - record_start)
                _replay_tasks(done, bodies, record, home, news)
            elif kind in CLAIM_KINDS:
                home = pack_home(segment, record_start, record_end - record_start)
                _replay_claim(done, bodies, record, home, news)
            elif kind in AS_STAGE_EVENT:
                home = pack_home(segment, record_start, record_end - record_start)
                _replay_stage(done, bodies, record, home)
                if news is not None:
                    news.tell(record, None, ())
            elif kind == NAMED:
                done.node.id, done.node.is_leaving = record[1], record[2]
                done.node.segment = segment
            elif kind == RENAMED:
                _replay_renamed(done, bodies, Renamed._make(record), segment, news)
            elif kind == SESSION_ENDED:
                end_session(done.sessions, record[1])
            elif kind == NUMBERED:
                done.numbers.note_newest(record[1], record[2])
                done.numbers.segment = segment
            else:
                queue = done.queues.get(record[1])
                gone = _replay_plain(done, bodies, record)
                if news is not None:
                    news.tell(record, queue, gone)
    bodies.committed()


def _replay_with_body(done: Recovered, bodies: Bodies, record: Any, home: int) -> None:
    """A record that holds messages."""
    kind = record[0]
    queue = _queue_of(done, bodies, record[1], record[2])
    if isinstance(queue, Worklist) and kind == ADDED and queue.ends_ms <= record[4]:
        # It is another: that the first one had ended is not on record, because the disk was full.
        bodies.went(queue.clear())
        del done.queues[queue.name]
        queue = _queue_of(done, bodies, record[1], record[2])
    if isinstance(queue, Worklist) and kind == REPLACED:
        old, message = apply_replaced(queue, record, home)
        bodies.went(old)
        messages: Sequence[Message] = [message]
        known: Mapping[bytes, Message] = {}
    elif isinstance(queue, Worklist):
        if kind == ADDED and queue.family.has_chosen_ids:
            # An id may be there again though no record says that the first one had gone.
            bodies.went(APPLY_TO_WORK[REMOVED](queue, Removed(REMOVED, record[1], record[7])))
        messages = APPLY_TO_WORK_WITH_BODY[kind](queue, record, home)
        known = queue.directory.by_id
        if queue.family.numbers_ids and messages:
            done.numbers.note(messages[-1].id)
    else:
        assert isinstance(queue, Feed)
        if kind == STORED and record[7] is not None:
            # An id may be there again though no record says that the first one had gone: it
            # expired when the disk was full, or the record was damaged.
            bodies.went(APPLY_TO_FEED[REMOVED](queue, Removed(REMOVED, record[1], record[7])))
        messages = APPLY_TO_FEED_WITH_BODY[kind](queue, record, home)
        known = queue.messages
        if kind == STORED and record[6] is not None:
            done.stamp_us = max(done.stamp_us, _made_stamp(record[7][0], done.now_ms))
    if messages:
        done.stamp_us = max(done.stamp_us, messages[-1].place)
        bodies.came(messages, record[-1] if kind == STORED or kind == ADDED else record[-1:])
    else:  # a message written again
        bodies.moved(known[record[3]], home, record[-1])


def _made_stamp(id: bytes, now_ms: int) -> int:
    """The stamp that the id of a message at the front was made of; its place is another. 0 if the
    id cannot be one: a client may choose any number, and time must not run ahead to that."""
    stamp_us = int(id) if id.isdigit() and len(id) < 20 else 0
    return stamp_us if stamp_us < (now_ms + _AHEAD_MS) * 1000 else 0


def _replay_tasks(
    done: Recovered, bodies: Bodies, record: Any, home: int, news: Recorder | None
) -> None:
    """A record that holds tasks of a tube."""
    tube = _queue_of(done, bodies, record[1], record[2])
    assert isinstance(tube, Tube)
    for change in replay_tasks(tube, bodies, record, home):
        if news is not None:
            news.tell(change, None, ())


def _replay_plain(done: Recovered, bodies: Bodies, record: Any) -> Sequence[Message]:
    """A record that is about messages that are there, or about a queue; the messages that went."""
    kind = record[0]
    queue = done.queues.get(record[1])
    event = AS_EVENT[kind](record)
    if kind in _WITH_FAMILY:
        queue = _queue_of(done, bodies, record[1], record[2])
    elif queue is None:
        if kind != LEASED:
            return ()
        # How far a group came stands in its Leased records too; a later one says whose queue.
        queue = _queue_of(done, bodies, record[1], _UNKNOWN.code)
    gone: Any = ()
    if kind == MOVED_BACK:
        done.stamp_us = max(done.stamp_us, record[3] + len(record[4]) - 1)
    if isinstance(queue, Tube):
        if kind in APPLY_TO_TUBE:
            gone = APPLY_TO_TUBE[kind](queue, event)
    elif isinstance(queue, Worklist):
        if kind in APPLY_TO_WORK:
            gone = APPLY_TO_WORK[kind](queue, event)
    elif isinstance(queue, Feed):
        if kind in APPLY_TO_FEED:
            gone = APPLY_TO_FEED[kind](queue, event)
        elif kind == FORGOTTEN:  # a worklist that was only asked for, after the feed had ended
            gone = list(queue.messages.values())
    if kind == FORGOTTEN:
        del done.queues[record[1]]
        if isinstance(queue, Worklist):
            done.former_names.forget(queue)
    if kind not in _WITH_THE_GONE:
        return ()
    bodies.went(gone)
    return cast(Sequence[Message], gone)


def _replay_renamed(
    done: Recovered, bodies: Bodies, event: Renamed, segment: int, news: Recorder | None
) -> None:
    """Rename a worklist. A worklist that is not known yet has the new name in later records."""
    queue = done.queues.pop(event.queue, None)
    other = done.queues.pop(event.new_name, None)
    gone: Sequence[Message] = ()
    if isinstance(other, Worklist):
        gone = other.clear()
        done.former_names.forget(other)
    if news is not None:
        news.tell(event, other, gone)
    bodies.went(gone)
    if isinstance(queue, Worklist):
        APPLY_TO_WORK[RENAMED](queue, event)
        done.queues[event.new_name] = queue
        done.former_names.add(queue, segment)
        if news is not None:
            for change in renamed(queue, event.queue, bodies.size_of):
                news.tell(change, None, ())


def _replay_claim(
    done: Recovered, bodies: Bodies, record: Any, home: int, news: Recorder | None
) -> None:
    place = replay_claim(
        done.subscriptions,
        lambda name, code: _queue_of(done, bodies, name, code),
        bodies,
        record,
        home,
        None if news is None else lambda change: news.tell(change, None, ()),
    )
    done.stamp_us = max(done.stamp_us, place)


def _replay_stage(done: Recovered, bodies: Bodies, record: Any, home: int) -> None:
    event = AS_STAGE_EVENT[record[0]](record)
    changed = done.stages.apply(event, home, segment_of(home))
    bodies.came(changed.came, [it.body for it in changed.came if it.body is not None])
    bodies.went(changed.went)


def _queue_of(done: Recovered, bodies: Bodies, name: bytes, code: int) -> Queue:
    """The queue of that name and family; one of another family had come to its end before."""
    queue = done.queues.get(name)
    if queue is not None and queue.family.code == code:
        return queue
    family = BY_CODE[code] if code else _UNKNOWN
    if isinstance(queue, Worklist):
        bodies.went(queue.clear())  # unless records are lost there is nothing left
    elif isinstance(queue, Feed):
        bodies.went(queue.messages.values())  # the same
    if family is TUBES:
        queue = Tube(name, done.sessions, done.now_ms, in_order=False)
    elif family.is_worklist:
        queue = Worklist(name, family, done.directory, done.now_ms, in_order=False)
    elif queue is None or queue.family is not _UNKNOWN:
        queue = Feed(name, family, in_order=False)
    queue.family = family
    done.queues[name] = queue
    return queue


def finish(done: Recovered, bodies: Bodies) -> None:
    """Messages are in order, and queues and groups that came to nothing are dropped."""
    finish_claims(
        done.subscriptions,
        done.queues,
        lambda name, code: _queue_of(done, bodies, name, code),
        bodies,
    )
    for name in list(done.queues):
        queue = done.queues[name]
        if isinstance(queue, Worklist):
            queue.bring_into_order()
            is_over = False  # one that has been idle is forgotten when its alarm comes, on record
            done.messages += queue.size
        else:
            assert isinstance(queue, Feed)
            queue.relink()
            is_over = queue.is_empty
            done.messages += len(queue.messages)
        if is_over:
            del done.queues[name]
    finish_sessions(done.sessions)
