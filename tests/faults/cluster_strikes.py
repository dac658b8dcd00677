"""What is done to a Redis that has replicas, in a cluster or under Sentinels, once for each strike.

Called by   redis_faults.py (its table).
Calls       tests/servers/redis_cluster.py and redis_sentinel.py, through the stage.

Each strikes a primary that has queues of the load, and leaves everything whole. Replicas take over
only where they should: a primary that a busy machine has kept silent for too long would be replaced
too, and what it could not pass on be missed.

Not here: a Redis that stands alone (strikes.py), the load (redis_run.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from quinque.stores.redis.keys import slot_of
from tests.faults.load_events import VIEWS
from tests.faults.load_jobs import QUEUES
from tests.faults.redis_run import Stage
from tests.faults.unanswered import Window
from tests.servers.patience import wait_until
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_sentinel import Sentinels
from tests.servers.redis_server import RedisServer

SLOTS_IN_USE: Final = sorted({slot_of(name.encode()) for name in (*dict(VIEWS), *QUEUES)})
NODE_TIMEOUT_MS: Final = 1000
NO_FAILOVER: Final = "cluster-replica-no-failover"  # but one that is asked for
KEYS_AT_ONCE: Final = (1, 20)


def open_cluster(*options: str) -> partial[RedisCluster]:
    return partial(_opened, options)


def kill_primary(stage: Stage) -> None:
    """A primary is killed and its replica takes over; what was not replicated may be forgotten."""
    primary, slots = _choose(stage)
    with _replaceable(stage, primary, slots) as replica:
        kept_ns = _all_kept_ns(primary, [replica])
        primary.kill()
        killed_ns = time.monotonic_ns()
        stage.windows.append(Window(kept_ns, killed_ns, killed_ns, slots))
        _take_over(stage, primary)


def kill_safe_primary(stage: Stage) -> None:
    """A primary is killed and its replica takes over; every write was replicated."""
    primary, slots = _choose(stage)
    with _replaceable(stage, primary, slots):
        primary.kill()
        _take_over(stage, primary)


def fail_over(stage: Stage) -> None:
    """A replica takes over, and its primary knows."""
    cluster: RedisCluster = stage.servers
    cluster.wait_until_whole()
    cluster.failover(stage.chance.choice(SLOTS_IN_USE))
    stage.counts["CLUSTER FAILOVER"] += 1


def reshard(stage: Stage) -> None:
    """A slot with queues of the load moves to another primary, a few keys at a time."""
    cluster: RedisCluster = stage.servers
    slot = stage.chance.choice(SLOTS_IN_USE)
    source = cluster.primary_of(slot)
    to = stage.chance.choice([node for node in cluster.primaries if node is not source])
    cluster.begin_move(slot, to)
    moved = 1
    while moved:
        moved = cluster.move_keys(slot, to, stage.chance.randint(*KEYS_AT_ONCE))
        stage.counts["keys moved"] += moved
    cluster.end_move(slot, to)
    stage.counts["slots moved"] += 1


def pause_primary(stage: Stage) -> None:
    """A primary stands still, not long enough to be replaced."""
    primary, _ = _choose(stage)
    primary.pause()
    time.sleep(stage.chance.uniform(0.05, 0.6 * NODE_TIMEOUT_MS / 1000))  # the fault itself
    primary.go_on()
    stage.counts["primaries paused"] += 1


def pause_primary_for_long(stage: Stage) -> None:
    """A primary stands still until it is replaced, and comes back as a replica.

    What it does when it goes on, before it hears that it was replaced, is forgotten.
    """
    cluster: RedisCluster = stage.servers
    primary, slots = _choose(stage)
    with _replaceable(stage, primary, slots) as replica:
        kept_ns = _all_kept_ns(primary, [replica])
        primary.pause()
        paused_ns = time.monotonic_ns()
        wait_until(
            lambda: cluster.agrees() and cluster.primary_of(min(slots)) is not primary,
            f"{primary.address} is replaced",
        )
        time.sleep(stage.chance.uniform(0.0, 0.5))  # the fault itself
        primary.go_on()
        cluster.wait_until_whole()
    stage.windows.append(Window(kept_ns, paused_ns, time.monotonic_ns(), slots))
    stage.counts["primaries paused and replaced"] += 1


def pause_safe_primary(stage: Stage) -> None:
    """A primary stands still until it is replaced; every write was replicated."""
    pause_primary_for_long(stage)
    stage.windows.clear()


def kill_watched_primary(stage: Stage) -> None:
    """The primary is killed and the Sentinels make its replica the primary."""
    sentinels: Sentinels = stage.servers
    primary = sentinels.primary
    kept_ns = _all_kept_ns(primary, sentinels.replicas)
    primary.kill()
    killed_ns = time.monotonic_ns()
    stage.windows.append(Window(kept_ns, killed_ns, killed_ns))
    wait_until(lambda: sentinels.primary is not primary, f"{primary.address} is replaced")
    sentinels.wait_until_whole()
    stage.counts["primaries killed and replaced"] += 1
    primary.restart()
    sentinels.wait_until_whole()


def _opened(options: tuple[str, ...], folder: object) -> RedisCluster:
    """In folders of its own: nothing of it is looked at afterwards."""
    options = (f"--{NO_FAILOVER}", "yes", *options)
    return RedisCluster(None, *options, node_timeout_ms=NODE_TIMEOUT_MS)


def _choose(stage: Stage) -> tuple[RedisServer, frozenset[int]]:
    """A primary that has queues of the load, and their slots."""
    cluster: RedisCluster = stage.servers
    of_slot = {slot: cluster.primary_of(slot) for slot in SLOTS_IN_USE}
    primary = stage.chance.choice(list(of_slot.values()))
    return primary, frozenset(slot for slot, node in of_slot.items() if node is primary)


@contextmanager
def _replaceable(
    stage: Stage, primary: RedisServer, slots: frozenset[int]
) -> Iterator[RedisServer]:
    """The replica, which takes over within, when its primary is silent."""
    cluster: RedisCluster = stage.servers
    replica = cluster.replica_of(min(slots))
    assert replica.is_answering, f"{primary.address} has no replica that lives"
    replica.ask("CONFIG", "SET", NO_FAILOVER, "no")
    yield replica
    replica.ask("CONFIG", "SET", NO_FAILOVER, "yes")


def _all_kept_ns(primary: RedisServer, replicas: list[RedisServer]) -> int:
    """The replicas have all that was answered before that instant."""
    ports = {replica.port for replica in replicas}
    began_ns = [0]

    def is_kept() -> bool:
        began_ns.append(time.monotonic_ns())
        return primary.has_followers(ports)

    wait_until(is_kept, f"what {primary.address} has is kept twice")
    return began_ns[-1]


def _take_over(stage: Stage, primary: RedisServer) -> None:
    """The replica of a killed primary has its slots; the killed one is its replica."""
    cluster: RedisCluster = stage.servers
    # Before it starts again: it has kept nothing, and would still be the primary.
    wait_until(cluster.agrees, f"{primary.address} is replaced")
    stage.counts["primaries killed and replaced"] += 1
    primary.restart()
    cluster.wait_until_whole()
