"""What makes no sense is refused alike, whatever the queues run on, and changes nothing."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from quinque.errors import BadArgument, BadId, NoTube, QueueFull
from quinque.model.states import State

LONG = "x" * 1025

REFUSED: list[Callable[[Any, str], Any]] = [
    lambda queues, name: queues.jobs(LONG),
    lambda queues, name: queues.jobs(name).add(b"x", key=""),
    lambda queues, name: queues.jobs(name).add(b"x", key=LONG),
    lambda queues, name: queues.jobs(name).add(b"x", key="\ud800"),
    lambda queues, name: queues.jobs(name).add("\ud800"),
    lambda queues, name: queues.jobs(name).add(b"x", max_length=1.5),
    lambda queues, name: queues.jobs(name, codec="json").add(float("nan")),
    lambda queues, name: queues.jobs("\ud800"),
    lambda queues, name: queues.jobs(name).add(b"x", ttl=0),
    lambda queues, name: queues.jobs(name).add(b"x", ttl=5, delay=5),
    lambda queues, name: queues.jobs(name).add(b"x", delay=float("nan")),
    lambda queues, name: queues.jobs(name).add(b"x", max_length=-1),
    lambda queues, name: queues.jobs(name).add(b"x", max_deliveries=-1),
    lambda queues, name: queues.jobs(name).take_many(0),
    lambda queues, name: queues.jobs(name).take(timeout=-1),
    lambda queues, name: queues.jobs(name).peek(state=State.LEASED),
    lambda queues, name: queues.jobs(name).peek(state="delayed"),
    lambda queues, name: queues.jobs(name).purge("dead"),
    lambda queues, name: queues.jobs(name).peek(1 << 60),
    lambda queues, name: queues.events(""),
    lambda queues, name: queues.events(name).add(b"x", ttl=0),
    lambda queues, name: queues.events(name).group(""),
    lambda queues, name: queues.events(name).group("g", lease=0),
    lambda queues, name: queues.events(name).group("g").take_many(-1),
    lambda queues, name: queues.events(name).group("g").extend(["1"], 0),
    lambda queues, name: queues.tube(""),
    lambda queues, name: queues.tube(name).make(pri=-1),
    lambda queues, name: queues.tube(name).make("utube", width=0),
    lambda queues, name: queues.tube(name).put(b"x", pri=1 << 60),
    lambda queues, name: queues.tube(name).put(b"x", lane=LONG),
    lambda queues, name: queues.tube(name).take_many(0),
    lambda queues, name: queues.tube(name).browse(state="delayed"),
    lambda queues, name: queues.tube(name).ack([-1]),
    lambda queues, name: queues.reliable(name).pop_many(0),
    lambda queues, name: queues.reliable(name).recover(0, elapsed=0),
    lambda queues, name: queues.reliable(name).inspect(0, 0),
    lambda queues, name: queues.items(name).add("", b"x"),
    lambda queues, name: queues.items(name).add(LONG, b"x"),
    lambda queues, name: queues.items(name).lease(0),
    lambda queues, name: queues.items(name).peek(state=State.DEAD),
    lambda queues, name: queues.items(name).peek(state="leased"),
]


def test_what_makes_no_sense_is_refused_and_changes_nothing(queues: Any, queue: str) -> None:
    for refused in REFUSED:
        with pytest.raises(BadArgument):
            refused(queues, queue)

    assert queues.jobs(queue).info() is None
    assert queues.events(queue).info() is None
    assert queues.tube(queue).info() is None
    assert queues.items(queue).info() is None


def test_what_is_no_id_of_a_job_is_said_to_be_none(queues: Any, queue: str) -> None:
    jobs = queues.jobs(queue)
    calls: list[Callable[[], Any]] = [
        lambda: jobs.ack(["nosuch"]),
        lambda: jobs.nack(["nosuch"]),
        lambda: jobs.delete(["nosuch"]),
        lambda: jobs.wait(["nosuch"]),
        lambda: jobs.redrive(ids=["nosuch"]),
        lambda: jobs.show("nosuch"),
    ]
    for refused in calls:
        with pytest.raises(BadId, match="'nosuch' is not a job id"):
            refused()

    assert jobs.wait([]) == 0


def test_an_error_is_the_same_in_another_process(queues: Any, queue: str) -> None:
    jobs = queues.jobs(queue)
    jobs.add(b"x")
    with pytest.raises(QueueFull) as full:
        jobs.add(b"y", max_length=1)
    with pytest.raises(NoTube) as absent:
        queues.tube(queue + "?").put(b"x")

    for caught in (full, absent):
        copy = pickle.loads(pickle.dumps(caught.value))
        assert (type(copy), str(copy)) == (caught.type, str(caught.value))
        assert copy.__dict__ == caught.value.__dict__


def test_a_reason_that_is_too_long_is_cut(queues: Any, queue: str) -> None:
    jobs = queues.jobs(queue, max_deliveries=1)
    id = jobs.add(b"x")

    with pytest.raises(ValueError, match="é"), jobs.take():
        raise ValueError("é\ud800" * 1024)

    reason = jobs.show(id).reason.decode(errors="ignore")
    assert reason.startswith("ValueError: é\\ud800é")
    assert len(reason.encode()) in range(1020, 1025)
