"""Messages whose ids were chosen: what is new, what goes to the back, and what has another body."""

from __future__ import annotations

import pytest

from quinque.engine.work import items
from quinque.engine.work.apply import apply_added, apply_replaced
from quinque.engine.work.decide import take as decide_take
from quinque.engine.work.directory import Directory
from quinque.engine.work.due import settle
from quinque.engine.work.worklist import LEASED, READY, Worklist
from quinque.errors import QueuePaused
from quinque.model.events import WorkKept
from quinque.model.families import ITEMS
from quinque.model.limits import TOGETHER_MOST
from quinque.model.own_events import MOVED_BACK, REPLACED, MovedBack
from quinque.model.own_ops import ITEM_TERMS, AddItems, ExtendLeases
from tests.engine.work.invariants import check_worklist
from tests.engine.work.steps import NOW_MS, configure, found, run


@pytest.fixture
def queue() -> Worklist:
    return Worklist(b"i", ITEMS, Directory(), NOW_MS)


def add(queue: Worklist, *ids: bytes) -> None:
    place = max((message.place for message in queue.all()), default=999) + 1
    for event in items.add(queue, {id: id for id in ids}, NOW_MS, place):
        apply_added(queue, event, 0)


def lease(queue: Worklist, *ids: bytes, lease_ms: int) -> None:
    run(queue, decide_take(queue, found(queue, ids), NOW_MS, 7, lease_ms))


def extend(queue: Worklist, *ids: bytes, lease_ms: int) -> None:
    event = items.extend(queue, ExtendLeases(ITEMS, queue.name, ids, lease_ms), NOW_MS)
    run(queue, [event] if event is not None else [])


def ready(queue: Worklist) -> list[bytes]:
    queue.alarm_ms = queue.soonest_ms  # a store sees to that
    check_worklist(queue)
    return [message.id for message in queue.ready]


def adding(*ids: bytes, is_known_new: bool = False) -> AddItems:
    bodies = [b"%d" % number for number in range(len(ids))]
    return AddItems(ITEMS, b"i", ids, bodies, is_known_new)


def test_what_is_there_or_claimed_or_named_before_is_not_new(queue: Worklist) -> None:
    add(queue, b"there")

    found = items.sort_items(queue, adding(b"there", b"a", b"claimed", b"a", b"b"), {b"claimed"})

    assert found == ({b"a": b"1", b"b": b"4"}, {}, [False, True, False, False, True])


def test_what_was_said_to_be_new_and_is_there_has_the_last_body(queue: Worklist) -> None:
    add(queue, b"there")
    op = adding(b"there", b"a", b"claimed", b"a", b"there", is_known_new=True)

    found = items.sort_items(queue, op, {b"claimed"})

    assert found == ({b"a": b"3"}, {b"there": b"4"}, [False, True, False, False, False])


def test_a_queue_that_is_paused_takes_none(queue: Worklist) -> None:
    configure(queue, is_paused_in=True)

    with pytest.raises(QueuePaused):
        items.sort_items(queue, adding(b"a"), ())


def test_many_are_several_events_at_places_that_follow_each_other(queue: Worklist) -> None:
    new = {b"%d" % number: b"" for number in range(2 * TOGETHER_MOST + 1)}

    events = items.add(queue, new, NOW_MS, place=5_000)

    assert [len(event.ids) for event in events] == [TOGETHER_MOST, TOGETHER_MOST, 1]
    assert [event.place for event in events] == [5_000, 5_256, 5_512]


def test_lapsed_ones_go_to_the_back_in_the_order_their_leases_ended(queue: Worklist) -> None:
    """Though one was to end earlier at first, and is reminded of earlier."""
    add(queue, b"a", b"b", b"c", b"d")
    lease(queue, b"a", lease_ms=10)
    lease(queue, b"b", lease_ms=20)
    lease(queue, b"c", lease_ms=30)
    extend(queue, b"a", lease_ms=25)

    events = settle(queue, NOW_MS + 30, 99, place=5_000)
    run(queue, events)

    assert events == [MovedBack(MOVED_BACK, b"i", NOW_MS + 30, 5_000, [b"b", b"a", b"c"])]
    assert ready(queue) == [b"d", b"b", b"a", b"c"]
    assert [message.place for message in queue.ready] == [1_003, 5_000, 5_001, 5_002]
    assert {message.requeues for message in queue.ready} == {0, 1}


def test_a_lease_runs_as_long_as_was_said_and_no_jitter_is_added(queue: Worklist) -> None:
    add(queue, b"a", b"b")
    lease(queue, b"a", b"b", lease_ms=10)

    assert settle(queue, NOW_MS + 9, 99, 5_000) == []
    extend(queue, b"b", b"nobody", lease_ms=5)
    assert {message.due_ms - NOW_MS for message in queue.all()} == {10, 5}


def test_read_back_each_id_has_a_place_though_some_are_not_there(queue: Worklist) -> None:
    queue.in_order = False
    add(queue, b"a", b"b")
    lease(queue, b"a", b"b", lease_ms=10)

    run(queue, [MovedBack(MOVED_BACK, b"i", NOW_MS, 5_000, [b"gone", b"b", b"a"])])
    queue.bring_into_order()

    assert [(message.id, message.place) for message in queue.ready] == [
        (b"b", 5_001),
        (b"a", 5_002),
    ]
    assert queue.came == 5


@pytest.mark.parametrize("state", [READY, LEASED])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_message_that_is_replaced_is_where_it_was(
    queue: Worklist, state: int, is_there: bool
) -> None:
    """Read back, it may be that it is not there: then the event says all of it."""
    add(queue, b"a", b"b", b"c")
    if not is_there:
        queue.remove(found(queue, [b"b"])[0])
    elif state == LEASED:
        lease(queue, b"b", lease_ms=10)
    due_ms = NOW_MS + 10 if state == LEASED else 0
    rest = (ITEM_TERMS.as_record(), None, state, 0, due_ms, 0, 0, 1, True, b"", b"better")

    old, message = apply_replaced(queue, WorkKept(REPLACED, b"i", 4, b"b", 1_001, *rest), home=9)

    assert [it.body for it in old] == ([b"b"] if is_there else [])
    assert (message.body, message.home, message.state, message.due_ms) == (
        b"better",
        9,
        state,
        due_ms,
    )
    assert ready(queue) == ([b"a", b"b", b"c"] if state == READY else [b"a", b"c"])
