"""Show the broker: two consumer groups, a killed consumer, a killed broker, and no lost event.

Called by   `make demo`, tests/transcripts/test_demo.py.
Calls       `quinque serve` as a separate process, and redis-py, which knows nothing of Quinque.

    1  a producer adds events, and two groups get and ack every one of them
    2  a consumer is killed while it holds an event; the event comes back when its lease ends
    3  the broker is killed under load, and started again on the same data directory

The counts are checked after each act. The exit code is 0 if every check passed.

Not here: the same with more kills (tests/faults).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import IO, Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as BrokerGone
from redis.retry import Retry
from rich.console import Console
from rich.table import Table

QUEUE = "orders"
GROUPS = ("billing", "shipping")
LIFE_S = 3600  # of an event
FIRST_EVENTS = 500
CONSUMERS = 2  # in each group
PRODUCERS = 4
KILL_AFTER = 1000  # events acknowledged under load
LEASE_S = 1
HELD_S = 2  # the lease of the consumer that is killed
PATIENCE_S = 60  # for any step; a longer one is a failure

HOLD = "hold"  # the first argument that makes this program the consumer that is killed


@dataclass(slots=True)
class Books:
    """The ids that the broker acknowledged, by group where it matters."""

    stored: set[bytes] = field(default_factory=set)
    # Each with the time of the reply.
    acked: dict[str, dict[bytes, float]] = field(
        default_factory=lambda: {group: {} for group in GROUPS}
    )
    # The broker was killed before it replied to QACK: the ack may have been done or not.
    unsure: dict[str, set[bytes]] = field(
        default_factory=lambda: {group: set() for group in GROUPS}
    )
    came_back: list[bytes] = field(default_factory=list)  # delivered to a group that had acked it


@dataclass(slots=True)
class Row:
    """A line of the table at the end."""

    act: str
    what: str
    count: str
    held: bool = True


class Broker:
    """`quinque serve` on a free port, on a data directory that outlives it."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self._folder = folder
        self._settings = settings
        self._log: list[str] = []
        self.port = 0
        self.tarantool_port = 0
        self.process = self._start()

    def client(self) -> Redis:
        return client_of(self.port)

    def kill(self) -> None:
        """Send SIGKILL, which allows no last write."""
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.process = self._start()

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def _start(self) -> subprocess.Popen[str]:
        settings = ["--listen", "127.0.0.1:0", "--dir", str(self._folder), "--fsync", "always"]
        settings += self._settings
        process = subprocess.Popen(
            [sys.executable, "-m", "quinque", "serve", *settings],
            env={name: value for name, value in os.environ.items() if "QUINQUE_" not in name},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        for line in process.stderr:
            self._log.append(line)
            if found := re.search(r"listening on 127\.0\.0\.1:(\d+) for Tarantool", line):
                self.tarantool_port = int(found[1])
            elif found := re.search(r"listens on 127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                # Keep reading: the broker blocks when the pipe is full.
                threading.Thread(target=self._read_log, args=(process.stderr,)).start()
                return process
        raise SystemExit("the broker did not start:\n" + "".join(self._log))

    def _read_log(self, lines: IO[str]) -> None:
        with lines:
            self._log.extend(lines)


def main() -> int:
    if sys.argv[1:2] == [HOLD]:
        return hold(int(sys.argv[2]))
    started_s, books = monotonic(), Books()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="quinque-demo-") as folder:
        broker = Broker(Path(folder, "data"))
        try:
            console.print(f"Started a broker on 127.0.0.1:{broker.port} with fsync = always.")
            rows = [
                *first_act(broker, books),
                *second_act(broker, books),
                *third_act(broker, books),
            ]
            rows.append(Row("end", "broker stopped cleanly after SIGTERM", "", broker.stop() == 0))
        finally:
            broker.kill()
    console.print(table_of(rows))
    is_good = all(row.held for row in rows)
    words = (
        "No stored event was lost, and no acked event was delivered again."
        if is_good
        else "A check FAILED."
    )
    console.print(f"{words} {monotonic() - started_s:.1f} s.")
    return 0 if is_good else 1


def first_act(broker: Broker, books: Books) -> list[Row]:
    """Check that every group gets every event once."""
    with broker.client() as client, client.pipeline(transaction=False) as pipeline:
        for number in range(FIRST_EVENTS):
            pipeline.execute_command("QADD", QUEUE, LIFE_S, f"order {number}")
        books.stored.update(pipeline.execute())
    run_together([consumer(broker, group, books) for group in GROUPS for _ in range(CONSUMERS)])
    return [
        Row("1", "events added", str(len(books.stored)), len(books.stored) == FIRST_EVENTS),
        *(
            Row("1", f"acked by {group}", str(len(acked)), acked.keys() == books.stored)
            for group, acked in books.acked.items()
        ),
    ]


def second_act(broker: Broker, books: Books) -> list[Row]:
    """The event of a killed consumer is delivered again, to its own group only."""
    group = GROUPS[0]
    with broker.client() as client:
        stored = client.execute_command("QADD", QUEUE, LIFE_S, "the one that is held")
        started_s = monotonic()
        holder = subprocess.Popen(
            [sys.executable, __file__, HOLD, str(broker.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert holder.stdout is not None
        assert holder.stdin is not None
        held = holder.stdout.readline().strip()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
        holder.stdin.close()
        killed_s = monotonic()
        early = client.execute_command("QGET", QUEUE, group)
        # On a very busy machine the lease may have ended by now.
        is_held = early is None or monotonic() - started_s > HELD_S
        if early is None:
            client.execute_command("QNOTIFY", group, PATIENCE_S, QUEUE)
        waited_s = monotonic() - killed_s
        again = early or client.execute_command("QGET", QUEUE, group)
        acked = client.execute_command("QACK", QUEUE, group, stored)
    books.stored.add(stored)
    books.acked[group][stored] = monotonic()
    is_back = again is not None and again[0] == stored
    return [
        Row("2", "consumers killed while holding an event", "1", held == stored and is_held),
        Row("2", f"event delivered again after {waited_s:.1f} s", "1", is_back and acked == 1),
    ]


def third_act(broker: Broker, books: Books) -> list[Row]:
    """Events acknowledged before a SIGKILL exist after it, and acked events do not come back."""
    already, enough = len(books.stored), threading.Event()
    workers = [producer(broker, books, enough) for _ in range(PRODUCERS)]
    workers += [consumer(broker, group, books) for group in GROUPS for _ in range(CONSUMERS)]

    def kill_under_load() -> None:
        enough.wait(PATIENCE_S)
        broker.kill()

    run_together(workers, kill_under_load)
    early = {group: len(books.acked[group]) for group in GROUPS}
    killed_s = monotonic()
    broker.restart()
    took_s = monotonic() - killed_s
    run_together([consumer(broker, group, books) for group in GROUPS])
    rows = [
        Row("3", "events acknowledged under load", str(len(books.stored) - already)),
        Row("3", f"broker killed, and restarted in {took_s:.1f} s", "1", enough.is_set()),
    ]
    for group in GROUPS:
        late = len(books.acked[group]) - early[group]
        lost = len(books.stored - books.acked[group].keys() - books.unsure[group])
        rows.append(
            Row("3", f"acked by {group}, before + after the kill", f"{early[group]} + {late}")
        )
        rows.append(Row("3", f"stored events lost to {group}", str(lost), lost == 0))
    came_back = len(books.came_back)
    rows.append(Row("3", "acked events delivered again", str(came_back), came_back == 0))
    return rows


def producer(broker: Broker, books: Books, enough: threading.Event) -> Callable[[], None]:
    """Return a producer that adds events until the broker is killed."""

    def work() -> None:
        wanted = len(books.stored) + KILL_AFTER
        with broker.client() as client:
            for number in range(sys.maxsize):
                id = client.execute_command("QADD", QUEUE, LIFE_S, f"late order {number}")
                books.stored.add(id)
                if len(books.stored) >= wanted:
                    enough.set()

    return work


def consumer(broker: Broker, group: str, books: Books) -> Callable[[], None]:
    """Return a consumer that gets and acks until its group is done or the broker is killed."""

    def work() -> None:
        acked, unsure = books.acked[group], books.unsure[group]
        with broker.client() as client:
            while True:
                asked_s = monotonic()
                event = client.execute_command("QGET", QUEUE, group, "EX", LEASE_S)
                if event is None:
                    # Another consumer may hold an event and never ack it.
                    if is_done(client, group):
                        return
                    client.execute_command("QNOTIFY", group, LEASE_S, QUEUE)
                    continue
                id = event[0]
                # Unless a consumer whose lease had ended acked it meanwhile.
                if acked.get(id, asked_s) < asked_s:
                    books.came_back.append(id)
                unsure.add(id)
                if client.execute_command("QACK", QUEUE, group, id):
                    acked[id] = monotonic()
                    unsure.discard(id)

    return work


def is_done(client: Any, group: str) -> bool:
    """Return whether the group has acked every event."""
    [[_, groups]] = client.execute_command("QSTATUS", QUEUE, "GROUPS", group)
    counts = pairs(pairs(groups)[group.encode()])
    return bool(counts[b"total"] == counts[b"done"])


def pairs(found: Any) -> dict[bytes, Any]:
    """Return a map as a dict. It is a dict in RESP3, and alternating keys and values in RESP2."""
    return found if isinstance(found, dict) else dict(zip(found[::2], found[1::2], strict=True))


def client_of(port: int) -> Redis:
    """Return a plain Redis client without retries: each request is sent once, or fails."""
    return Redis(port=port, socket_timeout=2 * PATIENCE_S, retry=Retry(NoBackoff(), 0))


def hold(port: int) -> int:
    """Get an event, print its id, and never ack it."""
    with client_of(port) as client:
        event = client.execute_command("QGET", QUEUE, GROUPS[0], "EX", HELD_S)
        sys.stdout.write(event[0].decode() + "\n")
        sys.stdout.flush()
        sys.stdin.read()
    return 0


def run_together(
    workers: list[Callable[[], None]], meanwhile: Callable[[], object] = lambda: None
) -> None:
    """Run all workers until they end. A killed broker ends them too."""

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BrokerGone:
            return

    threads = [threading.Thread(target=run, args=(work,)) for work in workers]
    for thread in threads:
        thread.start()
    meanwhile()
    for thread in threads:
        thread.join()


def table_of(rows: list[Row]) -> Table:
    table = Table("act", "check", "count", "passed")
    table.columns[2].justify = "right"
    for row in rows:
        table.add_row(row.act, row.what, row.count, "yes" if row.held else "[bold red]NO[/]")
    return table


if __name__ == "__main__":
    sys.exit(main())
