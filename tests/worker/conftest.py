"""A broker for all tests here, and what a worker inside the test needs (inside.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import quinque
from quinque.client.sync.queues import Queues
from tests.server.broker import RunningBroker, start_broker
from tests.servers import stores
from tests.worker.inside import CountingApp


@pytest.fixture(scope="session")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """As that of all other tests, but one for all files: each test has queues of its own."""
    flags = stores.store_flags(request, getattr(request, "param", stores.EMBEDDED))
    with start_broker(tmp_path_factory.mktemp("broker"), *flags) as running:
        yield running


@pytest.fixture
def app(broker: RunningBroker) -> CountingApp:
    """An app without handlers, on the broker of the tests' file."""
    return CountingApp(f"redis://127.0.0.1:{broker.port}")


@pytest.fixture
def queues(app: CountingApp) -> Iterator[Queues]:
    """The queues of the same broker."""
    with quinque.connect(app.url) as connected:
        yield connected
