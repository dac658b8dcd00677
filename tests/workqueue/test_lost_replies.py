"""A reply that is lost on its way: what would do harm a second time is not sent again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.retry
import redis.retry
from redis.backoff import ConstantBackoff

from quinque.workqueue import Item
from tests.servers.cutting_proxy import CuttingProxy
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.workqueue.stage import AsyncWorkers, Picture, Worker, sync_worker

ITEM = Item("x", id="1")
PATIENT = (ConstantBackoff(0.01), 1_000)  # retries go on for longer than a reply can be lost
KINDS = ["redis", "single connection", "cluster"]


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return f"{{{request.node.name}}}"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture(params=["sync", "asyncio"])
def library(request: pytest.FixtureRequest) -> Any:
    """redis-py, as programs that wait or await use it."""
    return {"sync": redis, "asyncio": redis.asyncio}[request.param]


@pytest.mark.parametrize("act", ["add_unique_item", "add_item", "complete"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_safe_to_repeat_is_sent_once(
    act: str, kind: str, library: Any, prefix: str, request: pytest.FixtureRequest
) -> None:
    with _proxied(kind, library, prefix, request) as (worker, proxy, raw):
        # Connects, and lets Redis know the scripts.
        assert worker.add_item(ITEM)
        assert worker.complete(ITEM)
        if act == "complete":
            assert worker.add_item(ITEM)

        with _one_reply_is_lost(proxy), pytest.raises(redis.ConnectionError):
            getattr(worker, act)(ITEM)

        left = Picture(raw, prefix)
        assert (left.waiting, left.items) == (([], set()) if act == "complete" else (["1"], {"1"}))
        assert worker.complete(ITEM) == (act != "complete"), "the client goes on"


def test_what_is_safe_to_repeat_is_sent_again(
    library: Any, prefix: str, request: pytest.FixtureRequest
) -> None:
    with _proxied("redis", library, prefix, request) as (worker, proxy, _):
        worker.add_item(ITEM)
        held = worker.lease()
        assert held is not None
        assert worker.extend(held)

        with _one_reply_is_lost(proxy):
            assert worker.extend(held)


class Interruptible(redis.Connection):
    """A connection on which a signal handler raises as soon as a command is sent."""

    is_interrupted = False

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call, unused-ignore]
        if self.is_interrupted:
            raise KeyboardInterrupt


@pytest.mark.parametrize("act", ["complete", "extend"])
def test_the_reply_to_an_interrupted_command_is_not_that_of_another(
    act: str, server: RedisServer, prefix: str
) -> None:
    pool = redis.ConnectionPool(
        connection_class=Interruptible, host="127.0.0.1", port=server.port, max_connections=1
    )
    with server.client() as raw, redis.Redis(connection_pool=pool) as db:
        worker = sync_worker(db, prefix)
        worker.add_item(ITEM)
        held = worker.lease()
        assert held is not None
        raw.execute_command("CLIENT", "PAUSE", 100, "ALL")  # the reply comes later
        Interruptible.is_interrupted = True
        try:
            with pytest.raises(KeyboardInterrupt):
                getattr(worker, act)(held)
        finally:
            Interruptible.is_interrupted = False

        assert not getattr(worker, act)(Item("", id="unknown"))
        pool.disconnect()


@contextmanager
def _proxied(
    kind: str, library: Any, prefix: str, request: pytest.FixtureRequest
) -> Iterator[tuple[Worker, CuttingProxy, Any]]:
    """A worker whose connections to the keys' server pass the proxy, and a client that do not."""
    is_async = library is redis.asyncio
    options: dict[str, Any] = {"retry": library.retry.Retry(*PATIENT)}
    server: Any
    if kind == "cluster":
        cluster: RedisCluster = request.getfixturevalue("redis_cluster")
        with cluster.client() as client:
            server = cluster.primary_of(client.keyslot(prefix))
    else:
        server = request.getfixturevalue("server")
    with CuttingProxy("127.0.0.1", server.port) as proxy:
        where: dict[str, Any] = {"host": "127.0.0.1", "port": proxy.port}
        if kind == "cluster":
            options["address_remap"] = lambda address: (
                ("127.0.0.1", proxy.port) if address[1] == server.port else address
            )
            db, raw = library.RedisCluster(**where, **options), cluster.client()
        else:
            options["single_connection_client"] = kind == "single connection"
            db, raw = library.Redis(**where, **options), server.client()
        workers = AsyncWorkers()
        try:
            yield (workers.make if is_async else sync_worker)(db, prefix), proxy, raw
        finally:
            workers.close()
            raw.close()
            if not is_async:
                db.close()


@contextmanager
def _one_reply_is_lost(proxy: CuttingProxy) -> Iterator[None]:
    """Within, the reply to the next request is; all others arrive."""

    def mend() -> None:
        proxy.wait_for_cut()
        proxy.go_on()

    mending = threading.Thread(target=mend)
    proxy.cut(to_client=0)
    mending.start()
    yield
    mending.join()
