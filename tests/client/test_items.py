"""Queues of items as programs have them."""

from __future__ import annotations

from typing import Any

import pytest

from quinque.errors import BadArgument
from quinque.model.states import State


@pytest.fixture
def pages(queues: Any, queue: str) -> Any:
    return queues.items(queue, codec="msgpack")


def test_an_item_is_added_leased_and_completed_once(pages: Any) -> None:
    assert pages.add("one", {"url": b"\xff"}) is True
    assert pages.add("one", {"url": b"other"}) is False
    assert pages.add_many({"two": 2, "one": 1}) == 1

    first, second = pages.lease_many(10, lease=60)

    assert [(it.id, it.body) for it in (first, second)] == [("one", {"url": b"\xff"}), ("two", 2)]
    assert pages.lease(60) is None
    assert (pages.info().ready, pages.info().leased) == (0, 2)
    assert (first.complete(), first.complete()) == (True, False)
    assert pages.complete([second, "nobody"]) == 1


def test_an_item_is_completed_at_the_end_of_its_context_and_comes_back_by_an_error(
    pages: Any,
) -> None:
    pages.add("one", 1)
    with pytest.raises(ZeroDivisionError), pages.lease(60):
        1 / 0  # noqa: B018
    with pages.lease(60, timeout=30) as again:
        assert again.id == "one"
        assert again.extend(120) is True
    assert pages.lease(60) is None
    assert pages.extend(["one"], 60) == 0


def test_items_are_looked_at_and_stay_where_they_are(pages: Any) -> None:
    pages.add_many({"one": 1, "two": 2, "three": 3})
    pages.lease(60)

    assert [it.message_id for it in pages.peek()] == [b"two", b"three"]
    [leased] = pages.peek(1, State.LEASED)
    assert (leased.message_id, 0 < leased.due_within_ms <= 60_000) == (b"one", True)
    assert (pages.show("one").state, pages.show("two").body) == (State.LEASED, b"\x02")
    assert pages.show("four") is None
    with pytest.raises(BadArgument):
        pages.peek(state=State.DEAD)
    assert (pages.info().ready, pages.info().leased) == (2, 1)
