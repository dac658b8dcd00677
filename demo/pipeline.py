"""Show the data pipeline: files to messages, messages to Parquet, and a page with plots.

Called by   `make demo`, tests/spark/test_demo.py.
Calls       demo.py for the broker, the jobs of quinque.spark, redis-py as a worker.

    1  Spark adds the rows of a file to a queue, each once
    2  workers get some of them; some messages fail, and those that fail twice become dead
    3  Spark drains the queue to Parquet: it claims, writes and commits
    4  the lifecycle log becomes tables; the audit compares it with the broker, and the report
       draws it

Not here: the same as commands (`quinque pipeline`), with crashes (tests/faults/spark_matrix.py).
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.console import Console

from demo.demo import Broker, Row, run_together, table_of
from quinque.claims import Broker as BrokerClient
from quinque.spark.jobs.archive import archive
from quinque.spark.jobs.audit import audit
from quinque.spark.jobs.drain import Drain, drain
from quinque.spark.jobs.ingest import Ingest, ingest
from quinque.spark.jobs.lake import Lake
from quinque.spark.jobs.report import report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path("build", "demo")
QUEUE = "orders"
MESSAGES = 10_000
# Two partitions: the tables are small, and each partition of each query costs time.
SETTINGS = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
WORKERS = 4
TOGETHER = 20  # messages that a worker gets at once
FAILS_EVERY = 9  # one in this number of messages fails
MAX_DELIVERIES = 2  # a message is dead after this number of failures


def main() -> int:
    from quinque.spark.session import build_session

    started_s, console = monotonic(), Console()
    rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    console.print("Starting Spark.")
    with stderr_in(FOLDER / "spark.log"):
        spark = build_session("quinque-demo", settings=SETTINGS, log_level="ERROR")
    try:
        rows, page = run(spark, FOLDER, MESSAGES)
    finally:
        spark.stop()
    console.print(table_of(rows))
    is_good = all(row.held for row in rows)
    console.print(f"Open the report: {page.resolve().as_uri()}")
    words = "Every message is accounted for." if is_good else "The audit FAILED."
    console.print(f"{words} {monotonic() - started_s:.1f} s.")
    return 0 if is_good else 1


@contextmanager
def stderr_in(path: Path) -> Iterator[None]:
    """Programs that are started inside write to the file what they would write to stderr: Spark's
    Java warns of the machine before a log level can be set. If it fails, show the file."""
    sys.stderr.flush()
    before = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
    except BaseException:
        sys.stderr.write(path.read_text(errors="replace"))
        raise
    finally:
        os.close(before)


def run(spark: SparkSession, folder: Path, messages: int) -> tuple[list[Row], Path]:
    """Run all four acts in the folder; return the checks and the page."""
    broker = Broker(folder / "data")
    try:
        rows = _ingest(spark, broker, folder, messages)
        done = _work(broker, messages // 2)
        rows += done.rows()
        rows += _drain(spark, broker, folder, messages - done.acked - done.dead)
        rows += _account(spark, broker, folder)
    finally:
        broker.stop()
    return rows, folder / "report" / "report.html"


def _ingest(spark: SparkSession, broker: Broker, folder: Path, messages: int) -> list[Row]:
    orders = folder / "orders.json"
    with orders.open("w") as file:
        for number in range(messages):
            line = {"order": number, "item": f"book {number % 97}", "retries": MAX_DELIVERIES}
            file.write(json.dumps(line) + "\n")
    asked = Ingest(
        str(orders),
        QUEUE,
        "json",
        columns={"key": "order", "max_deliveries": "retries"},
        broker={"url": _url(broker)},
    )
    done = ingest(spark, asked)
    count = done["messages"]
    return [Row("1", "rows of a file added to a queue", f"{count:,}", count == messages)]


class _Done:
    """The totals of all workers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acked = self.nacked = self.dead = 0

    def add(self, acked: int, nacked: int, dead: int) -> None:
        with self._lock:
            self.acked += acked
            self.nacked += nacked
            self.dead += dead

    @property
    def total(self) -> int:
        return self.acked + self.nacked

    def rows(self) -> list[Row]:
        return [
            Row("2", "acked by workers", f"{self.acked:,}"),
            Row("2", "failed and returned with a reason", f"{self.nacked:,}"),
            Row("2", "failed twice and dead", f"{self.dead:,}"),
        ]


def _work(broker: Broker, enough: int) -> _Done:
    """Run workers that get, nack or ack until there are enough deliveries."""
    done = _Done()
    run_together([_worker(broker, done, enough) for _ in range(WORKERS)])
    return done


def _worker(broker: Broker, done: _Done, enough: int) -> Callable[[], None]:
    def work() -> None:
        with broker.client() as client:
            while done.total < enough:
                words = ("GETJOB", "NOHANG", "COUNT", TOGETHER, "WITHCOUNTERS", "FROM", QUEUE)
                jobs: list[Any] = client.execute_command(*words) or []
                if not jobs:
                    return
                failed = [job for job in jobs if json.loads(job[2])["order"] % FAILS_EVERY == 0]
                ids = [job[1] for job in jobs if job not in failed]
                if ids:
                    client.execute_command("ACKJOB", *ids)
                if failed:
                    names = [job[1] for job in failed]
                    client.execute_command("NACK", *names, "REASON", "out of stock")
                # The counter is the number of earlier nacks.
                done.add(len(ids), len(failed), sum(job[4] + 1 >= MAX_DELIVERIES for job in failed))

    return work


def _drain(spark: SparkSession, broker: Broker, folder: Path, left: int) -> list[Row]:
    asked = Drain(
        QUEUE,
        str(folder / "drained"),
        "lake",
        str(folder / "checkpoint"),
        broker={"url": _url(broker), "maxMessagesPerTrigger": "5000"},
    )
    done = drain(spark, asked)
    written = spark.read.parquet(asked.target)
    count, different = written.count(), written.select("id").distinct().count()
    return [
        Row(
            "3",
            "remaining messages drained to Parquet",
            f"{done['messages']:,}",
            done["messages"] == left,
        ),
        Row("3", "different messages in the files", f"{different:,}", count == different == left),
    ]


def _account(spark: SparkSession, broker: Broker, folder: Path) -> list[Row]:
    lake = Lake(str(folder / "lake"))
    client = BrokerClient(_url(broker))
    stored = archive(spark, client, lake)
    verdict, summary = audit(spark, lake, client)
    report(spark, lake, folder / "report", title="Quinque: the demo", verdict=verdict)
    ended = f"{summary['acked']:,} + {summary['dead']:,} + {summary['open']:,}"
    return [
        Row("4", "state changes in the lifecycle log", f"{stored['exported_rows']:,}"),
        Row("4", "added = acked + dead + open", f"{summary['added']:,} = {ended}"),
        Row("4", f"broker compared to the log: {verdict.broker}", "", verdict.is_good),
    ]


def _url(broker: Broker) -> str:
    return f"redis://127.0.0.1:{broker.port}"


if __name__ == "__main__":
    sys.exit(main())
