"""What the log says of jobs that expired: a line for each queue, once a minute at most."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from quinque.stats.expirations import Expirations
from tests.servers import stores
from tests.transcripts.stage import Stage

TEXT = (
    "queue {}: {} expired before a consumer acknowledged {}; start more consumers, add jobs with a "
    "longer TTL, or keep expired jobs with: QSET {} EXPIRED dead"
)


@pytest.fixture(params=stores.ALL)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    is_shared = request.param != stores.EMBEDDED
    url = stores.empty_store_url(request, request.param) if is_shared else ""
    return Stage(tmp_path, 2, redis_url=url)


class Log:
    """The lines of the broker itself. A busy machine may add some about the connection to Redis."""

    def __init__(self, caught: pytest.LogCaptureFixture) -> None:
        self._caught = caught

    @property
    def messages(self) -> list[str]:
        records = self._caught.records
        return [each.getMessage() for each in records if each.name == "quinque.server"]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    caplog.set_level(logging.WARNING, "quinque.server")
    return Log(caplog)


def add(stage: Stage, queue: bytes, count: int, ttl_s: int) -> None:
    words = [b"ADDJOB", queue, b"body", b"0", b"TTL", b"%d" % ttl_s]
    stage.send("a", [words] * count)
    stage.settle()


def test_jobs_that_expire_are_in_the_log(stage: Stage, log: Log) -> None:
    with stage:
        add(stage, b"orders", 312, ttl_s=10)
        add(stage, b"letters", 1, ttl_s=10)

        stage.pass_time(10_000)
        stage.pass_time(1_000)

        assert sorted(log.messages) == [
            TEXT.format("letters", "1 job", "it", "letters"),
            TEXT.format("orders", "312 jobs", "them", "orders"),
        ]


def test_a_queue_has_one_line_in_a_minute(stage: Stage, log: Log) -> None:
    with stage:
        for ttl_s in (10, 20, 30):
            add(stage, b"orders", 1, ttl_s)

        for _ in range(30):
            stage.pass_time(1_000)
        stage.pass_time(1_000)
        assert log.messages == [TEXT.format("orders", "1 job", "it", "orders")]

        for _ in range(41):
            stage.pass_time(1_000)
        assert log.messages[1:] == [TEXT.format("orders", "2 jobs", "them", "orders")]


def test_what_was_not_told_is_told_at_the_end(stage: Stage, log: Log) -> None:
    with stage:
        add(stage, b"orders", 2, ttl_s=10)
        stage.pass_time(10_000)

    assert log.messages == [TEXT.format("orders", "2 jobs", "them", "orders")]


def test_jobs_that_are_kept_or_purged_are_not_in_the_log(stage: Stage, log: Log) -> None:
    with stage:
        stage.send("a", [[b"QSET", b"kept", b"EXPIRED", b"dead"]])
        add(stage, b"kept", 1, ttl_s=10)
        add(stage, b"purged", 1, ttl_s=10)
        stage.send("a", [[b"QPURGE", b"purged"]])
        stage.settle()

        stage.pass_time(10_000)
        stage.pass_time(1_000)

    assert log.messages == []


def test_of_very_many_queues_only_the_jobs_are_counted() -> None:
    expired = Expirations()
    for number in range(150):
        expired.add(b"%d" % number, 2)

    by_queue, of_others = expired.take()

    assert (len(by_queue), of_others) == (100, 100)
    assert expired.take() == ({}, 0)
