"""What a worker logs of itself and of failures, and the errors that handlers raise on purpose."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quinque.client.sync.queues import Queues
from quinque.model.states import State
from quinque.worker import App, Fail, Retry
from tests.server.broker import start_broker
from tests.servers import stores
from tests.servers.patience import wait_until
from tests.servers.redis_server import RedisServer
from tests.worker.inside import CountingApp, working


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    stores.on_every_kind(metafunc)


class Log:
    """The worker's log."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def heard(self, text: str) -> logging.LogRecord:
        """The first record that has the text, which comes sooner or later."""
        wait_until(lambda: bool(self._having(text)), f"{text!r} in {self.lines()}")
        return self._having(text)[0]

    def lines(self) -> list[str]:
        return [it.getMessage() for it in list(self._caplog.records)]

    def _having(self, text: str) -> list[logging.LogRecord]:
        return [it for it in list(self._caplog.records) if text in it.getMessage()]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    caplog.set_level(logging.INFO, "quinque.worker")
    return Log(caplog)


def fail(body: bytes) -> None:
    raise ValueError("no such host")


def test_a_worker_says_where_it_works_and_what_it_handles(
    app: CountingApp, queue: str, log: Log
) -> None:
    async def count(body: bytes) -> None: ...

    app.add(queue, fail, concurrency=3)
    clicks = f"{queue}.clicks"
    app.add(clicks, count, family="events", group="report")

    with working(app):
        log.heard("working at")

    assert log.lines()[:3] == [
        f"handler fail for jobs queue {queue}, up to 3 threads",
        f"handler {count.__qualname__} for events queue {clicks} of group report, up to 100 tasks",
        f"working at {app.url}",
    ]


def test_a_password_is_not_in_the_log(tmp_path: Path, queue: str, log: Log) -> None:
    with start_broker(tmp_path, "--requirepass", "secret") as running:
        app = App(f"redis://:secret@127.0.0.1:{running.port}")
        app.add(queue, fail)
        with working(app):
            log.heard("working at")

    assert not any("secret" in line for line in log.lines())


def test_a_failure_names_the_message_and_when_it_is_retried(
    app: CountingApp, queues: Queues, queue: str, log: Log
) -> None:
    app.add(queue, fail, backoff=(0.001, 0.001), max_deliveries=2)

    with working(app):
        id = queues.jobs(queue).add(b"x")
        dead = log.heard("dead after 2 deliveries")

    told = f"handler fail failed for message {id} of queue {queue} at delivery"
    retried = log.heard("retry in").getMessage()
    assert retried.startswith(f"{told} 1: ValueError: no such host; retry in 0.00")
    assert retried.endswith(" s")
    assert dead.getMessage() == f"{told} 2: ValueError: no such host; dead after 2 deliveries"
    assert dead.exc_info is not None


def test_a_requested_retry_is_no_error_and_counts_as_a_delivery(
    app: CountingApp, queues: Queues, queue: str, log: Log
) -> None:
    def later(body: bytes) -> None:
        raise Retry(600, "the host is busy")

    app.add(queue, later)
    with working(app):
        id = queues.jobs(queue).add(b"x")
        record = log.heard("requested a retry")

    assert (record.levelname, record.exc_info) == ("INFO", None)
    assert record.getMessage().endswith(
        f"message {id} of queue {queue} at delivery 1: the host is busy; retry in 600 s"
    )


def dead_of(queues: Queues, queue: str, family: str) -> list[Any]:
    if family == "jobs":
        return queues.jobs(queue).peek(state=State.DEAD)
    if family == "tubes":
        return queues.tube(queue).browse(state=State.DEAD)
    return queues.jobs(f"{queue}.dead").peek()


@pytest.mark.parametrize("family", ["jobs", "events", "tubes", "reliable", "items"])
def test_a_message_that_a_handler_fails_is_dead_at_once(
    app: CountingApp, queues: Queues, queue: str, log: Log, family: str
) -> None:
    calls: list[bytes] = []
    queue = f"{{{queue}}}"  # on a Cluster, items want their keys in one slot

    def refuse(body: bytes) -> None:
        calls.append(body)
        raise Fail("no such customer")

    app.add(queue, refuse, family=family, group="g" if family == "events" else "")
    if family == "tubes":
        queues.tube(queue).make("fifo")
    with working(app):
        match family:
            case "jobs":
                queues.jobs(queue).add(b"x")
            case "events":
                queues.events(queue).add(b"x")
            case "tubes":
                queues.tube(queue).put(b"x")
            case "reliable":
                queues.reliable(queue).push(b"x")
            case _:
                queues.items(queue).add("1", b"x")
        wait_until(lambda: len(dead_of(queues, queue, family)) == 1, "it is dead")

    assert calls == [b"x"]
    record = log.heard("no such customer")
    assert record.getMessage().endswith("Fail: no such customer; dead after 1 delivery")
    assert record.exc_info is None
    [dead] = dead_of(queues, queue, family)
    if family == "jobs":
        assert dead.reason.startswith(b"Fail: no such customer")
    elif family != "tubes":
        assert b"Fail: no such customer" in dead.body


def test_a_job_that_is_delivered_at_most_once_is_dead_too(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    def refuse(body: bytes) -> None:
        raise Fail("no")

    app.add(queue, refuse)
    with working(app):
        queues.jobs(queue).add(b"x", retry=0)
        wait_until(lambda: len(dead_of(queues, queue, "jobs")) == 1, "it is dead")


def test_a_worker_says_when_its_broker_is_back(tmp_path: Path, queue: str, log: Log) -> None:
    with start_broker(tmp_path) as running:
        running.kill()
        app = App(f"redis://127.0.0.1:{running.port}", retries=0)
        app.add(queue, len)
        with working(app):
            log.heard(f"no broker for queue {queue} yet")
            early = [line for line in log.lines() if line.startswith("working at")]
            running.restart()
            log.heard(f"reconnected: prepared queue {queue}")
            log.heard("working at")
            running.kill()
            log.heard(f"cannot take messages from queue {queue}")
            running.restart()
            log.heard(f"reconnected: taking messages from queue {queue} again")

    assert early == []


def test_a_worker_says_that_its_broker_is_a_plain_redis(
    redis_server: RedisServer, queue: str, log: Log
) -> None:
    app = App(redis_server.url)
    app.add(queue, len)

    with working(app):
        record = log.heard(f"cannot take messages from queue {queue}")

    assert "is not a Quinque broker" in record.getMessage()
    assert not any(line.startswith("working at") for line in log.lines())


def test_a_retry_takes_a_span_or_a_time() -> None:
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)

    assert Retry(timedelta(minutes=2)).delay == 120
    assert 3500 < Retry(eta=in_an_hour).delay <= 3600
    assert Retry(eta=datetime(2020, 1, 1, tzinfo=UTC)).delay == 0
    with pytest.raises(ValueError, match="has no time zone"):
        Retry(eta=datetime(2020, 1, 1))
    with pytest.raises(ValueError, match="not both"):
        Retry(5, eta=in_an_hour)
    with pytest.raises(ValueError, match="must be 0 to"):
        Retry(timedelta(days=400))
