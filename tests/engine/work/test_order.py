"""Messages in the order of their places: at any time as a sorted list would have them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quinque.engine.work import order as order_module
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.order import Order
from tests.engine.work.invariants import check_order
from tests.engine.work.steps import message_at
from tests.model.effort import effort


@pytest.fixture(params=[2, 4, 1024], autouse=True, ids=lambda most: f"blocks of {most}")
def _blocks(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order_module, "BLOCK_MOST", request.param)
        yield


class Both:
    """An Order and the sorted list it should be."""

    def __init__(self, messages: list[WorkMessage]) -> None:
        self.order = Order(messages)
        self.listed = list(messages)
        self.next_place = max((it.place for it in messages), default=0) + 1

    def add(self, message: WorkMessage) -> None:
        self.order.add(message)
        self.listed.append(message)
        self.listed.sort(key=lambda message: message.place)

    def add_last(self, count: int) -> None:
        messages = [message_at(self.next_place + number) for number in range(count)]
        self.next_place += count + 1
        self.order.add_last(messages)
        self.listed += messages

    def remove(self, at: int) -> WorkMessage:
        message = self.listed.pop(at)
        self.order.remove(message)
        return message

    def drop_first(self, count: int) -> None:
        self.order.drop_first(count)
        del self.listed[:count]

    def check(self) -> None:
        check_order(self.order)
        assert list(self.order) == self.listed
        assert self.order.size == len(self.listed)
        for most in (1, 2, 3, 5, 9, len(self.listed) + 1):
            assert self.order.first(most) == self.listed[:most]
            assert self.order.last(most) == self.listed[::-1][:most]
            place = self.listed[most - 1].place if most <= len(self.listed) else self.next_place
            below = [message for message in self.listed if message.place < place]
            assert self.order.before(place) is (below[-1] if below else None)


@effort(examples=60)
@given(start=st.integers(0, 12), seed=st.integers(0, 1 << 16))
def test_it_is_as_a_sorted_list_whatever_comes_and_goes(start: int, seed: int) -> None:
    random = Random(seed)
    both = Both([message_at(place) for place in range(1, 2 * start, 2)])
    out: list[WorkMessage] = []

    for _ in range(80):
        match random.randrange(5):
            case 0:
                both.add_last(random.randint(0, 6))
            case 1 if both.listed:
                out.append(both.remove(random.randrange(len(both.listed))))
            case 2 if out:  # back to its old place
                both.add(out.pop(random.randrange(len(out))))
            case 3 if random.random() < 0.3:
                both.drop_first(random.randint(0, len(both.listed)))
            case 4 if both.listed:
                out.append(both.remove(0))
        both.check()


def test_the_first_are_cut_off_over_blocks() -> None:
    both = Both([message_at(place) for place in range(1, 5_000)])

    both.drop_first(3_000)

    both.check()
    both.drop_first(1_999)
    both.check()
    both.add(message_at(17))
    both.check()


def test_all_may_come_back_in_any_order() -> None:
    messages = [message_at(place) for place in range(1, 3_000)]
    both = Both(list(messages))
    both.drop_first(len(messages))
    Random(1).shuffle(messages)

    for message in messages:
        both.order.add(message)

    both.listed = sorted(messages, key=lambda message: message.place)
    both.check()


def test_a_message_that_is_not_there_is_a_mistake() -> None:
    order = Order([message_at(place) for place in (1, 5, 9)])

    with pytest.raises((AssertionError, IndexError)):
        order.remove(message_at(5))


@pytest.mark.parametrize("count", [0, 1, 5, 1024, 1025, 3000])
def test_what_comes_after_a_place(count: int) -> None:
    places = list(range(10, 10 + 2 * count, 2))
    order = Order([message_at(place) for place in places])

    for place in (0, 9, 10, 11, 500, 2057, 2058, 2059, 10_000):
        expected = [it for it in places if it > place]
        assert [it.place for it in order.after(place, 7)] == expected[:7]
        assert [it.place for it in order.after(place, 5_000)] == expected
    assert sum(many for _, many in order.samples()) == count
    assert [place for place, _ in order.samples()][-1:] == places[-1:]
