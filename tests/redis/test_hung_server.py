"""Redis, or a replica of it, does not answer for a while: every client gets a reply in
time, and afterwards all requests work again."""

from __future__ import annotations

import asyncio
import re
import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from quinque.errors import NoReplicas, NotDone, StoreUnavailable
from quinque.model.families import ITEMS, JOBS
from quinque.model.limits import NEVER_MS
from quinque.model.tube_ops import JoinSession, LeaveSession
from quinque.model.work_ops import Add, Take, Terms
from quinque.stores.pending import Pending
from quinque.stores.redis import runners, sessions, ticks
from quinque.stores.redis.calls import Call, Steps
from quinque.stores.redis.courier import Courier, Errand
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import PARTITIONS
from quinque.stores.redis.link import Link
from quinque.stores.redis.served import ServedRedisStore
from quinque.stores.redis.store import RedisStore
from quinque.stores.redis.urls import Address
from tests.conformance import item_words
from tests.conformance.item_words import ITEMS_QUEUE
from tests.conformance.tube_words import OTHER, counts, join, make, put, take
from tests.server.broker import start_broker
from tests.server.resp import Refusal
from tests.servers.cutting_proxy import CuttingProxy
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
    with closing(RedisStore(server.url, timeout_s=TIMEOUT_S)) as store:
        make(store)
        for _ in range(2):
            join(store, SESSION, is_new=True)
        put(store, b"1")
        taken = take(store, session=SESSION)
        server.pause()
        store.run(LeaveSession(SESSION, keep_ms=0))

        # Redis now gets what the broker sent meanwhile, and then the next heartbeat.
        server.go_on()
        store.finish(sessions.beat(store._store.edge))
        store.tick()
        assert counts(store)[:2] == (0, 1)
        with closing(RedisStore(server.url, node="other")) as other:
            join(other, OTHER, is_new=True)
            assert take(other, session=OTHER) == []
        store.run(LeaveSession(SESSION, keep_ms=0))
        assert take(store, session=OTHER) == taken


def test_a_connection_whose_leaving_is_not_heard_leaves_once(server: RedisServer) -> None:
    with (
        CuttingProxy("127.0.0.1", server.port) as proxy,
        closing(RedisStore(proxy.url, timeout_s=PATIENCE_S)) as store,
    ):
        make(store)
        for _ in range(2):
            join(store, SESSION, is_new=True)
        put(store, b"1")
        take(store, session=SESSION)
        proxy.cut(to_client=0, is_once=True)
        store.run(LeaveSession(SESSION, keep_ms=0))

        store.finish(sessions.beat(store._store.edge))
        store.tick()
        assert proxy.cuts == 1
        assert counts(store)[:2] == (0, 1)


def test_a_broker_on_a_hung_server_answers_and_ends(server: RedisServer, tmp_path: Path) -> None:
    flags = ("--store", server.url, "--store-timeout", "500ms")
    with start_broker(tmp_path, *flags) as broker, ExitStack() as connected:
        one, two = (connected.enter_context(broker.connect()) for _ in range(2))
        server.pause()
        for _ in range(2):
            assert re.match("UNAVAILABLE|NOTDONE", one.call("TUBE.IDENTIFY", "me").text)
        assert two.call("PING") == b"PONG"

        server.go_on()
        while isinstance(one.call("TUBE.IDENTIFY", "me"), Refusal):
            pass
        server.pause()
        one.send("TUBE.IDENTIFY", "other")
        assert broker.stop() == 0


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


def test_a_server_that_answers_one_request_after_the_other_is_not_given_up(
    server: RedisServer,
) -> None:
    """Requests that were sent together take longer than a request may wait for an answer."""

    async def play() -> None:
        store = await ServedRedisStore.open(server.url, timeout_s=PATIENCE_S, is_alone=True)
        [courier] = store._routes._couriers.values()
        server.pause()
        first, second = (store.start(ticks.look_at_partitions(store.edge)) for _ in range(2))
        while not courier._under_way:
            await asyncio.sleep(0)
        assert list(courier._batches) == [2]

        courier._sent_s -= 2 * PATIENCE_S
        assert courier._link is not None
        courier._link.data_received(b"*4\r\n" + b"*0\r\n" * 4)
        for _ in range(2):
            courier._look_at_time()

        assert first.is_settled
        assert not second.is_settled
        assert len(courier._under_way) == 1, "the connection is as it was"
        store.close()

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


def test_a_store_closes_soon_though_requests_may_wait_for_very_long(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quinque.stores.redis.served._CLOSE_S", 0.1, raising=False)

    async def play() -> None:
        store = await ServedRedisStore.open(server.url, timeout_s=3_600)
        await settled(store.run(JoinSession(SESSION, is_new=True)))
        server.pause()
        waiting = store.run(add(None))

        await asyncio.wait_for(store.aclose(), PATIENCE_S)
        with pytest.raises((NotDone, StoreUnavailable)):
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


def test_a_take_that_one_server_refuses_and_another_may_have_done_is_unknown(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(RedisStore(server.url, timeout_s=TIMEOUT_S)) as store:
        for queue in (b"a", b"b"):
            store.run(Add(JOBS, queue, [b"1"], Terms(60_000)))
        routes = store._store._routes
        post = routes.post

        def answer(calls: Sequence[Call], then: Callable[[list[Any]], None]) -> None:
            if calls[0].script == "take":
                then([NotDone("refused"), StoreUnavailable("no answer")])
            else:
                post(calls, then)

        with monkeypatch.context() as patched:
            patched.setattr(routes, "post", answer)
            with pytest.raises(StoreUnavailable, match="no answer"):
                store.run(Take(JOBS, [b"a", b"b"], 2))


@pytest.mark.parametrize("queues", [[ITEMS_QUEUE], [ITEMS_QUEUE, b"{other}"]])
def test_items_that_were_leased_before_a_call_failed_are_delivered(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, queues: list[bytes]
) -> None:
    with closing(RedisStore(server.url, timeout_s=TIMEOUT_S)) as store:
        ids = [b"%d" % number for number in range(500)]  # as many as one call leases
        item_words.add(store, *ids, b"one more")
        routes = store._store._routes
        post, takes = routes.post, list[Call]()

        def answer(calls: Sequence[Call], then: Callable[[list[Any]], None]) -> None:
            takes.extend(call for call in calls if call.script == "items_take")
            if len(takes) > 1:
                then([StoreUnavailable("no answer")])
            else:
                post(calls, then)

        with monkeypatch.context() as patched:
            patched.setattr(routes, "post", answer)
            given = store.run(Take(ITEMS, queues, 501, lease_ms=60_000))
        assert [it.message_id for it in given] == ids


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
