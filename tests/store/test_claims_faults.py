"""Faults of the disk while claims are made: all of an operation or nothing, and it is said."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest

from quinque.engine.work.worklist import Worklist
from quinque.errors import DiskFull, NoStage, NotDone
from quinque.model.claim_ops import (
    ClaimState,
    DropClaims,
    FillClaim,
    LookAtClaims,
    MarkClaim,
    OpenClaims,
    Outcome,
    PlayClaim,
    ReadClaim,
    ReleaseClaims,
    SettleClaims,
)
from quinque.model.families import EVENTS, JOBS, RELIABLE, Family
from quinque.model.ops import Op, Put
from quinque.model.stage_ops import FindStages, Part, Publish, Stage
from quinque.model.states import State
from quinque.model.work_ops import Add, Browse, LookAt, Take, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.journal import SPARE_BYTES
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.pending import Pending
from tests.conformance import stage_words
from tests.store.disk import Disk, leave_room
from tests.store.picture import check_indexes, messages_of, picture_of, picture_of_claims

TERMS = Terms(86_400_000, 0, 60_000)
CHUNK = msgpack.packb([[0, 0, -1, 0, None, [b"x" * 1_000] * 50]])


@pytest.fixture
def store(folder: Path, clock: ManualClock, disk: Disk) -> Iterator[EmbeddedStore]:
    """Two claims on a worklist and on a feed, and a batch that is staged."""
    store = EmbeddedStore(folder, clock=clock, segment_bytes=8 << 20)
    store.run(Add(JOBS, b"w", [b"x" * 1_000] * 200, TERMS))
    store.run(Put(EVENTS, b"q", [b"x" * 1_000] * 200))
    for family, queue, group in ((JOBS, b"w", b""), (EVENTS, b"q", b"g")):
        store.run(OpenClaims(family, queue, b"s", group, 60_000))
        store.run(FillClaim(queue, b"s", 1, 1, 50, seals=True))
        store.run(FillClaim(queue, b"s", 1, 2, 50, seals=True))
    store.run(Stage(JOBS, b"p", b"k", b"r", 0, 0, 0, 0, CHUNK))
    store.run(Stage(JOBS, b"p", b"k", b"r", 0, 0, 0, 1, CHUNK))
    store.commit()
    yield store
    disk.heal()
    store.close()


def ids_of(store: EmbeddedStore, queue: bytes, number: int) -> list[bytes]:
    packed = store.run(ReadClaim(queue, b"s", number, 0, 99))
    return [row[0] for chunk in packed for row in msgpack.unpackb(chunk)]


def look_of(store: EmbeddedStore) -> object:
    return picture_of(store), picture_of_claims(store)


def writes(queue: bytes) -> list[Op]:
    return [
        FillClaim(queue, b"s", 1, 3, 50),
        ReleaseClaims(queue, b"s", 1, 1),
        ReleaseClaims(queue, b"s", 1, 2),
        PlayClaim(queue, b"s", 1, 1, 10),
        PlayClaim(queue, b"s", 1, 1),
        SettleClaims(queue, b"s", 1, 2),
        DropClaims(queue, b"s"),
        OpenClaims(JOBS if queue == b"w" else EVENTS, queue, b"new", b"g", 60_000),
    ]


@pytest.mark.parametrize("queue", [b"w", b"q"])
@pytest.mark.parametrize("number", range(8))
def test_what_has_no_room_is_refused_and_changes_nothing(
    store: EmbeddedStore, disk: Disk, queue: bytes, number: int
) -> None:
    ids = ids_of(store, queue, 1)
    store.run(MarkClaim(queue, b"s", 1, Outcome.NACK, ids[:30]))
    op = writes(queue)[number]
    seen = look_of(store)

    refused = 0
    for room_bytes in (0, 30, 100, 1_000, 10_000, 40_000, 90_000, 130_000):
        leave_room(store, disk, room_bytes)
        try:
            store.run(op)
        except DiskFull:
            refused += 1
            assert look_of(store) == seen
            check_indexes(store)
            continue
        break
    assert refused
    disk.heal()
    store.commit()
    check_indexes(store)


def test_a_claim_has_the_chunks_there_was_room_for(store: EmbeddedStore, disk: Disk) -> None:
    store.run(Add(JOBS, b"large", [b"x" * 700_000] * 4, TERMS))
    store.run(OpenClaims(JOBS, b"large", b"s", b"", 60_000))
    leave_room(store, disk, 1_500_000 + SPARE_BYTES)

    view = store.run(FillClaim(b"large", b"s", 1, 1, 10, seals=True))

    assert view is not None
    assert (view.messages, view.chunks, view.state) == (2, 2, ClaimState.SEALED)
    check_indexes(store)


def test_a_batch_whose_chunk_cannot_be_read_for_a_moment_is_not_decided(
    folder: Path, clock: ManualClock, disk: Disk
) -> None:
    store = EmbeddedStore(folder, clock=clock, maxmemory=1)
    stage_words.stage(store, stage_words.run_of(b"first"), attempt=0)
    stage_words.stage(store, stage_words.run_of(b"second"), attempt=1)
    store.commit()
    disk.fail("pread", errno.EIO)

    with pytest.raises(NotDone):
        stage_words.publish(store, (0, 0, 1))

    disk.heal()
    assert stage_words.publish_all(store, (0, 1, 1)) == 1
    assert messages_of(store) == {b"w": [b"second"]}
    store.close()


def test_a_batch_is_published_when_there_is_room_again(store: EmbeddedStore, disk: Disk) -> None:
    seen = look_of(store)
    publish = Publish(JOBS, b"p", b"k", b"r", 0, [Part(0, 0, 2)], 50)
    for room_bytes in (0, 100, SPARE_BYTES, SPARE_BYTES + 20_000):
        leave_room(store, disk, room_bytes)
        with pytest.raises(DiskFull):
            store.run(publish)
        assert look_of(store) == seen

    leave_room(store, disk, SPARE_BYTES + 130_000)
    assert store.run(publish).messages == 50
    leave_room(store, disk, SPARE_BYTES + 20_000)
    with pytest.raises(DiskFull):
        store.run(publish)
    disk.heal()

    assert store.run(publish) == (50, 0)
    assert store.run(FindStages()) == []
    check_indexes(store)


def test_a_claim_that_lapses_on_a_full_disk_goes_back_when_there_is_room(
    store: EmbeddedStore, disk: Disk, clock: ManualClock
) -> None:
    store.run(OpenClaims(JOBS, b"w", b"s", b"", 60_000, 100_000))
    clock.advance(100_000)
    leave_room(store, disk, 1_000)

    store.tick()
    assert store.next_due_ms() > store.now_ms(), "it is not tried all the time"
    disk.heal()
    clock.advance(200)
    store.tick()

    view = store.run(LookAtClaims(b"w", b"s"))
    assert view is not None
    assert [claim.state for claim in view.claims] == [ClaimState.FORFEITED] * 2
    check_indexes(store)


def rot(folder: Path, body: bytes, *, last: bool = True) -> None:
    """The last place where the body is on the disk has another one of the same length."""
    for path in sorted(folder.glob("*.journal"), reverse=last):
        data = path.read_bytes()
        at = data.rfind(body) if last else data.find(body)
        if at >= 0:
            file = os.open(path, os.O_WRONLY)
            os.pwrite(file, bytes(byte ^ 1 for byte in body), at)
            os.close(file)
            return
    raise AssertionError("it is not there")


@pytest.fixture
def damaged(
    folder: Path, clock: ManualClock, request: pytest.FixtureRequest
) -> Iterator[EmbeddedStore]:
    """A claim of three chunks, of which the one in the middle is damaged; nothing is in memory."""
    family = request.param
    store = EmbeddedStore(folder / "d", clock=clock, maxmemory=1, segment_bytes=2_000)
    store.run(OpenClaims(family, b"w", b"s", b"g" if family is EVENTS else b"", 1_000, 2_000))
    for body in (b"first", b"damaged", b"last"):
        if family is EVENTS:
            store.run(Put(EVENTS, b"w", [body]))
        else:
            store.run(Add(family, b"w", [body], TERMS))
        store.run(FillClaim(b"w", b"s", 1, 1, 1))
        store.commit()
    store.run(FillClaim(b"w", b"s", 1, 1, 0, seals=True))
    store.commit()
    rot(folder / "d", b"damaged")
    yield store
    store.close()


def finish(store: EmbeddedStore, clock: ManualClock) -> None:
    """Ticks and commits until nothing is left to do."""
    for _ in range(200):
        store.tick()
        store.commit()
        if store.next_due_ms() > store.now_ms():
            return
    raise AssertionError("it is tried again and again")


def bodies_of(store: EmbeddedStore, number: int) -> list[list[bytes]]:
    packed = store.run(ReadClaim(b"w", b"s", number, 0, 99))
    return [[row[1] for row in msgpack.unpackb(chunk)] for chunk in packed]


def dead_of(store: EmbeddedStore) -> list[tuple[bytes, bytes]]:
    views = store.run(Browse(JOBS, b"w", State.DEAD, 99))
    return [(it.body, it.reason) for it in views]


FAMILIES = pytest.mark.parametrize(
    "damaged", [JOBS, EVENTS, RELIABLE], indirect=True, ids=["jobs", "events", "reliable"]
)
REASON = b"does not match its checksum"


@FAMILIES
@pytest.mark.parametrize("how", ["read", "compact"])
def test_a_damaged_chunk_is_set_aside_and_its_claim_goes_on(
    damaged: EmbeddedStore,
    folder: Path,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    how: str,
) -> None:
    store = damaged
    family = store.subscriptions.all()[0].family
    if how == "compact":
        store.compact()
        finish(store, clock)

    for _ in range(2):
        assert bodies_of(store, 1) == [[b"first"], [], [b"last"]]

    finish(store, clock)
    check_indexes(store)
    assert store.run(LookAtClaims(b"w", b"s")).claims[0].messages == 2
    told = [it.getMessage() for it in caplog.records if "set aside" in it.getMessage()]
    assert len(told) == 1
    assert "of queue w (subscription s)" in told[0]
    assert [path.name in told[0] for path in (folder / "d").glob("damaged-*.bin")] == [True]
    if family is JOBS:
        ((body, reason),) = dead_of(store)
        assert body == b""
        assert REASON in reason
    elif family is EVENTS:  # the queue has the event itself, and its group gets it again
        store.run(FillClaim(b"w", b"s", 1, 2, 9, seals=True))
        assert bodies_of(store, 2) == [[b"damaged"]]
        assert store.run(SettleClaims(b"w", b"s", 1, 2)) == 3
        return
    assert store.run(SettleClaims(b"w", b"s", 1, 1)) == 2
    # The segment was written again, so the next start finds no damage.
    store.commit()
    shutil.copytree(folder / "d", folder / "copy", ignore=shutil.ignore_patterns("lock"))
    again = EmbeddedStore(folder / "copy", clock=clock)
    assert look_of(again) == look_of(store)
    check_indexes(again)
    again.close()


@FAMILIES
@pytest.mark.parametrize("how", ["release", "forfeit", "drop", "settle", "shrink", "nack"])
def test_a_claim_with_a_damaged_chunk_can_be_closed(
    damaged: EmbeddedStore, clock: ManualClock, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    store = damaged
    family = store.subscriptions.all()[0].family
    if how == "forfeit":
        clock.advance(2_000)
        finish(store, clock)
    elif how == "nack":
        chunks = store.subscriptions.all()[0].claims[1].in_order()
        ids = [id for chunk in chunks for id in msgpack.unpackb(chunk.ids)]
        store.run(MarkClaim(b"w", b"s", 1, Outcome.NACK, ids))
        store.run(SettleClaims(b"w", b"s", 1, 1))
    else:
        op: dict[str, Op] = {
            "release": ReleaseClaims(b"w", b"s", 1, 1),
            "drop": DropClaims(b"w", b"s"),
            "settle": SettleClaims(b"w", b"s", 1, 1),
            "shrink": PlayClaim(b"w", b"s", 1, 1, 1),
        }
        store.run(op[how])

    finish(store, clock)
    check_indexes(store)
    view = store.run(OpenClaims(family, b"w", b"s", b"g" if family is EVENTS else b"", 60_000))
    number = 1 + max([view.settled, *(it.number for it in view.claims)])
    store.run(FillClaim(b"w", b"s", view.epoch, number, 9, seals=True))
    back = [body for chunk in bodies_of(store, number) for body in chunk] if how != "settle" else []
    expected = {"settle": [], "shrink": [b"damaged", b"last"]}
    full = expected.get(how, [b"first", b"damaged", b"last"])
    if family is not EVENTS:
        full = [body for body in full if body != b"damaged"]
    assert back == full
    if family is JOBS and how != "settle":
        ((body, reason),) = dead_of(store)
        assert body == b""
        assert REASON in reason
    told = [it for it in caplog.records if "set aside" in it.getMessage()]
    assert len(told) == (0 if how == "settle" or (family is EVENTS and how != "shrink") else 1)


@FAMILIES
@pytest.mark.parametrize("is_marked", [False, True], ids=["acked", "one nacked"])
@pytest.mark.parametrize("how", ["read", "compact"])
@pytest.mark.usefixtures("one_chunk_in_a_step")
def test_finished_messages_of_a_damaged_chunk_do_not_come_back_while_their_claim_is_closed(
    damaged: EmbeddedStore, folder: Path, clock: ManualClock, how: str, is_marked: bool
) -> None:
    store = damaged
    found = store.subscriptions.all()[0]
    if is_marked:
        store.run(
            MarkClaim(b"w", b"s", 1, Outcome.NACK, msgpack.unpackb(found.claims[1].chunks[1].ids))
        )
    answer = store.run(SettleClaims(b"w", b"s", 1, 1))
    store.commit()
    assert found.claims[1].is_closing
    assert found.claims[1].closed == 1

    if how == "compact":
        store.compact()
    else:
        assert bodies_of(store, 1)[1] == []
    store.commit()
    finish(store, clock)

    check_indexes(store)
    assert answer.value() == 3 - is_marked
    assert store.info()["compacting"] == 0
    assert store.run(LookAtClaims(b"w", b"s")).claims[0].state == ClaimState.SETTLED
    view = store.run(OpenClaims(found.family, b"w", b"s", found.group, 60_000))
    filled = store.run(FillClaim(b"w", b"s", view.epoch, 2, 9, seals=True))
    assert (filled is not None) == (is_marked and found.family is EVENTS)
    if found.family is JOBS:
        assert len(dead_of(store)) == is_marked
    store.commit()
    shutil.copytree(folder / "d", folder / "copy", ignore=shutil.ignore_patterns("lock"))
    again = EmbeddedStore(folder / "copy", clock=clock)
    assert look_of(again) == look_of(store)
    check_indexes(again)
    again.close()


@pytest.mark.parametrize("family", [JOBS, RELIABLE], ids=["jobs", "reliable"])
def test_a_claim_that_shrinks_over_a_damaged_chunk_leaves_nothing_claimed(
    folder: Path, clock: ManualClock, family: Family
) -> None:
    store = EmbeddedStore(folder / "d", clock=clock, maxmemory=1)
    store.run(OpenClaims(family, b"w", b"s", b"", 1_000))
    for bodies in ([b"first", b"second"], [b"damaged", b"third"], [b"fourth", b"fifth"]):
        store.run(Add(family, b"w", bodies, TERMS))
        store.run(FillClaim(b"w", b"s", 1, 1, 2))
        store.commit()
    store.run(FillClaim(b"w", b"s", 1, 1, 0, seals=True))
    store.commit()
    rot(folder / "d", b"damaged")
    queue = store.queues[b"w"]
    assert isinstance(queue, Worklist)

    assert store.run(PlayClaim(b"w", b"s", 1, 1, 1)).messages == 1
    assert queue.claimed == 1
    assert store.run(SettleClaims(b"w", b"s", 1, 1)) == 1

    assert queue.claimed == 0
    finish(store, clock)
    check_indexes(store)
    store.close()


def test_a_claim_that_is_damaged_holds_up_no_other_subscription_and_no_other_queue(
    folder: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = EmbeddedStore(folder / "b", clock=clock, maxmemory=1)
    for queue in (b"a", b"b"):
        store.run(Add(JOBS, queue, [queue + b"-body"], TERMS))
        store.run(OpenClaims(JOBS, queue, b"s", b"", 1_000, 1_000))
        store.run(FillClaim(queue, b"s", store.run(LookAtClaims(queue, b"s")).epoch, 1, 1))
        store.commit()
    store.run(Add(JOBS, b"late", [b"body"], Terms(86_400_000, 500, 60_000)))
    store.commit()
    rot(folder / "b", b"a-body")

    clock.advance(2_000)
    finish(store, clock)

    assert [it.body for it in store.run(Take(JOBS, [b"b"]))] == [b"b-body"]
    assert [it.body for it in store.run(Take(JOBS, [b"late"]))] == [b"body"]
    store.commit()
    assert store.next_due_ms() > store.now_ms(), "it is not tried again and again"
    assert len([it for it in caplog.records if "set aside" in it.getMessage()]) == 1
    assert store.run(LookAtClaims(b"a", b"s")).claims[0].state is ClaimState.FORFEITED
    store.close()


def test_claims_that_the_disk_does_not_give_back_now_are_tried_again(
    folder: Path, clock: ManualClock, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    store = EmbeddedStore(folder / "b", clock=clock, maxmemory=1)
    store.run(Add(JOBS, b"w", [b"body"], TERMS))
    store.run(OpenClaims(JOBS, b"w", b"s", b"", 1_000, 1_000))
    store.run(FillClaim(b"w", b"s", 1, 1, 1))
    store.commit()
    clock.advance(2_000)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", unreadable)
        for _ in range(3):
            store.tick()
            store.commit()
        assert store.run(LookAtClaims(b"w", b"s")).claims[0].state is ClaimState.FILLING
        assert store.next_due_ms() > store.now_ms(), "it is not tried all the time"
    clock.advance(60_000)
    finish(store, clock)

    assert [it.body for it in store.run(Take(JOBS, [b"w"]))] == [b"body"]
    assert len([it for it in caplog.records if "cannot be closed" in it.getMessage()]) == 1
    store.close()


@pytest.mark.usefixtures("one_chunk_in_a_step")
def test_claims_that_are_being_closed_hold_up_nothing_while_the_disk_cannot_be_read(
    folder: Path, clock: ManualClock, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    store = EmbeddedStore(folder / "b", clock=clock, maxmemory=1)
    store.run(Add(JOBS, b"w", [b"first", b"second"], TERMS))
    store.run(OpenClaims(JOBS, b"w", b"s", b"", 60_000, 60_000))
    for number in (1, 2):
        store.run(FillClaim(b"w", b"s", 1, number, 1, seals=True))
    store.run(Add(JOBS, b"other", [b"late"], Terms(86_400_000, 1_000, 60_000)))
    store.commit()

    assert isinstance(store.run(ReleaseClaims(b"w", b"s", 1, 2)), Pending)
    store.commit()
    clock.advance(1_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", unreadable)
        for _ in range(3):
            store.tick()
            store.commit()
        assert store.run(LookAt(JOBS, b"other")).ready == 1
        assert store.next_due_ms() > store.now_ms(), "it is not tried all the time"
    clock.advance(60_000)
    finish(store, clock)

    assert {it.body for it in store.run(Take(JOBS, [b"w"], 2))} == {b"first", b"second"}
    assert len([it for it in caplog.records if "cannot be closed" in it.getMessage()]) == 1
    store.close()


def unreadable(*args: object) -> bytes:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("how", ["publish", "compact"])
def test_a_batch_with_a_damaged_chunk_is_staged_again(
    folder: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    store = EmbeddedStore(folder / "b", clock=clock, maxmemory=1, segment_bytes=2_000)
    rows = msgpack.packb([[0, 0, -1, 0, None, [b"staged-body"]]])
    staged = Stage(JOBS, b"p", b"k", b"r", 0, 0, 0, 0, rows)
    publish = Publish(JOBS, b"p", b"k", b"r", 0, [Part(0, 0, 1)], 50)
    store.run(staged)
    store.commit()
    rot(folder / "b", b"staged-body")
    if how == "compact":
        store.compact()
        finish(store, clock)

    with pytest.raises(NoStage):
        store.run(publish)
    finish(store, clock)

    check_indexes(store)
    assert len([it for it in caplog.records if "set aside 1 staged" in it.getMessage()]) == 1
    store.run(staged)
    store.commit()
    assert store.run(publish) == (1, 0)
    assert [it.body for it in store.run(Take(JOBS, [b"p"]))] == [b"staged-body"]
    store.close()


@pytest.mark.parametrize("how", ["publish", "compact"])
def test_a_batch_of_which_a_part_is_published_loses_only_the_damaged_chunk(
    folder: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    store = EmbeddedStore(folder / "b", clock=clock, maxmemory=1, segment_bytes=2_000)
    for number, body in enumerate((b"first", b"rotten", b"last")):
        rows = msgpack.packb([[0, 0, -1, 0, None, [body]]])
        store.run(Stage(JOBS, b"p", b"k", b"r", 0, 0, 0, number, rows))
        store.commit()
    publish = Publish(JOBS, b"p", b"k", b"r", 0, [Part(0, 0, 3)], 1)
    assert store.run(publish) == (1, 2)
    store.commit()
    rot(folder / "b", b"rotten")
    if how == "compact":
        store.compact()
        finish(store, clock)

    while store.run(FindStages()):
        store.run(publish)
        store.commit()

    finish(store, clock)
    check_indexes(store)
    assert len([it for it in caplog.records if "set aside 1 staged" in it.getMessage()]) == 1
    assert [it.body for it in store.run(Take(JOBS, [b"p"], 9))] == [b"first", b"last"]
    store.close()


def test_chunks_beyond_maxmemory_are_on_the_disk_only(folder: Path, clock: ManualClock) -> None:
    store = EmbeddedStore(folder, clock=clock, maxmemory=50_000)
    store.run(Add(JOBS, b"w", [b"x" * 1_000] * 100, TERMS))
    store.run(OpenClaims(JOBS, b"w", b"s", b"", 60_000))
    store.commit()
    for number in range(1, 11):
        store.run(FillClaim(b"w", b"s", 1, number, 10, seals=True))
        store.commit()

    assert store.bodies.in_memory <= 60_000
    assert store.bodies.on_disk
    assert all(len(ids_of(store, b"w", number)) == 10 for number in range(1, 11))
    assert store.info()["messages"] == 0
    assert store.info()["claimed_messages"] == 100
    assert store.run(ReleaseClaims(b"w", b"s", 1, 10)) == 100
    store.commit()
    check_indexes(store)
    store.close()
