"""A queue in the order of places, page by page, for readers side by side."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from quinque.errors import BadArgument, WrongType
from quinque.model.families import EVENTS, JOBS, Family
from quinque.model.look_ops import BrowsePlaces, DividePlaces, Page
from quinque.model.rows import IS_SINGLE, WAS_READY, Row
from quinque.model.states import State
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance import words
from tests.conformance.claim_words import subscribe
from tests.conformance.work_words import (
    DAY_MS,
    MINUTE_MS,
    add,
    add_one,
    everything,
    kill,
    nack,
    take,
)

ALL = (State.READY, State.DELAYED, State.LEASED, State.DEAD)


def browse(
    store: Store,
    after: int = 0,
    until: int = 0,
    count: int = 1_000,
    *,
    family: Family = JOBS,
    queue: bytes = b"w",
    **options: Any,
) -> Page:
    return store.run(BrowsePlaces(family, queue, after, until, count, **options))


def rows_of(page: Page) -> list[Row]:
    rows = [Row._make(row) for row in msgpack.unpackb(page.rows, raw=True)]
    assert len(rows) == page.count
    return rows


def read_all(store: Store, after: int = 0, until: int = 0, **options: Any) -> list[bytes]:
    """The bodies of all pages from there on."""
    bodies: list[bytes] = []
    for _ in range(10_000):
        page = browse(store, after, until, **options)
        bodies += [row.body for row in rows_of(page)]
        if page.is_last:
            return bodies
        assert page.place > after
        after = page.place
    raise AssertionError("there is no end to it")


def test_a_page_has_messages_in_the_order_of_their_places(store: Store, clock: ManualClock) -> None:
    dead = kill(store, b"1")
    clock.advance(1)
    add(store, b"2", delay_ms=MINUTE_MS)
    clock.advance(1)
    ids = add(store, b"3", b"4")

    page = browse(store)

    rows = rows_of(page)
    assert [row.body for row in rows] == [b"1", b"2", b"3", b"4"]
    assert [row.state for row in rows] == [State.DEAD, State.DELAYED, State.READY, State.READY]
    assert (rows[0].id, rows[2].id, rows[3].id) == (dead[0], *ids)
    assert (page.place, page.is_last) == (rows[3].place, True)


def test_a_row_tells_all_of_a_message(store: Store) -> None:
    id = add_one(store, b"body", key=b"k", max_deliveries=7)
    take(store)
    nack(store, id, delay_ms=5_000, reason=b"why")

    (row,) = rows_of(browse(store))

    assert (row.id, row.body, row.attempt) == (id, b"body", 1)
    assert row.expires_ms == store.now_ms() + DAY_MS
    assert (row.state, row.due_ms) == (State.DELAYED, store.now_ms() + 5_000)
    assert (row.nacks, row.requeues, row.reason, row.key) == (1, 0, b"why", b"k")
    assert row.terms is not None
    assert (tuple(row.terms), row.flags) == ((DAY_MS, 0, MINUTE_MS, 7, 1), WAS_READY)


def test_pages_follow_each_other(store: Store) -> None:
    expected = [b"%d" % number for number in range(25)]
    add(store, *expected)

    assert read_all(store, count=10) == expected
    assert read_all(store, count=25) == expected
    assert read_all(store, count=1) == expected


def test_only_what_is_after_and_up_to_is_shown(store: Store) -> None:
    add(store, b"1", b"2", b"3", b"4")
    places = [row.place for row in rows_of(browse(store))]

    page = browse(store, places[0], places[2])

    assert [row.body for row in rows_of(page)] == [b"2", b"3"]
    assert page.is_last
    assert not browse(store, places[0], places[2], 1).is_last


def test_only_the_states_that_are_asked_for_are_shown(store: Store) -> None:
    kill(store, b"dead")
    add(store, b"leased")
    take(store)
    add(store, b"delayed", delay_ms=MINUTE_MS)
    add(store, b"ready")

    assert read_all(store, states=[State.LEASED]) == [b"leased"]
    assert read_all(store, states=[State.READY, State.LEASED]) == [b"leased", b"ready"]
    assert read_all(store, states=[State.DEAD]) == [b"dead"]
    assert read_all(store, states=ALL, count=1) == [b"dead", b"leased", b"delayed", b"ready"]


def test_a_look_changes_nothing(store: Store) -> None:
    kill(store, b"1")
    add(store, b"2", b"3")
    seen = everything(store)

    read_all(store, states=ALL)
    store.run(DividePlaces(JOBS, b"w", 3))

    assert everything(store) == seen


def test_what_has_expired_is_not_shown(store: Store, clock: ManualClock) -> None:
    add(store, b"1", ttl_ms=1_000)
    add(store, b"2")
    words.put(store, b"1", ttl_ms=1_000)
    words.put(store, b"2")
    clock.advance(1_000)

    assert read_all(store) == [b"2"]
    assert read_all(store, family=EVENTS, queue=b"q") == [b"2"]


def test_what_is_claimed_is_not_shown(store: Store) -> None:
    add(store, b"1", b"2")
    subscribe(store).claim(1, 1)

    assert read_all(store, states=ALL) == [b"2"]


def test_large_bodies_make_short_pages(store: Store) -> None:
    expected = [b"%d" % number * 700_000 for number in range(10)]
    for body in expected:
        add(store, body)

    assert browse(store).count < 10
    assert read_all(store) == expected


def test_a_queue_that_is_not_there_has_one_empty_page(store: Store) -> None:
    page = browse(store)

    assert (rows_of(page), page.is_last) == ([], True)
    assert store.run(DividePlaces(JOBS, b"w", 4)).bounds == []
    assert store.run(DividePlaces(JOBS, b"w", 4)).messages == 0


def test_a_feed_page_by_page(store: Store) -> None:
    expected = [b"%d" % number for number in range(25)]
    added = words.put(store, *expected)
    words.put_single(store, b"own")

    assert read_all(store, family=EVENTS, queue=b"q", count=10) == [*expected, b"own"]

    rows = rows_of(browse(store, family=EVENTS, queue=b"q"))
    assert [row.id for row in rows] == [*added, b"own"]
    assert [row.flags for row in rows] == [0] * 25 + [IS_SINGLE]
    assert (rows[0].attempt, rows[0].state, rows[0].terms) == (0, State.READY, None)
    assert rows[0].place == int(added[0])


def test_messages_of_a_feed_that_go_meanwhile_do_not_stop_the_reader(store: Store) -> None:
    words.put_single(store, *[b"%d" % number for number in range(30)])
    page = browse(store, family=EVENTS, queue=b"q", count=10)
    for row in rows_of(page):
        words.ack(store, row.id, held_only=False)

    rest = read_all(store, page.place, family=EVENTS, queue=b"q", count=10)

    assert rest == [b"%d" % number for number in range(10, 30)]


@pytest.mark.parametrize("family", [JOBS, EVENTS], ids=["worklist", "feed"])
@pytest.mark.parametrize("count", [1, 7, 100, 20_000])
def test_parts_are_about_the_same_and_have_all_of_it(
    store: Store, family: Family, count: int
) -> None:
    expected = [b"%d" % number for number in range(count)]
    for at in range(0, count, 1_000):
        if family is JOBS:
            add(store, *expected[at : at + 1_000], queue=b"x")
        else:
            words.put(store, *expected[at : at + 1_000], queue=b"x")

    places = store.run(DividePlaces(family, b"x", 4))

    assert (places.messages, places.shards) == (count, 1)
    assert 1 <= len(places.bounds) <= 4
    assert places.bounds == sorted(set(places.bounds))
    parts = [
        read_all(store, after, until, family=family, queue=b"x", count=5_000)
        for after, until in zip([0, *places.bounds], places.bounds, strict=False)
    ]
    assert [body for part in parts for body in part] == expected
    if count >= 100:
        assert len(parts) == 4
        assert all(abs(len(part) - count / 4) <= 0.1 * count for part in parts)


def test_places_of_several_states_are_divided_together(store: Store) -> None:
    kill(store, *[b"dead"] * 10)
    add(store, *[b"ready"] * 30)
    take(store, 10)

    places = store.run(DividePlaces(JOBS, b"w", 4, states=ALL))

    assert places.messages == 40
    assert len(places.bounds) == 4
    assert len(read_all(store, 0, places.bounds[0], states=ALL)) == 10


def test_a_queue_of_another_family_is_refused(store: Store) -> None:
    words.put(store, b"1")

    with pytest.raises(WrongType):
        browse(store, queue=b"q")
    with pytest.raises(WrongType):
        store.run(DividePlaces(JOBS, b"q", 2))


def test_a_shard_that_is_not_there_is_refused(store: Store) -> None:
    with pytest.raises(BadArgument):
        browse(store, shard=3)
    with pytest.raises(BadArgument):
        store.run(DividePlaces(JOBS, b"w", 2, shard=3))
