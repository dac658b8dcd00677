"""A run: a Redis, brokers on it and clients at work, while a fault strikes again and again.

Called by   redis_faults.py, test_redis_faults.py.
Calls       client_processes.py (the clients), tests/servers (the Redis), unanswered.py,
            total_queue.py and job_checks.py (the verdicts).

    clients ══▶ broker, broker ══▶ Redis        strike ── wait for replies ── strike ── … ── drain

Every client uses all brokers. When the last strike is over and everything is well again, all is
drained through one broker, and what everybody saw is checked as a whole.

Not here: the faults themselves (redis_faults.py), what clients do (load_events.py, load_jobs.py).
"""

from __future__ import annotations

import random
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from quinque.stores.redis.keys import slot_of
from tests.faults import job_checks, job_looks, total_queue
from tests.faults.client_processes import Clients
from tests.faults.job_checks import JobVerdict
from tests.faults.kill_loop import drain
from tests.faults.load_events import VIEWS
from tests.faults.load_jobs import QUEUES
from tests.faults.total_queue import Verdict, lines
from tests.faults.unanswered import (
    Gone,
    Window,
    count_answers,
    forget_events,
    forget_jobs,
    outages_ms,
    without_trouble,
)
from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Refusal
from tests.servers.patience import wait_until

BROKERS = 2
REPLIES_BETWEEN = (50, 1000)  # from one strike to the next
REPLIES_AT_LAST = 100  # after the last one: so that it is seen that work goes on
# Of brokers, if the fault does not ask for less: nothing is refused because a machine is busy.
PATIENT = ("--store-timeout", "30")


@dataclass(slots=True)
class Stage:
    """All that is there for a fault to strike."""

    servers: Any
    brokers: list[RunningBroker]
    clients: Clients
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter)  # what was done
    windows: list[Window] = field(default_factory=list)
    history: dict[str, list[Any]] = field(default_factory=lambda: {"events": [], "jobs": []})

    def go(self) -> None:
        """As many clients as there should be are at work."""
        self.clients.fill_up()
        self.clients.go(*(broker.port for broker in self.brokers))

    def wait_for_replies(self) -> None:
        self.clients.wait_for_replies(self.chance.randint(*REPLIES_BETWEEN))

    def wait_until_well(self) -> None:
        """Every broker answers for every queue."""
        for broker in self.brokers:
            wait_until(partial(_is_well, broker), f"broker {broker.port} is well")


@dataclass(frozen=True)
class Fault:
    """What is struck and how: `open` gives the servers, with a `url` for all brokers or `urls` for
    each; `strike` is done again and again and leaves everything on its way to be well."""

    says: str
    open: Callable[[Path], AbstractContextManager[Any]]
    strike: Callable[[Stage], None]
    flags: tuple[str, ...] = ()  # of the brokers
    replicas: int = 1  # that additions of jobs ask for
    has_load: bool = True  # else the strike brings its own clients


@dataclass(slots=True)
class Outcome:
    """What came of a run."""

    events: Verdict
    jobs: JobVerdict
    done: Counter[str]
    answers: dict[str, Counter[str]]
    gone: dict[str, list[Gone]]
    outage_ms: float

    @property
    def is_good(self) -> bool:
        return self.events.is_good and self.jobs.is_good


def run(fault: Fault, folder: Path, seed: int, *, seconds: float, rounds: int) -> Outcome:
    """What came of so many strikes, or of as many as begin within `seconds`."""
    chance = random.Random(seed)
    with ExitStack() as stack:
        clients = Clients(f"{seed}", fault.replicas)
        stack.callback(clients.end)
        if fault.has_load:
            clients.fill_up()  # they start while the others do
        servers = stack.enter_context(fault.open(folder / "redis"))
        brokers = _start_brokers(servers, folder, fault.flags, stack)
        stage = Stage(servers, brokers, clients, chance)
        snapshots = [job_looks.look(brokers[0])]
        if fault.has_load:
            stage.go()
        ends_s = time.monotonic() + seconds
        while not stage.counts["strikes"] or (
            stage.counts["strikes"] < rounds and time.monotonic() < ends_s
        ):
            if fault.has_load:
                stage.wait_for_replies()
            fault.strike(stage)
            stage.counts["strikes"] += 1
        stage.wait_until_well()
        if fault.has_load:
            stage.go()
            stage.clients.wait_for_replies(REPLIES_AT_LAST)
            stage.wait_until_well()
        history = stage.clients.finish()
        if PATIENT[0] in fault.flags:
            _make_patient(brokers)
        for family, ops in stage.history.items():
            history[family] += ops
        finished_ns = time.monotonic_ns()
        snapshots.append(job_looks.look(brokers[-1]))
        history["jobs"] += job_looks.drain(brokers[-1])
        snapshots.append(job_looks.look(brokers[0]))
        history["events"] += drain(brokers[-1])
        history["events"] += drain(brokers[0])
    return judge(history, snapshots, stage.counts, stage.windows, finished_ns)


