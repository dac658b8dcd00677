"""Faults of the disk while claims are made: all of an operation or nothing, and it is said."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest

from quinque.errors import DiskFull, JournalDamaged
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
from quinque.model.families import EVENTS, JOBS
from quinque.model.ops import Op, Put
from quinque.model.stage_ops import FindStages, Part, Publish, Stage
from quinque.model.work_ops import Add, Take, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.journal import SPARE_BYTES
from quinque.stores.embedded.store import EmbeddedStore
from tests.store.disk import Disk, leave_room
from tests.store.picture import check_indexes, picture_of, picture_of_claims

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


def test_a_chunk_that_is_damaged_on_the_disk_is_not_given_out(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock, maxmemory=1)
    store.run(Add(JOBS, b"w", [b"marked" * 100], TERMS))
    store.run(OpenClaims(JOBS, b"w", b"s", b"", 60_000))
    store.commit()
    before = store.journal.sizes[1]
    store.run(FillClaim(b"w", b"s", 1, 1, 1, seals=True))
    store.commit()
    path = folder / "0000000001.journal"
    at = path.read_bytes().index(b"marked", before)
    file = os.open(path, os.O_WRONLY)
    os.pwrite(file, b"MARKED", at)
    os.close(file)

    with pytest.raises(JournalDamaged):
        store.run(ReadClaim(b"w", b"s", 1, 0, 1))
    with pytest.raises(JournalDamaged):
        store.run(ReleaseClaims(b"w", b"s", 1, 1))

    check_indexes(store)
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
    path = folder / "b" / "0000000001.journal"
    data = path.read_bytes()
    with open(path, "r+b") as file:  # the same file: what the store has open
        file.write(data.replace(b"a-body", b"a-b0dy"))

    clock.advance(2_000)
    for _ in range(20):
        store.tick()
        store.commit()

    assert [it.body for it in store.run(Take(JOBS, [b"b"]))] == [b"b-body"]
    assert [it.body for it in store.run(Take(JOBS, [b"late"]))] == [b"body"]
    store.commit()
    assert store.next_due_ms() > store.now_ms(), "it is not tried again and again"
    assert len([it for it in caplog.records if "cannot be given back" in it.message]) == 1
    assert store.run(LookAtClaims(b"a", b"s")).claims[0].messages == 1
    store.close()
