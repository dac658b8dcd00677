"""What is done to a Redis that has replicas, in a cluster or under Sentinels, once for each strike.

Called by   redis_faults.py (its table).
Calls       tests/servers/redis_cluster.py and redis_sentinel.py, through the stage.

Each strikes a primary that has queues of the load, and leaves everything whole.

Not here: a Redis that stands alone (strikes.py), the load (redis_run.py).
"""

from __future__ import annotations

import time
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
# A replica that is so far behind when its primary dies is not one that keeps up.
LAG_NS: Final = 1_000_000_000
# What a primary answered before it died may be passed on by a busy broker so much later; the
# replica takes over no sooner than after NODE_TIMEOUT_MS.
PASSED_ON_NS: Final = 500_000_000
MANUAL_FAILOVER_S: Final = 6.0  # after five seconds Redis gives up and has to be asked again
KEYS_AT_ONCE: Final = (1, 20)


def open_cluster(*options: str) -> partial[RedisCluster]:
    return partial(_opened, options)


def kill_primary(stage: Stage) -> None:
    """A primary is killed and its replica takes over; what was not replicated may be forgotten."""
    primary, slots = _choose(stage)
    primary.kill()
    killed_ns = time.monotonic_ns()
    stage.windows.append(Window(killed_ns - LAG_NS, killed_ns, killed_ns + PASSED_ON_NS, slots))
    _take_over(stage, primary)


def kill_safe_primary(stage: Stage) -> None:
    """A primary is killed and its replica takes over; every write was replicated."""
    primary, _ = _choose(stage)
    primary.kill()
    _take_over(stage, primary)


def fail_over(stage: Stage) -> None:
    """A replica takes over, and its primary knows."""
    cluster: RedisCluster = stage.servers
    slot = stage.chance.choice(SLOTS_IN_USE)
    cluster.wait_until_whole()
    replica = cluster.replica_of(slot)

    def has_taken_over() -> bool:
        return cluster.agrees() and cluster.primary_of(slot) is replica

    def takes_over() -> bool:
        replica.ask("CLUSTER", "FAILOVER")
        stage.counts["CLUSTER FAILOVER"] += 1
        try:
            wait_until(has_taken_over, "it has taken over", MANUAL_FAILOVER_S)
        except AssertionError:
            return False
        return True

    wait_until(takes_over, f"{replica.address} has slot {slot}")


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
    primary.pause()
    paused_ns = time.monotonic_ns()
    wait_until(
        lambda: cluster.agrees() and cluster.primary_of(min(slots)) is not primary,
        f"{primary.address} is replaced",
    )
    time.sleep(stage.chance.uniform(0.0, 0.5))  # the fault itself
    primary.go_on()
    went_on_ns = time.monotonic_ns()
    cluster.wait_until_whole()
    window = Window(paused_ns - LAG_NS, paused_ns, went_on_ns + PASSED_ON_NS, slots)
    stage.windows.append(window)
    stage.counts["primaries paused and replaced"] += 1


def pause_safe_primary(stage: Stage) -> None:
    """A primary stands still until it is replaced; every write was replicated."""
    pause_primary_for_long(stage)
    stage.windows.clear()


def kill_watched_primary(stage: Stage) -> None:
    """The primary is killed and the Sentinels make its replica the primary."""
    sentinels: Sentinels = stage.servers
    primary = sentinels.primary
    primary.kill()
    killed_ns = time.monotonic_ns()
    stage.windows.append(Window(killed_ns - LAG_NS, killed_ns, killed_ns + PASSED_ON_NS))
    wait_until(lambda: sentinels.primary is not primary, f"{primary.address} is replaced")
    sentinels.wait_until_whole()
    stage.counts["primaries killed and replaced"] += 1
    primary.restart()
    sentinels.wait_until_whole()


def _opened(options: tuple[str, ...], folder: object) -> RedisCluster:
    """In folders of its own: nothing of it is looked at afterwards."""
    return RedisCluster(None, *options, node_timeout_ms=NODE_TIMEOUT_MS)


def _choose(stage: Stage) -> tuple[RedisServer, frozenset[int]]:
    """A primary that has queues of the load, and their slots."""
    cluster: RedisCluster = stage.servers
    of_slot = {slot: cluster.primary_of(slot) for slot in SLOTS_IN_USE}
    primary = stage.chance.choice(list(of_slot.values()))
    return primary, frozenset(slot for slot, node in of_slot.items() if node is primary)


def _take_over(stage: Stage, primary: RedisServer) -> None:
    """The replica of a killed primary has its slots; the killed one is its replica."""
    cluster: RedisCluster = stage.servers
    # Before it starts again: it has kept nothing, and would still be the primary.
    wait_until(cluster.agrees, f"{primary.address} is replaced")
    stage.counts["primaries killed and replaced"] += 1
    primary.restart()
    cluster.wait_until_whole()
