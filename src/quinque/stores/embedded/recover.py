"""Read a folder back: apply every record, in the order it was written.

Called by   store.py when it opens; survey.py and copy_out.py read with it and change nothing.
Calls       records.py (bytes), engine/feed/apply.py (rules).

A torn tail, which a crash leaves and nobody was told of, is cut and reported. Anything else that
does not match its checksum stops the start: it was acknowledged, and dropping it silently is the
one thing a queue must not do.

Not here: going on after the last record (journal.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, cast

from quinque.engine.claims.subscription import Subscriptions
from quinque.engine.feed.apply import APPLY as APPLY_TO_FEED
from quinque.engine.feed.apply import APPLY_WITH_BODY as APPLY_TO_FEED_WITH_BODY
from quinque.engine.feed.feed import Feed
from quinque.engine.queue import Queue
from quinque.engine.work.apply import APPLY as APPLY_TO_WORK
from quinque.engine.work.apply import APPLY_WITH_BODY as APPLY_TO_WORK_WITH_BODY
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
from quinque.model.families import BY_CODE, Family
from quinque.model.message import Message
from quinque.model.stage_events import AS_STAGE_EVENT
from quinque.stores.clock import Clock
from quinque.stores.embedded.bodies import Bodies
from quinque.stores.embedded.journal import SUFFIX, Journal, pack_home, segment_of
from quinque.stores.embedded.node import Node
from quinque.stores.embedded.record import Recorder
from quinque.stores.embedded.records import VERSION, Batch, Damage, read_batches, read_records
from quinque.stores.embedded.recover_claims import KINDS as CLAIM_KINDS
from quinque.stores.embedded.recover_claims import finish_claims, replay_claim
from quinque.stores.embedded.staged import Stages

# Until a record says which it is.
_UNKNOWN: Final = Family("unknown", 0, "")

_WITH_BODY: Final = frozenset({STORED, KEPT, ADDED, WORK_KEPT})
_WITH_FAMILY: Final = frozenset({GROUP_KEPT, CONFIGURED, WORKLIST_KEPT})
_WITH_THE_GONE: Final = frozenset({EXPIRED, REMOVED, FLUSHED, FORGOTTEN})


@dataclass
class Recovered:
    """What a folder held."""

    queues: dict[bytes, Queue] = field(default_factory=dict)
    directory: Directory = field(default_factory=Directory)
    subscriptions: Subscriptions = field(default_factory=Subscriptions)
    stages: Stages = field(default_factory=Stages)
    node: Node = field(default_factory=Node)
    stamp_us: int = 0
    now_ms: int = 0
    records: int = 0
    messages: int = 0
    cut_bytes: int = 0
    cut_where: str = ""
    previous_bytes: int = 0  # what the segment read last says of the one before it
    record: Recorder | None = None  # is told what it does not have


def segment_paths(folder: Path) -> list[tuple[int, Path]]:
    """The segments of a folder, oldest first. Raises JournalDamaged when one is missing."""
    found = sorted(
        (int(path.stem), path) for path in folder.glob("*" + SUFFIX) if path.stem.isdecimal()
    )
    for (number, _), (following, path) in pairwise(found):
        if following != number + 1:
            raise JournalDamaged(f"segment {number + 1} is missing before {path.name}")
    return found


def segments(folder: Path) -> range:
    """Their numbers. Raises JournalDamaged when one is missing."""
    numbers = [number for number, _ in segment_paths(folder)]
    return range(numbers[0], numbers[-1] + 1) if numbers else range(0)


def recover(
    journal: Journal, bodies: Bodies, clock: Clock, record: Recorder | None = None
) -> Recovered:
    """The queues of the folder; the journal is ready to go on after the last record, and so is the
    record of changes.

    Raises JournalDamaged.
    """
    done = read_segments(journal, bodies, os.O_RDWR, record)
    clock.start_from(max(done.now_ms * 1000, done.stamp_us))
    newest = max(journal.files, default=0)
    if newest and journal.sizes[newest]:
        journal.resume(newest, journal.sizes[newest])
    else:
        if newest:  # a segment of which not even the first batch got to the disk
            journal.drop(newest)
        journal.open_segment(max(newest, 1), done.stamp_us, clock.now_us() // 1000)
    if record is not None:
        if record.is_ahead(journal):
            _retell(journal.folder, record)
        record.start(journal, done.queues)
    return done


def read_segments(
    journal: Journal, bodies: Bodies, access: int, record: Recorder | None = None
) -> Recovered:
    """The queues of the folder; its segments are open as `access` says. Raises JournalDamaged."""
    done = Recovered(record=record)
    paths = segment_paths(journal.folder)
    end = 0
    for at, (number, path) in enumerate(paths):
        file = os.open(path, access | os.O_CLOEXEC)
        journal.files[number] = file
        data = read_whole(file)
        previous_end, end = (
            end,
            replay(done, bodies, number, data, is_last=number == paths[-1][0], path=path),
        )
        if at and end and previous_end != done.previous_bytes:
            why = f"it ends here, and was {done.previous_bytes} bytes long"
            raise _damaged(paths[at - 1][1], previous_end, why)
        journal.sizes[number] = end
    finish(done, bodies)
    return done


def _retell(folder: Path, record: Recorder) -> None:
    """The record is told what it does not have. Raises JournalDamaged."""
    journal = Journal(folder, "no", 0)
    try:
        read_segments(journal, Bodies(journal, maxmemory=1), os.O_RDONLY, record)
    finally:
        journal.let_go()


def replay(
    done: Recovered, bodies: Bodies, segment: int, data: bytes, *, is_last: bool, path: Path
) -> int:
    """Apply all of a segment's records; the offset where its last batch ends."""
    end = 0
    for found in read_batches(data):
        if isinstance(found, Damage):
            if not (is_last and found.is_torn):
                raise _damaged(path, found.at, found.why)
            done.cut_bytes = len(data.rstrip(b"\0")) - found.at
            done.cut_where = f"{path} at byte {found.at}: {found.why}"
            break
        replay_batch(done, bodies, segment, found, path)
        end = found.end
    if not end and not is_last:
        raise _damaged(path, 0, "there is nothing in it")
    return end


