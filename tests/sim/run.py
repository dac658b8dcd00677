"""One run: a seed becomes a broker, clients, faults, and a verdict."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TextIO

from tests.sim import processes
from tests.sim.brokers import Broker, install_crashes
from tests.sim.client import Connection, Lost, Refused
from tests.sim.disk import Disk
from tests.sim.families import FAMILIES, Agent
from tests.sim.faults import KINDS, Mischief
from tests.sim.history import Broken, History
from tests.sim.loop import SimLoop, Stuck
from tests.sim.network import Network
from tests.sim.times import Times

SETTLE_S = 60.0  # after the last fault, until all leases and delays have ended


@dataclass
class Verdict:
    seed: int
    failure: str
    fingerprint: int
    simulated_s: float
    lines: list[str]
    counts: dict[str, int]


class Sim:
    """The world of one run."""

    def __init__(
        self,
        seed: int,
        times: Times,
        seconds: float,
        root: Path,
        families: tuple[str, ...] = (),
        faults: tuple[str, ...] = (),
    ) -> None:
        self.random = Random(seed)
        self._seconds = seconds
        times.begin(Random(seed + 1))
        times.skew_ns = processes.skew_ns
        self._times = times
        self.network = Network(Random(seed + 2))
        self.disk = Disk(Random(seed + 3))
        self.disk.install(root)
        self.history = History()
        random = self.random
        settings: dict[str, Any] = {
            "segment_size": random.choice((3_000, 20_000, 1 << 20)),
            "maxmemory": random.choice((0, 0, 1, 10_000)),
            "lifecycle": random.random() < 0.5,
            "shutdown_timeout": 5.0,
            "output_buffer_limit": random.choice((20_000, 64 << 20)),
        }
        broker = Broker("a", root / "a", self.network, self.disk, settings)
        self.brokers = [broker]
        install_crashes({it.name: it for it in self.brokers})
        self.agents: list[Agent] = []
        names = random.sample(sorted(FAMILIES), random.randint(1, len(FAMILIES)))
        names = list(families) or names
        for family in names:
            queues = [f"{family}{number}" for number in range(random.randint(1, 3))]
            while len(queues) < 2:
                queues.append(f"{family}-other")
            for number in range(random.randint(1, 3)):
                agent = FAMILIES[family](
                    f"{family}:{number}",
                    self.network,
                    broker.address,
                    self.history,
                    Random(random.random()),
                    queues,
                )
                self.agents.append(agent)
        kinds = random.sample(KINDS, random.randint(0, 5))
        self.kinds = faults if families else tuple(kinds)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        broker = self.brokers[0]
        await broker.start()
        mischief = Mischief(self.brokers, self.network, self.history, self.random)
        tasks = [asyncio.ensure_future(agent.live()) for agent in self.agents]
        ends_s = loop.time() + self._seconds
        if self.kinds:
            tasks.append(asyncio.ensure_future(mischief.make(ends_s, self.kinds)))
        while loop.time() < ends_s:
            await asyncio.sleep(0.5)
            for task in tasks:
                if task.done() and task.exception() is not None:
                    raise task.exception()  # type: ignore[misc]
            self._check_crashes()
        for agent in self.agents:
            agent.is_over = True
        await asyncio.gather(*tasks)
        self._check_crashes()
        if self.random.random() < 0.7:
            broker.kill()
        await mischief.heal(broker)
        await asyncio.sleep(SETTLE_S)
        for family in {agent.family: None for agent in self.agents}:
            agent = next(it for it in self.agents if it.family == family)
            agent._address = broker.address
            await self._drain(agent)
        await broker.stop()
        self._check_crashes()

    async def _drain(self, agent: Agent) -> None:
        for _ in range(5):
            agent.connection = Connection(self.network, self.brokers[0].address)
            try:
                await agent.check_end()
            except Lost:
                continue
            except Refused as error:
                self.history.fail(f"the {agent.family} cannot be read in the end: {error}")
            agent.connection.close()
            return
        self.history.fail(f"the {agent.family} cannot be read in the end")

    def _check_crashes(self) -> None:
        for broker in self.brokers:
            if broker.crashes:
                self.history.fail(f"{broker.name} crashed: {broker.crashes[0]}")


def play(
    seed: int,
    times: Times,
    seconds: float,
    families: tuple[str, ...] = (),
    faults: tuple[str, ...] = (),
    trace: TextIO | None = None,
) -> Verdict:
    """Run the seed for so many simulated seconds, with these families and faults. If they are not
    given, the seed chooses them."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    root = Path(tempfile.mkdtemp(prefix="quinque-sim-", dir=memory))
    failure = ""
    began_s = times.now_s
    sim = Sim(seed, times, seconds, root, families, faults)
    sim.history.trace = trace
    loop = SimLoop(times, sim.network)
    loop.set_exception_handler(_unexpected(sim.history))
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(sim.run())
    except Broken as broken:
        failure = str(broken)
    except Stuck as stuck:
        failure = f"stuck: {stuck}"
    finally:
        for broker in sim.brokers:
            broker.kill()
        shutil.rmtree(root, ignore_errors=True)
    return Verdict(
        seed,
        failure,
        sim.history.fingerprint,
        times.now_s - began_s,
        list(sim.history.lines),
        sim.history.counts,
    )


def _unexpected(history: History) -> Any:
    def handle(loop: Any, context: dict[str, Any]) -> None:
        exc = context.get("exception")
        if isinstance(exc, processes.Ended):
            return
        logging.getLogger("tests.sim").error("%s %r", context.get("message"), exc, exc_info=exc)
        history.note(loop.time(), "loop", f"{context.get('message')} {exc!r}")

    return handle
