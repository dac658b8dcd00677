"""What is done to brokers and to a Redis that stands alone, once for each strike.

Called by   redis_faults.py (its table).
Calls       tests/servers, through the stage.

Each leaves everything on its way to be well again.

Not here: a cluster (cluster_strikes.py), the load (redis_run.py).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final, Self

from tests.faults.redis_run import Stage
from tests.faults.unanswered import Window
from tests.servers.cutting_proxy import CuttingProxy
from tests.servers.redis_server import RedisServer

# Redis puts off a write while it syncs, for two seconds at most.
EVERYSEC_NS: Final = 2_200_000_000
STORE_TIMEOUT_S: Final = 1.0
PAUSES_S: Final = (0.01, 0.4)
LONG_PAUSES_S: Final = (1.2, 1.8)  # longer than STORE_TIMEOUT_S
BYTES_TO_A_CUT: Final = (0, 20_000)


class ProxiedRedis:
    """A Redis that each of two brokers reaches by a network of its own."""

    def __init__(self, folder: Path) -> None:
        self.server = RedisServer(folder=folder)
        self.proxies = [CuttingProxy("127.0.0.1", self.server.port) for _ in range(2)]
        self.urls = [proxy.url for proxy in self.proxies]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for proxy in self.proxies:
            proxy.close()
        self.server.close()


def kill_broker(stage: Stage) -> None:
    """One broker is killed; its clients go on at the other; it starts again."""
    broker = stage.chance.choice(stage.brokers)
    broker.kill()
    stage.counts["brokers killed"] += 1
    if stage.chance.random() < 0.25:
        stage.clients.kill_one(stage.chance)
        stage.counts["clients killed"] += 1
    stage.wait_for_replies()
    broker.restart()
    stage.go()


def flush_scripts(stage: Stage) -> None:
    """Redis forgets all scripts."""
    server: RedisServer = stage.servers
    server.ask("SCRIPT", "FLUSH", stage.chance.choice(("SYNC", "ASYNC")))
    stage.counts["scripts forgotten"] += 1


def restart_redis(stage: Stage) -> None:
    """Redis is killed, or ends in order, and reads back what it has written."""
    server: RedisServer = stage.servers
    if stage.chance.random() < 0.75:
        server.kill()
        stage.counts["Redis killed"] += 1
    else:
        server.stop()
        stage.counts["Redis stopped"] += 1
    server.restart()


def restart_forgetful_redis(stage: Stage) -> None:
    """Redis, which syncs once a second, is killed and reads back what it has written."""
    server: RedisServer = stage.servers
    for _ in range(5):
        stage.wait_for_replies()  # or windows would leave nothing between them
    server.kill()
    killed_ns = time.monotonic_ns()
    stage.windows.append(Window(killed_ns - EVERYSEC_NS, killed_ns, killed_ns))
    stage.counts["Redis killed"] += 1
    server.restart()


def pause_redis(stage: Stage) -> None:
    """Redis stands still, shorter than a request waits for it."""
    _pause(stage, stage.chance.uniform(*PAUSES_S))


def pause_redis_for_long(stage: Stage) -> None:
    """Redis stands still, longer than a request waits for it, and then does all it was told."""
    _pause(stage, stage.chance.uniform(*LONG_PAUSES_S))


def break_network(stage: Stage) -> None:
    """The network of one broker stalls, cuts, breaks off or refuses, and goes on."""
    servers: ProxiedRedis = stage.servers
    proxy = stage.chance.choice(servers.proxies)
    match stage.chance.choice(("cut a request", "cut a reply", "stalled", "broken", "refused")):
        case "cut a request":
            proxy.cut(to_server=stage.chance.randint(*BYTES_TO_A_CUT))
            proxy.wait_for_cut(proxy.cuts + 1)
            stage.counts["network cut in a request"] += 1
        case "cut a reply":
            proxy.cut(to_client=stage.chance.randint(*BYTES_TO_A_CUT))
            proxy.wait_for_cut(proxy.cuts + 1)
            stage.counts["network cut in a reply"] += 1
        case "stalled":
            ways = stage.chance.choice(((True, False), (False, True), (True, True)))
            proxy.stall(*ways)
            _pass(stage.chance.uniform(0.1, LONG_PAUSES_S[1]))
            stage.counts["network stalled"] += 1
        case "broken":
            proxy.drop()
            stage.counts["network broken off"] += 1
        case _:
            proxy.refuse()
            _pass(stage.chance.uniform(0.0, LONG_PAUSES_S[1]))
            stage.counts["network refused"] += 1
    proxy.go_on()


def _pause(stage: Stage, pause_s: float) -> None:
    server: RedisServer = stage.servers
    server.pause()
    _pass(pause_s)
    server.go_on()
    stage.counts["Redis paused"] += 1


def _pass(span_s: float) -> None:
    """The fault itself lasts so long: nothing is waited for."""
    time.sleep(span_s)
