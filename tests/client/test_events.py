"""Queues of events as programs have them."""

from __future__ import annotations

import threading
from typing import Any

import pytest


@pytest.fixture
def clicks(queues: Any, queue: str) -> Any:
    return queues.events(queue, codec="json")


def test_every_group_sees_every_event(clicks: Any) -> None:
    ids = clicks.add_many([1, 2, 3])

    for name in ("report", "audit"):
        group = clicks.group(name)
        taken = group.take_many(10)
        assert [it.id for it in taken] == ids
        assert group.ack(taken) == 3
        assert group.take() is None

    assert clicks.info().total == 3
    clicks.flush()
    assert clicks.group("late").take() is None


def test_an_event_is_acked_at_the_end_of_its_context(clicks: Any) -> None:
    clicks.add("one")
    group = clicks.group("g")
    with group.take() as event:
        assert event.body == "one"
    assert event.ack() is False


def test_a_consumer_waits_and_goes_through_what_comes(clicks: Any) -> None:
    group = clicks.group("g")
    assert group.take(timeout=0.001) is None
    found: list[Any] = []

    def consume() -> None:
        going = iter(group)
        for _ in range(2):
            event = next(going)
            found.append(event.body)
            event.ack()
        going.close()

    consumer = threading.Thread(target=consume)
    consumer.start()
    clicks.add("first")
    clicks.add("second")
    consumer.join()

    assert found == ["first", "second"]
