"""Every moment at which a Spark job may be struck down, on every kind of store, as one table.

Called by   hand: python -m tests.faults.spark_matrix [--store embedded|redis] [--moment NAME …]
Calls       spark_crash.py.

Each moment takes two starts of Spark: on two idle cores the whole of it takes about ten minutes.

Not here: what is struck (spark_job.py).
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.faults.spark_crash import JobFailed, Outcome, strike
from tests.faults.spark_job import MOMENTS
from tests.server.broker import start_broker
from tests.servers.redis_server import RedisServer

_MASTERS = "also local-cluster[2,1,1024]; or connect, which only --moment none can be tried on"
_HEAD = f"{'store':9} {'struck':12} runs lost twice left claimed settled orphans seconds"


def main() -> int:
    """0 when nothing was lost and nothing came twice."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--store", choices=["embedded", "redis"], action="append")
    parser.add_argument("--moment", choices=[*MOMENTS], action="append")
    parser.add_argument("--master", default="local[2]", help=_MASTERS)
    chosen = parser.parse_args()
    print(_HEAD, flush=True)
    is_good = True
    for store in chosen.store or ["embedded", "redis"]:
        for moment in chosen.moment or MOMENTS:
            begun_s = time.monotonic()
            try:
                outcome = _strike(store, moment, chosen.master)
            except JobFailed as error:
                print(f"{store:9} {moment:12} FAILED {error}", flush=True)
                is_good = False
                continue
            print(_line(store, outcome, time.monotonic() - begun_s), flush=True)
            is_good = is_good and outcome.is_good
    print("lost 0, twice 0" if is_good else "NOT GOOD")
    return 0 if is_good else 1


def _strike(store: str, moment: str, master: str) -> Outcome:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        flags = []
        if store == "redis":
            server = RedisServer(folder / "redis", "--appendfsync", "always", appendonly=True)
            flags = ["--store", stack.enter_context(server).url]
        running = stack.enter_context(start_broker(folder, *flags))
        return strike(running, folder, moment, master)


def _line(store: str, it: Outcome, took_s: float) -> str:
    verdict = "" if it.is_good else "  <- not good"
    return (
        f"{store:9} {it.moment:12} {it.runs:4} {it.lost:4} {it.twice:5} {it.ready:4} "
        f"{it.in_flight:7} {it.settled:7} {it.orphans:7} {took_s:7.0f}{verdict}"
    )


if __name__ == "__main__":
    sys.exit(main())
