"""One worklist: what its events do to its indexes, in any order a journal may have them."""

from __future__ import annotations

from random import Random

import pytest

from quinque.engine.work.apply import apply_added, apply_work_kept, apply_worklist_kept
from quinque.engine.work.directory import Directory
from quinque.engine.work.due import settle
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.worklist import DEAD, DELAYED, LEASED, READY, Worklist
from quinque.model.events import (
    ADDED,
    DIED,
    EXPIRED,
    LAPSE,
    REDRIVEN,
    REQUEUED,
    TAKEN,
    WORK_KEPT,
    WORKLIST_KEPT,
    Added,
    Died,
    Expired,
    Redriven,
    Requeued,
    Taken,
    WorkKept,
    WorklistKept,
)
from quinque.model.families import JOBS
from quinque.model.limits import NEVER_MS
from quinque.model.states import State
from quinque.model.work_ops import Terms
from tests.engine.work.invariants import check_directory, check_worklist, in_order
from tests.engine.work.steps import (
    DAY_MS,
    MINUTE_MS,
    NOW_MS,
    add,
    configure,
    finish,
    hold,
    pass_time,
    redrive,
    requeue,
    run,
    state,
    take,
)

IDLE_MS = 300_000


def check(worklist: Worklist, now_ms: int = NOW_MS) -> None:
    worklist.set_soonest()
    worklist.alarm_ms = worklist.soonest_ms
    check_worklist(worklist, now_ms)
    check_directory(worklist.directory)


@pytest.mark.parametrize("seed", range(30))
def test_every_index_says_the_same_whatever_happens(worklist: Worklist, seed: int) -> None:
    random = Random(seed)
    now_ms = NOW_MS
    for _ in range(200):
        now_ms += random.choice((0, 1, 500, MINUTE_MS, 10 * MINUTE_MS))
        while pass_time(worklist, now_ms, most=random.randint(1, 9)):
            check(worklist, now_ms)
        ids = [message.id for message in worklist.all()]
        some = random.sample(ids, min(len(ids), 3))
        match random.randrange(8):
            case 0 | 1 | 2:
                delay_ms = random.choice((0, 0, 700))
                ttl_ms = random.choice((DAY_MS, 3 * MINUTE_MS, 1_000))
                retry_ms = random.choice((0, 1_000, MINUTE_MS))
                key = b"k" if random.random() < 0.3 and b"k" not in worklist.keys else None
                count = 1 if key else random.randint(1, 5)
                add(
                    worklist,
                    count,
                    now_ms=now_ms,
                    key=key,
                    delay_ms=delay_ms,
                    ttl_ms=ttl_ms,
                    retry_ms=retry_ms,
                    max_deliveries=random.randint(0, 2),
                )
            case 3 | 4:
                take(worklist, random.randint(1, 6), now_ms)
            case 5:
                is_nack, delay_ms = random.random() < 0.7, random.choice((0, 700))
                requeue(worklist, *some, now_ms=now_ms, is_nack=is_nack, delay_ms=delay_ms)
            case 6:
                hold(worklist, *some, now_ms=now_ms)
                redrive(worklist, *some, now_ms=now_ms)
            case 7:
                finish(worklist, *some)
                is_paused_in = random.random() < 0.3
                configure(worklist, now_ms, is_paused_in=is_paused_in)
                if is_paused_in:
                    configure(worklist, now_ms, is_paused_in=False)
        check(worklist, now_ms)


def test_a_cleared_worklist_leaves_nothing_anywhere(worklist: Worklist) -> None:
    add(worklist, 3, key=None)
    add(worklist, key=b"k", delay_ms=5)
    take(worklist)

    gone = worklist.clear()

    assert len(gone) == 4
    assert (worklist.all(), worklist.keys, worklist.directory.by_id) == ([], {}, {})
    check(worklist)
    assert settle(worklist, NOW_MS + 10 * DAY_MS, 99) == []


def test_read_back_reminders_are_not_gone_through_for_each_that_goes(worklist: Worklist) -> None:
    """Many are delayed, and how many is not known before the journal has come to its end."""
    worklist.in_order = False
    ids = add(worklist, 5_000, delay_ms=5)
    dues = worklist.dues

    finish(worklist, ids[0])

    assert worklist.dues is dues
    worklist.bring_into_order()
    check(worklist)


def test_reminders_of_what_went_early_do_not_pile_up(worklist: Worklist) -> None:
    add(worklist)
    take(worklist)
    for number in range(10_000):
        ids = add(worklist, now_ms=NOW_MS + number)
        take(worklist, now_ms=NOW_MS + number)
        finish(worklist, *ids)

    assert worklist.dues.size < 6_000
    assert worklist.expiries.size < 6_000
    check(worklist)
    pass_time(worklist, NOW_MS + MINUTE_MS)
    assert state(worklist, b"1000") is State.READY


