"""Fixtures for tests that need a broker. A test that needs special settings starts its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
