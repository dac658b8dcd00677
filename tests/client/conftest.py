"""The queues of a program, in both colours and on all that they run on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import quinque
import quinque.aio
from tests.client.awaited import Awaited, Loop
from tests.server.broker import RunningBroker, start_broker
from tests.servers.redis_server import RedisServer

RUNNERS = ("broker", "redis", "folder")


@pytest.fixture(scope="session")
def embedded_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with start_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def redis_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """On a server of its own: other tests empty the one that they share."""
    folder = tmp_path_factory.mktemp("served")
    with (
        RedisServer(on_socket=True) as server,
        start_broker(folder, "--store", server.url) as running,
    ):
        yield running


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue that no other test uses: those of one name in two modules are of two families."""
    return f"{request.module.__name__}:{request.node.name}"


class Opener:
    """quinque.connect and quinque.open in one colour, and all is closed in the end."""

    def __init__(self, colour: str) -> None:
        self._module: Any = quinque if colour == "sync" else quinque.aio
        self._stack = ExitStack()
        self._loop = Loop() if colour == "aio" else None
        if self._loop is not None:
            self._stack.callback(self._loop.close)

    def connect(self, url: str, **settings: Any) -> Any:
        return self._kept(self._module.connect(url, **settings))

    def open(self, folder: Path, **settings: Any) -> Any:
        return self._kept(self._module.open(folder, **settings))

    def close(self) -> None:
        self._stack.close()

    def _kept(self, queues: Any) -> Any:
        opened = queues if self._loop is None else Awaited(queues, self._loop)
        return self._stack.enter_context(opened)


@pytest.fixture(params=["sync", "aio"])
def opener(request: pytest.FixtureRequest) -> Iterator[Opener]:
    it = Opener(request.param)
    yield it
    it.close()


@pytest.fixture(params=[f"{colour}-{runner}" for runner in RUNNERS for colour in ("sync", "aio")])
def queues(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """What quinque.connect or quinque.open gives."""
    colour, runner = request.param.split("-")
    opener = Opener(colour)
    try:
        if runner == "folder":
            yield opener.open(tmp_path / "queues", fsync="no")
        else:
            name = "embedded_broker" if runner == "broker" else "redis_broker"
            running: RunningBroker = request.getfixturevalue(name)
            yield opener.connect(f"redis://127.0.0.1:{running.port}")
    finally:
        opener.close()