def test_reminders_that_come_to_nothing_do_not_hide_what_is_due(worklist: Worklist) -> None:
    ids = add(worklist, 40)
    take(worklist, 40)
    finish(worklist, *ids[:-1])

    events = settle(worklist, NOW_MS + MINUTE_MS, most=5)

    lapsed = Requeued(REQUEUED, b"w", NOW_MS + MINUTE_MS, LAPSE, 0, b"", [ids[-1]])
    assert events == [lapsed]


def test_a_slice_takes_no_more_than_it_may_and_the_rest_stays_due(worklist: Worklist) -> None:
    add(worklist, 20)
    take(worklist, 20)

    pass_time(worklist, NOW_MS + MINUTE_MS, most=8)

    assert [message.place for message in worklist.ready] == list(range(1_000, 1_008))
    assert worklist.soonest_ms == NOW_MS + MINUTE_MS
    check(worklist)


def test_what_expired_and_lapsed_comes_back_to_nobody(worklist: Worklist) -> None:
    ids = add(worklist, 2, ttl_ms=MINUTE_MS)
    take(worklist, 2)

    events = settle(worklist, NOW_MS + MINUTE_MS, most=99)

    assert events == [Expired(EXPIRED, b"w", ids)]


def test_what_died_before_it_expired_is_dead(worklist: Worklist) -> None:
    ids = add(worklist, ttl_ms=2 * MINUTE_MS, max_deliveries=1)
    take(worklist)

    events = settle(worklist, NOW_MS + DAY_MS, most=99)

    assert events == [Died(DIED, b"w", NOW_MS + DAY_MS, False, b"lapsed", ids)]


@pytest.mark.parametrize("limits", [(1, 0), (0, 1)])
def test_what_expired_and_lapsed_goes_though_the_limit_of_deliveries_changes_meanwhile(
    worklist: Worklist, limits: tuple[int, int]
) -> None:
    """What is due is settled a little at a time, and by the limit a job had died, or it expired."""
    add(worklist, 20, ttl_ms=2 * MINUTE_MS)
    take(worklist, 20)

    for limit in limits:
        configure(worklist, max_deliveries=limit)
        pass_time(worklist, NOW_MS + DAY_MS, most=5)
    while worklist.soonest_ms <= NOW_MS + DAY_MS:
        pass_time(worklist, NOW_MS + DAY_MS, most=5)

    assert worklist.leased == 0
    check(worklist)


def test_leases_that_end_together_are_one_event(worklist: Worklist) -> None:
    add(worklist, 3)
    add(worklist, 2, retry_ms=1_000)
    add(worklist, 1, retry_ms=0)

    take(worklist, 6)

    dues = [message.due_ms for message in in_order(worklist.all())]
    assert dues[:-1] == [NOW_MS + MINUTE_MS] * 3 + [NOW_MS + 1_000] * 2
    assert dues[-1] >= NEVER_MS
    check(worklist)


def test_the_next_thing_due_is_the_earliest_of_all(worklist: Worklist) -> None:
    worklist.set_soonest()
    assert worklist.soonest_ms == NOW_MS + IDLE_MS, "it is removed if it is not used"
    ids = add(worklist)
    assert worklist.soonest_ms <= NOW_MS + DAY_MS
    worklist.set_soonest()
    assert worklist.soonest_ms == NOW_MS + DAY_MS
    take(worklist)
    assert worklist.soonest_ms == NOW_MS + MINUTE_MS
    finish(worklist, *ids)
    configure(worklist, max_deliveries=1)
    while pass_time(worklist, NOW_MS + DAY_MS):
        pass
    assert worklist.soonest_ms == NEVER_MS


# -- read back from a journal -----------------------------------------------------------------


def kept(place: int, state: int = READY, due_ms: int = 0, **options: object) -> WorkKept:
    fields: dict[str, object] = {
        "kind": WORK_KEPT,
        "queue": b"w",
        "family": JOBS.code,
        "id": b"%d" % place,
        "place": place,
        "terms": Terms(DAY_MS, retry_ms=MINUTE_MS).as_record(),
        "key": None,
        "state": state,
        "expires_ms": 0 if state == DEAD else NOW_MS + DAY_MS,
        "due_ms": due_ms,
        "nacks": 0,
        "requeues": 0,
        "deliveries": 0,
        "was_ready": True,
        "reason": b"",
        "body": b"",
    }
    return WorkKept(**{**fields, **options})  # type: ignore[arg-type]


@pytest.fixture
def read_back() -> Worklist:
    """A worklist into which a journal is being read."""
    return Worklist(b"w", JOBS, Directory(), NOW_MS, in_order=False)


