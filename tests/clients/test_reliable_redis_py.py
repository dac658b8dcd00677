"""redis-py, the newest, drives the reliable family, in RESP2 and in RESP3."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest
import redis

from tests.server.broker import RunningBroker

QUEUES = ("{k}1", "{k}2", "{k}3")


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(broker: RunningBroker, request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    """A client for each protocol; replies are text."""
    with redis.Redis(port=broker.port, protocol=request.param, decode_responses=True) as connected:
        yield connected


def test_every_command_is_driven_here(client: redis.Redis) -> None:
    here = Path(__file__).read_text()
    words = [word.upper() for word in client.execute_command("COMMAND LIST")]

    assert [word for word in words if word.startswith("RQ.") and f'"{word}"' not in here] == []


def test_elements_go_round(client: redis.Redis, queue: str) -> None:
    call: Any = client.execute_command
    ids = call("RQ.PUSH", queue, "one", "grüße")

    assert call("RQ.POP", "COUNT", 5, queue) == [
        [queue, ids[0], "one"],
        [queue, ids[1], "grüße"],
    ]
    assert call("RQ.POP", queue) == []
    assert call("RQ.UNPOP", queue, ids[1]) == 1
    assert call("RQ.POP", queue) == [[queue, ids[1], "grüße"]]
    assert call("RQ.RECOVER", queue, 1, 0) == [[ids[0], "one"]]
    [first, second] = call("RQ.INSPECT", queue, "PENDING", 0, 10)
    assert (first[0], first[4], second[0], second[4]) == (ids[1], 1, ids[0], 2)
    assert call("RQ.ACK", queue, *ids, "1-1") == ids
    assert call("RQ.INFO", queue) == ["undelivered", 0, "delivered", 0]
    with pytest.raises(redis.ResponseError, match="EMPTYKEY"):
        call("RQ.INFO", queue + "?")


def test_keys_have_their_methods(client: redis.Redis, queue: str) -> None:
    tag = re.sub(r"\W", "-", queue)  # without what means something in a pattern
    other = f"{{{tag}}}"
    client.execute_command("RQ.PUSH", f"{other}a", "x")

    assert client.type(f"{other}a") == "RELIABLEQ"
    assert client.rename(f"{other}a", f"{other}b") is True
    assert client.renamenx(f"{other}b", f"{other}c") in (True, 1)
    assert client.exists(f"{other}a", f"{other}c") == 1
    assert client.expire(f"{other}c", 60) in (True, 1)
    assert 0 < client.pttl(f"{other}c") <= 60_000
    assert client.persist(f"{other}c") in (True, 1)
    assert client.ttl(f"{other}c") == -1
    assert list(client.scan_iter(f"{other}*", _type="RELIABLEQ")) == [f"{other}c"]
    assert client.unlink(f"{other}c") == 1
    assert client.delete(f"{other}c") == 0


def test_a_consumer_of_three_queues_gets_all_that_a_producer_pushes(
    broker: RunningBroker, client: redis.Redis
) -> None:
    """As the module's own test does it: a hundred elements in bulks of ten, popped in pairs."""
    client.delete(*QUEUES)
    random = Random(6)
    pushed = [f"job {number}" for number in range(100)]

    def produce() -> None:
        with redis.Redis(port=broker.port) as producer:
            for at in range(0, len(pushed), 10):
                some = pushed[at : at + 10]
                producer.execute_command("RQ.PUSH", random.choice(QUEUES), *some)

    producing = Thread(target=produce)
    producing.start()
    worked: list[str] = []
    while len(worked) < len(pushed):
        given: Any = client.execute_command("RQ.POP", "COUNT", 2, "BLOCK", 60_000, *QUEUES)
        for name, id, body in given:
            worked.append(body)
            assert client.execute_command("RQ.ACK", name, id) == [id]
    producing.join()

    assert sorted(worked) == sorted(pushed)
    assert client.execute_command("RQ.POP", "BLOCK", 1, *QUEUES) is None
