"""What works again after a repair, and what is missing: only what the damaged batches had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest

from quinque.model.claim_events import CLAIMED, UNSUBSCRIBED
from quinque.model.claim_ops import (
    DropClaims,
    FillClaim,
    LookAtClaims,
    MarkClaim,
    OpenClaims,
    Outcome,
    PlayClaim,
    ReadClaim,
    SettleClaims,
)
from quinque.model.events import FLUSHED, REMOVED
from quinque.model.families import EVENTS, ITEMS, JOBS, RELIABLE
from quinque.model.ops import Flush, Put
from quinque.model.own_ops import RELIABLE_TERMS, AddItems, Complete
from quinque.model.queue_ops import DeleteQueues
from quinque.model.stage_events import STAGED
from quinque.model.stage_ops import FindStages, Part, Publish, Published, Stage
from quinque.model.states import State
from quinque.model.work_ops import Add, Browse, Take, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.copy_out import open_folder
from quinque.stores.embedded.kept import subscription_kept
from quinque.stores.embedded.records import Batch, read_batches, read_records
from quinque.stores.embedded.repair import carry_out, plan
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.embedded.survey import survey
from tests.store.picture import check_indexes

TERMS = Terms(86_400_000, 0, 60_000)


def lose(folder: Path, is_it: Callable[[Any], bool]) -> None:
    """A bit of the batch that has such a record is flipped, and a repair sets the batch aside."""
    for path in sorted(folder.glob("*.journal")):
        data = bytearray(path.read_bytes())
        for batch in read_batches(bytes(data)):
            assert isinstance(batch, Batch)
            if any(is_it(record) for _, _, record in read_records(batch)):
                data[batch.end - 2] ^= 1
                path.write_bytes(data)
                for step in plan(survey(folder)):
                    carry_out(step)
                return
    raise AssertionError("no such batch")


@pytest.mark.parametrize("lost", [CLAIMED, UNSUBSCRIBED])
def test_a_queue_under_the_name_of_a_claim_is_not_lost_after_records_of_the_claim_are(
    folder: Path, clock: ManualClock, lost: int
) -> None:
    store = EmbeddedStore(folder, clock=clock)
    store.run(Add(JOBS, b"q", [b"claimed"], TERMS))
    store.run(OpenClaims(JOBS, b"q", b"s", b"", 1_000))
    store.run(FillClaim(b"q", b"s", 1, 1, 10, seals=True))
    store.commit()
    (found,) = store.subscriptions.all()
    store.journal.append(subscription_kept(found))
    store.commit()
    if lost == UNSUBSCRIBED:
        store.run(DropClaims(b"q", b"s"))
        store.commit()
        store.run(DeleteQueues(JOBS, [b"q"]))
        store.commit()
        store.run(Add(RELIABLE, b"q", [b"one", b"two"], RELIABLE_TERMS))
    store.close()
    lose(folder, lambda record: record[0] == lost)

    store = EmbeddedStore(folder, clock=clock)
    if lost == CLAIMED:
        store.run(Add(RELIABLE, b"q", [b"one", b"two"], RELIABLE_TERMS))
    store.close()
    store = EmbeddedStore(folder, clock=clock)
    if lost == UNSUBSCRIBED:
        check_indexes(store)
    store.run(DropClaims(b"q", b"s"))
    store.close()
    store = EmbeddedStore(folder, clock=clock)

    rows = store.run(Browse(RELIABLE, b"q", State.READY, 9))
    assert [row.body for row in rows] == [b"one", b"two"]
    store.close()


def test_an_item_that_was_added_again_is_there_once_after_its_completion_was_lost(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock)
    store.run(AddItems(ITEMS, b"q", [b"x"], [b"old"], False))
    store.commit()
    store.run(Take(ITEMS, [b"q"], 1, lease_ms=60_000))
    store.run(Complete(ITEMS, b"q", [b"x"], is_leased=False))
    store.commit()
    store.run(AddItems(ITEMS, b"q", [b"x"], [b"new"], False))
    store.close()
    lose(folder, lambda record: record[0] == REMOVED)

    store = EmbeddedStore(folder, clock=clock)

    check_indexes(store)
    (given,) = store.run(Take(ITEMS, [b"q"], 9, lease_ms=60_000))
    assert (given.message_id, given.body) == (b"x", b"new")
    assert store.run(Complete(ITEMS, b"q", [b"x"], is_leased=False)) == [True]
    assert store.run(DeleteQueues(ITEMS, [b"q"])) == 1
    store.close()


def test_a_decided_batch_that_lost_a_chunk_is_published_without_it(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock)
    for chunk in range(3):
        rows = msgpack.packb([[60_000, 0, 60_000, 0, None, [b"body %d" % chunk]]])
        store.run(Stage(JOBS, b"q", b"sink", b"run", 1, 0, 0, chunk, rows))
        store.commit()
    publish = Publish(JOBS, b"q", b"sink", b"run", 1, [Part(0, 0, 3)], 1)
    assert store.run(publish) == Published(1, 2)
    store.close()
    lose(folder, lambda record: record[0] == STAGED and b"body 1" in record[-1])

    store = EmbeddedStore(folder, clock=clock)
    while store.run(publish).left:
        pass
    store.commit()

    rows = store.run(Browse(JOBS, b"q", State.READY, 9))
    assert [row.body for row in rows] == [b"body 0", b"body 2"]
    assert store.run(FindStages()) == []
    check_indexes(store)
    store.close()
    open_folder(folder).close()


def test_a_claim_that_lost_a_chunk_with_a_marked_message_is_settled(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock)
    store.run(OpenClaims(JOBS, b"q", b"s", b"", 1_000))
    store.commit()
    ids: list[bytes] = []
    for body in (b"body 0", b"body 1"):
        ids += store.run(Add(JOBS, b"q", [body], TERMS))
        store.run(FillClaim(b"q", b"s", 1, 1, 10, seals=len(ids) == 2))
        store.commit()
    store.run(MarkClaim(b"q", b"s", 1, Outcome.NACK, ids[:1], 0, b"why"))
    store.close()
    lose(folder, lambda record: record[0] == CLAIMED and b"body 0" in record[-1])

    store = EmbeddedStore(folder, clock=clock)

    assert store.run(SettleClaims(b"q", b"s", 1, 1)) == 1
    check_indexes(store)
    store.close()


def test_a_claim_that_lost_all_its_messages_is_read_played_and_settled(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock)
    store.run(Add(JOBS, b"q", [b"claimed"], TERMS))
    store.run(OpenClaims(JOBS, b"q", b"s", b"", 1_000))
    store.run(FillClaim(b"q", b"s", 1, 1, 10, seals=True))
    store.commit()
    (found,) = store.subscriptions.all()
    store.journal.append(subscription_kept(found))
    store.close()
    lose(folder, lambda record: record[0] == CLAIMED)

    store = EmbeddedStore(folder, clock=clock)

    assert store.run(LookAtClaims(b"q", b"s")).claims[0].messages == 0
    assert store.run(ReadClaim(b"q", b"s", 1, 0, 9)) == []
    assert store.run(PlayClaim(b"q", b"s", 1, 1, 0)).messages == 0
    assert store.run(SettleClaims(b"q", b"s", 1, 1)) == 0
    assert store.run(LookAtClaims(b"q", b"s")).settled == 1
    store.close()


def test_a_queue_that_came_after_events_whose_end_was_lost_is_counted_alone(
    folder: Path, clock: ManualClock
) -> None:
    store = EmbeddedStore(folder, clock=clock)
    store.run(Put(EVENTS, b"q", [b"event"]))
    store.commit()
    store.run(Flush(EVENTS, b"q"))
    store.commit()
    store.run(Add(JOBS, b"q", [b"job"], TERMS))
    store.close()
    lose(folder, lambda record: record[0] == FLUSHED)

    store = EmbeddedStore(folder, clock=clock)

    assert store.queues[b"q"].family is JOBS
    check_indexes(store)
    store.close()
