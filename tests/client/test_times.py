"""Times as a program passes them: numbers of seconds and timedeltas. Other types are refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

import quinque
import quinque.aio
from quinque.client.spans import as_seconds
from quinque.errors import BadArgument, BadSetting

HOUR = timedelta(hours=1)
AN_ID = "D-d7d2c256-zzqB4kdKwlafLj966Wb6+tAC-05a1"

# The argument that is named, and the call. Each gets a value of a wrong type.
TIMES: list[tuple[str, Callable[[Any, str, Any], Any]]] = [
    ("ttl", lambda queues, name, it: queues.jobs(name, ttl=it)),
    ("retry", lambda queues, name, it: queues.jobs(name, retry=it)),
    ("ttl", lambda queues, name, it: queues.jobs(name).add(b"x", ttl=it)),
    ("retry", lambda queues, name, it: queues.jobs(name).add(b"x", retry=it)),
    ("delay", lambda queues, name, it: queues.jobs(name).add(b"x", delay=it)),
    ("delay", lambda queues, name, it: queues.jobs(name).add_many([b"x"], delay=it)),
    ("timeout", lambda queues, name, it: queues.jobs(name).take(timeout=it)),
    ("timeout", lambda queues, name, it: queues.jobs(name).take_many(1, it)),
    ("timeout", lambda queues, name, it: queues.jobs(name).wait(AN_ID, it)),
    ("delay", lambda queues, name, it: queues.jobs(name).nack(AN_ID, delay=it)),
    ("ttl", lambda queues, name, it: queues.events(name, ttl=it)),
    ("ttl", lambda queues, name, it: queues.events(name).add(b"x", ttl=it)),
    ("lease", lambda queues, name, it: queues.events(name).group("g", lease=it)),
    ("lease", lambda queues, name, it: queues.events(name).group("g").extend(["1"], it)),
    ("timeout", lambda queues, name, it: queues.events(name).group("g").take(it)),
    ("lease", lambda queues, name, it: queues.items(name).lease(it)),
    ("timeout", lambda queues, name, it: queues.items(name).lease(1, it)),
    ("lease", lambda queues, name, it: queues.items(name).extend("1", it)),
    ("timeout", lambda queues, name, it: queues.reliable(name).pop(it)),
    ("elapsed", lambda queues, name, it: queues.reliable(name).recover(10, elapsed=it)),
    ("ttl", lambda queues, name, it: queues.tube(name).make("fifottl", ttl=it)),
    ("ttr", lambda queues, name, it: queues.tube(name).make("fifottl", ttr=it)),
    ("ttl", lambda queues, name, it: queues.tube(name).put(b"x", ttl=it)),
    ("ttr", lambda queues, name, it: queues.tube(name).put(b"x", ttr=it)),
    ("delay", lambda queues, name, it: queues.tube(name).put(b"x", delay=it)),
    ("timeout", lambda queues, name, it: queues.tube(name).put(b"x", timeout=it)),
    ("delay", lambda queues, name, it: queues.tube(name).put_many([b"x"], delay=it)),
    ("timeout", lambda queues, name, it: queues.tube(name).take(it)),
    ("delay", lambda queues, name, it: queues.tube(name).release(1, delay=it)),
    ("ttl", lambda queues, name, it: queues.tube(name).release(1, ttl=it)),
    ("by", lambda queues, name, it: queues.tube(name).touch(1, it)),
]


@pytest.mark.parametrize("wrong", ["5", b"5", "", [1]])
def test_a_time_of_another_type_is_refused_with_its_name(
    queues: Any, queue: str, wrong: Any
) -> None:
    said = f"must be a number of seconds or a timedelta, not {type(wrong).__name__}$"

    for what, call in TIMES:
        with pytest.raises(BadArgument, match=f"^{what} {said}"):
            call(queues, queue, wrong)

    assert queues.jobs(queue).info() is None
    assert queues.events(queue).info() is None
    assert queues.tube(queue).info() is None


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), timedelta(seconds=-1), 1e300])
def test_a_time_that_is_no_duration_is_refused_with_its_name(
    queues: Any, queue: str, wrong: Any
) -> None:
    for what, call in TIMES:
        with pytest.raises(BadArgument, match=f"^{what} "):
            call(queues, queue, wrong)


def test_a_time_at_which_a_message_is_ready_is_a_datetime(queues: Any, queue: str) -> None:
    jobs, tube = queues.jobs(queue), queues.tube(queue)
    calls: list[Callable[[Any], Any]] = [
        lambda eta: jobs.add(b"x", eta=eta),
        lambda eta: jobs.add_many([b"x"], eta=eta),
        lambda eta: jobs.nack(AN_ID, eta=eta),
        lambda eta: tube.put(b"x", eta=eta),
        lambda eta: tube.release(1, eta=eta),
    ]

    for eta in ("2026-01-01", 1_767_225_600, ""):
        for call in calls:
            with pytest.raises(
                BadArgument, match=r"^eta must be a datetime with a time zone, not "
            ):
                call(eta)


def test_every_time_may_be_a_timedelta(queues: Any, queue: str) -> None:
    now = timedelta()
    jobs = queues.jobs(f"{queue}-jobs", ttl=2 * HOUR, retry=HOUR)
    shown = jobs.show(jobs.add(b"x"))
    assert shown.terms.retry_ms == 3_600_000
    assert 3_600_000 < shown.ttl_left_ms <= 7_200_000
    other = jobs.show(jobs.add(b"y", ttl=4 * HOUR, retry=timedelta(minutes=1), delay=HOUR))
    assert other.terms.retry_ms == 60_000
    assert 10_800_000 < other.ttl_left_ms <= 14_400_000
    job = jobs.take(timeout=now)
    assert job.body == b"x"
    assert jobs.wait(job, timeout=timedelta(milliseconds=1)) is None
    assert job.nack(delay=HOUR)

    events = queues.events(f"{queue}-events", ttl=HOUR)
    events.add_many([b"x", b"y"], ttl=2 * HOUR)
    group = events.group("g", lease=HOUR)
    assert group.take(timeout=now).extend(2 * HOUR)

    items = queues.items(f"{queue}-items")
    items.add("one", b"x")
    assert items.lease(HOUR, timeout=now).extend(2 * HOUR)

    elements = queues.reliable(f"{queue}-reliable")
    elements.push(b"x")
    elements.pop(timeout=now)
    assert elements.recover(10, elapsed=HOUR) == []
    assert len(elements.recover(10, elapsed=now)) == 1

    tube = queues.tube(f"{queue}-tube")
    assert tube.make("fifottl", ttl=2 * HOUR, ttr=HOUR)
    tube.put(b"x", ttl=2 * HOUR, ttr=HOUR, timeout=now)
    task = tube.take(timeout=now)
    assert task.touch(HOUR)
    assert task.release(delay=HOUR, ttl=2 * HOUR)


def test_a_number_of_any_kind_is_a_number_of_seconds() -> None:
    numbers: tuple[Any, ...] = (
        1,
        1.5,
        True,
        Decimal("1.5"),
        timedelta(seconds=1, milliseconds=500),
    )

    assert [as_seconds("ttl", number) for number in numbers] == [1, 1.5, 1, 1.5, 1.5]


@pytest.mark.parametrize("connect", [quinque.connect, quinque.aio.connect])
def test_what_is_no_argument_of_a_connection_is_said(connect: Callable[..., Any]) -> None:
    url = "redis://127.0.0.1:1"

    for wrong in (4777, None, b"redis://127.0.0.1:1"):
        kind = type(wrong).__name__
        with pytest.raises(
            BadSetting, match=rf"^url must be a str such as redis://\S+, not {kind}$"
        ):
            connect(wrong)
    with pytest.raises(BadSetting, match=r"^timeout_s must be a number of seconds or a timedelta"):
        connect(url, timeout_s="5")
    for retries in ("5", 1.5):
        with pytest.raises(BadSetting, match=r"^retries .* is not a whole number$"):
            connect(url, retries=retries)
    assert connect(url, timeout_s=timedelta(seconds=5))
