"""A driver at work in its tube: its space, its calls, its time.

Called by   driver_operations.py.
Calls       the driver, driver_events.py (what it did), tubes.py (journals it and makes it true).

A call of a driver is one operation. When it returns, the changes of its rows are journaled. If it
raises, or the journal refuses, all rows are as they were. Then a new instance replaces the driver,
whose own state may be wrong, unless the driver refused the request with a QuinqueError.

A driver that fails where no client waits for an answer (its time has come, a session has ended) is
not called for a while.

Not here: which calls an operation is (driver_operations.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgpack

from quinque.drivers.driver import EVENTS, Maker
from quinque.drivers.registry import refuse_incomplete
from quinque.drivers.space import DONE, ID, READY, STATE, STATES, Row, Space
from quinque.engine.tubes.task import Task
from quinque.engine.tubes.tube import Tube, let_go
from quinque.errors import BadArgument, DriverFailed, QuinqueError, TouchRefused
from quinque.model.events import FLUSHED, Flushed
from quinque.model.limits import NEVER_MS
from quinque.model.message import Message
from quinque.model.states import State
from quinque.model.tube_events import TaskKept, TasksPut
from quinque.model.tube_ops import CALL_ACK, CALLS, TaskView, TubeSettings
from quinque.stores.embedded.driver_events import LETTERS, Call, events_of, row_of
from quinque.stores.embedded.journal import SPARE_BYTES
from quinque.stores.embedded.tubes import Tubes

ROUNDS_MOST: Final = 100  # calls of on_time() at a time
REST_MS: Final = 10_000  # how long a driver that failed is left alone
FAILURES_MOST: Final = 10  # in a row, before it is

R = TypeVar("R")

_STATES: Final = {letter: State(state) for state, letter in LETTERS.items()}

log = logging.getLogger("quinque.drivers")


class Seat:
    """`driver` is None when none could be made since the last one failed."""

    def __init__(
        self, tubes: Tubes, tube: Tube, maker: Maker, kind: bytes, settings: TubeSettings
    ) -> None:
        """Make a space with the tube's rows; the driver does not run yet. Raises DriverFailed,
        JournalDamaged, and what the driver refuses the tube's options with."""
        self.tube = tube
        self.driver: Any = None
        self._tubes = tubes
        self._maker = maker
        self._kind = kind
        self._options = unpacked(settings.options)
        self._call: Call | None = None
        self._rest_ms = 0  # until when it is called only for clients that wait
        self._orphans: list[int] = []  # tasks that are taken without a session
        self._orphans_ms = 0  # when the driver is asked for them
        name = tube.name.decode("utf-8", "surrogateescape")
        try:
            rows = self._rows()
            space = maker.create_space(name, self._options)
            if not isinstance(space, Space):
                raise TypeError(
                    f"create_space() returned {type(space).__name__} instead of a Space"
                )
            space.load(rows, tube.number)
            self.space = space
            self._let_body_go(*tube.all())
        except QuinqueError:
            raise
        except (Exception, SystemExit) as exc:
            raise self._failure("create_space", exc) from exc

    # -- calls -----------------------------------------------------------------------------------

    def call(self, word: str, now_ms: int, work: Callable[[], R], call: Call | None = None) -> R:
        """Journal all changes that `work` makes to the rows and keep them, or undo them all.

        Raises DriverFailed, QuinqueError when the driver refuses, DiskFull, StoreUnavailable.
        """
        self._call = call = call or Call()
        space, tube = self.space, self.tube
        space.begin(now_ms)
        is_refused = is_over = False
        try:
            try:
                result = work()
            except QuinqueError:
                is_refused = True
                raise
            changes = space.changes()
            if call.is_truncation and not space:
                space.restart_ids()
                events: Sequence[Any] = [Flushed(FLUSHED, tube.name)]
            else:
                events = events_of(tube, changes, call, now_ms)
            is_over = True
            self._keep(events)
        except BaseException as exc:
            space.undo()
            self._call = None
            if not is_refused:
                self._renew(now_ms, word)
            if isinstance(exc, TouchRefused):
                raise TouchRefused(self._kind) from None
            # A failure after the driver's part is not a failure of the driver.
            if is_over or isinstance(exc, QuinqueError):
                raise
            if not isinstance(exc, (Exception, SystemExit)):
                raise
            raise self._failure(word, exc) from exc
        space.end()
        self._call = None
        self._tell(call, has_news=any(row is None for _, _, row in changes))
        return result

    def view(self, task: Row, was: Row | None = None) -> TaskView:
        """The task as consumers see it; one that is gone as it `was`. Within a call."""
        row = self.space.get(task[ID])
        if row is None:
            row = task if was is None else (task[ID], DONE, *was[STATE + 1 :])
        shown = self.driver.normalize_task(row)
        if len(shown) != 3 or not isinstance(shown[2], bytes):
            raise TypeError(
                f"normalize_task() returned {shown!r:.100} instead of (id, state, bytes)"
            )
        return TaskView(b"%d" % row[ID], _STATES.get(row[STATE]), shown[2])

    def on_task_change(self, task: Sequence[Any] | None, event: str | None = None) -> None:
        """The driver calls this to report that a task has changed."""
        if self._call is None:
            raise RuntimeError("on_task_change() can be used only during a call of the driver")
        if event is not None and event not in EVENTS:
            raise ValueError(f"unknown event {event!r:.100}: use one of {', '.join(EVENTS)}")
        if task is not None:
            if len(task) <= STATE or task[STATE] not in (*STATES, DONE):
                raise ValueError(f"{task!r:.100} is not a task: a task has an id and a state")
            self._call.told.append((tuple(task), event))

    def _keep(self, events: Sequence[Any]) -> None:
        """The events are journaled and true, all of them or none."""
        tubes, tube = self._tubes, self.tube
        calls, done = list(tube.calls), tube.done
        spare_bytes = tubes.journal.bytes_of(events[1:])
        if any(isinstance(event, TasksPut) for event in events):
            spare_bytes += SPARE_BYTES
        for event in events:
            if isinstance(event, TasksPut):
                tubes.put(tube, [event], spare_bytes)
                self._let_body_go(tube.directory.by_id[b"%d" % event.number])
            else:
                tubes.append(tube, event, spare_bytes)
                if isinstance(event, TaskKept):
                    task = tubes.replace(tube, event)
                    self._let_body_go(task)
                    if not event.session:
                        let_go(task)
                        if task.state == State.LEASED:
                            self._orphans.append(int(task.id))
                else:
                    tubes.apply(tube, event)
            spare_bytes = 0
        # It is the driver who says what is counted.
        tube.calls[:] = calls
        tube.done = done

    def _let_body_go(self, *tasks: Message) -> None:
        """Drop the bodies of journaled tasks from memory, where the rows already are."""
        if not self.tube.settings.is_temporary:
            self._tubes.bodies.leave(tasks)

    def _tell(self, call: Call, *, has_news: bool) -> None:
        """Count the events that the driver reported, and wake readers if there may be a task."""
        tube = self.tube
        for task, event in call.told:
            if event is not None:
                counted = CALL_ACK if call.is_ack and event == "delete" else CALLS.index(event)
                tube.calls[counted] += 1
                tube.done += event == "delete"
            has_news = has_news or task[STATE] == READY
        if has_news:
            self._tubes.books.ready.add(tube.name)

    # -- time ------------------------------------------------------------------------------------

    def settle(self, now_ms: int) -> None:
        """Carry out what is due, in at most ROUNDS_MOST calls, and set when something is due next.
        Log a driver that fails."""
        while self.tube.dues.next_ms <= now_ms:  # a hundred years after a delay of the driver's
            self.tube.dues.take(now_ms, ROUNDS_MOST)
        if self._orphans and self._orphans_ms <= now_ms:
            self._try_to_release(self._orphans, now_ms)
            self._look_after_orphans(now_ms)
        for _ in range(ROUNDS_MOST):
            if self._due_ms() > now_ms:
                break
            try:
                self._make_progress(now_ms)
            except QuinqueError as exc:
                log.error("driver of tube %s failed: %s", self.space.name, exc)
                self._rest_ms = now_ms + REST_MS
        self.set_soonest()

    def set_soonest(self) -> None:
        """The tube is looked at again when something is next due."""
        due_ms = min(self._due_ms(), self.tube.dues.next_ms)
        self.tube.soonest_ms = min(due_ms, self._orphans_ms) if self._orphans else due_ms

    def release(self, tasks: Sequence[Task], now_ms: int) -> None:
        """Make the tasks of ended sessions ready. If the driver fails, they stay taken without a
        session, and the driver is asked again later."""
        self._try_to_release([int(task.id) for task in tasks], now_ms)
        for task in tasks:
            let_go(task)
        self._orphans += [int(task.id) for task in tasks]
        self._look_after_orphans(now_ms)
        self.set_soonest()

    def _due_ms(self) -> int:
        due_ms: Any = None
        try:
            if hasattr(self.driver, "next_event_ms"):
                due_ms = self.driver.next_event_ms()
            if due_ms is None:
                return NEVER_MS
            return max(int(due_ms), self._rest_ms)
        except Exception as exc:
            self._rest_ms = self.space.now_ms + REST_MS
            log.error(
                "driver of tube %s failed: %s", self.space.name, self._failure("next_event_ms", exc)
            )
            return self._rest_ms

    def _make_progress(self, now_ms: int) -> None:
        before_ms = self._due_ms()
        changed: list[bool] = []

        def on_time() -> None:
            self.driver.on_time(now_ms)
            changed.append(bool(self.space.changes()))

        self.call("on_time", now_ms, on_time)
        if not changed[0] and self._due_ms() == before_ms:
            raise DriverFailed(
                self._kind, "on_time() changed nothing, and next_event_ms() is in the past"
            )

    def _try_to_release(self, ids: Sequence[int], now_ms: int) -> None:
        """As many as the driver does not fail with are ready, unless it fails with many."""
        left = [ids]
        failures = 0
        while left and failures < FAILURES_MOST:
            some = left.pop(0)
            try:
                self._release(some, now_ms)
            except QuinqueError as exc:
                failures += 1
                log.error("driver of tube %s failed: %s", self.space.name, exc)
                if len(some) > 1:
                    left += [[id] for id in some]

    def _release(self, ids: Sequence[int], now_ms: int) -> None:
        def release() -> None:
            for id in ids:
                self.driver.release(id, {})

        self.call("release", now_ms, release, Call(is_session_over=True))

    def _look_after_orphans(self, now_ms: int) -> None:
        """Keep the orphans that are still taken without a session; ask the driver later."""
        self._orphans_ms = now_ms + REST_MS
        tasks = [self.tube.find(b"%d" % id) for id in self._orphans]
        self._orphans = [
            int(task.id)
            for task in tasks
            if isinstance(task, Task) and task.state == State.LEASED and task.holder is None
        ]

    # -- the instance ----------------------------------------------------------------------------

    def sit_down(self) -> None:
        """There is a driver, which has not begun. Raises DriverFailed, and what it refuses the
        tube's options with."""
        self.driver = None
        try:
            driver = self._maker.new(self.space, self.on_task_change, self._options)
            refuse_incomplete(self._kind.decode("utf-8", "surrogateescape"), driver)
        except QuinqueError:
            raise
        except (Exception, SystemExit) as exc:
            raise self._failure("new", exc) from exc
        self.driver = driver

    def start(self, now_ms: int) -> None:
        """Start the driver; tasks taken without a session come back. Raises DriverFailed."""
        if self.driver is None:
            self.sit_down()
        if self.tube.leased:
            self._orphans = [int(task.id) for task in self.tube.all()]
            self._look_after_orphans(now_ms)
            self._orphans_ms = now_ms
        self._begin(now_ms)
        self.settle(now_ms)

    def stop(self) -> None:
        """Tell the driver that the broker stops."""
        try:
            if hasattr(self.driver, "stop"):
                self.driver.stop()
        except (Exception, SystemExit) as exc:
            log.error("driver of tube %s failed: %s", self.space.name, self._failure("stop", exc))

    def drop(self, now_ms: int) -> None:
        """Tell the driver that the tube is dropped; changes of its rows are undone."""
        self.space.begin(now_ms)
        self._call = Call()
        try:
            if hasattr(self.driver, "drop"):
                self.driver.drop()
        except (Exception, SystemExit) as exc:
            log.error("driver of tube %s failed: %s", self.space.name, self._failure("drop", exc))
        self.space.undo()
        self._call = None

    def _renew(self, now_ms: int, word: str) -> None:
        """Another instance takes the place of the one that failed, if it can be made."""
        self.driver = None
        if word == "start":  # it would fail again
            return
        try:
            self.sit_down()
            self._begin(now_ms)
        except QuinqueError as exc:
            log.error("cannot restart the driver of tube %s: %s", self.space.name, exc)

    def _begin(self, now_ms: int) -> None:
        """The driver has begun, or there is none."""
        try:
            if hasattr(self.driver, "start"):
                self.call("start", now_ms, self.driver.start)
        except BaseException:
            self.driver = None
            raise

    def _rows(self) -> list[Row]:
        tasks = sorted(self.tube.all(), key=lambda task: int(task.id))
        return [row_of(int(it.id), it.state, self._tubes.bodies.of(it)) for it in tasks]

    def _failure(self, word: str, exc: BaseException) -> DriverFailed:
        """The error for the client; the log gets the traceback."""
        kind = self._kind
        log.error("driver %s failed in %s", kind.decode("utf-8", "replace"), word, exc_info=exc)
        return DriverFailed(kind, f"{word}: {type(exc).__name__}: {exc}")


def unpacked(options: bytes) -> Mapping[str, Any]:
    """Options for a driver, as they were said. Raises BadArgument."""
    if not options:
        return {}
    try:
        found = msgpack.unpackb(options, strict_map_key=False)
    # A TypeError is for a key that is a table.
    except (TypeError, ValueError, msgpack.UnpackException):
        found = None
    if not isinstance(found, dict):
        raise BadArgument(
            "the options of a driver must be a map with text keys, packed with msgpack"
        )
    return {_text(key): value for key, value in found.items()}


def _text(key: Any) -> str:
    return key.decode("utf-8", "surrogateescape") if isinstance(key, bytes) else str(key)
