"""Compaction of worklists: what lives is written again as it is, and stays so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quinque.model.claim_ops import FillClaim, OpenClaims, ReleaseClaims
from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Flush, Put
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    Browse,
    Configure,
    FindKey,
    Finish,
    Hold,
    LookAt,
    LookAtNode,
    Purge,
    PurgeAll,
    QueueView,
    Redrive,
    Requeue,
    SetNode,
    Show,
    Take,
    Terms,
)
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.store import EmbeddedStore
from tests.store.picture import messages_of, picture_of
from tests.store.stage import Stage

DAY_MS = 86_400_000
MINUTE_MS = 60_000

pytestmark = pytest.mark.usefixtures("compaction_pauses_often")


def add(stage: Stage, body: bytes = b"", key: bytes | None = None, **terms: Any) -> bytes:
    stage.clock.advance(0.001)
    treated = Terms(**{"ttl_ms": DAY_MS, "retry_ms": MINUTE_MS, **terms})
    ids: list[bytes] = stage.store.run(Add(JOBS, b"w", [body], treated, key))
    return ids[0]


def take(stage: Stage, count: int = 1) -> list[bytes]:
    return [delivery.body for delivery in stage.store.run(Take(JOBS, [b"w"], count))]


def look(stage: Stage) -> QueueView:
    view: QueueView | None = stage.store.run(LookAt(JOBS, b"w"))
    assert view is not None
    return view


def fill(stage: Stage) -> dict[str, bytes]:
    """A message in every state, each with a past, and each in a segment of its own."""
    run = stage.store.run
    ids = {}
    for name, terms in {
        "dead": {"max_deliveries": 1},
        "nacked": {},
        "leased": {},
        "for good": {"retry_ms": 0},
        "ready": {},
    }.items():
        ids[name] = add(stage, name.encode(), key=name.encode(), **terms)
        stage.turn()
    assert len(take(stage, 4)) == 4
    run(Requeue(JOBS, [ids["dead"], ids["nacked"]], True, reason=b"because"))
    run(Requeue(JOBS, [ids["nacked"]], False))
    stage.turn()
    run(Hold(JOBS, [ids["nacked"]]))
    run(Requeue(JOBS, [ids["nacked"]], True, 5_000))
    ids["delayed"] = add(stage, b"delayed", delay_ms=9_000)
    stage.turn()
    run(
        Configure(
            *(JOBS, b"w"),
            is_paused_out=True,
            max_deliveries=3,
            rate=(5, 1_000),
            keeps_expired=True,
        )
    )
    stage.turn()
    return ids


def test_what_lives_is_written_again_as_it_is_and_the_segments_go(
    stage: Stage, folder: Path
) -> None:
    fill(stage)
    before = picture_of(stage.store)

    stage.compact_all()

    assert not (folder / "0000000008.journal").exists()
    assert picture_of(stage.store) == before
    for _ in range(3):
        assert picture_of(stage.reopened()) == before
        stage.compact_all()
    assert (look(stage).came, look(stage).went) == (6, 4)


def test_a_crash_at_any_step_leaves_everything_as_it_was(stage: Stage, folder: Path) -> None:
    fill(stage)
    before = picture_of(stage.store)

    for _ in range(len(stage.store.journal.sizes) - 1):
        for step, _ in enumerate(stage.compact_first()):
            stage.turn()
            copy = EmbeddedStore(stage.copied(), clock=ManualClock())
            assert picture_of(copy) == before, f"after step {step}"
            copy.close()


AFTER: dict[str, Callable[[bytes], Any]] = {
    "finished": lambda id: Finish(JOBS, [id]),
    "given back": lambda id: Requeue(JOBS, [id], True, 0, b"late"),
    "delayed": lambda id: Requeue(JOBS, [id], False, 7_000),
    "held": lambda id: Hold(JOBS, [id]),
    "redriven": lambda id: Redrive(JOBS, [id]),
    "purged": lambda id: Purge(JOBS, b"w"),
    "purged by state": lambda id: Purge(JOBS, b"w", [State.LEASED, State.DEAD]),
    "all purged": lambda id: PurgeAll(JOBS),
}


@pytest.mark.parametrize("what", AFTER)
@pytest.mark.parametrize("name", ["dead", "nacked", "leased", "for good", "ready", "delayed"])
def test_what_is_done_with_a_message_after_it_was_written_again_is_done(
    stage: Stage, what: str, name: str
) -> None:
    ids = fill(stage)
    op = AFTER[what](ids[name])

    compaction = stage.compact_first()
    next(compaction)
    stage.store.run(op)
    for _ in compaction:
        stage.turn()
    stage.compact_all()
    before = picture_of(stage.store)

    assert picture_of(stage.reopened()) == before


def test_what_was_counted_between_two_copies_of_a_message_is_not_lost(stage: Stage) -> None:
    """Of the queue there is a record before it, and of the message only one after it."""
    id = add(stage)
    stage.turn()
    for number in range(1, 6):
        stage.compact_all()
        stage.store.run(Hold(JOBS, [id]))
        stage.turn()
        stage.store.run(Requeue(JOBS, [id], False))
        stage.turn()
        for _ in stage.compact_first():
            stage.turn()
        stage.reopened()
        assert look(stage).came == number + 1


def test_what_is_set_for_an_empty_queue_outlives_its_record(stage: Stage) -> None:
    stage.store.run(Configure(JOBS, b"w", is_paused_in=True, max_deliveries=2))
    stage.turn()
    for _ in range(5):
        stage.put(b"something else")
        stage.turn()
        stage.compact_all()
        stage.reopened()

    view = look(stage)
    assert (view.is_paused_in, view.max_deliveries) == (True, 2)


def test_what_is_set_while_it_is_written_again_is_what_holds(stage: Stage) -> None:
    stage.store.run(Configure(JOBS, b"w", is_paused_in=True))
    stage.turn()
    stage.put(b"x")
    stage.turn()

    for number, _ in enumerate(stage.compact_first(), 1):
        stage.store.run(Configure(JOBS, b"w", max_deliveries=number))
        stage.turn()
    before = picture_of(stage.store)

    assert picture_of(stage.reopened()) == before


def test_the_use_of_a_rate_outlives_its_records(stage: Stage) -> None:
    for number in range(5):
        add(stage, b"%d" % number)
    stage.store.run(Configure(JOBS, b"w", rate=(2, 60_000)))
    stage.turn()
    assert len(take(stage, 5)) == 2
    stage.turn()

    stage.compact_all()
    stage.reopened()

    assert take(stage, 5) == []
    stage.clock.advance(30_000)
    assert take(stage, 5) == [b"2"]


def test_a_key_that_went_to_another_is_not_taken_back_by_a_copy(stage: Stage) -> None:
    old = add(stage, key=b"k", max_deliveries=1)
    stage.turn()
    take(stage)
    stage.store.run(Requeue(JOBS, [old], True))
    stage.turn()
    new = add(stage, key=b"k")
    stage.turn()
    stage.store.run(Redrive(JOBS, [old]))
    stage.turn()

    for _ in range(4):
        for _ in stage.compact_first():
            stage.turn()
        stage.reopened()
        assert stage.store.run(FindKey(JOBS, b"w", b"k")) == new
        views = [stage.store.run(Show(JOBS, id)) for id in (old, new)]
        assert [view and view.key for view in views] == [None, b"k"]


def test_the_node_keeps_its_name_when_the_record_of_it_goes(stage: Stage) -> None:
    node = stage.store.run(SetNode(is_leaving=True))
    stage.turn()
    for _ in range(5):
        stage.put(b"x")
        stage.turn()
        stage.compact_all()
        stage.reopened()
        assert stage.store.run(LookAtNode()) == node


def test_a_queue_that_was_forgotten_does_not_come_back(stage: Stage) -> None:
    id = add(stage)
    stage.turn()
    take(stage)
    stage.store.run(Finish(JOBS, [id]))
    stage.turn()
    stage.clock.advance(300_000)
    assert stage.store.run(LookAt(JOBS, b"w")) is None
    stage.turn()
    add(stage)
    stage.turn()

    for _ in range(4):
        view = look(stage)
        assert (view.came, view.went, view.age_ms) == (1, 0, 0)
        for _ in stage.compact_first():
            stage.turn()
        stage.reopened()


def test_a_name_that_went_to_another_family_stays_there(stage: Stage) -> None:
    id = add(stage, b"job")
    stage.turn()
    stage.store.run(Finish(JOBS, [id]))
    stage.turn()
    stage.store.run(Put(EVENTS, b"w", [b"event"]))
    stage.turn()
    for _ in range(3):
        for _ in stage.compact_first():
            stage.turn()
        stage.reopened()
        assert messages_of(stage.store) == {b"w": [b"event"]}
    stage.store.run(Flush(EVENTS, b"w"))
    add(stage, b"job again")
    stage.turn()
    for _ in range(3):
        for _ in stage.compact_first():
            stage.turn()
        stage.reopened()
        assert messages_of(stage.store) == {b"w": [b"job again"]}


def test_bodies_that_are_only_on_disk_move_with_their_messages(stage: Stage) -> None:
    stage.reopened(maxmemory=1)
    fill(stage)
    expected = messages_of(stage.store)

    for _ in range(len(stage.store.journal.sizes) - 1):
        for step, _ in enumerate(stage.compact_first()):
            assert messages_of(stage.store) == expected, f"after step {step}, before its commit"
            stage.turn()
            assert messages_of(stage.store) == expected, f"after step {step}"

    assert stage.store.info()["bodies_on_disk"] == 6
    assert messages_of(stage.reopened(maxmemory=1)) == expected
    assert messages_of(stage.reopened(maxmemory=0)) == expected


@pytest.mark.parametrize("maxmemory", [0, 2_000])
def test_under_steady_work_the_journal_does_not_grow(folder: Path, maxmemory: int) -> None:
    """A few messages live at a time; the rest is added, taken, given back, finished, dead."""
    segment_bytes = 8_192
    clock = ManualClock()
    store = EmbeddedStore(
        folder, clock=clock, segment_bytes=segment_bytes, fsync="no", maxmemory=maxmemory
    )
    most_bytes = 0
    terms = Terms(60_000, retry_ms=1_000, max_deliveries=3)

    for round in range(1_500):
        clock.advance(10)
        store.run(Add(JOBS, b"w", [b"j" * 40], terms))
        for delivery in store.run(Take(JOBS, [b"w"], 2)):
            if round % 5:
                store.run(Finish(JOBS, [delivery.message_id]))
            elif round % 10:
                store.run(Requeue(JOBS, [delivery.message_id], True, 100))
        if round % 50 == 0:
            store.run(Purge(JOBS, b"w", [State.DEAD]))
        store.tick()
        store.commit()
        most_bytes = max(most_bytes, int(store.info()["journal_bytes"]))

    live_bytes = 150 * 40 * 2
    assert int(store.info()["compacted_segments"]) > 20
    assert most_bytes < 5 * segment_bytes + live_bytes
    store.close()


def test_messages_that_live_long_are_moved_and_moved_and_stay_the_same(stage: Stage) -> None:
    fill(stage)
    before = picture_of(stage.store)

    for number in range(200):
        stage.put(b"%d" % number, ttl_ms=1)
        stage.clock.advance(1)
        stage.turn()
        if number % 20 == 0:
            stage.compact_all()
            stage.reopened()

    after = picture_of(stage.reopened())
    assert {b"w": after[b"w"]} == before
    found = stage.store.run(Browse(JOBS, b"w", State.DEAD, 10))
    assert [(view.body, view.reason) for view in found] == [(b"dead", b"because")]


@pytest.mark.parametrize("is_claimed", [False, True])
def test_an_expired_job_that_is_written_again_does_not_take_its_key_from_a_later_one(
    stage: Stage, is_claimed: bool
) -> None:
    store = stage.store
    (first,) = store.run(Add(JOBS, b"w", [b"first"], Terms(1_000), b"k"))
    # So many expire together that the first is not removed at once.
    store.run(Add(JOBS, b"w", [b"x"] * 3_000, Terms(999)))
    stage.turn()
    stage.clock.advance(1_000)
    (second,) = store.run(Add(JOBS, b"w", [b"second"], Terms(60_000), b"k"))
    stage.turn()
    assert first in {message.id for message in store.directory.by_id.values()}

    if is_claimed:
        epoch = store.run(OpenClaims(JOBS, b"w", b"s", b"", 60_000)).epoch
        store.run(FillClaim(b"w", b"s", epoch, 1, 10, seals=True))
        stage.turn()
    for _ in stage.compact_first():
        stage.turn()
    if is_claimed:
        store.run(ReleaseClaims(b"w", b"s", epoch, 1))
        stage.turn()
    stage.reopened()
    for _ in range(20):
        stage.store.tick()
        stage.turn()

    assert stage.store.run(Add(JOBS, b"w", [b"third"], Terms(60_000), b"k")) == [second]
