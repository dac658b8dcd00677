"""Redis, or a replica of it, does not answer for a while: every client gets a reply in
time, and afterwards all requests work again."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from quinque.errors import NoReplicas, NotDone, StoreUnavailable
from quinque.model.families import JOBS
from quinque.model.limits import NEVER_MS
from quinque.model.tube_ops import JoinSession, LeaveSession
from quinque.model.work_ops import Add, Terms
from quinque.stores.pending import Pending
from quinque.stores.redis import runners
from quinque.stores.redis.calls import Call, Steps
from quinque.stores.redis.courier import Courier, Errand
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import PARTITIONS
from quinque.stores.redis.link import Link
from quinque.stores.redis.served import ServedRedisStore
from quinque.stores.redis.store import RedisStore
from quinque.stores.redis.urls import Address
from tests.servers.patience import PATIENCE_S, wait_until
from tests.servers.redis_server import RedisServer

TIMEOUT_S = 2.0
SESSION = b"me"


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running
        running.go_on()


def test_an_error_that_is_its_own_cause_is_told_once() -> None:
    error = NotDone("x")
    error.__cause__ = error
    pending = Pending()

    pending.fail(error)
    with pytest.raises(NotDone):
        pending.value()


def test_a_session_is_joined_when_the_server_answers_again(server: RedisServer) -> None:
    store = RedisStore(server.url, timeout_s=TIMEOUT_S)
    server.pause()
    with pytest.raises((NotDone, StoreUnavailable)):
        store.run(JoinSession(SESSION, is_new=True))

    server.go_on()
    store.run(JoinSession(SESSION, is_new=True))
    store.close()


def test_a_session_that_could_not_be_left_keeps_its_other_connection(server: RedisServer) -> None:
    store = RedisStore(server.url, timeout_s=TIMEOUT_S)
    store.run(JoinSession(SESSION, is_new=True))
    store.run(JoinSession(SESSION, is_new=True))
    server.pause()
    store.run(LeaveSession(SESSION, keep_ms=0))

    server.go_on()
    assert store._store.edge.sessions.total == 1
    store.close()


def test_a_request_does_not_wait_longer_because_a_connection_is_being_made() -> None:
    async def play() -> None:
        loop = asyncio.get_running_loop()
        given_back: asyncio.Future[Errand] = loop.create_future()

        async def connect(address: Address) -> Link:
            never: asyncio.Future[Link] = loop.create_future()
            return await never  # the server accepts it, and says nothing

        def back(errand: Errand, code: str, text: str) -> None:
            given_back.set_result(errand)

        courier = Courier(Address("127.0.0.1", 1), connect, loop, PATIENCE_S, back)
        call = Call("find_partitions", [PARTITIONS], [])
        late, later = (
            Errand(call, 0, loop.time() + left_s, print) for left_s in (0.01, PATIENCE_S)
        )
        courier.post(later)
        await asyncio.sleep(0)
        courier.post(late)  # it was tried before

        async with asyncio.timeout(PATIENCE_S):
            assert await given_back is late
        assert courier.take_back() == [later]
        courier.close()

    asyncio.run(play())


@pytest.mark.parametrize("is_there", [True, False])
def test_an_answer_that_came_while_the_broker_stood_still_counts(
    server: RedisServer, is_there: bool
) -> None:
    """An event loop may look at its timers before it reads."""

    async def play() -> None:
        store = await ServedRedisStore.open(server.url, timeout_s=PATIENCE_S, is_alone=True)
        [courier] = store._routes._couriers.values()
        assert courier._link is not None
        assert courier._link._transport is not None
        sock = courier._link._transport.get_extra_info("socket")
        if not is_there:
            server.pause()
        waiting = store.run(Add(JOBS, b"w", [b"1"], Terms(60_000)))
        while not courier._under_way:
            await asyncio.sleep(0)
        if is_there:
            assert select.select([sock], [], [], PATIENCE_S)[0], "Redis has answered"

        courier._sent_s -= 2 * PATIENCE_S
        courier._look_at_time()
        if is_there:
            assert len(await settled(waiting)) == 1
        else:
            courier._look_at_time()
            server.go_on()
            with pytest.raises(StoreUnavailable, match="no answer within 60 s"):
                await settled(waiting)
        await store.aclose()

    asyncio.run(play())


@pytest.fixture
def replica(server: RedisServer) -> Iterator[RedisServer]:
    with RedisServer(replica_of=server) as running:
        wait_until(lambda: server.has_followers({running.port}), "the replica follows")
        yield running
        running.go_on()


def test_a_job_that_waits_for_a_replica_is_answered_beside_one_that_does_not(
    server: RedisServer, replica: RedisServer
) -> None:
    async def play() -> None:
        store = await ServedRedisStore.open(server.url, timeout_s=TIMEOUT_S, is_alone=True)
        await settled(store.run(add(NEVER_MS)))
        replica.pause()
        waiting = store.run(add(400))
        # On a slow machine its time may be over before it is seen.
        while not waiting.is_settled and b"cmd=wait" not in server.ask("CLIENT", "LIST"):
            await asyncio.sleep(0)
        await settled(store.run(add(None)))

        with pytest.raises(NoReplicas):
            await settled(waiting)
        await store.aclose()

    asyncio.run(play())


def test_a_store_closes_though_a_job_waits_for_a_replica(
    server: RedisServer, replica: RedisServer
) -> None:
    async def play() -> None:
        store = await ServedRedisStore.open(server.url, timeout_s=TIMEOUT_S, is_alone=True)
        await settled(store.run(add(NEVER_MS)))
        replica.pause()
        waiting = store.run(add(NEVER_MS))

        await store.aclose()
        with pytest.raises(StoreUnavailable):
            await settled(waiting)

    asyncio.run(play())


def add(confirm_ms: int | None) -> Add:
    return Add(JOBS, b"w", [b"1"], Terms(60_000, replicas=2), confirm_ms=confirm_ms)


async def settled(pending: Pending) -> Any:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    pending.then(future.set_result, future.set_exception)
    return await future


def test_a_job_that_has_to_be_added_again_and_is_then_refused_was_not_added(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RedisStore(server.url, timeout_s=TIMEOUT_S)
    routes = store._store._routes
    post = routes.post
    # The first call has only removed expired jobs, and says so.
    outcomes = [[[-1], [], [], 1], NotDone("refused")]

    def answer(calls: Sequence[Call], then: Callable[[list[Any]], None]) -> None:
        if calls[0].script == "add":
            then([outcomes.pop(0), *[NotDone("refused") for _ in calls[1:]]])
        else:
            post(calls, then)

    monkeypatch.setattr(routes, "post", answer)
    with pytest.raises(NotDone):
        store.run(Add(JOBS, b"w", [b"1"], Terms(60_000), max_length=1))
    assert outcomes == []
    store.close()


def test_a_defect_in_the_steps_of_an_operation_fails_this_operation_alone(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(op: Add, edge: Edge) -> Steps:
        yield []
        raise KeyError("x")

    store = RedisStore(server.url, timeout_s=TIMEOUT_S)
    with monkeypatch.context() as patched:
        patched.setitem(runners.RUNNERS, Add, fail)
        with pytest.raises(StoreUnavailable, match="KeyError"):
            store.run(add(None))

    store.run(JoinSession(SESSION, is_new=True))
    store.close()
