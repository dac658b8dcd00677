"""What is larger than a broker takes is refused, in both colours, and not done."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quinque.aio
from quinque.errors import TooLarge
from tests.client.conftest import Opener
from tests.server.broker import start_broker
from tests.unit.test_client_broker import CERTIFICATE, KEY

# More than the system holds for a connection: the broker has not read all when it refuses.
HUGE = b"x" * (16 << 20)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where a broker listens that takes little."""
    tls = ("--tls-listen", "127.0.0.1:0", "--tls-cert", CERTIFICATE, "--tls-key", KEY)
    limits = ("--max-arg-size", "1mb", "--query-buffer-limit", "2mb", "--fsync", "no")
    # Not in the folder of the tests, whose path may be too long for a socket.
    with tempfile.TemporaryDirectory(prefix="q") as folder:
        path = Path(folder) / "s"
        flags = (*limits, "--listen", f"unix:{path}", *tls)
        with start_broker(tmp_path_factory.mktemp("narrow"), *flags) as running:
            yield {
                "tcp": f"redis://127.0.0.1:{running.port}",
                "unix": f"unix://{path}",
                "tls": f"rediss://localhost:{running.addresses[-1].rpartition(':')[2]}",
            }


@pytest.mark.parametrize("way", ["tcp", "unix", "tls"])
def test_a_body_that_is_too_large_is_refused_and_nothing_is_done(
    opener: Opener, narrow: dict[str, str], queue: str, way: str
) -> None:
    settings = {"ca": CERTIFICATE} if way == "tls" else {}
    jobs = opener.connect(narrow[way], **settings).jobs(queue + way)

    for _ in range(2):
        with pytest.raises(TooLarge, match="at most 1048576 bytes"):
            jobs.add(HUGE)

    assert jobs.info() is None
    assert jobs.add(HUGE[: 1 << 20])


def test_of_several_those_before_it_are_done_and_those_after_it_are_not(
    opener: Opener, narrow: dict[str, str], queue: str
) -> None:
    jobs = opener.connect(narrow["tcp"]).jobs(queue)

    with pytest.raises(TooLarge):
        jobs.add_many([b"before", HUGE, b"after", b"after"])

    assert [job.body for job in jobs.take_many(10)] == [b"before"]


def test_what_is_put_together_into_requests_is_as_much_as_a_broker_takes(
    opener: Opener, narrow: dict[str, str], queue: str
) -> None:
    queues = opener.connect(narrow["tcp"])
    elements, tube = queues.reliable(queue), queues.tube(queue + "t")
    tube.make()
    bodies = [bytes([number]) * (500 << 10) for number in range(10)]

    assert len(elements.push_many(bodies)) == len(tube.put_many(bodies)) == 10

    assert [elements.pop().body[:1] for _ in bodies] == [body[:1] for body in bodies]
    assert [tube.take().body[:1] for _ in bodies] == [body[:1] for body in bodies]


def test_whoever_shares_the_connection_with_it_is_not_disturbed(
    narrow: dict[str, str], queue: str
) -> None:
    async def work() -> tuple[list[Any], list[bytes]]:
        async with quinque.aio.connect(narrow["tcp"], connections=1) as queues:
            jobs = queues.jobs(queue)
            await jobs.info()  # so that all have the same connection
            bodies = [b"a", b"b", HUGE, b"c", b"d"]
            ended = await asyncio.gather(*map(jobs.add, bodies), return_exceptions=True)
            return ended, [job.body for job in await jobs.take_many(10)]

    ended, bodies = asyncio.run(work())

    assert [type(it) for it in ended] == [str, str, TooLarge, str, str]
    assert sorted(bodies) == [b"a", b"b", b"c", b"d"]


def test_answers_as_large_as_what_is_asked_are_heard_while_it_is_sent(
    opener: Opener, narrow: dict[str, str], queue: str
) -> None:
    tube = opener.connect(narrow["tcp"]).tube(queue)
    tube.make("fifottl")

    # Of either more than the system holds for a connection.
    assert len(tube.put_many([b"x" * (1 << 20)] * 64, pri=1)) == 64


@pytest.mark.parametrize("way", ["tcp", "tls"])
def test_a_large_body_is_sent_with_the_longest_time_limit(
    opener: Opener, narrow: dict[str, str], queue: str, way: str
) -> None:
    settings = {"ca": CERTIFICATE} if way == "tls" else {}
    jobs = opener.connect(narrow[way], timeout_s=1_000_000_000, **settings).jobs(queue + way)

    assert jobs.add(HUGE[: 1 << 20])
    assert jobs.take(timeout=1).body == HUGE[: 1 << 20]
