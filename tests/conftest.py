"""Fixtures for tests that need a broker. A test that needs special settings starts its own."""

from __future__ import annotations

import gc
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

from tests.limit import LIMIT_S, limited
from tests.model.effort import EFFORT, effort
from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client
from tests.servers import stores
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer

# Of every random test that says nothing else: the same examples each time, and none is too slow,
# which is a matter of what else the machine does.
settings.register_profile("quinque", effort(examples=100))
settings.load_profile("quinque")

_LIMIT_S = LIMIT_S * max(1, EFFORT)

# A shell that runs the tests in the background has these ignored, and so would every program that
# the tests start.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        is_ctrl_c = number is signal.SIGINT
        signal.signal(number, signal.default_int_handler if is_ctrl_c else signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest begin first: they are not what all others wait for in the end."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/faults/"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No collection of garbage looks at the tests themselves, now or later: it would find none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    with limited(_LIMIT_S):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    with limited(_LIMIT_S):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    with limited(_LIMIT_S):
        return (yield)


@pytest.fixture(scope="module")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """One broker for the tests of a file; each test uses queues of its own.

    Its store is an embedded one, or of the kind that stores.on_every_kind() asks for.
    """
    flags = stores.store_flags(request, getattr(request, "param", stores.EMBEDDED))
    with start_broker(tmp_path_factory.mktemp("broker"), *flags) as running:
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
def redis_server() -> Iterator[RedisServer]:
    """A real redis-server of this test process alone."""
    with RedisServer(on_socket=True) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The same, with nothing in it."""
    redis_server.flush()
    return redis_server.url


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[RedisCluster]:
    """A real Redis Cluster of this test process alone: three primaries, and no replicas, which
    would do again whatever their primaries do."""
    # Patient: on a busy machine a node may be silent for a while and yet be well.
    with RedisCluster(replicas=0, node_timeout_ms=15_000) as cluster:
        yield cluster


@pytest.fixture
def redis_cluster_url(redis_cluster: RedisCluster) -> str:
    """The same, with nothing in it."""
    redis_cluster.flush()
    return redis_cluster.url
