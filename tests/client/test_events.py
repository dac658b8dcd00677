"""Queues of events as programs have them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.server.broker import RunningBroker


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


@pytest.mark.parametrize("name", ["groups", "Group", "QUEUE"])
def test_a_name_may_be_a_word_of_the_commands(queues: Any, clicks: Any, name: str) -> None:
    clicks.add_many([1, 2, 3])
    named = queues.events(name, codec="json")
    named.flush()
    named.add("one")
    with named.group(name).take():
        pass

    told = named.info()
    assert (told.queue, told.total) == (name.encode(), 1)
    assert [(it.group, it.done) for it in told.groups] == [(name.encode(), 1)]


def test_an_event_is_acked_at_the_end_of_its_context(clicks: Any) -> None:
    clicks.add("one")
    group = clicks.group("g")
    with group.take() as event:
        assert event.body == "one"
    assert event.ack() is False


def test_an_event_whose_context_raises_is_given_back_and_its_deliveries_are_counted(
    clicks: Any,
) -> None:
    clicks.add("one")
    group = clicks.group("g")
    event = group.take()
    assert event.deliveries == 1
    with pytest.raises(KeyError), event:
        raise KeyError

    assert event.release() is False
    assert group.take().deliveries == 2
    assert clicks.group("h").take().deliveries == 1


def test_leases_are_extended_shortened_and_given_back(clicks: Any) -> None:
    clicks.add_many([1, 2, 3])
    group = clicks.group("g", lease=60)
    first, second, third = group.take_many(3)

    assert first.extend(60) is True
    assert group.extend([first, third.id, "7"], 60) == 2
    assert group.release([third, third.id]) == 1
    assert third.extend(60) is False
    assert third.id == group.take().id
    assert second.extend(0.001) is True
    assert second.id == group.take(timeout=30).id
    assert (group.extend([], 60), group.release([])) == (0, 0)


def test_an_event_of_okq_s_words_may_have_any_id(
    opener: Any, embedded_broker: RunningBroker, queue: str
) -> None:
    with embedded_broker.connect() as client:
        client.call("QLPUSH", queue, b"\xff 1", "body")
    queues = opener.connect(f"redis://127.0.0.1:{embedded_broker.port}")
    group = queues.events(queue).group("g")

    event = group.take()

    assert (event.body, event.extend(60)) == (b"body", True)
    assert event.ack() is True


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
