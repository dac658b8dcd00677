"""Every fault that a Redis store must survive, each from one command that prints what came of it.

Called by   hand: python -m tests.faults.redis_faults kill-broker --seconds 20 --seed 1
            test_redis_faults.py.
Calls       strikes.py, cluster_strikes.py and orphans.py (what is done), redis_run.py (the load
            and the verdict).

Not here: what is checked (total_queue.py, job_checks.py).
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.faults import cluster_strikes, strikes
from tests.faults.cluster_strikes import open_cluster
from tests.faults.orphans import orphan_leases
from tests.faults.redis_run import Fault, report, run
from tests.servers.redis_sentinel import Sentinels
from tests.servers.redis_server import RedisServer


def _alone(*options: str, appendonly: bool = False) -> Callable[[Path], RedisServer]:
    return lambda folder: RedisServer(folder, *options, appendonly=appendonly)


_BRIEFLY: Final = ("--store-timeout", str(strikes.STORE_TIMEOUT_S))

FAULTS: Final[dict[str, Fault]] = {
    "kill-broker": Fault("SIGKILL one of two brokers on one Redis", _alone(), strikes.kill_broker),
    "script-flush": Fault("SCRIPT FLUSH", _alone(), strikes.flush_scripts),
    "restart": Fault(
        "Redis with appendfsync always is killed and starts again",
        _alone("--appendfsync", "always", appendonly=True),
        strikes.restart_redis,
    ),
    "restart-everysec": Fault(
        "Redis with appendfsync everysec is killed and starts again; what that loses",
        _alone("--appendfsync", "everysec", appendonly=True),
        strikes.restart_forgetful_redis,
    ),
    "pause": Fault("SIGSTOP Redis for less than store-timeout", _alone(), strikes.pause_redis),
    "pause-long": Fault(
        "SIGSTOP Redis for more than store-timeout",
        _alone(),
        strikes.pause_redis_for_long,
        flags=_BRIEFLY,
    ),
    "network": Fault(
        "the network between a broker and Redis stalls, cuts, breaks off, refuses",
        strikes.ProxiedRedis,
        strikes.break_network,
        flags=_BRIEFLY,
    ),
    "orphans": Fault(
        "SIGKILL a broker whose clients hold messages, while others wait for them",
        _alone(),
        orphan_leases,
        has_load=False,
    ),
    "kill-primary": Fault(
        "SIGKILL a primary of a cluster, with ADDJOB ... REPLICATE 2; its replica takes over",
        open_cluster(),
        cluster_strikes.kill_primary,
        replicas=2,
    ),
    "kill-primary-safe": Fault(
        "the same with store-replicas 1: nothing at all may be forgotten",
        open_cluster(),
        cluster_strikes.kill_safe_primary,
        flags=("--store-replicas", "1"),
    ),
    "kill-primary-bare": Fault(
        "the same without replication: what that loses",
        open_cluster(),
        cluster_strikes.kill_primary,
    ),
    "failover": Fault("CLUSTER FAILOVER", open_cluster(), cluster_strikes.fail_over),
    "reshard": Fault(
        "slots move to another primary, key by key", open_cluster(), cluster_strikes.reshard
    ),
    "pause-primary": Fault(
        "SIGSTOP a primary, shorter than the failover timeout",
        open_cluster(),
        cluster_strikes.pause_primary,
    ),
    "pause-primary-long": Fault(
        "SIGSTOP a primary until it is replaced, then SIGCONT",
        open_cluster(),
        cluster_strikes.pause_primary_for_long,
    ),
    "pause-primary-safe": Fault(
        "the same with store-replicas 1: nothing at all may be forgotten",
        open_cluster(),
        cluster_strikes.pause_safe_primary,
        flags=("--store-replicas", "1"),
    ),
    "kill-watched": Fault(
        "SIGKILL the primary that Sentinels watch; its replica takes over",
        Sentinels,
        cluster_strikes.kill_watched_primary,
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Faults of a Redis store under load, and what came of them.",
        epilog="\n".join(f"{name:<18} {fault.says}" for name, fault in FAULTS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("fault", choices=[*FAULTS, "all"])
    parser.add_argument("--rounds", type=int, default=1_000_000, help="strikes")
    parser.add_argument("--seconds", type=float, default=20.0, help="no strike begins after this")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    asked = parser.parse_args()
    is_good = True
    for name in FAULTS if asked.fault == "all" else [asked.fault]:
        print(f"{name}, seed {asked.seed}: {FAULTS[name].says}", flush=True)
        with tempfile.TemporaryDirectory(prefix="quinque-faults-") as folder:
            outcome = run(
                FAULTS[name],
                Path(folder),
                asked.seed,
                seconds=asked.seconds,
                rounds=asked.rounds,
            )
        print("\n".join(report(outcome)), flush=True)
        is_good = is_good and outcome.is_good
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
