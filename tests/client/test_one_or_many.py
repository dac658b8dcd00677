"""Messages, views and ids are accepted alike, one or several; delays are spans or times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from quinque.client.spans import as_delay_ms
from quinque.errors import BadArgument, BadId
from quinque.model.states import State

HOUR = timedelta(hours=1)


def test_one_job_is_acked_by_itself_its_view_or_its_id(queues: Any, queue: str) -> None:
    jobs = queues.jobs(queue)
    first, second, third, fourth = jobs.add_many([b"1", b"2", b"3", b"4"])
    [job, *_] = jobs.take_many(4)

    assert jobs.ack(job) == 1
    assert jobs.ack(second) == 1
    assert jobs.ack(jobs.show(third)) == 1
    assert jobs.ack(iter([fourth, first])) == 1
    assert jobs.info() is None or jobs.info().leased == 0


def test_several_ids_in_one_str_are_refused(queues: Any, queue: str) -> None:
    jobs = queues.jobs(queue)
    ids = " ".join(jobs.add_many([b"1", b"2"]))

    with pytest.raises(BadId):
        jobs.ack(ids)
    with pytest.raises(BadArgument, match="is not one id: pass several ids as a list"):
        queues.reliable(f"{queue}.reliable").ack("1-1 1-2")
    with pytest.raises(BadArgument, match="and not NoneType"):
        jobs.ack(None)
    for ack in (
        jobs.ack,
        queues.reliable(f"{queue}.reliable").ack,
        queues.items(f"{queue}.items").complete,
        queues.events(f"{queue}.events").group("g").ack,
    ):
        for wrong in (b"1-1", 5, [5]):
            with pytest.raises(BadArgument, match="a message or its id, a str, is expected, and"):
                ack(wrong)


def test_none_or_several_where_one_is_expected_are_refused(queues: Any, queue: str) -> None:
    jobs, items, tube = queues.jobs(queue), queues.items(queue), queues.tube(queue)
    id = jobs.add(b"x")
    calls: dict[Callable[[Any], Any], Any] = {jobs.show: id, jobs.extend: id}
    calls |= {items.show: "1", tube.peek: 1}

    for call, one in calls.items():
        for several in ([], [one, one]):
            with pytest.raises(BadArgument, match=f"is expected, and not {len(several)}"):
                call(several)
    assert jobs.show([id]).body == b"x"


def test_one_body_where_several_are_expected_is_refused(queues: Any, queue: str) -> None:
    for add_many in (
        queues.jobs(queue).add_many,
        queues.events(f"{queue}.events").add_many,
        queues.reliable(f"{queue}.reliable").push_many,
        queues.tube(f"{queue}.tube").put_many,
    ):
        with pytest.raises(BadArgument, match="several bodies are expected, and not one str"):
            add_many("abc")
        with pytest.raises(BadArgument, match="several bodies are expected, and not NoneType"):
            add_many(None)


def test_views_are_named_and_accepted_where_jobs_are(queues: Any, queue: str) -> None:
    jobs = queues.jobs(queue, max_deliveries=1)
    id = jobs.add(b"x")
    jobs.take().nack()

    [dead] = jobs.peek(state=State.DEAD)

    assert dead.id == jobs.show(dead).id == jobs.show(id).id == id
    assert jobs.redrive(ids=dead) == 1
    assert jobs.redrive(ids=[dead]) == 0
    [ready] = jobs.peek()
    assert jobs.delete(ready) == 1
    assert jobs.show(ready) is None


def test_fields_that_a_broker_does_not_send_are_none(queues: Any, queue: str) -> None:
    jobs, items = queues.jobs(f"{queue}.jobs"), queues.items(f"{queue}.items")
    jobs.add(b"x")
    items.add("1", b"x")
    [job], [item] = jobs.peek(), items.peek()

    is_folder = type(getattr(queues.runner, "_it", queues.runner)).__name__ == "Local"
    if is_folder:  # it tells all
        assert (job.deliveries, job.max_deliveries) == (0, 0)
        assert job.terms is not None
    else:
        assert {job.place, job.terms, job.ttl_left_ms, job.deliveries, job.max_deliveries} == {None}
        assert {item.place, item.terms, item.nacks, item.requeues, item.deliveries} == {None}
        told = items.info()
        assert {told.age_ms, told.idle_ms, told.came, told.went} == {None}
    assert (job.nacks, job.requeues) == (0, 0)
    assert jobs.show(job).deliveries == 0


def test_other_families_accept_one_message_too(queues: Any, queue: str) -> None:
    group = queues.events(f"{queue}.events").group("g")
    reliable, items = queues.reliable(f"{queue}.reliable"), queues.items(f"{queue}.items")
    tube = queues.tube(f"{queue}.tube")
    tube.make("fifo")
    queues.events(f"{queue}.events").add_many([b"1", b"2"])
    reliable.push_many([b"1", b"2", b"3"])
    items.add_many({"a b": b"1", "c": b"2"})
    tube.put_many([b"1", b"2"])

    assert (group.ack(group.take()), group.ack(group.take().id)) == (1, 1)
    reliable.pop_many(3)
    [first, second, third] = reliable.inspect(delivered=True)
    assert (reliable.ack(first), reliable.ack(second.id), reliable.ack([third])) == (1, 1, 1)
    assert items.show(items.peek()[0]).id == "a b"
    assert (items.complete("a b"), items.complete(items.peek()[0])) == (1, 1)
    assert (tube.ack(tube.take()), tube.ack(tube.take().id)) == (1, 1)
    assert tube.peek(0) is None


def test_a_delay_is_seconds_a_span_or_a_time(queues: Any, queue: str) -> None:
    jobs, tube = queues.jobs(queue), queues.tube(f"{queue}.tube")
    tube.make("fifottl")
    soon, later = datetime.now(UTC) + HOUR, timedelta(minutes=90)
    ids = [jobs.add(b"1", delay=later), jobs.add(b"2", eta=soon), *jobs.add_many([b"3"], eta=soon)]
    jobs.add(b"4", eta=datetime(2020, 1, 1, tzinfo=UTC))
    job = jobs.take()

    assert job.body == b"4"
    assert job.nack(eta=soon)
    within_ms = [jobs.show(id).due_within_ms for id in (*ids, job.id)]
    assert 3_600_000 < within_ms[0] <= 5_400_000
    assert all(0 < due_ms <= 3_600_000 for due_ms in within_ms[1:])
    tube.put(b"1", delay=later)
    tube.put_many([b"2"], eta=soon)
    tube.put(b"3")
    assert tube.take().release(delay=later)
    assert tube.info().delayed == 3
    with pytest.raises(BadArgument, match="has no time zone: pass an aware datetime"):
        jobs.add(b"5", eta=datetime(2020, 1, 1))
    with pytest.raises(BadArgument, match="pass delay or eta, not both"):
        jobs.nack(ids, delay=1, eta=soon)


def test_a_time_is_a_delay_from_now_in_any_time_zone() -> None:
    now = datetime(2030, 1, 1, 12, tzinfo=UTC)
    cet = timezone(HOUR)

    assert as_delay_ms(0, datetime(2030, 1, 1, 13, 0, 1, tzinfo=cet), now) == 1_000
    assert as_delay_ms(0, datetime(2030, 1, 1, 11, tzinfo=cet), now) == 0
    assert as_delay_ms(timedelta(milliseconds=1), None) == 1
    assert as_delay_ms(0.25, None) == 250
    with pytest.raises(BadArgument, match="is not a duration"):
        as_delay_ms(timedelta(seconds=-1), None)
