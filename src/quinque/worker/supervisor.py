"""Starts the processes of a worker, and starts them again when they die.

Called by   cli/work.py.
Calls       process.py, as processes; health.py.

Each process has a seat with a board (board.py). One that dies, by a signal or an error, is replaced
in its seat: at once at first, later and later if it dies again and again, above all of no message.
What it had in hand, its successor finds on the board; what it was working on has failed once more,
which all processes know from here on (failures.py).

It does not import the app itself: nothing that handlers do can end it. When it is killed, the
processes see that, and end in order.

Not here: handlers (runtime.py).
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Final

from quinque.worker.backoff import Backoff
from quinque.worker.board import NOTHING, Board, Told
from quinque.worker.failures import Failures
from quinque.worker.health import Health, HealthPort
from quinque.worker.process import ASKED_WRONGLY, ENDED, FAILED, MODULE, Orders

LOG = logging.getLogger("quinque.worker")

_LOOK_S: Final = 0.05  # how often it is looked whether a process has ended
_AGAIN: Final = Backoff(first=0.1, most=30.0)
_WELL_S: Final = 60.0  # who lived for so long died of something else than the one before
_KILLED_S: Final = 0.5  # before the next begins, if a message may be what the last one died of
# Beyond the deadline, before a process that was told to end is killed: what it gives back takes it
# up to 5 s, and the end of a request that waits for messages up to 1 s.
_PATIENCE_S: Final = 8.0


@dataclass(frozen=True)
class Asked:
    """What the command line says."""

    spec: str
    processes: int
    threads: int
    deadline_s: float
    stalled_s: float
    alive_file: str | None
    http_address: tuple[str, int] | None


class Seat:
    """A place for a process: `crashes` is how often in a row it died."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.board = Board()
        self.process: subprocess.Popen[bytes] | None = None
        self.crashes = 0
        self.started_s = 0.0
        self.due_s = 0.0  # when to start the next


class Supervisor:
    def __init__(self, asked: Asked) -> None:
        """Raises OSError when the address of the health check cannot be had."""
        self._asked = asked
        self._seats = [Seat(number) for number in range(asked.processes)]
        self._failures = Failures()
        self._signals = 0
        # Nothing is written: whoever reads it sees the end when this process is no more.
        self._their_end, self._our_end = os.pipe()
        self._health = Health(self.tell, asked.stalled_s, asked.alive_file)
        self._port = None
        if asked.http_address is not None:
            self._port = HealthPort(self._health, asked.http_address)
            LOG.info("health is told at %s", self._port.url)

    def tell(self) -> Sequence[tuple[int, float, Told]]:
        """Of each seat: the process's id, 0 if there is none, when it started, and its board."""
        return [
            (0 if seat.process is None else seat.process.pid, seat.started_s, seat.board.read())
            for seat in self._seats
        ]

    def run(self) -> int:
        """Until a signal comes, or the app cannot be found; the exit code."""
        before = {it: signal.signal(it, self._signalled) for it in (signal.SIGTERM, signal.SIGINT)}
        try:
            while not self._signals:
                code = self._look_after()
                if code != ENDED:
                    self._end()
                    return code
                self._health.touch()
                sleep(_LOOK_S)
            return self._end()
        finally:
            for number, earlier in before.items():
                signal.signal(number, earlier)
            self._close()

    def _signalled(self, number: int, frame: object) -> None:
        self._signals += 1

    def _look_after(self) -> int:
        """Every seat has a process, or will have when it is due. Another code than ENDED when one
        could not even begin: then none can."""
        now_s = monotonic()
        for seat in self._seats:
            code = None if seat.process is None else seat.process.poll()
            if code is not None:
                is_first = not seat.crashes and not seat.board.read().beat_s
                if is_first and code in (ASKED_WRONGLY, FAILED):
                    return code
                self._bury(seat, now_s)
                LOG.error("process %d ended with %s", seat.number, _why(code))
            if seat.process is None and seat.due_s <= now_s:
                self._start(seat)
        return ENDED

    def _bury(self, seat: Seat, now_s: float) -> None:
        """The process died: what it was working on has failed, and the next has its time."""
        keys = seat.board.crash()
        for key in keys:
            self._failures.add(key)
        seat.process = None
        seat.crashes = 1 if now_s - seat.started_s > _WELL_S else seat.crashes + 1
        pause_s = _AGAIN.delay_s(seat.crashes - 1) if seat.crashes > 1 else 0.0
        # A message that kills is put aside soon; others need not wait for long until then.
        seat.due_s = now_s + (min(pause_s, _KILLED_S) if keys else pause_s)

    def _start(self, seat: Seat) -> None:
        orders = Orders(
            self._asked.spec,
            seat.board.fd,
            self._failures.fd,
            self._their_end,
            self._asked.threads,
            self._asked.deadline_s,
            self._asked.stalled_s,
        )
        seat.board.write(NOTHING)
        seat.started_s = monotonic()
        seat.process = subprocess.Popen(
            [sys.executable, "-m", MODULE, orders.as_text()],
            pass_fds=(seat.board.fd, self._failures.fd, self._their_end),
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the supervisor, who tells them
        )
        LOG.info("process %d is %d", seat.number, seat.process.pid)

    def _end(self) -> int:
        """All processes have ended: in order, or killed when they take too long or another signal
        comes; whether all did so in order."""
        # One that is not there yet has nothing in hand, and ends by the signal itself.
        young = {seat.process for seat in self._seats if not seat.board.read().beat_s}
        running = [seat.process for seat in self._seats if seat.process is not None]
        for process in running:
            process.terminate()
        until_s = monotonic() + self._asked.deadline_s + _PATIENCE_S
        while self._signals < 2 and monotonic() < until_s:
            if all(process.poll() is not None for process in running):
                break
            sleep(_LOOK_S)
        for process in running:
            if process.poll() is None:
                process.kill()
        codes = [
            code
            for process in running
            if (code := process.wait()) and not (process in young and code == -signal.SIGTERM)
        ]
        return FAILED if codes else ENDED

    def _close(self) -> None:
        for seat in self._seats:
            if seat.process is not None and seat.process.poll() is None:
                seat.process.kill()
                seat.process.wait()
            seat.board.close()
        self._failures.close()
        os.close(self._their_end)
        os.close(self._our_end)
        if self._port is not None:
            self._port.close()
        self._health.close()


def _why(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"code {code}"
