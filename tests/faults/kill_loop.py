"""Kill a broker under load, again and again, and see whether anything was lost.

Called by   test_kill_loop.py and others; by hand: python -m tests.faults.kill_loop --rounds 200
Calls       client_processes.py (the clients), total_queue.py and job_checks.py (the verdicts).

A round: a broker with `fsync = always` starts on what the last one left, with other sizes of
segments and memory each time; clients of all families connect and do as they like; after a random
number of replies the broker gets SIGKILL, in some rounds a client before it, in some the next
broker too while it is still reading the journal. Before the clients connect again, every job is
looked at. In the end everything is drained, the broker is killed once more, and nothing may be
left.

Not here: faults of the disk (test_full_disk.py, test_failing_disk.py).
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults import job_checks, job_looks, total_queue
from tests.faults.client_processes import Clients
from tests.faults.job_checks import JobVerdict
from tests.faults.job_history import JobOperation
from tests.faults.load_events import LEASES_S, VIEWS, take_answer, words_of
from tests.faults.total_queue import Operation, Verb, Verdict, lines
from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client, meaning, request

REPLIES_OF_A_ROUND = (1, 1500)
SEGMENT_SIZES = ("64kb", "64kb", "128kb", "64mb")
MEMORIES = ("0", "1", "16kb")
ROUNDS_OF_A_DRAIN = 20
DRAIN_AT_ONCE = 200
DRAIN_LEASE_S = 60.0
DRAIN_PATIENCE_S = 1.5 * max(LEASES_S)  # then it is looked again whether anything is held


@dataclass(slots=True)
class Kills:
    """What was done to the broker and its clients, and what that hit."""

    brokers: int = 0
    starting_brokers: int = 0
    clients: int = 0
    segments: int = 0  # of the journal: written in all
    compacted: int = 0  # of them, gone in the end


@dataclass(slots=True)
class Outcome:
    """What came of a run."""

    events: Verdict
    jobs: JobVerdict
    kills: Kills

    @property
    def is_good(self) -> bool:
        return self.events.is_good and self.jobs.is_good


def run(
    folder: Path,
    rounds: int,
    seed: int,
    seconds: float = 0.0,
    before: Sequence[str] = (),
    kill: Callable[[RunningBroker], None] = RunningBroker.kill,
) -> Outcome:
    """What came of so many rounds, or of as many as begin within `seconds` (0: no limit).

    `before` are words to put before the broker's command line, `kill` is how it ends each time.
    """
    chance = random.Random(seed)
    kills = Kills()
    clients = Clients(f"{seed}")
    ends_s = time.monotonic() + seconds if seconds else float("inf")
    try:
        with start_broker(folder, *_flags(chance), before=before) as broker:
            snapshots = [job_looks.look(broker)]
            drained: list[JobOperation] = []
            while kills.brokers < rounds and time.monotonic() < ends_s:
                _play_round(broker, clients, chance, kills, kill)
                snapshots.append(job_looks.look(broker))
                if kills.brokers % ROUNDS_OF_A_DRAIN == 0:
                    # Or what killed clients held would be there to the end, and looked at.
                    drained += job_looks.drain(broker)
                    snapshots.append(job_looks.look(broker))
            history = clients.finish()
            history["events"] += drain(broker)
            history["jobs"] += drained + job_looks.drain(broker)
            kill(broker)
            broker.restart(*_flags(chance))
            history["events"] += drain(broker)
            snapshots.append(job_looks.look(broker))
            # As the broker sees the folder, which may be on a disk of its own.
            folder = Path(f"/proc/{broker.pid}/root{broker.folder}")
            numbers = [int(path.stem) for path in folder.glob("*.journal")]
            kills.segments, kills.compacted = max(numbers), min(numbers) - 1
    finally:
        clients.end()
    events = total_queue.check(history["events"], VIEWS)
    return Outcome(events, job_checks.check(history["jobs"], snapshots), kills)


def drain(broker: RunningBroker) -> list[Operation]:
    """Everything is delivered to every group and acked; what was seen doing so."""
    history: list[Operation] = []
    with broker.connect() as client:
        for queue, group in VIEWS:
            while _has_work(client, queue, group):
                gets = list(_ask(client, "get", queue, group, [""] * DRAIN_AT_ONCE))
                ids = [get.id for get in gets if get.id]
                history += gets
                history += _ask(client, "ack", queue, group, ids)
                if any(get.error for get in gets):
                    break
    return history


def _play_round(
    broker: RunningBroker,
    clients: Clients,
    chance: random.Random,
    kills: Kills,
    kill: Callable[[RunningBroker], None],
) -> None:
    clients.fill_up()
    clients.go(broker.port)
    if chance.random() < 0.25:
        clients.wait_for_replies(chance.randint(*REPLIES_OF_A_ROUND) // 2)
        clients.kill_one(chance)
        kills.clients += 1
    clients.wait_for_replies(chance.randint(*REPLIES_OF_A_ROUND))
    kill(broker)
    clients.halt()
    kills.brokers += 1
    broker.flags = _flags(chance)
    if chance.random() < 0.2:
        _kill_while_starting(broker, chance.uniform(0.1, 0.4))
        kills.starting_brokers += 1
    broker.restart()


def _kill_while_starting(broker: RunningBroker, after_s: float) -> None:
    """A broker starts on the folder and is killed within so long."""
    process = subprocess.Popen(
        broker.command(f"127.0.0.1:{broker.port}"), stderr=subprocess.DEVNULL
    )
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.kill()
    process.wait()


def _flags(chance: random.Random) -> tuple[str, ...]:
    sizes = ("--segment-size", chance.choice(SEGMENT_SIZES), "--maxmemory", chance.choice(MEMORIES))
    return ("--fsync", "always", *sizes)


def _has_work(client: Client, queue: str, group: str) -> bool:
    """Whether there is something for the group, now or when a lease ends."""
    while True:
        # In this order: a lease that ends in between is found by one or the other.
        is_held = _is_held(client, queue, group)
        if client.call("QNOTIFY", group, DRAIN_PATIENCE_S if is_held else 0, queue) is not None:
            return True
        # A brief event may also expire while it is held: then there is nothing to wait for.
        if not is_held:
            return False


def _is_held(client: Client, queue: str, group: str) -> bool:
    ((_, groups),) = client.call("QSTATUS", queue)
    of_group = dict(zip(groups[::2], groups[1::2], strict=True)).get(group.encode(), [])
    counts = dict(zip(of_group[::2], of_group[1::2], strict=True))
    return bool(counts.get(b"inprogress"))


def _ask(
    client: Client, verb: Verb, queue: str, group: str, keys: list[str]
) -> Iterator[Operation]:
    """So many operations at once, and what came of them."""
    ops = [
        Operation("drain", verb, queue, group, key, DRAIN_LEASE_S, time.monotonic_ns())
        for key in keys
    ]
    client.send_bytes(b"".join(request(*words_of(op)) for op in ops))
    for op in ops:
        take_answer(op, meaning(client.read()))
        yield op


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a broker under load, again and again.")
    parser.add_argument("--rounds", type=int, default=50, help="kills of the broker")
    parser.add_argument("--seconds", type=float, default=0.0, help="begin no round after this")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--folder", type=Path, help="keep the data here")
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="quinque-kills-") as folder:
        outcome = run(asked.folder or Path(folder), asked.rounds, asked.seed, asked.seconds)
    print("\n".join(report(outcome)))
    return 0 if outcome.is_good else 1


def report(outcome: Outcome) -> Iterator[str]:
    """What happened, as a table and a sentence."""
    kills = outcome.kills
    yield f"  {'brokers killed':<52}{kills.brokers:>8}"
    yield f"  {'brokers killed while starting':<52}{kills.starting_brokers:>8}"
    yield f"  {'clients killed':<52}{kills.clients:>8}"
    yield f"  {'journal segments written':<52}{kills.segments:>8}"
    yield f"  {'journal segments compacted':<52}{kills.compacted:>8}"
    for family, verdict in (("events", outcome.events), ("jobs", outcome.jobs)):
        yield family
        yield from lines(verdict)
    if outcome.is_good:
        yield "Nothing acknowledged was lost, and nothing acked came back."
        return
    for verdict in (outcome.events, outcome.jobs):
        for what, found in verdict.violations.items():
            yield from (f"{what}: {line}" for line in found[:20])


if __name__ == "__main__":
    sys.exit(main())
