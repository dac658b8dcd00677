"""Start the processes of a worker, and replace those that die.

Called by   cli/work.py.
Calls       process.py, as processes; health.py.

Each process has a seat with a board (board.py). A process that dies, by a signal or an error, is
replaced in its seat: the first time at once, then after growing pauses, which are longest if no
handler was running. Its successor finds the messages that it held on the board. A message whose
handler was running has one more failure, which all processes see (failures.py). Processes count in
memory that the supervisor reads (totals.py).

The supervisor does not import the app, so handlers cannot end it. If it is killed, its processes
notice and stop cleanly.

Not here: handlers (runtime.py).
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic, sleep, time
from typing import Final

from quinque.errors import many
from quinque.worker.backoff import Backoff
from quinque.worker.board import NOTHING, Board, Told
from quinque.worker.failures import Failures, failures_file
from quinque.worker.figures import Figures
from quinque.worker.health import Health, HealthPort
from quinque.worker.lives import Lives
from quinque.worker.process import ASKED_WRONGLY, ENDED, FAILED, MODULE, Orders
from quinque.worker.runtime import signals_to_end
from quinque.worker.totals import Measured, Totals, Working

LOG = logging.getLogger("quinque.worker")

Page = Callable[[Measured], bytes]

_LOOK_S: Final = 0.05  # how often the supervisor checks whether a process has ended
_AGAIN: Final = Backoff(first=0.1, most=30.0)
_WELL_S: Final = (
    60.0  # a process that ran for longer did not die of the same cause as the one before
)
_KILLED_S: Final = (
    0.5  # pause before the next process starts, if a message may have killed the last one
)
# Time after the deadline before a process is killed: to return messages takes up to 5 s, and the
# end of a request that waits for messages up to 1 s.
_PATIENCE_S: Final = 8.0


@dataclass(frozen=True)
class Asked:
    """The options of the command line."""

    spec: str
    processes: int
    threads: int
    deadline_s: float
    stalled_s: float
    failures_file: str | None
    alive_file: str | None
    http_address: tuple[str, int] | None


class Seat:
    """A place for a process. `crashes` is how often in a row it died."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.board = Board()
        self.working: Working | None = None
        self.salts: list[
            bytes
        ] = []  # the salts of the handlers of the last process that had handlers
        self.process: subprocess.Popen[bytes] | None = None
        self.crashes = 0
        self.started_s = 0.0
        self.due_s = 0.0  # when to start the next


