"""The record of what happened to every message: made of what the journal wrote, kept beside it.

Called by   store.py (after each commit, and to read), recover.py (what the journal has and the
            record has not).
Calls       changes.py (what events say), record_files.py (where entries are kept).

Events that were committed wait, as they are, until there are some hundred or a client reads the
record; then they are written as entries. A frame says how far in the journal it has come, so that
no entry is missing or double, whenever the process ends: recovery adds the rest.

The record never holds up the broker, and leaves the last SPARE_BYTES of the disk to the journal.
When there is no more room its oldest file goes; when there is only one, the newest rows wait in
memory, and past BACKLOG_BYTES they are lost: their numbers are missing.

Not here: what an entry says (model/lifecycle.py), the bytes (record_frames.py).
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from quinque.engine.queue import Queue
from quinque.errors import BadArgument
from quinque.model.events import FLUSHED, FORGOTTEN
from quinque.model.look_ops import FindRecords, ReadRecord, Record
from quinque.model.own_events import RENAMED
from quinque.stats.tally import Tally
from quinque.stores.clock import Clock
from quinque.stores.embedded.changes import Changes, Counted, Purging, purged
from quinque.stores.embedded.journal import Journal
from quinque.stores.embedded.record_files import RecordFiles
from quinque.stores.embedded.record_frames import Frame, Position, frame_bytes
from quinque.stores.keeping import Keeping as Keeping

FOLDER: Final = "lifecycle"
FILE_BYTES: Final = 16 << 20
# Tests make some of these small. Those are not Final: compiled, they could not be changed.
FRAME_BYTES = 64 << 10
BACKLOG_BYTES = 8 << 20
# Some hundred events are half a millisecond's work; and they hold on to bodies until then. Half of
# the notes are events where a turn has only one.
_NOTES_MOST = 500
# While more notes than this wait for a queue that is being emptied, the queue is emptied faster.
WAITING_MOST = 10_000
# Notes that had to wait for a long one are written in several turns, this many in each.
_WRITE_MOST: Final = 2_000
_JOURNAL_BYTES_MOST: Final = 256 << 10
_RETIRE_MS: Final = 10_000
_READ_ROWS_MOST: Final = 100_000
_TAKES_ALL: Final = frozenset({FLUSHED, FORGOTTEN, RENAMED})  # that was in a queue
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

log = logging.getLogger("quinque.lifecycle")


class Recorder:
    def __init__(self, folder: Path, keeping: Keeping, segments: range, clock: Clock) -> None:
        """The record of the folder, whose journal has these segments. Raises OSError."""
        self._keeping = keeping
        self._clock = clock
        self._files = files = RecordFiles(folder / FOLDER)
        self._journal_bytes = 0
        self._unwritten: list[tuple[bytes, int, int, int]] = []  # frame, first row, rows, at_ms
        self._retired_ms = 0
        self.lost_rows = 0
        self.failure = ""
        self.tally = Tally()  # of changes while the broker works
        self._unkept = Counted(0)
        self._begin_from(files.last, segments)
        # Events; after those of a turn that was committed, its at_ms.
        self._notes: list[Any] = []
        self._bare = 0  # how many of the first notes have no bodies
        self._events = 0  # how many of the first notes are events of one turn, if that is known
        # Whether some of them that were committed wait: for messages that are being removed, or for
        # their turn after those.
        self.is_behind = False
        self._journal: Journal | None = None
        self._queues: Mapping[bytes, Queue] = {}
        self._knows = False
        self.runners: dict[type, Callable[[Any], Any]] = {
            FindRecords: self._find_records,
            ReadRecord: self._read_record,
        }

    def _begin_from(self, last: Frame | None, segments: range) -> None:
        """Prepare to add what the journal, which has these segments, has beyond that frame."""
        number = self._files.next
        self._position = (0, 0)
        self._is_telling = False
        skipped = 0
        if last is not None and not last.is_end and last.position.segment in segments:
            segment, offset, skipped = last.position
            self._position = (segment, offset)
            self._is_telling = True
        elif self._files.were_any and (last is None or not last.is_end):
            log.warning(
                "an unknown number of state changes after row %d is missing in the lifecycle log",
                number - 1,
            )
            number += 1
        self._changes = Changes(number)
        self._changes.skipped = skipped
        self._position_row = number - skipped  # the first row after that position
        self._framed = number  # the first row that is in no frame

    # -- while the journal is read back ------------------------------------------------------

    def is_news(self, segment: int, start: int, at_ms: int, queues: Mapping[bytes, Queue]) -> bool:
        """Whether the batch there is not on record yet. If so, its events come next."""
        if not self._is_telling or (segment, start) < self._position:
            return False
        if not self._knows:
            self._changes.know(queues)
            self._knows = True
        self._changes.at_ms = at_ms
        return True

    def tell(self, record: Any, queue: Queue | None, gone: Any) -> None:
        """Add a journaled event to the record; `gone` are the messages that it removed."""
        self._changes.tell(record)
        if record[0] in _TAKES_ALL and queue is not None and gone:
            self._changes.tell(purged(queue, gone))
        if self._changes.size_bytes >= FRAME_BYTES:
            self._end_frame()

    def is_ahead(self, journal: Journal) -> bool:
        """Whether the record had more than the journal, as when the power went before the journal
        was synced. The surplus is cut off, and the journal after the rest must be read again."""
        segment = max(journal.sizes)
        if not self._is_telling or not self._files.cut_beyond(segment, journal.sizes[segment]):
            return False
        self._unwritten = []
        self._knows = False
        self._begin_from(self._files.last, range(segment + 1))
        return True

    def start(self, journal: Journal, queues: Mapping[bytes, Queue]) -> None:
        """Finish recovery: the whole journal is on record. If recording is on, go on recording."""
        self._files.is_open()
        self._journal = journal
        self._queues = queues
        changes = self._changes
        changes.skipped = 0
        self._bare = 0
        if changes.entries:
            self._end_frame()
        changes.at_ms = self._clock.now_us() // 1000
        last = self._files.last
        self._position = (journal.segment, journal.sizes[journal.segment])
        self._position_row = changes.number
        if self._keeping.is_on:
            changes.know(queues)
            self._end_frame()
            self._notes = []
            journal.notes = self._notes
            journal.before_drop = self.settle
        elif self._files.were_any and (last is None or not last.is_end):
            self._end_frame(is_end=True)
        if self._keeping.is_counting:
            self.count()
        self._flush()
        self._sync()  # from here on there is a position to go on from
        self._retire()

    def count(self) -> None:
        """Count state changes from here on, also if recording is off."""
        journal = self._journal
        self._changes.tally = self._unkept.tally = self.tally
        if journal is not None and journal.notes is None:
            self._changes.know(self._queues)
            self._notes = []
            journal.notes = self._notes

    def count_unkept(self, event: Any) -> None:
        """Count an event that is not journaled, and so never on record, if counting is on."""
        self._unkept.tell(event)

    # -- while the broker works --------------------------------------------------------------

    def committed(self, journal: Journal, at_ms: int) -> None:
        """The journal has committed the appended events: note them, and write if there are many."""
        notes = self._notes
        if notes and not isinstance(notes[-1], int):
            notes.append(at_ms)
            self._journal_bytes += journal.batch_bytes
            if len(notes) >= _NOTES_MOST or self._journal_bytes >= _JOURNAL_BYTES_MOST:
                self.write()
                if self.is_behind and self._journal_bytes >= _JOURNAL_BYTES_MOST:
                    self._drop_bodies()
                return
        if self.is_behind:
            self.write()

    @property
    def is_far_behind(self) -> bool:
        """Whether many notes wait for messages that are being removed."""
        return self.is_behind and len(self._notes) > WAITING_MOST

    def write(self, most: int = _WRITE_MOST) -> None:
        """Write committed events to the file, or keep them until there is room. One call writes
        about `most` notes. `is_behind` is True while more are left, and while a note waits for
        messages that are being removed."""
        changes, notes, journal = self._changes, self._notes, self._journal
        self.is_behind = False
        done = self._tell_notes(most)
        del notes[:done]
        self._bare = max(0, self._bare - done)
        if done and journal is not None and not self.is_behind:
            self._journal_bytes = 0
            self._position = (journal.segment, journal.sizes[journal.segment])
            self._position_row = changes.number
        if changes.entries:
            self._put_away()
        if self._unwritten:
            self._flush()
        if self._changes.at_ms - self._retired_ms >= _RETIRE_MS:
            self._retire()

    def _tell_notes(self, most: int) -> int:
        """Turn the notes of committed turns into entries; return how many. This ends after about
        `most` notes, or before one that is not complete yet."""
        changes, notes = self._changes, self._notes
        done = 0
        known, self._events = self._events, 0
        for at in range(known, len(notes)):
            note = notes[at]
            if not isinstance(note, int):
                continue
            changes.at_ms = note
            for number in range(done, at):
                event = notes[number]
                if isinstance(event, Purging):
                    changes.tell(event.take())
                    if not event.is_over:
                        self.is_behind = True
                        self._events = at - done  # there may be very many
                        return done
                else:
                    changes.tell(event)
                done += 1
                if changes.size_bytes >= FRAME_BYTES:
                    self._put_away()
            done = at + 1
            if done >= most:
                self.is_behind = done < len(notes)
                break
        return done

    def _drop_bodies(self) -> None:
        """Keep the sizes of bodies in the notes, which are all committed and may wait for long. The
        journal has the bodies."""
        notes, bare = self._notes, self._bare
        without_bodies = self._changes.without_bodies
        notes[bare:] = [without_bodies(note) for note in notes[bare:]]
        self._bare = len(notes)
        self._journal_bytes = 0

    def settle(self) -> None:
        """Bring all committed events to the disk, if it has room, so that the journal may drop
        them. No messages are being removed that the journal names."""
        self.write(len(self._notes))
        self._end_frame()
        self._flush()
        self._sync()

    def info(self) -> dict[str, int | str]:
        self.write()
        files = self._files
        status = "ok" if self._keeping.is_on else "off"
        return {
            "lifecycle_status": "failing" if self.failure else status,
            "lifecycle_rows": files.next - files.files[0].first if files.files else 0,
            "lifecycle_next_row": files.next,
            "lifecycle_bytes": files.total_bytes,
            "lifecycle_lost_rows": self.lost_rows,
        }

    def close(self) -> None:
        """Write the committed events to the disk, if it has room, and close the files."""
        self.write(len(self._notes))
        try:
            self._files.close()
        except OSError as exc:
            self._fail(exc)

    def let_go(self) -> None:
        """The files are closed as they are."""
        self._files.let_go()

    # -- looking -----------------------------------------------------------------------------

    def _find_records(self, op: FindRecords) -> list[Record]:
        self.write()
        self._retire()
        files = self._files.files
        if not files:
            return []
        log = self._journal.store_number if self._journal is not None else 0
        return [Record(0, files[0].first, self._files.next, files[0].first_ms, log)]

    def _read_record(self, op: ReadRecord) -> list[bytes]:
        if op.shard:
            raise BadArgument(f"no shard {op.shard}")
        if self._notes and op.start + op.count > self._files.next:
            self.write()
        if op.start >= self._files.next:
            return []
        try:
            return self._files.read(max(1, op.start), min(max(1, op.count), _READ_ROWS_MOST))
        except OSError as exc:
            log.error("cannot read the lifecycle log: %s", exc.strerror)
            return []

    # -- shared steps ------------------------------------------------------------------------

    def _put_away(self) -> None:
        """The entries there are go on record; or they were counted, and that was all."""
        if self._keeping.is_on:
            self._end_frame()
        else:
            self._changes.take()
            self._framed = self._changes.number

    def _end_frame(self, *, is_end: bool = False) -> None:
        """Make a frame of the entries and of the position in the journal, to be written later."""
        changes = self._changes
        first, rows = self._framed, changes.number - self._framed
        position = Position(*self._position, changes.number - self._position_row)
        entries = changes.take()
        data = frame_bytes(first, rows, entries, changes.at_ms, position, is_end=is_end)
        self._unwritten.append((data, first, rows, changes.at_ms))
        self._framed = changes.number

    def _flush(self) -> None:
        """Frames are written, as far as there is room."""
        most_bytes = self._keeping.max_bytes
        file_bytes = min(FILE_BYTES, most_bytes // 8) if most_bytes else FILE_BYTES
        done = 0
        while done < len(self._unwritten):
            try:
                self._files.append(*self._unwritten[done], file_bytes)
            except OSError as exc:
                if exc.errno in _NO_ROOM and len(self._files.files) > 1:
                    self._files.drop_oldest()
                    continue
                self._fail(exc)
                break
            self.failure = ""
            done += 1
        del self._unwritten[:done]
        self._limit_backlog()

    def _sync(self) -> None:
        try:
            self._files.sync()
        except OSError as exc:
            self._fail(exc)

    def _limit_backlog(self) -> None:
        size_bytes = sum(len(frame[0]) for frame in self._unwritten)
        while size_bytes > BACKLOG_BYTES:
            data, _, rows, _ = self._unwritten.pop(0)
            size_bytes -= len(data)
            self.lost_rows += rows

    def _fail(self, exc: OSError) -> None:
        if not self.failure:
            log.error("cannot write the lifecycle log: %s", exc.strerror)
        self.failure = exc.strerror or str(exc)

    def _retire(self) -> None:
        """Files that are too old, or too much, are gone; and names of queues that are."""
        self._retired_ms = now_ms = self._clock.now_us() // 1000
        files, keeping = self._files, self._keeping
        while len(files.files) > 1 and (
            0 < keeping.max_bytes < files.total_bytes
            or (keeping.max_age_ms and files.files[1].first_ms < now_ms - keeping.max_age_ms)
        ):
            try:
                files.drop_oldest()
            except OSError as exc:
                self._fail(exc)
                return
        if not self._notes and len(self._changes.families) > 2 * len(self._queues) + 1_000:
            self._changes.know(self._queues)
        self.tally.forget_all_but(self._queues)
