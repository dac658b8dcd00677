"""Brokers that share a Redis: what one is told, all of them know, and none of them is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from quinque.model.families import JOBS
from quinque.model.work_ops import Add, Terms
from quinque.stores.redis.keys import CONSUMERS
from quinque.stores.redis.store import RedisStore
from tests.server.broker import RunningBroker, start_broker, wait_until
from tests.server.resp import Client
from tests.servers import stores
from tests.servers.redis_server import RedisServer


@pytest.fixture(params=stores.SHARED)
def brokers(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[RunningBroker, RunningBroker]]:
    store = stores.store_flags(request, request.param)
    with (
        start_broker(tmp_path / "one", *store) as one,
        start_broker(tmp_path / "two", *store) as two,
    ):
        yield one, two


Brokers = tuple[RunningBroker, RunningBroker]


def test_a_broker_says_which_store_it_has_opened(brokers: Brokers) -> None:
    store = brokers[0].flags[brokers[0].flags.index("--store") + 1]

    assert brokers[0].has_said(f"opened {store}")


def test_what_one_was_given_the_other_hands_out(brokers: Brokers) -> None:
    with brokers[0].connect() as one, brokers[1].connect() as two:
        id = one.call("ADDJOB", "q", "hello", 0)
        event = one.call("QADD", "news", 60, "read all about it")
        [element] = one.call("RQ.PUSH", "r", "once more")

        assert two.call("GETJOB", "FROM", "q") == [[b"q", id, b"hello"]]
        assert two.call("RQ.POP", "r") == [[b"r", element, b"once more"]]
        assert one.call("RQ.RECOVER", "r", 1, 0) == [[element, b"once more"]]
        assert two.call("RQ.ACK", "r", element) == [element]
        assert two.call("QGET", "news", "g") == [event, b"read all about it"]
        assert one.call("ACKJOB", id) == 1
        assert one.call("QACK", "news", "g", event) == 1
        assert two.call("SHOW", id) is None


def test_a_reader_on_one_is_woken_by_an_addition_on_the_other(brokers: Brokers) -> None:
    with brokers[0].connect() as one, brokers[1].connect() as two:
        two.send("GETJOB", "FROM", "q")
        two.send("PING")
        id = one.call("ADDJOB", "q", "hello", 0)

        assert two.value() == [[b"q", id, b"hello"]]
        assert two.value() == b"PONG"
        two.send("RQ.POP", "COUNT", 2, "BLOCK", 60_000, "{r}", "{r}other")
        [element] = one.call("RQ.PUSH", "{r}new", "hello")
        one.call("RENAME", "{r}new", "{r}other")

        assert two.value() == [[b"{r}other", element, b"hello"]]


def test_a_delay_is_over_though_the_broker_that_was_told_of_it_is_gone(brokers: Brokers) -> None:
    with brokers[1].connect() as two:
        two.send("GETJOB", "FROM", "q")
        with brokers[0].connect() as one:
            id = one.call("ADDJOB", "q", "hello", 0, "DELAY", 1)
        brokers[0].kill()

        assert two.value() == [[b"q", id, b"hello"]]


def test_whoever_waits_for_the_end_of_a_job_hears_of_it_from_the_other(brokers: Brokers) -> None:
    with brokers[0].connect() as one, brokers[1].connect() as two:
        id = one.call("ADDJOB", "q", "hello", 0)
        two.call("WAITJOB", 1, id)  # from here on it listens
        two.send("WAITJOB", 0, id)
        one.call("ACKJOB", id)

        assert two.value() == 1


def test_each_has_an_id_of_its_own_and_keeps_it(brokers: Brokers) -> None:
    with brokers[0].connect() as one, brokers[1].connect() as two:
        assert one.call("CLUSTER", "MYID") != two.call("CLUSTER", "MYID")


def test_each_shows_the_consumers_of_both(brokers: Brokers) -> None:
    with ExitStack() as left:
        ask = [left.enter_context(broker.connect()) for broker in brokers]
        one, two, other = (left.enter_context(brokers[at].connect()) for at in (0, 1, 1))
        one.call("QREGISTER", "mail", "only-at-one")
        two.call("QREGISTER", "mail")
        other.send("QNOTIFY", "readers", 60, "mail")

        for client in ask:
            wait_until(partial(shows, client, "mail", {b"okq": 2, b"readers": 1}))
            wait_until(partial(shows, client, "only-at-one", {b"okq": 1}))
            assert b"mail        okq     total:0" in b" ".join(client.call("QINFO"))

        ask[1].call("QADD", "mail", 60, "hello")
        assert other.value() == b"mail"
        two.call("QREGISTER")
        for client in ask:
            wait_until(partial(shows, client, "mail", {b"okq": 1}))


def test_consumers_of_a_broker_that_has_stopped_are_not_counted(brokers: Brokers) -> None:
    with brokers[0].connect() as one, brokers[1].connect() as two:
        two.call("QREGISTER", "mail")
        wait_until(lambda: consumers(one, "mail") == {b"okq": 1})

        brokers[1].stop()

        assert consumers(one, "mail") == {}


def test_consumers_of_a_broker_that_was_killed_are_not_counted_forever(
    brokers: Brokers, request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.params["brokers"]
    server = request.getfixturevalue(stores.SHARED[kind]).client()
    with brokers[0].connect() as one, brokers[1].connect() as two:
        id = two.call("CLUSTER", "MYID")
        two.call("QREGISTER", "mail")
        wait_until(lambda: consumers(one, "mail") == {b"okq": 1})
        brokers[1].kill()

        assert 0 < server.pttl(CONSUMERS) <= 30_000
        written_ms, _, packed = server.hget(CONSUMERS, id).partition(b" ")
        server.hset(CONSUMERS, id, b"%d %b" % (int(written_ms) - 30_001, packed))

        assert consumers(one, "mail") == {}
        assert server.hget(CONSUMERS, id) is None


def shows(client: Client, queue: str, counts: dict[bytes, int]) -> bool:
    return consumers(client, queue) == counts


def consumers(client: Client, queue: str) -> dict[bytes, int]:
    """How many the queue has, by group, as far as there are any."""
    [[_, groups]] = client.call("QSTATUS", queue)
    counts = {
        group: dict(zip(it[::2], it[1::2], strict=True))[b"consumers"]
        for group, it in zip(groups[::2], groups[1::2], strict=True)
    }
    return {group: count for group, count in counts.items() if count}


def test_a_reader_of_patterns_gets_what_came_while_nothing_was_heard(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    redis_server.flush()
    with start_broker(tmp_path, "--store", redis_server.url) as broker, broker.connect() as reader:
        reader.send("GETJOB", "MATCH", "or*")
        with closing(RedisStore(redis_server.url)) as store:
            redis_server.ask("CLIENT", "KILL", "TYPE", "pubsub")
            (id,) = store.run(Add(JOBS, b"orders", [b"hello"], Terms(60_000)))

        assert reader.value() == [[b"orders", id, b"hello"]]
