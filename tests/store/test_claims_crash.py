"""Claims and staged batches after a crash, and in a journal that is compacted."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import msgpack
import pytest

from quinque.errors import OtherBatch
from quinque.model.claim_events import CLAIM_MARKED, SUBSCRIPTION_KEPT
from quinque.model.claim_ops import (
    FillClaim,
    MarkClaim,
    OpenClaims,
    Outcome,
    PlayClaim,
    ReleaseClaims,
    SettleClaims,
)
from quinque.model.families import JOBS
from quinque.model.stage_events import AS_STAGE_EVENT, STAGE_DECIDED, STAGE_MOVED
from quinque.model.work_ops import Add, Take, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.repair import carry_out, plan
from quinque.stores.embedded.staged import Name, Stages
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.embedded.survey import survey
from tests.conformance import stage_words
from tests.store.crash_walk import compact_always
from tests.store.picture import check_indexes, picture_of, picture_of_claims
from tests.store.random_claims import ClaimWorker
from tests.store.stage import Stage

SEGMENT = "0000000001.journal"


def look_of(store: EmbeddedStore) -> object:
    return picture_of(store), picture_of_claims(store)


@pytest.mark.parametrize("seed", range(3))
def test_cut_anywhere_the_journal_keeps_all_that_was_acknowledged_before(
    folder: Path, seed: int
) -> None:
    clock = ManualClock()
    made = EmbeddedStore(folder / "made", clock=clock, chance=Random(seed).randbytes)
    worker = ClaimWorker(made, clock, seed)
    pictures = {0: look_of(made), made.journal.sizes[1]: look_of(made)}
    for _ in range(120):
        worker.turn()
        check_indexes(made)
        pictures[made.journal.sizes[1]] = look_of(made)
    data = (folder / "made" / SEGMENT).read_bytes()[: made.journal.sizes[1]]
    made.close()

    # Each end of a batch, and a byte before it; every seventh, to be done soon.
    cuts = sorted({cut for end in pictures for cut in (end, max(0, end - 1))})
    for cut in cuts[seed::7]:
        shutil.rmtree(folder / "opened", ignore_errors=True)
        (folder / "opened").mkdir()
        (folder / "opened" / SEGMENT).write_bytes(data[:cut])
        store = EmbeddedStore(folder / "opened", clock=ManualClock())
        assert look_of(store) == pictures[max(end for end in pictures if end <= cut)]
        check_indexes(store)
        store.close()


def test_marks_are_written_again_some_in_a_step_and_are_there_after_a_crash_in_between(
    stage: Stage,
) -> None:
    store = stage.store
    ids = store.run(Add(JOBS, b"w", [b"x"] * 3_000, Terms(86_400_000)))
    store.run(OpenClaims(JOBS, b"w", b"s", b"", 60_000))
    store.run(FillClaim(b"w", b"s", 1, 1, 3_000, seals=True))
    for at, outcome in enumerate((Outcome.NACK, Outcome.DEAD, Outcome.NACK)):
        some = ids[at * 1_000 : at * 1_000 + 900]
        store.run(MarkClaim(b"w", b"s", 1, outcome, some, delay_ms=at, reason=b"%d" % at))
    stage.turn()
    written: list[int] = []

    for step, _ in enumerate(stage.compact_first()):
        written.append(count_marks(store))
        # A mark that changes, and one that goes, before and after they are written again.
        store.run(MarkClaim(b"w", b"s", 1, Outcome.DEAD, [ids[2_899 - step]], reason=b"new"))
        store.run(MarkClaim(b"w", b"s", 1, Outcome.ACK, [ids[step], ids[2_500 + step]]))
        stage.turn()
        opened = EmbeddedStore(stage.copied(), clock=ManualClock())
        assert look_of(opened) == look_of(store), f"after step {step}"
        opened.close()

    assert sum(written) >= 2_600
    assert max(written) <= 2_000
    before = look_of(store)
    assert look_of(stage.reopened()) == before
    stage.compact_all()
    assert look_of(stage.reopened()) == before


@pytest.mark.usefixtures("compaction_pauses_often")
def test_marks_that_a_crash_left_unwritten_are_written_again_after_the_restart(
    stage: Stage,
) -> None:
    store = stage.store
    store.run(OpenClaims(JOBS, b"w", b"s", b"", 60_000))
    store.run(Add(JOBS, b"w", [b"x"] * 4, Terms(86_400_000)))
    stage.turn()
    store.run(FillClaim(b"w", b"s", 1, 1, 4, seals=True))
    (claim,) = store.subscriptions.all()[0].claims.values()
    ids = msgpack.unpackb(claim.chunks[0].ids)
    stage.turn()
    store.run(MarkClaim(b"w", b"s", 1, Outcome.DEAD, ids, reason=b"because"))
    stage.turn()
    before = look_of(store)

    steps = 0
    for _ in stage.compact_first():
        stage.turn()
        steps += 1
        after_crash = Stage(stage.copied())
        for _ in range(3):  # the segments of the claim and of its marks go one by one
            for _ in after_crash.compact_first():
                after_crash.turn()
            assert look_of(after_crash.reopened()) == before, f"after step {steps}"
        assert after_crash.store.run(SettleClaims(b"w", b"s", 1, 1)) == 0
        after_crash.store.close()

    assert steps > len(ids), "some marks are written in a step of their own"


def test_what_a_published_batch_had_is_known_after_its_decision_was_compacted(
    stage: Stage,
) -> None:
    store = stage.store
    for chunk in range(2):
        stage_words.stage(store, stage_words.run_of(*[b"x"] * 100), chunk=chunk)
    stage_words.publish(store, (0, 0, 2), count=100, content=b"one")
    stage.turn()
    stage_words.publish_all(store, content=b"one")
    stage.turn()

    for _ in stage.compact_first():
        stage.turn()

    with pytest.raises(OtherBatch):
        stage_words.publish(stage.reopened(), content=b"two")


def test_a_batch_that_was_published_before_its_content_was_in_the_record_is_known() -> None:
    stages = Stages()
    batch: Name = (b"w", b"k", b"r", 7)
    decided = [STAGE_DECIDED, b"w", JOBS.code, b"k", b"r", 7, 5, [[0, 0, 1]], b"one"]
    moved = [STAGE_MOVED, *batch, 1, 0, True, 0]
    stages.apply(AS_STAGE_EVENT[STAGE_DECIDED](decided), 0, 1)

    stages.apply(AS_STAGE_EVENT[STAGE_MOVED](moved), 0, 1)

    mark = stages.published[b"w", b"k", b"r"]
    assert (mark.number, mark.content) == (7, b"one")


def test_the_chunks_of_a_named_writer_are_read_back_from_the_disk(stage: Stage) -> None:
    store = stage.store
    for writer in (b"old", b"new"):
        for chunk in range(3):
            rows = stage_words.run_of(writer, b"%d" % chunk)
            stage_words.stage(store, rows, chunk=chunk, writer=writer)
            stage.turn()
    stage.compact_all()

    store = stage.reopened(maxmemory=1)

    assert stage_words.publish_all(store, (0, 0, 3)) == 6
    bodies = [it.body for it in store.run(Take(JOBS, [b"w"], 9))]
    assert bodies == [b"new", b"0", b"new", b"1", b"new", b"2"]


def test_a_writer_that_was_replaced_is_refused_after_compaction_and_a_restart(
    stage: Stage,
) -> None:
    for writer in (b"first", b"second", b"last"):
        stage_words.stage(stage.store, stage_words.run_of(writer), writer=writer)
        stage.turn()

    for _ in range(2):  # the second time, what the first one wrote is written again
        stage.compact_all()
        store = stage.reopened()
        for writer in (b"first", b"second"):
            with pytest.raises(OtherBatch):
                stage_words.stage(store, stage_words.run_of(b"late"), chunk=1, writer=writer)

    stage_words.stage(store, stage_words.run_of(b"more"), chunk=1, writer=b"last")
    assert stage_words.publish_all(store, (0, 0, 2)) == 2
    assert [it.body for it in store.run(Take(JOBS, [b"w"], 9))] == [b"last", b"more"]


def count_marks(store: EmbeddedStore) -> int:
    """The marks in the records of this turn."""
    count = 0
    for record in store.journal._pending:
        row = msgpack.unpackb(record)
        if row[0] == SUBSCRIPTION_KEPT:
            count += sum(len(claim[5] or ()) for claim in row[9])
        elif row[0] == CLAIM_MARKED:
            count += len(row[-1])
    return count


def test_a_claim_whose_subscription_was_damaged_is_kept_when_the_rest_is_repaired(
    folder: Path,
) -> None:
    store = EmbeddedStore(folder, clock=ManualClock())
    store.commit()
    start = store.journal.sizes[1]
    store.run(OpenClaims(JOBS, b"w", b"s", b"", 60_000))
    store.commit()
    end = store.journal.sizes[1]
    store.run(Add(JOBS, b"w", [b"1", b"2"], Terms(86_400_000, 0, 60_000)))
    store.run(FillClaim(b"w", b"s", 1, 1, 1, seals=True))
    store.close()
    path = folder / SEGMENT
    data = bytearray(path.read_bytes())
    data[(start + end) // 2] ^= 1
    path.write_bytes(data)

    for step in plan(survey(folder)):
        carry_out(step)
    store = EmbeddedStore(folder, clock=ManualClock())

    check_indexes(store)
    view = store.run(OpenClaims(JOBS, b"w", b"s", b"", 60_000))
    assert [claim.messages for claim in view.claims] == [1]
    assert store.run(ReleaseClaims(b"w", b"s", view.epoch, 1)) == 1
    store.close()


@pytest.mark.usefixtures("compaction_pauses_often")
@pytest.mark.parametrize("maxmemory", [0, 1])
@pytest.mark.parametrize("seed", range(4))
def test_a_journal_that_is_compacted_all_the_time_reads_back_the_same(
    folder: Path, seed: int, maxmemory: int
) -> None:
    clock = ManualClock()
    chance = Random(seed).randbytes
    store = EmbeddedStore(
        folder,
        clock=clock,
        segment_bytes=1_500,
        fsync="no",
        maxmemory=maxmemory,
        chance=chance,
    )
    worker = ClaimWorker(store, clock, seed)
    dropped = 0
    for round_ in range(12):
        for _ in range(40):
            worker.turn()
            if not store._compactor.is_working and len(store.journal.sizes) > 2:
                store._compactor._work = store._compactor._compact(min(store.journal.sizes))
        check_indexes(store)
        seen = look_of(store)
        dropped += store._compactor.dropped
        store.close()

        store = EmbeddedStore(
            folder,
            clock=clock,
            segment_bytes=1_500,
            fsync="no",
            maxmemory=maxmemory if round_ % 2 else 0,
            chance=chance,
        )
        assert look_of(store) == seen
        check_indexes(store)
        worker.store = store
        for each in worker._workers:
            each.store = store
    store.close()
    assert dropped > 20


def test_marks_outlive_a_claim_that_shrank_before_its_first_chunk_was_written_again(
    folder: Path,
) -> None:
    store = EmbeddedStore(folder, clock=ManualClock(), segment_bytes=1)  # a segment for each turn
    store.run(OpenClaims(JOBS, b"w", b"s", b"", 60_000))
    store.commit()
    store.run(Add(JOBS, b"w", [b"1", b"2", b"3", b"4"], Terms(86_400_000, 0, 60_000)))
    for count in (1, 1, 2):
        store.run(FillClaim(b"w", b"s", 1, 1, count))
        store.commit()
    store.run(FillClaim(b"w", b"s", 1, 1, 0, seals=True))
    (claim,) = store.subscriptions.all()[0].claims.values()
    first = msgpack.unpackb(claim.chunks[0].ids)
    store.run(MarkClaim(b"w", b"s", 1, Outcome.DEAD, first, 0, b"because"))
    store.commit()
    compact_first(store)  # what is known of the subscription stands behind its marks
    store.run(PlayClaim(b"w", b"s", 1, 1, 3))
    store.run(MarkClaim(b"w", b"s", 1, Outcome.DEAD, first, 0, b"because"))
    store.commit()
    for _ in range(3):
        compact_first(store)

    seen = look_of(store)
    store.close()
    store = EmbeddedStore(folder, clock=ManualClock(), segment_bytes=1)

    assert look_of(store) == seen
    assert store.run(SettleClaims(b"w", b"s", 1, 1)) == 2
    store.close()


def compact_first(store: EmbeddedStore) -> None:
    """The oldest segment is gone."""
    oldest = min(store.journal.sizes)
    while min(store.journal.sizes) == oldest:
        compact_always(store)
        store.commit()
