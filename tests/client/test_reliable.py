"""Reliable queues as programs have them."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def orders(queues: Any, queue: str) -> Any:
    return queues.reliable(queue, codec="json")


def test_what_is_pushed_is_popped_and_acked(orders: Any) -> None:
    ids = orders.push_many([1, 2, 3])

    first = orders.pop()
    others = orders.pop_many(10)

    assert [first.id, *(it.id for it in others)] == ids
    assert [it.body for it in others] == [2, 3]
    assert (first.ack(), first.ack()) == (True, False)
    assert orders.ack(others) == 2
    assert orders.pop(timeout=0.001) is None


def test_what_is_not_acked_stays_delivered_and_is_recovered(orders: Any) -> None:
    orders.push("work")
    with pytest.raises(ZeroDivisionError), orders.pop() as element:
        1 / 0  # noqa: B018

    assert orders.pop() is None
    [seen] = orders.inspect(delivered=True)
    assert (seen.message_id.decode(), seen.deliveries) == (element.id, 1)
    with orders.recover(10, elapsed=0)[0] as again:
        assert (again.id, again.body) == (element.id, "work")
    assert orders.recover(10, elapsed=0) == []


def test_a_queue_is_there_until_it_is_deleted(orders: Any) -> None:
    assert orders.info() is None
    assert orders.inspect() == []
    orders.push("x")
    assert (orders.info().ready, orders.info().leased) == (1, 0)
    assert orders.delete() is True
    assert orders.delete() is False
