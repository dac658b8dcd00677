"""A broker on an embedded store and one on Redis, and the command line in front of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.shell import Shell
from tests.server.broker import RunningBroker, start_broker
from tests.servers import stores
from tests.servers.redis_server import RedisServer

KINDS = tuple(kind for kind in stores.ALL if kind != "cluster")


@pytest.fixture(scope="session")
def embedded_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with start_broker(
        tmp_path_factory.mktemp("broker"), "--fsync", "no", is_forked=False
    ) as running:
        yield running


@pytest.fixture(scope="session", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """One of each kind for all tests here; each test uses queues of its own."""
    if request.param == stores.EMBEDDED:
        yield request.getfixturevalue("embedded_broker")
        return
    # Not the server that others use: they would find a broker there, and take what it has.
    with (
        RedisServer(on_socket=True) as server,
        start_broker(
            tmp_path_factory.mktemp("broker"), "--store", server.url, is_forked=False
        ) as running,
    ):
        yield running


@pytest.fixture
def embedded_shell(embedded_broker: RunningBroker) -> Shell:
    """For what is the same whatever the store is."""
    return Shell(embedded_broker.port)


@pytest.fixture
def shell(broker: RunningBroker) -> Shell:
    """What types `quinque …`; QUINQUE_URL says which broker."""
    return Shell(broker.port)


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue that no other test uses, of a name that needs no quotes."""
    return str(request.node.originalname)
