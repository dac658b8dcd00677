"""Fixtures for tests that need a broker. A test that needs special settings starts its own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """One broker for the tests of a file; each test uses queues of its own."""
    with start_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[Client]:
    """A new connection, which speaks RESP2."""
    with broker.connect() as connected:
        yield connected


@pytest.fixture
def other(broker: RunningBroker) -> Iterator[Client]:
    """A second connection, which speaks RESP2."""
    with broker.connect() as connected:
        yield connected


@pytest.fixture
def client3(broker: RunningBroker) -> Iterator[Client]:
    """A new connection, which speaks RESP3."""
    with broker.connect() as connected:
        connected.call("HELLO", 3)
        yield connected


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue that no other test uses."""
    return str(request.node.name)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """A real redis-server of this test process alone, on a socket in a folder of its own: no port
    that two of them could both choose."""
    folder = Path(tempfile.mkdtemp(prefix="quinque-redis-"))  # short: a socket's path has 107 bytes
    path = folder / "socket"
    options = ["--port", "0", "--unixsocket", str(path), "--dir", str(folder)]
    process = subprocess.Popen(
        ["redis-server", *options, "--save", "", "--appendonly", "no"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if "eady to accept connections" in line:
            break
    else:
        raise AssertionError("redis-server did not start:\n" + "".join(said))
    yield f"unix://{path}"
    process.kill()
    process.communicate()
    shutil.rmtree(folder)


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """The same, with nothing in it."""
    with redis.Redis.from_url(redis_server) as client:
        client.flushall()
    return redis_server
