"""Brokers of a run: each with its address, folder and process, which may end and start again."""

from __future__ import annotations

import asyncio
import logging
from contextvars import copy_context
from pathlib import Path
from typing import Any

from quinque.cli import serve
from quinque.server.broker import Broker as ServedBroker
from quinque.server.config import Config
from quinque.server.users import Users
from tests.sim.disk import Disk, Faults
from tests.sim.network import Network
from tests.sim.processes import PROCESS, Ended, Process

log = logging.getLogger("tests.sim")


class Broker:
    """One broker. It has the same address and folder each time it runs."""

    def __init__(self, name: str, folder: Path, network: Network, disk: Disk, config: Any) -> None:
        self.name = name
        self.address = (f"10.0.1.{len(name)}", 4777)
        self.folder = folder
        self._network = network
        self._disk = disk
        self._settings = config
        self.process: Process | None = None
        self._stopping: asyncio.Event | None = None
        self._task: asyncio.Task[int] | None = None
        self.starts = 0
        self.crashes: list[str] = []
        self.skew_ns = 0
        self.serving: Any = None  # the Broker of the package
        disk.faults[name] = Faults()
        self.faults = disk.faults[name]

    @property
    def is_up(self) -> bool:
        return self.process is not None and not self.process.is_dead and self.serving is not None

    async def start(self) -> None:
        """It listens. Raises what its start raises."""
        self.starts += 1
        process = self.process = Process(self.name)
        process.skew_ns = self.skew_ns
        self.serving = None
        context = copy_context()
        context.run(PROCESS.set, process)
        config = Config(dir=str(self.folder), listen=[f"{self.address[0]}:{self.address[1]}"])
        for name, value in self._settings.items():
            setattr(config, name, value)
        loop = asyncio.get_running_loop()
        listening = loop.create_future()
        self._task = loop.create_task(self._run(config, listening), context=context)
        process.remains += [self._task, context]
        await listening

    async def _run(self, config: Config, listening: asyncio.Future[None]) -> int:
        try:
            store = await serve.open_store(config)
        except Exception as exc:
            assert self.process is not None
            self.process.is_dead = True
            self._disk.kill(self.process)
            listening.set_exception(exc)
            return 2
        broker = self

        class Told(ServedBroker):  # the broker, and its event to stop
            def __init__(self, *args: Any) -> None:
                super().__init__(*args)
                broker.serving = self
                broker._stopping = self.stop.__self__  # type: ignore[attr-defined]
                if not listening.done():
                    self.loop.call_soon(listening.set_result, None)

        module: Any = serve
        module.Broker = Told
        try:
            served = asyncio.ensure_future(
                serve._serve_from(store, config, Users.from_config(config))
            )
            await asyncio.sleep(0)  # it has made its Broker
        finally:
            module.Broker = ServedBroker
        try:
            return await served
        finally:
            await serve.close_store(store)

    async def stop(self) -> None:
        """It stops as it does after SIGTERM."""
        if self.process is None or self._stopping is None or self._task is None:
            return
        self._stopping.set()
        await asyncio.wait([self._task], timeout=60)
        assert self._task.done(), f"{self.name} does not stop"
        self._end()

    def kill(self) -> None:
        """It ends at once, as after SIGKILL."""
        if self.process is not None and not self.process.is_dead:
            self._end()

    def cut_power(self) -> None:
        """It ends at once, and its disk loses what was not synced."""
        self.kill()
        self._disk.cut_power(self.folder)

    def pause(self, seconds: float) -> None:
        if self.process is not None:
            self.process.paused_until_s = asyncio.get_running_loop().time() + seconds

    def _end(self) -> None:
        process = self.process
        assert process is not None
        process.is_dead = True
        process.remains += [self.serving, self._task]
        if self._task is not None:
            self._task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._network.kill(self.address)
        self._disk.kill(process)
        self.serving = None

    def crashed(self, what: str, exc: BaseException) -> None:
        """The broker ended itself, as its last net does."""
        log.info("%s crashed in %s: %r", self.name, what, exc)
        self.crashes.append(f"{what}: {exc!r}")
        self._end()


def install_crashes(brokers: dict[str, Broker]) -> None:
    """A broker that ends itself ends in the simulation, not in the process."""

    def crash(what: str, exc: BaseException) -> None:
        process = PROCESS.get()
        assert process is not None
        brokers[process.name].crashed(what, exc)
        raise Ended

    serve._crash = crash
