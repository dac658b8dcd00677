"""Staging and publishing: many writers, one batch, every message put once."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from quinque.errors import BadArgument, NoStage, OtherBatch, QueuePaused, WrongType
from quinque.model.families import EVENTS, JOBS, RELIABLE
from quinque.model.limits import PUBLISH_MOST, STAGE_GOES_ON_MS, STAGE_KEPT_MS
from quinque.model.ops import Flush
from quinque.model.own_ops import Recover
from quinque.model.stage_ops import FindStages, Published, Stage, Staged
from quinque.model.states import State
from quinque.model.work_ops import Finish, Take
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance import words
from tests.conformance.conftest import Reopen
from tests.conformance.stage_words import drop, publish, publish_all, run_of, stage
from tests.conformance.work_words import (
    DAY_MS,
    MINUTE_MS,
    add,
    add_one,
    all_messages,
    bodies,
    browse,
    counts,
    pause_in,
    show,
    take,
)


def test_what_is_staged_is_not_in_the_queue_until_it_is_published(store: Store) -> None:
    assert stage(store, run_of(b"1", b"2", retry_ms=MINUTE_MS)) == Staged(False, 2)
    assert take(store) == []

    assert publish(store, (0, 0, 1)) == Published(2, 0)

    assert bodies(store, 3) == [b"1", b"2"]


def test_a_batch_is_published_once(store: Store) -> None:
    stage(store, run_of(b"1"))
    publish_all(store, (0, 0, 1))

    assert publish(store, (0, 0, 1)) == Published(0, 0)
    assert stage(store, run_of(b"1")) == Staged(True, 0)
    assert publish(store, (0, 0, 1)) == Published(0, 0)

    assert browse(store) == [b"1"]


def test_the_parts_that_are_named_are_published_and_no_others(store: Store) -> None:
    stage(store, run_of(b"lost"), part=0, attempt=1)
    stage(store, run_of(b"1"), part=0, attempt=2)
    stage(store, run_of(b"2"), part=1, attempt=1)
    stage(store, run_of(b"3"), part=1, attempt=1, chunk=1)
    stage(store, run_of(b"late"), part=2)

    assert publish_all(store, (0, 2, 1), (1, 1, 2)) == 3

    assert browse(store) == [b"1", b"2", b"3"]
    assert store.run(FindStages()) == []


def test_a_part_that_is_not_whole_cannot_be_published(store: Store) -> None:
    stage(store, run_of(b"1"))

    with pytest.raises(NoStage):
        publish(store, (0, 0, 2))
    with pytest.raises(NoStage):
        publish(store, (0, 0, 1), (1, 0, 1))
    assert take(store) == []
    stage(store, run_of(b"2"), chunk=1)
    assert publish_all(store, (0, 0, 2)) == 2


def test_a_chunk_that_is_staged_again_takes_the_place_of_the_earlier_one(store: Store) -> None:
    stage(store, run_of(b"1", b"2"))
    assert stage(store, run_of(b"3")) == Staged(False, 1)
    assert stage(store, run_of(b"4", b"5"), chunk=1) == Staged(False, 3)
    assert stage(store, run_of(b"6"), part=1) == Staged(False, 1)

    publish_all(store, (0, 0, 2), (1, 0, 1))

    assert browse(store) == [b"3", b"4", b"5", b"6"]


def test_a_new_writer_of_a_batch_replaces_all_that_the_earlier_ones_staged(
    reopen: Reopen, store: Store, clock: ManualClock
) -> None:
    for at in range(4):
        writer = b"%d" % at
        for part in range(2):
            stage(store, run_of(writer * 1_000), part=part, attempt=at, writer=writer)
        clock.advance(STAGE_KEPT_MS // 4)
        store = reopen(clock)
        (view,) = store.run(FindStages())
        assert (view.chunks, view.body_bytes) == (2, 2_000)
        assert view.age_ms == STAGE_KEPT_MS // 4

    with pytest.raises(NoStage):
        publish(store, (0, 0, 1))
    # A day after the first writer the batch is still there.
    words.tick(store)
    assert publish_all(store, (0, 3, 1), (1, 3, 1)) == 2
    assert browse(store) == [b"3" * 1_000] * 2


def test_a_writer_that_was_replaced_is_refused(
    reopen: Reopen, store: Store, clock: ManualClock
) -> None:
    stage(store, run_of(b"old"), writer=b"old")
    assert stage(store, run_of(b"1"), writer=b"new") == Staged(False, 1)
    store = reopen(clock)

    with pytest.raises(OtherBatch, match=r"batch 0 of run 'r' .* is staged by a newer writer"):
        stage(store, run_of(b"late"), chunk=1, writer=b"old")

    assert stage(store, run_of(b"2"), chunk=1, writer=b"new") == Staged(False, 2)
    assert stage(store, run_of(b"other"), number=1, writer=b"old") == Staged(False, 1)
    assert publish_all(store, (0, 0, 2)) == 2
    assert browse(store) == [b"1", b"2"]
    assert stage(store, run_of(b"late"), writer=b"old") == Staged(True, 0)


def test_a_batch_of_nothing_is_published_too(store: Store) -> None:
    assert publish(store) == Published(0, 0)
    assert stage(store, run_of(b"1")) == Staged(True, 0)


def test_a_large_batch_moves_in_several_calls_which_anybody_can_go_on_with(store: Store) -> None:
    expected: list[bytes | None] = []
    for chunk in range(10):
        some = [b"%d" % number for number in range(chunk * 100, chunk * 100 + 100)]
        stage(store, run_of(*some), chunk=chunk)
        expected += some

    first = publish(store, (0, 0, 10), count=250)
    assert 0 < first.messages <= 300
    assert first.left == 1_000 - first.messages
    assert stage(store, run_of(b"late"), part=1) == Staged(True, 0)
    rest = publish_all(store, (7, 7, 7), count=250)

    assert first.messages + rest == 1_000
    assert browse(store, 2_000) == expected


def test_the_store_finishes_a_decided_batch_whose_writer_is_gone(
    reopen: Reopen, store: Store, clock: ManualClock
) -> None:
    for chunk in range(20):
        stage(store, run_of(*[b"%d" % chunk] * 1_000), chunk=chunk)
    first = publish(store, (0, 0, 20), count=1_000, keep_ms=DAY_MS)
    assert 0 < first.left < 20_000
    clock.advance(STAGE_GOES_ON_MS - 1)
    words.tick(store)
    assert counts(store)[0] == first.messages

    store = reopen(clock)
    for _ in range(100):
        clock.advance(STAGE_GOES_ON_MS)
        words.tick(store)
        if not store.run(FindStages()):
            break

    assert counts(store)[0] == 20_000
    assert stage(store, run_of(b"again")) == Staged(True, 0)
    clock.advance(DAY_MS)
    words.tick(store)
    assert stage(store, run_of(b"again")) == Staged(False, 1)


def test_a_decided_batch_waits_while_its_queue_is_paused(store: Store, clock: ManualClock) -> None:
    for chunk in range(2):
        stage(store, run_of(*[b"1"] * 1_000), chunk=chunk)
    publish(store, (0, 0, 2), count=1_000)
    pause_in(store)
    clock.advance(STAGE_GOES_ON_MS)
    words.tick(store)
    assert counts(store)[0] == 1_000

    pause_in(store, is_paused=False)
    clock.advance(STAGE_GOES_ON_MS)
    words.tick(store)

    assert counts(store)[0] == 2_000
    assert store.run(FindStages()) == []


def test_a_batch_before_one_that_was_published_is_not_put(store: Store) -> None:
    stage(store, run_of(b"old"), number=1)
    stage(store, run_of(b"new"), number=2)
    publish_all(store, (0, 0, 1), number=2)

    assert publish(store, (0, 0, 1), number=1) == Published(0, 0)
    assert stage(store, run_of(b"old"), number=1) == Staged(True, 0)

    assert browse(store) == [b"new"]
    assert store.run(FindStages()) == []


def half_published(store: Store, number: int, **options: Any) -> None:
    """Of the two chunks of the batch, 100 and 2 messages, the first is in the queue."""
    stage(store, run_of(*[b"%d" % number] * 100), number=number)
    stage(store, run_of(b"rest", b"rest"), number=number, chunk=1)
    assert publish(store, (0, 0, 2), number=number, count=100, **options) == Published(100, 2)


@pytest.mark.parametrize("finisher", ["a client", "the store"])
def test_a_half_published_batch_is_finished_after_a_later_one_of_its_run(
    reopen: Reopen, store: Store, clock: ManualClock, finisher: str
) -> None:
    half_published(store, 1, content=b"one")
    stage(store, run_of(b"never"), number=0)
    stage(store, run_of(b"2"), number=2)
    assert publish_all(store, (0, 0, 1), number=2, content=b"two") == 1
    store = reopen(clock)
    assert [(it.number, it.is_decided) for it in store.run(FindStages())] == [(1, True)]
    with pytest.raises(OtherBatch, match="with other contents"):
        publish(store, number=1, content=b"two")

    if finisher == "a client":
        assert publish_all(store, number=1, content=b"one") == 2
    else:
        clock.advance(STAGE_GOES_ON_MS)
        words.tick(store)

    assert counts(store)[0] == 103
    for _ in range(2):
        assert store.run(FindStages()) == []
        for number in (0, 1, 2):
            assert stage(store, run_of(b"again"), number=number) == Staged(True, 0)
        assert publish(store, number=2, content=b"two") == Published(0, 0)
        with pytest.raises(OtherBatch, match="batch 2 was"):
            publish(store, number=1, content=b"one")
        store = reopen(clock)
    assert stage(store, run_of(b"3"), number=3) == Staged(False, 1)


def test_a_run_is_remembered_for_the_longest_time_that_one_of_its_batches_asked_for(
    reopen: Reopen, store: Store, clock: ManualClock
) -> None:
    half_published(store, 1, keep_ms=60_000)
    publish_all(store, number=2, keep_ms=10_000)
    publish_all(store, number=1, keep_ms=60_000)
    publish_all(store, number=3, keep_ms=10_000)
    clock.advance(59_999)
    words.tick(store)
    store = reopen(clock)
    assert stage(store, run_of(b"again"), number=1) == Staged(True, 0)

    clock.advance(1)
    words.tick(store)

    assert stage(store, run_of(b"new"), number=1) == Staged(False, 1)
    publish_all(store, (0, 0, 1), number=1)
    assert stage(reopen(clock), run_of(b"new"), number=2) == Staged(False, 1)


def test_a_published_batch_with_other_contents_is_refused(
    reopen: Reopen, store: Store, clock: ManualClock
) -> None:
    stage(store, run_of(b"1"), number=4)
    publish_all(store, (0, 0, 1), number=4, content=b"one")
    store = reopen(clock)

    assert publish(store, (0, 0, 1), number=4, content=b"one") == Published(0, 0)
    assert publish(store, (0, 0, 1), number=4) == Published(0, 0)
    with pytest.raises(OtherBatch, match=r"batch 4 of run 'r' .* with other contents"):
        publish(store, (0, 0, 1), number=4, content=b"two")
    with pytest.raises(OtherBatch, match=r"batch 3 of run 'r' .*: batch 4 was"):
        publish(store, (0, 0, 1), number=3, content=b"three")

    assert browse(store) == [b"1"]


def test_a_half_published_batch_with_other_contents_is_refused(
    reopen: Reopen, store: Store, clock: ManualClock
) -> None:
    stage(store, run_of(*[b"1"] * 100))
    stage(store, run_of(b"2"), chunk=1)
    publish(store, (0, 0, 2), count=100, content=b"one")
    store = reopen(clock)

    with pytest.raises(OtherBatch, match=r"batch 0 of run 'r' .* with other contents"):
        publish(store, content=b"two")

    assert publish_all(store, content=b"one") == 1


def lose_the_name(store: Store) -> None:
    """Half of batch 1 is published and finished, and the name w went to another family."""
    half_published(store, 1, content=b"one", keep_ms=DAY_MS)
    store.run(Finish(JOBS, [job.message_id for job in take(store, 100)]))
    words.put(store, b"event", queue=b"w")


def test_a_decided_batch_waits_while_another_family_has_its_name_and_this_is_logged_once(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    lose_the_name(store)

    for _ in range(3):
        clock.advance(STAGE_GOES_ON_MS)
        words.tick(store)

    (told,) = [it.getMessage() for it in caplog.records if "STAGE.DROP" in it.getMessage()]
    assert "2 messages of batch 1" in told
    assert "queue 'w' belongs to the family events" in told
    with pytest.raises(WrongType, match="queue 'w' belongs to the family events"):
        publish(store, number=1, content=b"one")
    store.run(Flush(EVENTS, b"w"))
    clock.advance(STAGE_GOES_ON_MS)
    words.tick(store)
    assert counts(store)[0] == 2


def test_a_decided_batch_can_be_dropped_when_another_family_has_its_name(
    reopen: Reopen, store: Store, clock: ManualClock
) -> None:
    lose_the_name(store)

    assert drop(store, 1) == 1

    for _ in range(2):
        assert store.run(FindStages()) == []
        assert drop(store, 1) == 0
        with pytest.raises(OtherBatch):
            publish(store, number=1, content=b"two")
        assert publish(store, number=1, content=b"one") == Published(0, 0)
        store = reopen(clock)
    clock.advance(DAY_MS)
    words.tick(store)
    with pytest.raises(NoStage):
        publish(store, (0, 0, 1), number=1)


def test_runs_sinks_and_queues_are_known_apart(store: Store) -> None:
    apart: tuple[dict[str, Any], ...] = ({"run": b"a"}, {"sink": b"b"}, {"queue": b"c"}, {})
    for names in apart:
        stage(store, run_of(b"1"), **names)
        assert publish_all(store, (0, 0, 1), **names) == 1

    assert counts(store)[0] == 3
    assert counts(store, b"c")[0] == 1


def test_one_batch_can_be_found_by_its_name(store: Store) -> None:
    stage(store, run_of(b"1"), number=1)
    stage(store, run_of(b"1"), family=EVENTS, queue=b"e")
    stage(store, run_of(b"1"), number=2)

    (job,), (event,) = (
        store.run(FindStages(name)) for name in ((b"w", b"k", b"r", 2), (b"e", b"k", b"r", 0))
    )

    assert (job.queue, job.number, job.family) == (b"w", 2, JOBS)
    assert (event.queue, event.number, event.family) == (b"e", 0, EVENTS)
    assert store.run(FindStages((b"w", b"k", b"r", 3))) == []
    assert len(store.run(FindStages(None, 3))) == 3
    assert len(store.run(FindStages(None, 2))) == 3
    assert store.run(FindStages(None, 2, lambda queue: queue == b"e")) == [event]


def test_that_it_was_published_is_remembered_as_long_as_asked(
    store: Store, clock: ManualClock
) -> None:
    stage(store, run_of(b"1"))
    publish_all(store, (0, 0, 1), keep_ms=10_000)
    clock.advance(9_999)
    words.tick(store)
    assert stage(store, run_of(b"2")) == Staged(True, 0)

    clock.advance(1)
    words.tick(store)

    assert stage(store, run_of(b"2")) == Staged(False, 1)


def test_what_is_never_published_goes(store: Store, clock: ManualClock) -> None:
    stage(store, run_of(b"1"))
    clock.advance(STAGE_KEPT_MS)
    words.tick(store)

    assert store.run(FindStages()) == []
    with pytest.raises(NoStage):
        publish(store, (0, 0, 1))


def test_what_is_staged_can_be_dropped_unless_it_is_decided(store: Store) -> None:
    stage(store, run_of(b"1"))
    stage(store, run_of(b"2"), chunk=1)
    assert drop(store) == 2
    assert drop(store) == 0

    stage(store, run_of(*[b"1"] * 100))
    stage(store, run_of(b"2"), chunk=1)
    publish(store, (0, 0, 2), count=100)
    assert drop(store) == 0
    assert publish_all(store) == 1


def test_staged_batches_are_shown(store: Store, clock: ManualClock) -> None:
    stage(store, run_of(b"1" * 100), number=3)
    clock.advance(5_000)

    (view,) = store.run(FindStages())

    assert (view.queue, view.sink, view.run, view.number) == (b"w", b"k", b"r", 3)
    assert (view.is_decided, view.chunks, view.age_ms) == (False, 1, 5_000)
    assert view.body_bytes >= 100
    assert words.fact(store, "stages") == 1


# -- what is put -----------------------------------------------------------------------------------


def test_messages_have_the_terms_of_their_run(store: Store) -> None:
    stage(
        store,
        run_of(b"1", ttl_ms=120_000, delay_ms=5_000, retry_ms=7_000, max_deliveries=3),
        run_of(b"2"),
        run_of(b"3", retry_ms=-1),
    )
    publish_all(store, (0, 0, 1))

    first, second, third = all_messages(store, with_bodies=True)
    assert (first.body, first.state, first.due_within_ms) == (b"1", State.DELAYED, 5_000)
    assert first.terms is not None
    assert second.terms is not None
    assert third.terms is not None
    assert first.terms.as_record() == (120_000, 5_000, 7_000, 3, 1)
    assert (second.body, second.state) == (b"2", State.READY)
    assert second.terms.as_record() == (DAY_MS, 0, 0, 0, 1)
    assert third.terms.as_record() == (DAY_MS, 0, 300_000, 0, 1)


def test_a_key_that_is_there_is_not_put_again(store: Store) -> None:
    id = add_one(store, b"0", key=b"a")
    stage(
        store,
        run_of(b"1", name=b"a"),
        run_of(b"2", name=b"b"),
        run_of(b"3", name=b"b"),
        run_of(b"4"),
    )

    publish_all(store, (0, 0, 1))

    assert browse(store) == [b"0", b"2", b"4"]
    assert show(store, id).key == b"a"


def test_whoever_waits_for_the_queue_is_told(store: Store) -> None:
    stage(store, run_of(b"1"))
    store.ready.clear()

    publish_all(store, (0, 0, 1))

    assert b"w" in store.ready


def test_events_are_put_with_their_ids(store: Store) -> None:
    words.put(store, b"0", message_id=b"x")
    stage(
        store,
        run_of(b"1", b"2", ttl_ms=10_000),
        run_of(b"3", name=b"x"),
        run_of(b"4", name=b"y"),
        run_of(b"5", name=b"y"),
        run_of(b"6"),
        family=EVENTS,
        queue=b"q",
    )

    publish_all(store, (0, 0, 1), family=EVENTS, queue=b"q")

    given = words.lease(store, 10)
    assert [each.body for each in given] == [b"0", b"1", b"2", b"4", b"6"]
    assert given[3].message_id == b"y"
    assert int(given[1].message_id) < int(given[2].message_id) < int(given[4].message_id)


def test_an_event_that_has_expired_keeps_its_id_from_no_other(
    store: Store, clock: ManualClock
) -> None:
    # More expire than an operation removes.
    words.put(store, *[b"0"] * 5_000, ttl_ms=10)
    words.put(store, b"old", message_id=b"x", ttl_ms=10)
    stage(store, run_of(b"new", name=b"x"), family=EVENTS, queue=b"q")
    clock.advance(10)

    assert publish_all(store, (0, 0, 1), family=EVENTS, queue=b"q") == 1

    assert words.take(store, 10) == [b"new"]


def test_a_job_that_has_expired_keeps_its_key_from_no_other(
    store: Store, clock: ManualClock
) -> None:
    add(store, *[b"0"] * 3_000, ttl_ms=10)
    add_one(store, b"old", key=b"x", ttl_ms=10)
    stage(store, run_of(b"new", name=b"x"))
    clock.advance(10)

    assert publish_all(store, (0, 0, 1)) == 1

    assert bodies(store, 10) == [b"new"]


def test_staged_elements_come_back_only_when_they_are_recovered(
    reopen: Reopen, store: Store, clock: ManualClock
) -> None:
    terms: Any = {"ttl_ms": 1_000, "delay_ms": 5, "retry_ms": 100, "max_deliveries": 1}
    stage(store, run_of(b"1", **terms), run_of(b"2", retry_ms=100), family=RELIABLE, queue=b"rq")
    publish_all(store, (0, 0, 1), family=RELIABLE, queue=b"rq")
    taken = store.run(Take(RELIABLE, [b"rq"], 5))

    clock.advance(2_000)
    store.tick()
    store = reopen(clock)

    assert [given.body for given in taken] == [b"1", b"2"]
    assert store.run(Take(RELIABLE, [b"rq"], 5)) == []
    recovered = store.run(Recover(RELIABLE, b"rq", 5, 0))
    assert recovered is not None
    assert [given.body for given in recovered] == [b"1", b"2"]


def test_a_paused_queue_refuses_and_nothing_is_decided(store: Store) -> None:
    pause_in(store)
    stage(store, run_of(b"1"))

    with pytest.raises(QueuePaused):
        publish(store, (0, 0, 1))

    assert [view.is_decided for view in store.run(FindStages())] == [False]
    pause_in(store, is_paused=False)
    assert publish_all(store, (0, 0, 1)) == 1


def test_a_queue_of_another_family_is_refused(store: Store) -> None:
    words.put(store, b"1", queue=b"q")

    with pytest.raises(WrongType):
        stage(store, run_of(b"1"), queue=b"q")


def test_a_batch_that_is_staged_for_one_family_is_refused_to_another(store: Store) -> None:
    stage(store, run_of(b"1"))

    with pytest.raises(WrongType):
        stage(store, run_of(b"2"), chunk=1, family=EVENTS)
    with pytest.raises(WrongType):
        publish(store, (0, 0, 1), family=EVENTS)

    assert publish_all(store, (0, 0, 1)) == 1
    assert browse(store) == [b"1"]


@pytest.mark.parametrize(
    "chunk",
    [
        b"",
        b"\xc1",
        1,
        [],
        [1],
        [[0, 0, 0, 0, None]],
        [[0, 0, 0, 0, None, []]],
        [[0, 0, 0, 0, None, [1]]],
        [[-1, 0, 0, 0, None, [b"1"]]],
        [[0, "1", 0, 0, None, [b"1"]]],
        [[0, 0, -2, 0, None, [b"1"]]],
        [[0, 0, 0, 0, 7, [b"1"]]],
        [[0, 0, 0, 0, b"name", [b"1", b"2"]]],
        [[1_000, 1_000, 0, 0, None, [b"1"]]],
        [[0, 0, 0, 0, None, [b"1"] * (PUBLISH_MOST + 1)]],
    ],
    ids=range(15),
)
def test_a_chunk_that_is_none_is_refused(store: Store, chunk: Any) -> None:
    rows = chunk if isinstance(chunk, bytes) else msgpack.packb(chunk)

    with pytest.raises(BadArgument):
        store.run(Stage(JOBS, b"w", b"k", b"r", 0, 0, 0, 0, rows))

    assert store.run(FindStages()) == []


def test_all_of_it_is_there_after_a_restart(
    reopen: Reopen, store: Store, clock: ManualClock
) -> None:
    stage(store, run_of(b"1"))
    publish_all(store, (0, 0, 1))
    for chunk in range(3):
        stage(store, run_of(*[b"%d" % chunk] * 100), number=1, chunk=chunk)
    assert publish(store, (0, 0, 3), number=1, count=100) == Published(100, 200)
    stage(store, run_of(b"3"), number=2)
    store.commit()

    clock.advance(10)
    store = reopen(clock)

    assert publish(store, (0, 0, 1)) == Published(0, 0)
    assert [(view.number, view.chunks) for view in store.run(FindStages())] == [(1, 2), (2, 1)]
    assert publish_all(store, number=1) == 200
    assert publish_all(store, (0, 0, 1), number=2) == 1
    assert counts(store)[0] == 302
