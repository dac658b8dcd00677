"""How far a replica is behind its primary under load: what is lost if the primary's machine is.

Called by   hand: python -m tests.faults.replica_lag --seconds 20
Calls       client_processes.py (the load), cluster_strikes.py (the cluster).

A primary that is killed loses less: what it has written to its sockets still arrives. If its
machine or its network goes, all is lost that the replica has not got. So it is measured how long
that takes: a write to a primary of the load, and WAIT 1.

Not here: faults (redis_faults.py).
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from quinque.stores.redis.keys import tags
from tests.faults.client_processes import Clients
from tests.faults.cluster_strikes import SLOTS_IN_USE, open_cluster
from tests.server.broker import start_broker

BROKERS = 2
REPLIES_FIRST = 1000  # before anything is measured
PATIENCE_MS = 5000


def lags_ms(folder: Path, seconds: float, seed: int) -> list[float]:
    """How long each of many writes took to be at the replica, the shortest first."""
    with ExitStack() as stack:
        clients = Clients(f"{seed}")
        stack.callback(clients.end)
        cluster = stack.enter_context(open_cluster()(folder))
        brokers = [
            stack.enter_context(start_broker(folder / f"{number}", "--store", cluster.url))
            for number in range(BROKERS)
        ]
        clients.fill_up()
        clients.go(*(broker.port for broker in brokers))
        clients.wait_for_replies(REPLIES_FIRST)
        slot = SLOTS_IN_USE[0]
        primary = cluster.primary_of(slot)
        with primary.client(single_connection_client=True) as client:
            found = []
            ends_s = time.monotonic() + seconds
            while time.monotonic() < ends_s:
                found.append(_lag_ms(client, b"probe{%b}" % tags()[slot]))
        return sorted(found)


def _lag_ms(client: Any, key: bytes) -> float:
    client.execute_command("SET", key, "x")
    began_ns = time.monotonic_ns()
    assert client.execute_command("WAIT", 1, PATIENCE_MS) == 1
    return (time.monotonic_ns() - began_ns) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="How far a replica is behind under load.")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quinque-lag-") as folder:
        found = lags_ms(Path(folder), asked.seconds, asked.seed)
    middle, late = found[len(found) // 2], found[len(found) * 99 // 100]
    print(f"{len(found)} writes: half within {middle:.1f} ms, 99 % within {late:.1f} ms,", end=" ")
    print(f"all within {found[-1]:.1f} ms")


if __name__ == "__main__":
    main()
