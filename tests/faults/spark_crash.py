"""One blow against a Spark job, and what the broker has when the job has come to its end after it.

Called by   spark_matrix.py (all of them), tests/spark/test_crashes.py (one).
Calls       spark_job.py as a process, as often as it takes; a broker.

Not here: what a blow is (spark_job.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from quinque.client.sync.broker import Broker
from quinque.model.claim_ops import ClaimState, LookAtClaims
from quinque.model.stage_ops import FindStages
from tests.facts.repository import ROOT
from tests.faults.spark_job import SUBSCRIPTION
from tests.server.broker import RunningBroker

MESSAGES = 25
PER_BATCH = 10
CLAIMS = 3
JOB_TIMEOUT_S = 600


@dataclass
class Outcome:
    """What was counted at the end. `orphans` are chunks that were staged for nothing; the broker
    forgets them in time."""

    moment: str
    runs: int
    lost: int
    twice: int
    ready: int
    in_flight: int
    settled: int
    orphans: int

    @property
    def is_good(self) -> bool:
        is_all_there = not (self.lost or self.twice or self.ready or self.in_flight)
        return is_all_there and self.settled == CLAIMS


class JobFailed(Exception):
    """A job ended badly without a blow, or was not struck; the text is what it said."""


class Job:
    """From a queue to a queue, in batches; its messages wait in the first one."""

    def __init__(self, running: RunningBroker, folder: Path, moment: str, master: str) -> None:
        self.running = running
        self.moment = moment
        self.marker = folder / f"{moment}.marker"
        self.checkpoint = folder / f"{moment}.checkpoint"
        self.source, self.target = f"{moment}.in", f"{moment}.out"
        self.url = f"redis://127.0.0.1:{running.port}"
        self.runs = 0
        self._master = master
        self._broker = Broker(self.url)
        self._bodies = [b"%d" % n for n in range(MESSAGES)]
        for body in self._bodies:
            self._broker.call("ADDJOB", self.source, body, 0)

    def run(self) -> None:
        """It came to its end, or the blow fell. Raises JobFailed."""
        told = {
            "url": self.url,
            "source": self.source,
            "target": self.target,
            "checkpoint": str(self.checkpoint),
            "marker": str(self.marker),
            "moment": self.moment,
            "broker": self.running.pid if self.moment == "broker" else 0,
            "master": self._master,
            "per_batch": PER_BATCH,
        }
        self.runs += 1
        was_struck = self.marker.exists()
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.spark_job", json.dumps(told)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(_python_path())},
            capture_output=True,
            text=True,
            timeout=JOB_TIMEOUT_S,
            check=False,
        )
        is_killed = self.moment not in ("none", "broker") and not was_struck
        if (done.returncode != 0) != is_killed or (is_killed and not self.marker.exists()):
            raise JobFailed(done.stderr[-6_000:])

    def outcome(self) -> Outcome:
        """What the broker has now."""
        got = Counter(job[2] for job in self._broker.call("QPEEK", self.target, 10_000))
        view = self._broker.run(LookAtClaims(self.source.encode(), SUBSCRIPTION.encode()))
        assert view is not None
        in_flight = sum(
            claim.messages
            for claim in view.claims
            if claim.state in (ClaimState.FILLING, ClaimState.SEALED)
        )
        return Outcome(
            self.moment,
            self.runs,
            lost=sum(1 for body in self._bodies if not got[body]),
            twice=sum(count - 1 for count in got.values()),
            ready=self._broker.call("QLEN", self.source),
            in_flight=in_flight,
            settled=view.settled,
            orphans=sum(stage.chunks for stage in self._broker.run(FindStages())),
        )


def strike(running: RunningBroker, folder: Path, moment: str, master: str = "local[2]") -> Outcome:
    """The job came to its end, and was struck once at that moment on the way. Raises JobFailed."""
    job = Job(running, folder, moment, master)
    if moment == "broker":
        threading.Thread(target=bring_back, args=(running,), daemon=True).start()
    job.run()
    if moment not in ("none", "broker"):
        job.run()
    if moment != "none" and not job.marker.exists():
        raise JobFailed(f"{moment}: the blow never fell")
    return job.outcome()


def _python_path() -> list[str]:
    """That of this process, if it has one, after the folder of the tests."""
    inherited = os.environ.get("PYTHONPATH")
    return [str(ROOT), *([inherited] if inherited else [])]


def bring_back(running: RunningBroker) -> None:
    """When the broker is killed, it runs again, where it was."""
    running.process.wait()
    running.restart()
