"""Tubes as programs have them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from quinque.errors import NoTerm, NoTube, TouchRefused, TubeBusy, TubeExists, TubeFull
from quinque.model.states import State


@pytest.fixture
def letters(queues: Any, queue: str) -> Any:
    tube = queues.tube(queue, codec="json")
    assert tube.make("fifottl", ttr=60) is True
    return tube


def test_what_is_put_is_taken_and_acked(letters: Any) -> None:
    assert letters.put({"to": "a"}) == 0

    task = letters.take()

    assert (task.id, task.body, task.state) == (0, {"to": "a"}, State.LEASED)
    assert (task.ack(), task.ack()) == (True, False)
    assert letters.take() is None
    assert letters.peek(0) is None


def test_many_are_one_round_trip(letters: Any) -> None:
    assert letters.put_many(range(50)) == list(range(50))
    assert letters.put_many(["soon", "sooner"], pri=1, delay=60) == [50, 51]

    taken = letters.take_many(100)

    assert [task.body for task in taken] == list(range(50))
    assert letters.ack([*taken, 51]) == 50
    assert letters.delete([50, 51, 52]) == 2
    assert (letters.put_many([]), letters.ack([])) == ([], 0)


def test_bytes_that_look_like_what_is_kept_are_bytes(queues: Any, queue: str) -> None:
    tube = queues.tube(queue)
    tube.make()
    bodies = [b"", b"\xc1", b"\xc1\xc1\x00", b"\x93\x01", "text"]

    tube.put_many(bodies)
    tube.put(b"\xc1x")

    assert [task.body for task in tube.take_many(9)] == [*bodies[:4], b"text", b"\xc1x"]


def test_a_task_is_acked_at_the_end_of_its_context_and_released_by_an_error(letters: Any) -> None:
    letters.put(1)
    with pytest.raises(ZeroDivisionError), letters.take():
        1 / 0  # noqa: B018
    with letters.take() as again:
        assert again.id == 0
    assert letters.info().done == 1


def test_a_task_is_released_with_changes_touched_buried_and_kicked(letters: Any) -> None:
    letters.put_many(["a", "b"], pri=5)
    task = letters.take()
    assert task.touch(30) is True
    assert task.release(pri=9, body="changed") is True
    assert [it.body for it in letters.take_many(2)] == ["b", "changed"]

    assert letters.bury([0, 1, 7]) == 2
    assert letters.peek(0).state == State.DEAD
    assert letters.kick(tasks=[letters.peek(1), 1, 7]) == 1
    assert letters.kick(5, tasks=[]) == 0
    assert letters.kick(5) == 1
    assert letters.take().release(delay=600)
    assert (letters.info().ready, letters.info().delayed) == (1, 1)
    assert letters.take()
    assert letters.release_all() == 1
    assert letters.truncate() == 2


def test_of_a_lane_one_is_taken_at_a_time(queues: Any, queue: str) -> None:
    tube = queues.tube(queue)
    tube.make("utube")
    tube.put_many([b"a1", b"a2"], lane="a")
    tube.put(b"b1", lane="b")

    assert tube.take(lane="b").body == b"b1"
    assert tube.take().body == b"a1"
    assert tube.take() is None
    with pytest.raises(TouchRefused, match="does not support touch"):
        tube.touch([0], 1)
    with pytest.raises(NoTerm, match="do not support delay"):
        tube.put(b"x", delay=1)
    with pytest.raises(NoTerm, match="do not support capacity"):
        tube.make("utube", capacity=5)
    with pytest.raises(NoTerm, match="do not support colour"):
        tube.make("utube", options={"colour": 5})


def test_a_consumer_waits_and_goes_through_what_comes(letters: Any) -> None:
    assert letters.take(timeout=0.001) is None
    found: list[Any] = []

    def consume() -> None:
        going = iter(letters)
        for _ in range(2):
            with next(going) as task:
                found.append(task.body)
        going.close()

    consumer = threading.Thread(target=consume)
    consumer.start()
    letters.put("first")
    letters.put("second")
    consumer.join()

    assert found == ["first", "second"]


def test_a_full_tube_is_waited_for(queues: Any, queue: str) -> None:
    tube = queues.tube(queue)
    tube.make("limfifottl", capacity=1)
    tube.put(b"one")
    with pytest.raises(TubeFull):
        tube.put(b"two")
    assert tube.put_many([b"two", b"three"]) == []
    producer = threading.Thread(target=lambda: tube.put(b"two", timeout=30))
    producer.start()

    tube.take().ack()
    producer.join()

    assert tube.take().body == b"two"


def test_a_tube_is_made_described_and_dropped(queues: Any, queue: str) -> None:
    tube = queues.tube(queue)
    assert tube.info() is None
    with pytest.raises(NoTube, match=r"; create it with TUBE.CREATE, or make\(\) in Python$"):
        tube.put(b"x")
    tube.make("utubettl", ttl=600, ttr=1.5, pri=3, width=2, temporary=True)
    assert tube.make() is False
    with pytest.raises(TubeExists):
        tube.make(exist_ok=False)
    settings = tube.info().settings
    assert (settings.ttl_ms, settings.ttr_ms, settings.pri) == (600_000, 1_500, 3)
    assert (settings.width, settings.is_temporary) == (2, True)
    tube.put(b"x")
    tube.take()
    with pytest.raises(TubeBusy):
        tube.drop()
    tube.release_all()
    tube.drop()
    assert tube.info() is None


def test_tasks_are_looked_through_and_stay_where_they_are(letters: Any) -> None:
    letters.put_many(["one", "two", "three"])
    letters.put("late", delay=60)
    letters.take()
    letters.bury([2])

    assert [(task.id, task.body) for task in letters.browse()] == [(1, "two")]
    by_state = [letters.browse(1, state)[0].body for state in State]
    assert by_state == ["two", "late", "one", "three"]
    assert [task.state for task in letters.browse(state=State.DEAD)] == [State.DEAD]
    assert (letters.info().ready, letters.info().taken) == (1, 1)


def test_what_is_raised_over_a_task_is_seen_although_its_tube_is_gone(
    queues: Any, queue: str
) -> None:
    tube = queues.tube(queue)
    tube.make()
    tube.put(b"x")

    def fail() -> None:
        tube.truncate()
        tube.drop()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), tube.take():
        fail()
