"""The order of deliveries, where a family keeps it: what was delivered last is last."""

from __future__ import annotations

import pytest

from quinque.engine.work.apply import apply_work_kept
from quinque.engine.work.decide import recover
from quinque.engine.work.directory import Directory
from quinque.engine.work.views import delivered_ms, inspect
from quinque.engine.work.worklist import LEASED, TURN_BITS, Worklist
from quinque.model.events import AS_EVENT, TAKEN, WORK_KEPT, WORKLIST_KEPT, Taken, WorkKept
from quinque.model.families import JOBS, RELIABLE
from quinque.model.own_ops import RELIABLE_TERMS
from tests.engine.work.invariants import check_worklist
from tests.engine.work.steps import NOW_MS, add, finish, found, run, take

A_MS = 1 << TURN_BITS


@pytest.fixture
def queue() -> Worklist:
    return Worklist(b"r", RELIABLE, Directory(), NOW_MS)


def push(queue: Worklist, count: int) -> list[bytes]:
    return add(queue, count, ttl_ms=0, retry_ms=0)


def again(queue: Worklist, *ids: bytes, now_ms: int = NOW_MS) -> None:
    run(queue, [recover(queue, found(queue, ids), now_ms)])


def order(queue: Worklist) -> list[bytes]:
    check_worklist(queue)
    return [message.id for message in inspect(queue, 0, 100, is_leased=True)]


def test_they_are_in_the_order_in_which_they_were_taken(queue: Worklist) -> None:
    first, second, third = push(queue, 3)

    take(queue, 2)
    take(queue, 1)

    assert order(queue) == [first, second, third]


def test_what_is_recovered_is_the_last(queue: Worklist) -> None:
    first, second, third = push(queue, 3)
    take(queue, 3)

    again(queue, first, second, now_ms=NOW_MS + 5)

    assert order(queue) == [third, first, second]
    assert [it.deliveries for it in found(queue, [first, second, third])] == [2, 2, 1]
    assert [delivered_ms(queue, it, NOW_MS + 5) for it in found(queue, [third, first])] == [
        NOW_MS,
        NOW_MS + 5,
    ]


def test_what_is_finished_has_no_turn(queue: Worklist) -> None:
    first, second, third = push(queue, 3)
    take(queue, 3)

    finish(queue, second)

    assert order(queue) == [first, third]


def test_turns_grow_while_the_clock_stands_still_or_goes_back(queue: Worklist) -> None:
    ids = push(queue, 3)

    take(queue, now_ms=NOW_MS)
    take(queue, now_ms=NOW_MS)
    take(queue, now_ms=NOW_MS - 500)

    assert list((queue.turns or {}).values()) == [NOW_MS * A_MS + number for number in range(3)]
    assert order(queue) == ids


def test_more_than_fit_in_a_millisecond_go_on_in_the_next_and_are_not_shown_in_it(
    queue: Worklist,
) -> None:
    ids = push(queue, A_MS + 10)
    take(queue, len(ids))
    (last,) = found(queue, ids[-1:])

    assert queue.last_turn >> TURN_BITS == NOW_MS + 1
    assert delivered_ms(queue, last, NOW_MS) == NOW_MS
    assert [it.id for it in inspect(queue, -1, 9, is_leased=True)] == ids[-1:]


@pytest.mark.parametrize("is_leased", [False, True])
def test_a_part_of_a_list_is_the_same_from_either_end(queue: Worklist, is_leased: bool) -> None:
    ids = push(queue, 3_000)
    if is_leased:
        take(queue, 3_000)

    def seen(start: int, count: int) -> list[bytes]:
        return [it.id for it in inspect(queue, start, count, is_leased=is_leased)]

    for start in (0, 1, 1_023, 1_024, 1_499, 2_000, 2_998, 2_999, 3_000, 4_000):
        assert seen(start, 5) == ids[start : start + 5]
        if start < 3_000:
            assert seen(start - 3_000, 5) == ids[start : start + 5]
    assert seen(-3_001, 5_000) == []
    assert seen(500, 0) == seen(500, -1) == []
    assert seen(500, 2_200) == ids[500:2_700]


def test_read_back_the_order_is_the_same_though_some_were_compacted_away() -> None:
    """The first two were delivered in a millisecond of which another delivery is still on record,
    and one of them is written again later."""
    queue = Worklist(b"r", RELIABLE, Directory(), NOW_MS, in_order=False)
    push(queue, 2)
    turn = NOW_MS * A_MS
    (third, fourth) = [it.id for it in reversed(queue.all())]
    run(queue, [Taken(TAKEN, b"r", NOW_MS, 0, [b"gone", third, fourth], turn + 2)])
    apply_work_kept(queue, kept(b"2", turn + 1), 0)

    queue.bring_into_order()

    assert order(queue) == [b"2", third, fourth]
    assert queue.last_turn == turn + 4
    assert queue.next_turn(NOW_MS) == turn + 5


def test_records_from_before_there_were_turns_are_read() -> None:
    taken = AS_EVENT[TAKEN]((TAKEN, b"w", NOW_MS, 5_000, [b"1"]))
    counted = AS_EVENT[WORKLIST_KEPT](
        (WORKLIST_KEPT, b"w", JOBS.code, 1, 2, 3, 4, False, False, 0, 0, 0, 0)
    )

    assert taken == Taken(TAKEN, b"w", NOW_MS, 5_000, [b"1"], None)
    assert counted[-1] == 0


def kept(id: bytes, turn: int) -> WorkKept:
    return WorkKept(
        WORK_KEPT,
        b"r",
        RELIABLE.code,
        id,
        1,
        RELIABLE_TERMS.as_record(),
        None,
        LEASED,
        0,
        turn,
        0,
        0,
        1,
        True,
        b"",
        b"body",
    )
