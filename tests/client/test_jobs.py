"""Queues of jobs as programs have them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from quinque.errors import BadArgument, QueueFull, QueuePaused
from quinque.model.states import State


@pytest.fixture
def jobs(queues: Any, queue: str) -> Any:
    return queues.jobs(queue, codec="json", retry=60)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it cannot be said")


def test_a_job_is_given_back_though_its_error_cannot_be_said(queues: Any, queue: str) -> None:
    jobs = queues.jobs(queue, max_deliveries=1)
    id = jobs.add(b"x")

    with pytest.raises(Mute), jobs.take():
        raise Mute

    assert jobs.show(id).reason == b"Mute"


def test_what_is_added_is_taken_and_acked(jobs: Any) -> None:
    id = jobs.add({"to": "a"})

    job = jobs.take()

    assert (job.id, job.body, job.nacks, job.requeues) == (id, {"to": "a"}, 0, 0)
    assert job.ack() is True
    assert job.ack() is False
    assert jobs.take() is None


def test_many_are_one_round_trip(jobs: Any) -> None:
    ids = jobs.add_many(range(50))

    taken = jobs.take_many(100)

    assert [job.id for job in taken] == ids
    assert [job.body for job in taken] == list(range(50))
    assert jobs.ack(taken) == 50
    assert jobs.add_many([]) == []
    assert jobs.ack([]) == 0


def test_a_job_is_acked_at_the_end_of_its_context_and_given_back_by_an_error(jobs: Any) -> None:
    jobs.add(1)
    with pytest.raises(ZeroDivisionError), jobs.take() as job:
        1 / 0  # noqa: B018
    with jobs.take() as again:
        assert (again.id, again.nacks) == (job.id, 1)
    assert jobs.take() is None


def test_whoever_goes_through_holds_one_at_a_time(jobs: Any) -> None:
    jobs.add_many(range(3))
    for job in jobs:
        with job:
            if job.body == 1:
                break

    assert [job.body for job in jobs.take_many(10)] == [2]


def test_a_body_that_cannot_be_read_is_in_hand_and_keeps_no_other_back(
    queues: Any, queue: str
) -> None:
    jobs = queues.jobs(queue, codec="json", max_deliveries=1)
    queues.jobs(queue, max_deliveries=1).add("no JSON")
    jobs.add("good")

    bad, good = jobs.take_many(2)
    with pytest.raises(BadArgument, match="the body is not valid JSON"), bad:
        assert bad.body

    assert good.body == "good"
    [dead] = jobs.peek(state=State.DEAD)
    assert (dead.body, dead.reason[:39]) == (b"no JSON", b"BadArgument: the body is not valid JSON")


def test_a_reader_waits_for_what_is_added(jobs: Any) -> None:
    assert jobs.take(timeout=0.001) is None
    found: list[Any] = []
    reader = threading.Thread(target=lambda: found.append(jobs.take(timeout=30)))
    reader.start()

    jobs.add("late")
    reader.join()

    assert found[0].body == "late"


def test_the_end_of_jobs_is_waited_for(jobs: Any) -> None:
    ids = jobs.add_many([1, 2])
    assert jobs.wait(ids, timeout=0.001) is None
    ended: list[int | None] = []
    waiting = threading.Thread(target=lambda: ended.append(jobs.wait(ids, timeout=30)))
    waiting.start()

    jobs.ack(jobs.take_many(2))
    waiting.join()

    assert ended == [2]
    assert jobs.wait(ids) == 2


def test_any_number_of_jobs_is_waited_for_and_redriven(jobs: Any) -> None:
    """More than a broker takes ids in a request."""
    ids = jobs.add_many(range(10_001))
    assert jobs.wait([*ids, *ids], timeout=0.001) is None
    assert jobs.redrive(ids=ids) == 0
    assert jobs.delete(ids) == len(ids)

    assert jobs.wait([*ids, *ids], timeout=30) == len(ids)
    assert jobs.wait(ids) == len(ids)


def test_jobs_of_all_parts_are_redriven(jobs: Any) -> None:
    ids = jobs.add_many(range(1_001), max_deliveries=1)
    assert jobs.nack(jobs.take_many(1_001)) == 1_001

    assert jobs.redrive(ids=ids) == 1_001


def test_a_key_is_one_job(jobs: Any) -> None:
    id = jobs.add(1, key="k")

    assert jobs.add(2, key="k") == id
    assert jobs.find("k") == id
    assert jobs.find("other") is None


def test_a_delay_and_a_limit_of_deliveries_and_dead_jobs(jobs: Any) -> None:
    jobs.add("later", delay=600)
    jobs.add("once", max_deliveries=1)
    assert jobs.take().nack(reason="no good")

    [delayed] = jobs.peek(state=State.DELAYED)
    [dead] = jobs.peek(state=State.DEAD)

    assert (delayed.body, dead.body, dead.reason) == (b'"later"', b'"once"', b"no good")
    assert jobs.show(dead.message_id.decode()).state == State.DEAD
    assert jobs.redrive(ids=[]) == 0
    assert jobs.redrive() == 1
    assert jobs.take().body == "once"
    assert jobs.purge(State.DELAYED) == 1


def test_a_lease_begins_anew(jobs: Any) -> None:
    jobs.add(1)

    assert jobs.take().extend() == pytest.approx(60, abs=1)


def test_a_queue_can_be_full_or_paused(jobs: Any) -> None:
    jobs.add(1)
    with pytest.raises(QueueFull):
        jobs.add(2, max_length=1)
    jobs.pause()
    with pytest.raises(QueuePaused):
        jobs.add(2)
    assert jobs.take() is None
    jobs.resume()
    info = jobs.info()
    assert (info.ready, info.is_paused_in) == (1, False)
    assert jobs.take().body == 1


def test_expired_jobs_are_kept_if_that_is_set(jobs: Any) -> None:
    jobs.keep_expired()
    id = jobs.add("late", ttl=1)

    assert jobs.wait(id, timeout=30) == 0, "it is not removed"

    view = jobs.show(id)
    assert (view.state, view.reason, view.body) == (State.DEAD, b"expired", b'"late"')
    assert jobs.info().keeps_expired
    jobs.keep_expired(False)
    assert not jobs.info().keeps_expired
    assert (jobs.redrive(), jobs.take().body) == (1, "late")


def test_spans_have_fractions_where_they_can(jobs: Any) -> None:
    jobs.add("soon", delay=0.05)
    assert jobs.take(timeout=30).nack(delay=0.05)
    assert jobs.take(timeout=30).body == "soon"
    for bad in ({"retry": 0.5}, {"ttl": 1.5}):
        with pytest.raises(BadArgument, match="is not a whole number of seconds"):
            jobs.add("x", **bad)


def test_a_job_lives_for_a_second_at_least(jobs: Any) -> None:
    for seconds in (0, 0.0):
        with pytest.raises(BadArgument, match=r"^ttl 0 must be 1 or more$"):
            jobs.add(1, ttl=seconds)
    with pytest.raises(BadArgument, match=r"^delay 1 must be less than ttl 1: set a longer ttl$"):
        jobs.add(1, ttl=1, delay=1)


def test_what_cannot_be_said_is_refused_and_nothing_is_added(queues: Any, queue: str) -> None:
    plain, coded = queues.jobs(queue), queues.jobs(queue, codec="json")

    with pytest.raises(BadArgument, match="bytes or str, not dict"):
        plain.add({})
    with pytest.raises(BadArgument, match="cannot encode this body as JSON"):
        coded.add(object())
    with pytest.raises(BadArgument, match="not a duration in seconds"):
        plain.add(b"x", delay=-1)
    with pytest.raises(BadArgument, match="unknown codec 'xml'"):
        queues.jobs(queue, codec="xml")

    assert plain.take() is None
