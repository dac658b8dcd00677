"""Brokers whose Redis is found through Sentinels: when another server becomes the primary, they go
on there, and their clients need not know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quinque.model.work_ops import LookAtNode
from quinque.stores.redis.store import RedisStore
from tests.server.broker import BrokerDidNotStart, RunningBroker, start_broker, wait_until
from tests.server.resp import Client, Refusal
from tests.servers.patience import PATIENCE_S
from tests.servers.redis_sentinel import Sentinels

Brokers = tuple[RunningBroker, RunningBroker]


@pytest.fixture
def sentinels() -> Iterator[Sentinels]:
    with Sentinels() as running:
        yield running


@pytest.fixture
def brokers(sentinels: Sentinels, tmp_path: Path) -> Iterator[Brokers]:
    # Patient: it takes the Sentinels seconds to notice that a primary is gone.
    flags = ["--store", sentinels.url, "--store-timeout", "50"]
    with (
        start_broker(tmp_path / "one", *flags) as one,
        start_broker(tmp_path / "two", *flags) as two,
    ):
        yield one, two


def is_unknown(reply: object) -> bool:
    return isinstance(reply, Refusal) and reply.text.startswith("UNAVAILABLE ")


def answer(client: Client, *words: str | int) -> Any:
    """What comes of a request to a primary that is dead: it was not carried out, though the broker
    may have sent it before it heard of that."""
    while is_unknown(reply := client.call(*words)):
        pass
    return reply


def test_when_the_primary_is_killed_everyone_goes_on_at_the_next_one(
    sentinels: Sentinels, brokers: Brokers
) -> None:
    killed = sentinels.primary
    with brokers[0].connect() as one, brokers[1].connect() as two, brokers[1].connect() as reader:
        before = one.call("ADDJOB", "q", "before", 0, "REPLICATE", 2)
        event = one.call("QADD", "news", 60, "read all about it")
        reader.send("GETJOB", "FROM", "empty")
        wait_until(lambda: b"blocked_clients:1\r\n" in two.call("INFO", "clients"))
        sentinels.wait_until_whole()  # the replica has the event too, which nobody asked for

        killed.kill()
        after = answer(one, "ADDJOB", "q", "after", 0)  # which comes when there is a primary again
        woken = answer(one, "ADDJOB", "empty", "for the reader", 0)

        # The broker may have heard of it from another Sentinel than the one that is asked here.
        wait_until(lambda: sentinels.primary is not killed)
        assert answer(two, "GETJOB", "COUNT", 2, "FROM", "q") == [
            [b"q", before, b"before"],
            [b"q", after, b"after"],
        ]
        assert two.call("ACKJOB", before, after) == 2
        assert two.call("QGET", "news", "g") == [event, b"read all about it"]
        got = reader.value()
        if is_unknown(got):  # the broker was looking for it when the primary was killed
            got = reader.call("GETJOB", "FROM", "empty")
        assert got == [[b"empty", woken, b"for the reader"]]


def test_when_another_is_made_the_primary_everyone_goes_on_there(
    sentinels: Sentinels, brokers: Brokers
) -> None:
    with brokers[0].connect() as one, brokers[1].connect() as two:
        before = one.call("ADDJOB", "q", "before", 0)
        sentinels.wait_until_whole()  # or the replica need not have it yet
        sentinels.failover()  # the old primary lives, and takes no more writes
        after = answer(one, "ADDJOB", "q", "after", 0)

        rows = answer(two, "GETJOB", "COUNT", 2, "FROM", "q")
        assert [id for _, id, _ in rows] == [before, after]


def test_one_sentinel_that_answers_is_enough(sentinels: Sentinels, tmp_path: Path) -> None:
    for sentinel in sentinels.sentinels[:-1]:
        sentinel.kill()

    with start_broker(tmp_path, "--store", sentinels.url) as broker, broker.connect() as client:
        assert client.call("QLEN", "q") == 0


def test_a_name_that_no_sentinel_knows_is_said_at_the_start(
    sentinels: Sentinels, tmp_path: Path
) -> None:
    url = sentinels.url.replace(sentinels.service, "nosuch")

    with pytest.raises(BrokerDidNotStart, match="does not know the service 'nosuch'"):
        start_broker(tmp_path, "--store", url)


def test_a_sentinel_that_hangs_does_not_keep_a_store_from_opening(
    sentinels: Sentinels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though a store that waits for the sentinel has no time left."""
    monkeypatch.setattr("quinque.stores.redis.routes._ASK_S", PATIENCE_S)
    sentinels.sentinels[0].pause()
    try:
        store = RedisStore(sentinels.url, timeout_s=PATIENCE_S)
        assert store.run(LookAtNode())
        store.close()
    finally:
        sentinels.sentinels[0].go_on()
