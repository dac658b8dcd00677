"""What goes wrong in a run, and when: one fault after the other, with some time between them."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from quinque.errors import QuinqueError
from tests.sim.brokers import Broker
from tests.sim.history import History
from tests.sim.network import Network

KINDS: Final = (
    *("kill", "power", "stop", "pause", "reset", "reset", "silence"),
    *("full", "files", "sync", "short", "jump", "compact"),
)


class Mischief:
    def __init__(
        self, brokers: list[Broker], network: Network, history: History, random: Random
    ) -> None:
        self._brokers = brokers
        self._network = network
        self._history = history
        self._random = random

    async def make(self, until_s: float, kinds: tuple[str, ...]) -> None:
        """Do mischief until then."""
        loop = asyncio.get_running_loop()
        while loop.time() < until_s:
            await asyncio.sleep(self._random.random() * 4)
            kind = self._random.choice(kinds)
            broker = self._random.choice(self._brokers)
            self._history.note(loop.time(), "fault", f"{kind} {broker.name}")
            self._history.count(f"fault {kind}")
            await getattr(self, f"_{kind}")(broker)
            await self.heal(broker)

    async def heal(self, broker: Broker) -> None:
        """It runs, if it had ended."""
        if not broker.is_up:
            await self._start(broker)

    async def _start(self, broker: Broker) -> None:
        broker.faults.__init__()  # type: ignore[misc]
        try:
            await broker.start()
        except (QuinqueError, OSError) as error:
            self._history.fail(f"{broker.name} does not start: {error}")

    async def _kill(self, broker: Broker) -> None:
        broker.kill()
        await asyncio.sleep(self._random.choice((0, 0, 1, 5)))

    async def _power(self, broker: Broker) -> None:
        broker.cut_power()
        await asyncio.sleep(self._random.choice((0, 1)))

    async def _stop(self, broker: Broker) -> None:
        await broker.stop()

    async def _pause(self, broker: Broker) -> None:
        broker.pause(self._random.choice((0.1, 2, 15)))

    async def _reset(self, broker: Broker) -> None:
        link = self._network.pick()
        if link is not None:
            link.abort()

    async def _silence(self, broker: Broker) -> None:
        link = self._network.pick()
        if link is not None:
            self._network.silence(link)

    async def _full(self, broker: Broker) -> None:
        broker.faults.is_full = True
        await asyncio.sleep(self._random.random() * 5)
        broker.faults.is_full = False

    async def _files(self, broker: Broker) -> None:
        broker.faults.has_no_files = True
        await asyncio.sleep(self._random.random() * 3)
        broker.faults.has_no_files = False

    async def _sync(self, broker: Broker) -> None:
        """A failed sync ends all writing until a restart."""
        broker.faults.fails_syncs = True
        await asyncio.sleep(self._random.random() * 2)
        broker.faults.fails_syncs = False
        broker.cut_power()

    async def _short(self, broker: Broker) -> None:
        broker.faults.writes_short = True
        await asyncio.sleep(self._random.random() * 3)
        broker.faults.writes_short = False

    async def _jump(self, broker: Broker) -> None:
        """The wall clock jumps; a broker that is up does not notice, one that starts does."""
        broker.skew_ns += self._random.choice((-3_600, -5, 5, 60)) * 1_000_000_000
        if broker.process is not None:
            broker.process.skew_ns = broker.skew_ns

    async def _compact(self, broker: Broker) -> None:
        if broker.is_up:
            broker.serving.store.compact()