def judge(
    history: dict[str, list[Any]],
    snapshots: list[Any],
    done: Counter[str],
    windows: list[Window],
    until_ns: int,
) -> Outcome:
    """The verdict on what clients of both families wrote down."""
    answers = {family: count_answers(ops) for family, ops in history.items()}
    outages = [outages_ms(ops, until_ns) for ops in history.values()]
    events, jobs = without_trouble(history["events"]), without_trouble(history["jobs"])
    gone = {"events": forget_events(events, windows), "jobs": forget_jobs(jobs, windows)}
    return Outcome(
        total_queue.check(events, VIEWS, BROKERS),
        job_checks.check(jobs, snapshots, BROKERS),
        done,
        answers,
        gone,
        max((outage for of_queue in outages for outage in of_queue.values()), default=0.0),
    )


def report(outcome: Outcome) -> Iterator[str]:
    """What happened, as a table and a sentence."""
    for what, count in sorted(outcome.done.items()):
        yield f"  {what:<52}{count:>8}"
    yield f"  {'longest time without service, ms':<52}{outcome.outage_ms:>8.0f}"
    for family, verdict in (("events", outcome.events), ("jobs", outcome.jobs)):
        yield family
        for what, count in sorted(outcome.answers[family].items()):
            yield f"  {what:<52}{count:>8}"
        yield from lines(verdict)
        gone = sorted(outcome.gone[family], key=lambda one: one.before_ms)
        yield f"  {'add acknowledged, forgotten by a failover':<52}{len(gone):>8}"
        if gone:
            before = f"{gone[0].before_ms:.0f} to {gone[-1].before_ms:.0f} ms"
            yield f"  {'their answers came before it by':<52}{before:>8}"
    if outcome.is_good:
        yield "Nothing that must be kept was lost, and nothing acked came back that must not."
        return
    for verdict in (outcome.events, outcome.jobs):
        for what, found in verdict.violations.items():
            yield from (f"{what}: {line}" for line in found[:20])


def _start_brokers(
    servers: Any, folder: Path, flags: tuple[str, ...], stack: ExitStack
) -> list[RunningBroker]:
    """Brokers, started at the same time, which end with the stack."""
    urls = getattr(servers, "urls", None) or [servers.url] * BROKERS
    with ThreadPoolExecutor() as pool:
        starting = [
            pool.submit(start_broker, folder / f"broker{number}", "--store", url, *PATIENT, *flags)
            for number, url in enumerate(urls)
        ]
    return [stack.enter_context(started.result()) for started in starting]


def _make_patient(brokers: list[RunningBroker]) -> None:
    """What is looked at and drained from here on is not refused because it takes a second."""
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(one.restart, *one.flags, *PATIENT) for one in brokers]:
            done.result()


def _is_well(broker: RunningBroker) -> bool:
    """Whether it looks and writes wherever there is a queue of the load."""
    with broker.connect() as client:
        asked = [("QLEN", queue) for queue in QUEUES]
        asked += [("QSTATUS", queue) for queue in dict(VIEWS)]
        asked += [("ACKJOB", _no_job(queue)) for queue in (*QUEUES, *dict(VIEWS))]
        return not any(isinstance(client.call(*words), Refusal) for words in asked)


def _no_job(queue: str) -> str:
    """An id that no job has, in the slot where the queue is."""
    # The first 14 bits of what is random in an id are its slot.
    start = (slot_of(queue.encode()) << 10).to_bytes(3, "big")
    return f"D-00000000-{b64encode(start + bytes(15)).decode()}-05a1"
