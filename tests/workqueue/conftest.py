"""A queue of its own for each test, on one Redis; `worker` comes once for each kind of WorkQueue.

`place` is a single Redis; a test that asks for `on_cluster` too has a cluster as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.workqueue.stage import AsyncWorkers, Place, Worker, sync_worker

Make = Callable[..., Worker]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames:
        is_both = "on_cluster" in metafunc.fixturenames
        kinds = ["redis", "cluster"] if is_both else ["redis"]
        metafunc.parametrize("place", kinds, indirect=True, scope="session")


@pytest.fixture
def on_cluster() -> None:
    """The test is for a cluster too."""


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        with server.client() as raw:
            yield Place(
                raw,
                lambda **options: redis.Redis.from_url(server.url, **options),
                lambda **options: redis.asyncio.Redis.from_url(server.url, **options),
            )
        return
    cluster: RedisCluster = request.getfixturevalue("redis_cluster")
    where: dict[str, Any] = {"host": "127.0.0.1", "port": cluster.nodes[0].port}
    with cluster.client() as raw:
        yield Place(
            raw,
            lambda **options: redis.RedisCluster(**where, **options),
            lambda **options: redis.asyncio.RedisCluster(**where, **options),
        )


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """Of a queue that no other test uses, with a hash tag, and with what a pattern means."""
    return f"{{{request.node.name}}}*?"


@pytest.fixture(params=["sync", "asyncio"])
def make(request: pytest.FixtureRequest, place: Place, prefix: str) -> Iterator[Make]:
    """Makes one more worker of the queue; `client` are options of its client."""
    opened: list[Any] = []
    others = AsyncWorkers()

    def make_one(
        name: str = prefix, client: dict[str, Any] | None = None, **settings: Any
    ) -> Worker:
        if request.param == "asyncio":
            return others.make(place.open_async(**(client or {})), name, **settings)
        opened.append(place.open(**(client or {})))
        return sync_worker(opened[-1], name, **settings)

    yield make_one
    others.close()
    for db in opened:
        db.close()


@pytest.fixture
def worker(make: Make) -> Worker:
    return make()
