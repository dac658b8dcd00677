"""A worker of its own for a test: `python -m quinque work` in a process, as users run it.

Called by   the tests beside this file.
Calls       tests/server/broker.py for the broker.

Not here: the app (worked_app.py).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from types import TracebackType
from typing import Any

import quinque
from quinque.client.sync.queues import Queues
from tests.facts.repository import ROOT
from tests.server.broker import RunningBroker
from tests.server.resp import TIMEOUT_S
from tests.servers.patience import wait_until


class RunningWorker:
    """A supervisor and its processes. The queues that it works begin with `prefix`."""

    def __init__(
        self,
        broker: RunningBroker,
        prefix: str,
        *flags: str,
        app: str = "tests.worker.worked_app:app",
        lease_s: float = 300,
    ) -> None:
        """Items and elements are leased for so long."""
        self.url = f"redis://127.0.0.1:{broker.port}"
        self.prefix = prefix
        self.queues: Queues = quinque.connect(self.url)
        self.log: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "quinque", "work", app, *flags],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env=os.environ | {"BROKER": self.url, "PREFIX": prefix, "LEASE": str(lease_s)},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def add(self, order: dict[str, Any], queue: str = "jobs", **terms: Any) -> str:
        """A job for the worker; its id."""
        return self.queues.jobs(f"{self.prefix}{queue}", codec="json").add(order, **terms)

    def result(self, id: str) -> dict[str, Any]:
        """What a handler returned for that message. Others are passed over: on a busy machine a
        lease may end too early, and what it was about is worked once more."""
        return self._next(f"{self.prefix}results", id)

    def dead_letter(self, queue: str, id: str) -> dict[str, Any]:
        """What was put aside of that message, of a family that has no state for it."""
        return self._next(f"{self.prefix}{queue}.dead", id)

    def heard(self, text: str) -> str:
        """What follows the text on a line of the log, which comes sooner or later."""
        wait_until(lambda: any(text in line for line in self.log), f"{text!r} in {self.log}")
        return next(line for line in self.log if text in line).partition(text)[2]

    def pids(self) -> list[int]:
        """Of the processes that were started, in order."""
        return [
            int(line.rpartition(" (pid ")[2].rstrip(")\n"))
            for line in self.log
            if "started worker process 0 (pid " in line
        ]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The signal; the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        return code

    def __enter__(self) -> RunningWorker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()  # its processes see it, and end
        self.process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        self.queues.close()

    def _next(self, queue: str, id: str) -> dict[str, Any]:
        while True:
            job = self.queues.jobs(queue, codec="json").take(timeout=TIMEOUT_S)
            assert job is not None, "\n".join(self.log)
            job.ack()
            found: dict[str, Any] = job.body
            if found["id"] == id:
                return found

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr:
            for line in self.process.stderr:
                self.log.append(line.rstrip("\n"))
