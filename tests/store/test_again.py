"""Messages that come back are handed out together, and how far their group has come stays known."""

from __future__ import annotations

from pathlib import Path

from quinque.engine.feed.groups import Group
from quinque.model.families import EVENTS
from quinque.model.limits import RESERVE_MOST_BYTES
from quinque.model.message import FeedMessage, Lease
from quinque.model.ops import Put, Reserve
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore


def test_some_again_are_the_lowest_places_in_order_whatever_was_taken_before() -> None:
    group = Group(b"g")
    places = [(7 * number) % 101 for number in range(101)]
    for place in places:
        group.give_again(Lease(FeedMessage(b"%d" % place, place, 0, False, b"", 0), 0, 1))
    for place in range(0, 100, 3):
        lease = group.take_again(b"%d" % place)
        assert lease is not None
        if place % 2:
            group.give_again(lease)

    found = group.some_again(40)

    there = [place for place in range(101) if place % 3 or place % 2 or place == 100]
    assert [message.place for message in found] == there[:40]


def test_large_ones_that_come_back_do_not_move_the_group_back(tmp_path: Path) -> None:
    clock = ManualClock()
    store = EmbeddedStore(tmp_path, fsync="no", clock=clock)
    large = b"x" * (RESERVE_MOST_BYTES // 2 + 1)
    ids = store.run(Put(EVENTS, b"q", [large] * 5))
    assert [it.message_id for it in store.run(Reserve(EVENTS, b"q", b"g", 1000, 2))] == ids[:2]
    assert [it.message_id for it in store.run(Reserve(EVENTS, b"q", b"g", 9000, 2))] == ids[2:4]
    clock.advance(ms=1000)
    again = store.run(Reserve(EVENTS, b"q", b"g", 9000, 5))
    store.close()

    reopened = EmbeddedStore(tmp_path, fsync="no", clock=clock)
    rest = reopened.run(Reserve(EVENTS, b"q", b"g", 9000, 5))
    reopened.close()

    assert [it.message_id for it in again] == ids[:2]
    assert [it.message_id for it in rest] == ids[4:]