def replay_batch(done: Recovered, bodies: Bodies, segment: int, batch: Batch, path: Path) -> None:
    """Apply the records of one batch. Raises JournalDamaged when one is of another version."""
    try:
        _replay_records(done, bodies, segment, batch, path)
    except (LookupError, TypeError, ValueError) as exc:
        raise JournalDamaged(
            f"{path} at byte {batch.start}: a record that this version does not know"
        ) from exc


def _damaged(path: Path, at: int, why: str) -> JournalDamaged:
    return JournalDamaged(
        f"{path} at byte {at}: {why}. See what can be saved with: quinque check {path.parent}"
    )


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
            if record[1] != VERSION:
                raise JournalDamaged(f"{path} has version {record[1]}; this is for {VERSION}")
            done.stamp_us = max(done.stamp_us, record[3])
            done.previous_bytes = record[4]
        elif kind != LOST:
            done.records += 1
            if kind in _WITH_BODY:
                home = pack_home(segment, record_start, record_end - record_start)
                _replay_with_body(done, bodies, record, home)
                if news is not None:
                    news.tell(record, None, ())
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
    if isinstance(queue, Worklist):
        messages: Sequence[Message] = APPLY_TO_WORK_WITH_BODY[kind](queue, record, home)
        known: Mapping[bytes, Message] = done.directory.by_id
    else:
        assert isinstance(queue, Feed)
        if kind == STORED and record[7] is not None:
            # An id may be there again though no record says that the first one had gone: it
            # expired when the disk was full, or the record was damaged.
            bodies.went(APPLY_TO_FEED[REMOVED](queue, Removed(REMOVED, record[1], record[7])))
        messages = APPLY_TO_FEED_WITH_BODY[kind](queue, record, home)
        known = queue.messages
    if messages:
        done.stamp_us = max(done.stamp_us, messages[-1].place)
        bodies.came(messages, record[-1] if kind == STORED or kind == ADDED else record[-1:])
    else:  # a message written again
        bodies.moved(known[record[3]], home, record[-1])


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
    if isinstance(queue, Worklist):
        if kind in APPLY_TO_WORK:
            gone = APPLY_TO_WORK[kind](queue, event)
    elif isinstance(queue, Feed):
        if kind in APPLY_TO_FEED:
            gone = APPLY_TO_FEED[kind](queue, event)
        elif kind == FORGOTTEN:  # a worklist that was only asked for, after the feed had ended
            gone = list(queue.messages.values())
    if kind == FORGOTTEN:
        del done.queues[record[1]]
    if kind not in _WITH_THE_GONE:
        return ()
    bodies.went(gone)
    return cast(Sequence[Message], gone)


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
    if family.is_worklist:
        queue = Worklist(name, family, done.directory, done.now_ms, in_order=False)
    elif queue is None or queue.family is not _UNKNOWN:
        queue = Feed(name, family, in_order=False)
    queue.family = family
    done.queues[name] = queue
    return queue


def finish(done: Recovered, bodies: Bodies) -> None:
    """Messages are in order, and queues and groups that came to nothing are dropped."""
    finish_claims(done.subscriptions, lambda name, code: _queue_of(done, bodies, name, code))
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


def read_whole(file: int) -> bytes:
    size_bytes = os.fstat(file).st_size
    parts: list[bytes] = []
    at = 0
    while at < size_bytes and (part := os.pread(file, size_bytes - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)
