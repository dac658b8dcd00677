"""A request that cannot be put on the wire is refused, and disturbs no other request."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from enum import IntEnum
from typing import Any, cast

import pytest

import quinque.aio
from quinque.client.addresses import Address
from quinque.client.aio.broker import Broker
from quinque.client.aio.edge import connect
from quinque.client.codecs import Codec
from quinque.errors import BadArgument
from tests.server.broker import RunningBroker
from tests.server.resp import TIMEOUT_S


class Three(IntEnum):
    THREE = 3


class Odd:
    """A codec that returns what it is given."""

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, body: bytes) -> Any:
        return body


def opened(queues: Any, family: str, name: str, codec: Codec[Any]) -> Any:
    return getattr(queues, family)(name, codec=codec)


@pytest.mark.parametrize("family", ["jobs", "events", "items", "reliable", "tube"])
def test_what_a_codec_makes_has_to_be_bytes_or_text(queues: Any, queue: str, family: str) -> None:
    it = opened(queues, family, f"{queue}{family}", Odd())
    if family == "tube":
        it.make()
    adds: dict[str, Callable[[object], Any]] = {
        "jobs": lambda body: it.add(body),
        "events": lambda body: it.add(body),
        "items": lambda body: it.add("id", body),
        "reliable": lambda body: it.push(body),
        "tube": lambda body: it.put(body),
    }
    add = adds[family]

    for value in (None, 5, [b"x"], "\ud800"):
        with pytest.raises(BadArgument, match="the codec Odd returned"):
            add(value)

    info = it.info()
    assert info is None or (family == "tube" and info.ready == 0)
    for body in ("text", bytearray(b"bytes"), memoryview(b"bytes")):
        assert family == "items" or add(body) is not None


def test_numbers_of_other_types_and_names_in_a_bytearray_are_understood(
    queues: Any, queue: str
) -> None:
    jobs, tube = queues.jobs(bytearray(queue.encode())), queues.tube(memoryview(b"t" + b"%d" % 1))
    jobs.add_many([b"%d" % number for number in range(5)])
    jobs.add(b"5", max_length=Three.THREE + 10, max_deliveries=Three.THREE)
    tube.make("fifottl", pri=Three.THREE, exist_ok=True)

    assert jobs.peek(-Three.THREE)[0].body == b"5"
    assert len(jobs.peek(Three.THREE)) == 3
    assert len(jobs.take_many(Three.THREE)) == 3
    assert len(jobs.take_many(True)) == 1
    tube.drop()


@pytest.mark.parametrize("is_busy", [False, True])
def test_what_cannot_be_sent_gets_an_error_and_others_their_own_answers(
    embedded_broker: RunningBroker, queue: str, is_busy: bool
) -> None:
    """On a connection that is idle, and on one with an answer under way."""
    url = f"redis://127.0.0.1:{embedded_broker.port}"

    async def work() -> tuple[list[Any], list[Any]]:
        async with quinque.aio.connect(url, connections=1) as queues:
            ask = cast(Broker, queues.runner)._ask
            await queues.jobs(queue).info()  # so that all have the same connection
            first = [asyncio.create_task(ask([["ECHO", b"first"]], is_safe=True))]
            if is_busy:
                await asyncio.sleep(0)
            words: list[Any] = [None, bytearray(b"x"), "\ud800"]
            odd = [asyncio.create_task(ask([["ECHO", word]], is_safe=True)) for word in words]
            others = [
                asyncio.create_task(ask([["ECHO", b"%d" % number]], is_safe=True))
                for number in range(3)
            ]
            async with asyncio.timeout(TIMEOUT_S):
                refused = await asyncio.gather(*odd, return_exceptions=True)
                return refused, await asyncio.gather(*first, *others)

    refused, answers = asyncio.run(work())

    assert [type(error) for error in refused] == [BadArgument] * 3
    assert answers == [[b"first"], [b"0"], [b"1"], [b"2"]]


def test_a_request_that_waits_to_be_sent_when_lateness_is_looked_for_has_a_time_limit() -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:  # it never answers
            link = await connect(Address("127.0.0.1", server.getsockname()[1]), None, TIMEOUT_S)
            first = asyncio.create_task(link.ask([["PING"]], 0.05))
            second = asyncio.create_task(link.ask([["PING"]], 0.05))
            await asyncio.sleep(0)  # the second is to be sent in the next turn of the loop
            # What the loop may do in the rest of this one: an answer comes, and a timer is due.
            assert link._late is not None
            link._late.cancel()
            link.data_received(b"+PONG\r\n")
            link._look_for_late()

            assert await first == [b"PONG"]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(TIMEOUT_S):
                    await second
            assert link.is_over

    asyncio.run(work())
