"""The client's operations on claims, stages, pages and the record, on brokers of every store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest

from quinque.client.sync.broker import Broker
from quinque.errors import BadClaim, NoClaim, NoStage, NoSubscription, Superseded
from quinque.model.claim_ops import (
    ClaimState,
    ClaimView,
    DropClaims,
    FillClaim,
    FindClaims,
    LookAtClaims,
    MarkClaim,
    OpenClaims,
    Outcome,
    PlayClaim,
    PurgeClaims,
    ReadClaim,
    ReleaseClaims,
    RenewClaims,
    SettleClaims,
    SubscriptionView,
)
from quinque.model.families import EVENTS, JOBS
from quinque.model.lifecycle import Entry, Kind
from quinque.model.look_ops import BrowsePlaces, DividePlaces, FindRecords, ReadRecord
from quinque.model.ops import Put
from quinque.model.rows import Row
from quinque.model.stage_ops import DropStage, FindStages, Part, Publish, Published, Stage, Staged
from quinque.model.states import State
from quinque.model.work_ops import Add, LookAt, Take, Terms
from tests.server.broker import RunningBroker, start_broker
from tests.servers import stores
from tests.servers.stores import on_every_kind as pytest_generate_tests

__all__ = ["pytest_generate_tests"]

S = b"subscription"
TERMS = Terms(ttl_ms=60_000, retry_ms=30_000)


@pytest.fixture
def asked(broker: RunningBroker) -> Iterator[Broker]:
    with Broker(url_of(broker)) as client:
        yield client


@pytest.fixture
def name(queue: str) -> bytes:
    return queue.encode()


def url_of(*brokers: RunningBroker) -> str:
    return "redis://" + ",".join(f"127.0.0.1:{broker.port}" for broker in brokers)


def opened(client: Broker, queue: bytes, lease_ms: int = 60_000) -> int:
    """The epoch."""
    return client.run(OpenClaims(JOBS, queue, S, b"", lease_ms)).epoch


def bodies_of(client: Broker, queue: bytes, number: int) -> list[bytes]:
    chunks = client.run(ReadClaim(queue, S, number, 0, 99))
    return [Row(*row).body for chunk in chunks for row in msgpack.unpackb(chunk, raw=True)]


def chunk_of(*bodies: bytes, ttl_ms: int = 60_000) -> bytes:
    packed = msgpack.packb([[ttl_ms, 0, -1, 0, None, list(bodies)]])
    assert isinstance(packed, bytes)
    return packed


def test_a_claim_from_its_opening_to_its_end(asked: Broker, name: bytes) -> None:
    ids = asked.run(Add(JOBS, name, [b"a", b"b", b"c"], TERMS))
    view = asked.run(OpenClaims(JOBS, name, S, b"", 5_000, 60_000))
    assert (view.family, view.queue, view.subscription) == (JOBS, name, S)
    assert (view.lease_ms, view.release_ms, view.backlog) == (5_000, 60_000, 3)
    assert view.claims == []
    epoch = view.epoch

    filling = asked.run(FillClaim(name, S, epoch, 1, 2))
    sealed = asked.run(FillClaim(name, S, epoch, 1, 0, seals=True))
    assert filling == ClaimView(1, ClaimState.FILLING, 2, 2, 1, 0, filling.age_ms)  # type: ignore[union-attr]
    assert sealed == ClaimView(1, ClaimState.SEALED, 2, 2, 1, 0, sealed.age_ms)  # type: ignore[union-attr]
    assert bodies_of(asked, name, 1) == [b"a", b"b"]

    assert asked.run(PlayClaim(name, S, epoch, 1)).plays == 1
    assert asked.run(MarkClaim(name, S, 1, Outcome.DEAD, [ids[0]], reason=b"no")) == 1
    assert asked.run(SettleClaims(name, S, epoch, 1)) == 1
    assert asked.run(LookAt(JOBS, name)).dead == 1  # type: ignore[union-attr]
    assert asked.run(PurgeClaims(name, S, 1)) == 1

    asked.run(FillClaim(name, S, epoch, 2, 9, seals=True))
    assert asked.run(RenewClaims(name, S, epoch)) == 1
    assert asked.run(ReleaseClaims(name, S, epoch, 2)) == 1
    found = asked.run(LookAtClaims(name, S))
    assert isinstance(found, SubscriptionView)
    assert (found.settled, found.backlog) == (2, 1)
    assert [each.subscription for each in asked.run(FindClaims(name))] == [S]
    assert name in {each.queue for each in asked.run(FindClaims())}
    assert asked.run(DropClaims(name, S)) == 0
    assert asked.run(DropClaims(name, S)) is None
    assert asked.run(LookAtClaims(name, S)) is None


def test_a_group_claims_events(asked: Broker, name: bytes) -> None:
    asked.run(Put(EVENTS, name, [b"a", b"b"], ttl_ms=60_000))
    view = asked.run(OpenClaims(EVENTS, name, S, b"group", 5_000))

    asked.run(FillClaim(name, S, view.epoch, 1, 9, seals=True))

    assert (view.family, view.group, view.backlog) == (EVENTS, b"group", 2)
    assert bodies_of(asked, name, 1) == [b"a", b"b"]
    assert asked.run(SettleClaims(name, S, view.epoch, 1)) == 2


def test_errors_are_raised_as_their_classes(asked: Broker, name: bytes) -> None:
    with pytest.raises(NoSubscription):
        asked.run(RenewClaims(name, S, 1))
    first = opened(asked, name)
    epoch = opened(asked, name)
    with pytest.raises(
        Superseded, match=f"epoch {first} of subscription 'subscription' is no longer valid"
    ):
        asked.run(RenewClaims(name, S, first))
    with pytest.raises(NoClaim, match="does not exist"):
        asked.run(ReadClaim(name, S, 1, 0, 1))
    with pytest.raises(BadClaim, match="cannot be started: the next claim is 1"):
        asked.run(FillClaim(name, S, epoch, 2, 1))
    with pytest.raises(NoStage):
        asked.run(Publish(JOBS, name, b"sink", b"run", 0, [Part(0, 0, 1)], 10))


def test_a_fill_waits_in_the_broker(broker: RunningBroker, asked: Broker, name: bytes) -> None:
    epoch = opened(asked, name)
    assert asked.run(FillClaim(name, S, epoch, 1, 9), wait_ms=30) is None
    got: list[ClaimView | None] = []
    waiting = threading.Thread(
        target=lambda: got.append(
            asked.run(FillClaim(name, S, epoch, 1, 9, seals=True), wait_ms=60_000)
        )
    )
    waiting.start()

    asked.run(Add(JOBS, name, [b"a"], TERMS))
    waiting.join(30)

    assert [claim.state for claim in got if claim] == [ClaimState.SEALED]


def test_a_wait_may_be_longer_than_an_answer_may_take(broker: RunningBroker, name: bytes) -> None:
    with Broker(url_of(broker), timeout_s=0.5, retries=3) as client:
        epoch = opened(client, name)

        assert client.run(FillClaim(name, S, epoch, 1, 9), wait_ms=1_000) is None


def test_rows_are_staged_and_published_once(asked: Broker, name: bytes) -> None:
    batch = (JOBS, name, b"sink", b"run", 0)

    assert asked.run(Stage(*batch, 0, 7, 0, chunk_of(b"a", b"b"))) == Staged(False, 2)
    assert asked.run(Stage(*batch, 0, 7, 1, chunk_of(b"c"))) == Staged(False, 3)
    [view] = [each for each in asked.run(FindStages()) if each.queue == name]
    assert (view.sink, view.run, view.number) == (b"sink", b"run", 0)
    assert (view.is_decided, view.chunks) == (False, 2)

    done = asked.run(Publish(*batch, [Part(0, 7, 2)], 100))
    again = asked.run(Publish(*batch, [Part(0, 7, 2)], 100))

    assert (done, again) == (Published(3, 0), Published(0, 0))
    assert asked.run(Stage(*batch, 1, 1, 0, chunk_of(b"late"))).is_decided
    taken = asked.run(Take(JOBS, [name], 9))
    assert [each.body for each in taken] == [b"a", b"b", b"c"]
    assert [each for each in asked.run(FindStages()) if each.queue == name] == []


def test_a_batch_that_is_not_decided_can_be_dropped(asked: Broker, name: bytes) -> None:
    batch = (name, b"sink", b"run", 0)
    asked.run(Stage(EVENTS, *batch, 0, 1, 0, chunk_of(b"a")))

    assert asked.run(DropStage(*batch)) == 1
    assert asked.run(DropStage(*batch)) == 0


def test_a_queue_is_seen_page_by_page(asked: Broker, name: bytes) -> None:
    ids = asked.run(Add(JOBS, name, [b"%d" % number for number in range(50)], TERMS))
    [taken] = asked.run(Take(JOBS, [name]))
    places = asked.run(DividePlaces(JOBS, name, 4))

    seen: list[bytes] = []
    after = 0
    for until in [*places.bounds[:-1], 0]:
        is_last = False
        while not is_last:
            page = asked.run(BrowsePlaces(JOBS, name, after, until, 7))
            rows = [Row(*row) for row in msgpack.unpackb(page.rows, raw=True)]
            assert len(rows) == page.count <= 7
            seen += [row.id for row in rows]
            after, is_last = page.place or after, page.is_last
    leased = asked.run(BrowsePlaces(JOBS, name, 0, 0, 100, [State.LEASED]))

    assert (places.messages, places.shards) == (49, 1)
    assert len(places.bounds) <= 4
    assert seen == ids[1:]
    assert (taken.message_id, leased.count) == (ids[0], 1)


def test_the_record_is_read_from_its_first_row_on(asked: Broker, name: bytes) -> None:
    [id] = asked.run(Add(JOBS, name, [b"a"], TERMS))
    asked.run(Take(JOBS, [name]))

    kinds = []
    for record in asked.run(FindRecords()):
        at = record.first
        while at < record.next:
            entries = asked.run(ReadRecord(record.shard, at, 100))
            assert entries
            for packed in entries:
                entry = Entry(*msgpack.unpackb(packed, raw=True))
                ids = msgpack.unpackb(entry.ids, raw=True)
                assert entry.number <= at or entry.number == at
                at = entry.number + len(ids)
                kinds += [entry.kind for each in ids if each == id]
        assert asked.run(ReadRecord(record.shard, at + 1_000_000, 1)) == []

    assert kinds == [Kind.ADDED, Kind.DELIVERED]


def test_a_claim_outlives_its_broker(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker, Broker(url_of(broker), retries=20) as client:
        client.run(Add(JOBS, b"q", [b"a", b"b"], TERMS))
        epoch = opened(client, b"q")
        client.run(FillClaim(b"q", S, epoch, 1, 9, seals=True))
        before = client.run(ReadClaim(b"q", S, 1, 0, 9))
        broker.kill()
        back = threading.Thread(target=lambda: broker.restart())
        back.start()

        after = client.run(ReadClaim(b"q", S, 1, 0, 9))
        back.join()

        assert after == before
        assert client.run(SettleClaims(b"q", S, epoch, 1)) == 2


@pytest.mark.parametrize("kind", stores.SHARED)
def test_a_claim_goes_on_at_another_broker(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = stores.store_flags(request, kind)
    with (
        start_broker(tmp_path / "one", *store) as one,
        start_broker(tmp_path / "two", *store) as two,
        Broker(url_of(one, two)) as client,
    ):
        client.run(Add(JOBS, b"q", [b"a", b"b"], TERMS))
        epoch = opened(client, b"q")
        client.run(FillClaim(b"q", S, epoch, 1, 1))
        one.kill()

        claim = client.run(FillClaim(b"q", S, epoch, 1, 9, seals=True))

        assert claim is not None
        assert claim.messages == 2
        assert bodies_of(client, b"q", 1) == [b"a", b"b"]
        assert client.run(SettleClaims(b"q", S, epoch, 1)) == 2