def test_messages_read_back_in_any_order_are_put_in_order(read_back: Worklist) -> None:
    for place in (5, 2, 9):
        apply_work_kept(read_back, kept(place), 0)
    apply_work_kept(read_back, kept(4, DELAYED, 5_000, was_ready=False), 0)
    apply_work_kept(read_back, kept(1, LEASED, 6_000, deliveries=2, key=b"k"), 0)
    apply_work_kept(read_back, kept(3, LEASED), 0)
    apply_work_kept(read_back, kept(8, DEAD, reason=b"why", key=b"k"), 0)
    apply_work_kept(read_back, kept(7, DEAD), 0)

    read_back.bring_into_order()

    check(read_back)
    assert [message.place for message in read_back.ready] == [2, 5, 9]
    assert [message.place for message in read_back.dead] == [7, 8]
    assert (read_back.leased, read_back.delayed.size) == (2, 1)
    assert found(read_back, 3).due_ms == NEVER_MS
    assert found(read_back, 8).reason == b"why"
    assert read_back.keys == {b"k": found(read_back, 1)}
    assert read_back.soonest_ms == 5_000
    assert read_back.came == 0


def test_a_message_that_is_there_already_is_not_taken_from_its_copy(read_back: Worklist) -> None:
    """A crash before the segment of the first record went leaves both."""
    apply_work_kept(read_back, kept(1), 0)
    run(read_back, [Taken(TAKEN, b"w", NOW_MS, 5_000, [b"1"])])

    assert apply_work_kept(read_back, kept(1), 0) == []

    read_back.bring_into_order()
    assert (found(read_back, 1).state, found(read_back, 1).deliveries) == (LEASED, 1)
    check(read_back)


def test_what_was_done_with_a_message_before_its_copy_was_written_counts_for_the_queue(
    read_back: Worklist,
) -> None:
    """The first record of the message is gone; how often things came and went is not of it."""
    apply_worklist_kept(read_back, worklist_kept(came=7, went=3))
    run(
        read_back,
        [
            Taken(TAKEN, b"w", NOW_MS, 5_000, [b"1", b"2"]),
            Requeued(REQUEUED, b"w", NOW_MS, LAPSE, 0, b"", [b"1", b"2"]),
            Requeued(REQUEUED, b"w", NOW_MS, LAPSE, 9_000, b"", [b"1"]),
            Redriven(REDRIVEN, b"w", NOW_MS, keyless=[], ids=[b"3"]),
        ],
    )
    apply_work_kept(read_back, kept(1), 0)

    read_back.bring_into_order()

    assert (read_back.came, read_back.went) == (10, 5)


def test_what_was_counted_and_set_is_read_back(read_back: Worklist) -> None:
    configure(read_back, is_paused_in=True, rate=(1, 1_000))
    full_us = (NOW_MS + 400) * 1_000
    event = worklist_kept(
        since_ms=5,
        active_ms=900,
        is_paused_in=False,
        is_paused_out=True,
        max_deliveries=4,
        rate_count=2,
        rate_ms=1_000,
        rate_full_us=full_us,
    )

    apply_worklist_kept(read_back, event)

    assert (read_back.since_ms, read_back.active_ms) == (5, 900)
    assert (read_back.is_paused_in, read_back.is_paused_out) == (False, True)
    assert read_back.max_deliveries == 4
    assert read_back.rate is not None
    assert (read_back.rate.room(NOW_MS), read_back.rate.room(NOW_MS + 400)) == (1, 2)


def test_records_are_read_back_as_they_were_applied(read_back: Worklist) -> None:
    terms = Terms(DAY_MS, retry_ms=MINUTE_MS, max_deliveries=1)
    ids = [b"1", b"2", b"3"]
    event = Added(ADDED, b"w", JOBS.code, 1, NOW_MS, terms.as_record(), None, ids, ids)

    apply_added(read_back, event, 0)
    run(
        read_back,
        [
            Taken(TAKEN, b"w", NOW_MS, 5_000, [b"1", b"3"]),
            Died(DIED, b"w", NOW_MS, True, b"why", [b"3"]),
        ],
    )
    read_back.bring_into_order()

    check(read_back)
    assert [message.id for message in read_back.ready] == [b"2"]
    assert [message.id for message in read_back.dead] == [b"3"]
    assert found(read_back, 3).nacks == 1
    assert found(read_back, 1).terms == terms
    assert (read_back.came, read_back.went, read_back.leased) == (3, 2, 1)


def test_a_message_is_small() -> None:
    assert not hasattr(
        WorkMessage(b"", 0, 0, b"", 0, Worklist(b"", JOBS, Directory(), 0), Terms(1), 0), "__dict__"
    )


def found(worklist: Worklist, place: int) -> WorkMessage:
    message = worklist.find(b"%d" % place)
    assert message is not None
    return message


def worklist_kept(**options: int) -> WorklistKept:
    fields = {
        "kind": WORKLIST_KEPT,
        "queue": b"w",
        "family": JOBS.code,
        **dict.fromkeys(WorklistKept._fields[3:], 0),
        "is_paused_in": False,
        "is_paused_out": False,
        "keeps_expired": False,
    }
    return WorklistKept(**{**fields, **options})  # type: ignore[arg-type]