class Supervisor:
    def __init__(self, asked: Asked, page: Page | None) -> None:
        """`page` makes the text of the metrics; without it there are none. Raises OSError if the
        address of the health check is in use, or a file cannot be read or written, and BadSetting
        if the file has another format."""
        self._asked = asked
        self._started_s = time()
        self._deaths = 0
        self._seats = [Seat(number) for number in range(asked.processes)]
        kept = asked.failures_file
        self._failures = Failures(None if kept is None else failures_file(kept))
        self._lives = Lives(asked.processes)
        self._totals = Totals()
        self._signals = 0
        # Nothing is written: the reader notices when the pipe closes at the end of this process.
        self._their_end, self._our_end = os.pipe()
        self._health = Health(self.tell, asked.stalled_s, asked.alive_file)
        self._port = None
        if asked.http_address is not None:
            metrics = None if page is None else lambda: page(self.measure())
            self._port = HealthPort(self._health, metrics, asked.http_address)
            LOG.info("serving health and metrics on %s", self._port.url)

    def tell(self) -> Sequence[tuple[int, float, Told]]:
        """Return for each seat the pid (0 without a process), the start time and the board."""
        return [
            (0 if (it := seat.process) is None else it.pid, seat.started_s, seat.board.read())
            for seat in self._seats
        ]

    def measure(self) -> Measured:
        """Return the counts of all processes up to now."""
        counted, in_hand = self._totals.read()
        return Measured(
            counted,
            in_hand,
            sum(seat.process is not None for seat in self._seats),
            self._deaths,
            bool(self._health.look()["healthy"]),
            self._started_s,
        )

    def run(self) -> int:
        """Run until a signal comes, or the app cannot be found. Return the exit code."""
        before = {it: signal.signal(it, self._signalled) for it in signals_to_end()}
        try:
            while not self._signals:
                code = self.look_after()
                if code != ENDED:
                    self._end()
                    return code
                self._health.touch()
                sleep(_LOOK_S)
            return self._end()
        finally:
            for number, earlier in before.items():
                signal.signal(number, earlier)
            self.close()

    def _signalled(self, number: int, frame: object) -> None:
        self._signals += 1
        self._health.is_stopping = True

    def look_after(self) -> int:
        """Start a process in each seat when it is due. Return a code other than ENDED if a process
        could not even start, because then none can."""
        now_s = monotonic()
        for seat in self._seats:
            code = None if seat.process is None else seat.process.poll()
            if code is not None:
                is_first = not seat.crashes and not seat.board.read().beat_s
                if is_first and code in (ASKED_WRONGLY, FAILED):
                    return code
                self._bury(seat, now_s)
                LOG.error("worker process %d ended with %s", seat.number, _why(code))
            if seat.process is None and seat.due_s <= now_s:
                self._start(seat)
        return ENDED

    def _bury(self, seat: Seat, now_s: float) -> None:
        """A process died: count the failures of its messages, and set the time of its
        replacement."""
        has_crashed = self._count(seat)
        self._deaths += 1
        seat.process = None
        seat.crashes = 1 if now_s - seat.started_s > _WELL_S else seat.crashes + 1
        pause_s = _AGAIN.delay_s(seat.crashes - 1) if seat.crashes > 1 else 0.0
        # A message that kills processes is dead soon; other messages must not wait long until then.
        seat.due_s = now_s + (min(pause_s, _KILLED_S) if has_crashed else pause_s)

    def _count(self, seat: Seat) -> bool:
        """Keep the counts of the seat's process, and count a failure for each message whose handler
        was running when it ended. Return whether there was one. All other processes see the
        failures."""
        assert seat.working is not None
        found = seat.working.figures.read()
        if found:
            seat.salts = [bytes.fromhex(who.salt) for who, _ in found]
        crashed = seat.board.crash(seat.salts)
        for _, key in crashed:
            self._failures.add(key)
        self._lives.count(seat.number)
        self._totals.end(seat.working, [number for number, _ in crashed])
        seat.working = None
        return bool(crashed)

    def _start(self, seat: Seat) -> None:
        """Start a process in the seat. If the system refuses, try again later."""
        seat.board.write(NOTHING)
        seat.started_s = monotonic()
        figures: Figures | None = None
        try:
            figures = Figures()
            fds = (seat.board.fd, self._failures.fd, figures.fd, self._lives.fd, self._their_end)
            orders = Orders(
                self._asked.spec,
                seat.number,
                len(self._seats),
                *fds,
                [salt.hex() for salt in seat.salts],
                self._asked.threads,
                self._asked.deadline_s,
                self._asked.stalled_s,
            )
            seat.process = subprocess.Popen(
                [sys.executable, "-m", MODULE, orders.as_text()],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # only the supervisor gets Ctrl-C, and tells the processes
            )
        except OSError as error:
            if figures is not None:
                figures.close()
            seat.crashes += 1
            seat.due_s = seat.started_s + _AGAIN.delay_s(seat.crashes)
            LOG.error("cannot start worker process %d: %s; retrying", seat.number, error)
            return
        seat.working = Working(figures, seat.board)
        self._totals.begin(seat.working)
        LOG.info("started worker process %d (pid %d)", seat.number, seat.process.pid)

    def _end(self) -> int:
        """Wait until all processes have ended. Kill them if they take too long or another signal
        comes. Return whether all stopped cleanly."""
        # A process that has not started takes no messages, and the signal alone ends it.
        young = {seat.process for seat in self._seats if not seat.board.read().beat_s}
        running = [seat.process for seat in self._seats if seat.process is not None]
        for process in running:
            process.terminate()
        until_s = monotonic() + self._asked.deadline_s + _PATIENCE_S
        while self._signals < 2 and monotonic() < until_s:
            if all(process.poll() is not None for process in running):
                break
            sleep(_LOOK_S)
        for seat in self._seats:
            if seat.process is not None and seat.process.poll() is not None:
                self._count(seat)  # if it died, and did not stop
        for process in running:
            if process.poll() is None:
                process.kill()
        codes = [
            code
            for process in running
            if (code := process.wait()) and not (process in young and code == -signal.SIGTERM)
        ]
        # A process that was to take its place would have cleared the board of one that died.
        left = sum(seat.board.count().total() for seat in self._seats)
        if left and not codes:
            LOG.error(
                "cannot return %s of processes that died to the queue; they become available when "
                "their leases end",
                many(left, "message"),
            )
        return FAILED if codes or left else ENDED

    def close(self) -> None:
        """Close the files and the HTTP port."""
        if self._port is not None:
            self._port.close()
        for seat in self._seats:
            if seat.process is not None and seat.process.poll() is None:
                seat.process.kill()
                seat.process.wait()
            seat.board.close()
        self._failures.close()
        self._lives.close()
        os.close(self._their_end)
        os.close(self._our_end)
        self._health.close()


def _why(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"code {code}"
