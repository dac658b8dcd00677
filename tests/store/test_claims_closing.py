"""A claim of many messages is closed a little at a time, and a restart goes on with that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from quinque.engine.claims import returning
from quinque.engine.feed.feed import Feed
from quinque.engine.work.worklist import Worklist
from quinque.errors import BadArgument, CopyRefused, NoClaim, WrongType
from quinque.model.claim_ops import (
    ClaimState,
    DropClaims,
    FillClaim,
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
)
from quinque.model.families import EVENTS, JOBS, Family
from quinque.model.limits import CLAIM_KEPT_MS
from quinque.model.ops import Op, Put, Reserve
from quinque.model.rows import CHUNK_ROWS_MOST
from quinque.model.work_ops import Add, AwaitEnd, Terms
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from quinque.stores.embedded.copy_out import open_folder
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.pending import Pending
from tests.conformance.claim_words import whole
from tests.servers.steps import lines_run
from tests.store.crash_walk import compact_always
from tests.store.picture import check_indexes, picture_of, picture_of_claims
from tests.store.random_claims import ManyChunksWorker
from tests.store.record_model import check_record

MANY = 4_500
FILLED_MOST = 5_000
# About 500 messages, and a chunk is not divided.
STEP_MOST = returning.CLOSE_MOST + CHUNK_ROWS_MOST
# To put one message back takes about 20 lines.
LINES_MOST = 60 * STEP_MOST
TERMS = Terms(86_400_000, 0, 60_000)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=[JOBS, EVENTS], ids=["jobs", "events"])
def family(request: pytest.FixtureRequest) -> Family:
    family: Family = request.param
    return family


@pytest.fixture
def store(folder: Path, clock: ManualClock) -> Iterator[EmbeddedStore]:
    opened = EmbeddedStore(folder / "data", clock=clock, fsync="no", segment_bytes=100_000)
    yield opened
    opened.close()


def claim(store: Store, family: Family, count: int, number: int = 1, release_ms: int = 0) -> int:
    """A sealed claim of new messages, in chunks of 250; the epoch."""
    view = store.run(LookAtClaims(b"q", b"s"))
    if view is None:
        group = b"" if family is JOBS else b"g"
        view = store.run(OpenClaims(family, b"q", b"s", group, 60_000, release_ms))
    bodies = [b"%d" % number for number in range(count)]
    if family is JOBS:
        store.run(Add(JOBS, b"q", bodies, TERMS))
    else:
        store.run(Put(EVENTS, b"q", bodies))
    for _ in range(0, count, 250):
        store.run(FillClaim(b"q", b"s", view.epoch, number, 250))
        store.commit()
    store.run(FillClaim(b"q", b"s", view.epoch, number, 0, seals=True))
    store.commit()
    return view.epoch


def claimed(store: EmbeddedStore) -> int:
    """How many messages of the queue are in claims, as the queue knows it."""
    queue = store.queues.get(b"q")
    if isinstance(queue, Worklist):
        return queue.claimed
    return len(queue.groups[b"g"].held) if isinstance(queue, Feed) and queue.groups else 0


def step_by_step(store: EmbeddedStore, first: Callable[[], Any]) -> tuple[Any, list[int]]:
    """What the step answers when ticks have done the rest, and how many messages of each step were
    claimed before it, and not after it. No step runs too many lines."""
    given: list[Any] = []
    counts: list[int] = []

    def step(work: Callable[[], Any]) -> None:
        before = claimed(store)
        assert lines_run(lambda: given.append(work())) < LINES_MOST
        counts.append(before - claimed(store))
        store.commit()
        check_indexes(store)

    step(first)
    while store.next_due_ms() <= store.now_ms():
        step(store.tick)
    answer = given[0]
    return (answer.value() if isinstance(answer, Pending) else answer), counts


def look_of(store: EmbeddedStore) -> object:
    return picture_of(store), picture_of_claims(store)


def states(store: EmbeddedStore) -> list[ClaimState]:
    view = store.run(LookAtClaims(b"q", b"s"))
    assert view is not None
    return [it.state for it in view.claims]


def taken(store: EmbeddedStore, number: int) -> list[bytes]:
    """The bodies of all that a new claim gets, in order."""
    view = store.run(LookAtClaims(b"q", b"s"))
    assert view is not None
    store.run(FillClaim(b"q", b"s", view.epoch, number, FILLED_MOST, seals=True))
    return rows_of(store, number)


def rows_of(store: EmbeddedStore, number: int) -> list[bytes]:
    packed: list[bytes] = []
    while some := store.run(ReadClaim(b"q", b"s", number, len(packed), 99)):
        packed += some
    return [row[1] for chunk in packed for row in msgpack.unpackb(chunk)]


# -- each step is bounded ---------------------------------------------------------------------


def test_a_step_looks_only_at_the_marks_of_the_messages_it_closes(
    folder: Path, clock: ManualClock, family: Family
) -> None:
    lines: list[int] = []
    for count in (1_000, 8_000):
        store = EmbeddedStore(folder / f"{count}", clock=clock, fsync="no")
        epoch = claim(store, family, count)
        chunks = store.subscriptions.all()[0].claims[1].in_order()
        for chunk in chunks:
            store.run(MarkClaim(b"q", b"s", 1, Outcome.NACK, msgpack.unpackb(chunk.ids)))
        store.run(SettleClaims(b"q", b"s", epoch, 1))
        store.commit()
        lines.append(lines_run(store.tick))
        store.close()

    assert lines[1] < lines[0] + 1_000


@pytest.mark.parametrize("how", ["release", "settle", "drop", "shrink", "forfeit", "settle marked"])
def test_no_step_closes_more_than_a_few_chunks(
    store: EmbeddedStore, clock: ManualClock, family: Family, how: str
) -> None:
    epoch = claim(store, family, MANY, release_ms=90_000)
    op: dict[str, Op] = {
        "release": ReleaseClaims(b"q", b"s", epoch, 1),
        "settle": SettleClaims(b"q", b"s", epoch, 1),
        "drop": DropClaims(b"q", b"s"),
        "shrink": PlayClaim(b"q", b"s", epoch, 1, 10),
    }
    if how == "settle marked":
        packed = store.run(ReadClaim(b"q", b"s", 1, 0, 99))
        ids = [row[0] for chunk in packed for row in msgpack.unpackb(chunk)]
        store.run(MarkClaim(b"q", b"s", 1, Outcome.NACK, ids))
        op[how] = op["settle"]
    first = store.tick if how == "forfeit" else lambda: store.run(op[how])
    clock.advance(90_000 if how == "forfeit" else 0)

    answer, counts = step_by_step(store, first)

    left = 10 if how == "shrink" else 0
    assert sum(counts) == MANY - left
    assert claimed(store) == left
    if how == "settle" and family is JOBS:
        assert len(counts) == 1, "it names nobody"
    else:
        assert max(counts) <= STEP_MOST
        assert len(counts) >= MANY // STEP_MOST
    expected: dict[str, object] = {"forfeit": None, "settle marked": 0}
    if how == "shrink":
        assert (answer.messages, answer.plays) == (10, 1)
    else:
        assert answer == expected.get(how, MANY)


def test_keys_of_a_settled_claim_are_freed_a_little_at_a_time(store: EmbeddedStore) -> None:
    view = store.run(OpenClaims(JOBS, b"q", b"s", b"", 60_000))
    for number in range(MANY):
        store.run(Add(JOBS, b"q", [b"x"], TERMS, b"k%d" % number))
    store.run(FillClaim(b"q", b"s", view.epoch, 1, MANY, seals=True))
    store.commit()

    answer, counts = step_by_step(store, lambda: store.run(SettleClaims(b"q", b"s", view.epoch, 1)))

    assert (answer, sum(counts)) == (MANY, MANY)
    assert len(counts) > 1
    assert len(rows_of(store, 1)) == MANY, "the last settled claim can be read"


def test_events_for_one_group_are_removed_in_step_with_what_that_costs(
    store: EmbeddedStore,
) -> None:
    view = store.run(OpenClaims(EVENTS, b"q", b"s", b"g", 60_000))
    store.run(Put(EVENTS, b"q", [b"passed"]))
    for number in range(200):
        store.run(Reserve(EVENTS, b"q", b"%d" % number, 60_000))
    store.run(Put(EVENTS, b"q", [b"x"] * 899, is_single=True))
    store.run(FillClaim(b"q", b"s", view.epoch, 1, 900, seals=True))
    store.commit()

    answer, counts = step_by_step(store, lambda: store.run(SettleClaims(b"q", b"s", view.epoch, 1)))

    assert (answer, sum(counts)) == (900, 900)
    assert max(counts) <= 50


# -- in the middle of it ----------------------------------------------------------------------


@pytest.mark.parametrize("op", [ReleaseClaims, SettleClaims])
def test_claims_are_closed_at_once_and_their_messages_follow(
    store: EmbeddedStore, clock: ManualClock, family: Family, op: Any
) -> None:
    epoch = claim(store, family, MANY)
    if op is SettleClaims and family is JOBS:
        store.run(MarkClaim(b"q", b"s", 1, Outcome.NACK, _ids(store)))
    state = ClaimState.SETTLED if op is SettleClaims else ClaimState.FORFEITED
    other, group = (EVENTS, b"g") if family is JOBS else (JOBS, b"")

    assert not store.is_awaited()
    answer: Any = store.run(op(b"q", b"s", epoch, 1))

    assert isinstance(answer, Pending)
    assert store.is_awaited(), "the ticks hurry"
    assert states(store) == [state]
    assert store.run(LookAtClaims(b"q", b"s")).settled == 1
    assert 0 < claimed(store) < MANY
    assert store.run(RenewClaims(b"q", b"s", epoch)) == 0
    assert store.run(PurgeClaims(b"q", b"s", 1)) == 0, "it is not done"
    with pytest.raises(NoClaim):
        store.run(MarkClaim(b"q", b"s", 1, Outcome.NACK, _ids(store)))
    if state is ClaimState.FORFEITED:
        with pytest.raises(NoClaim):
            store.run(ReadClaim(b"q", b"s", 1, 0, 1))
    else:
        assert len(rows_of(store, 1)) == MANY
    with pytest.raises(WrongType):
        store.run(OpenClaims(other, b"q", b"s", group, 60_000))
    if family is EVENTS:
        with pytest.raises(BadArgument):
            store.run(OpenClaims(EVENTS, b"q", b"s", b"another", 60_000))
    again: Any = store.run(op(b"q", b"s", epoch, 1))
    assert not again.is_settled, "somebody else asked for it, and it is not done"
    clock.advance(CLAIM_KEPT_MS)

    finished: Any = whole(store, answer)
    assert finished == (0 if op is SettleClaims and family is JOBS else MANY)
    assert whole(store, again) == 0
    assert not store.is_awaited()


def _ids(store: EmbeddedStore) -> list[bytes]:
    try:
        packed = store.run(ReadClaim(b"q", b"s", 1, 0, 99))
    except NoClaim:
        return [b"x"]
    return [row[0] for chunk in packed for row in msgpack.unpackb(chunk)]


def test_a_claim_that_is_begun_meanwhile_keeps_what_it_got(
    store: EmbeddedStore, family: Family
) -> None:
    epoch = claim(store, family, MANY)
    answer = store.run(ReleaseClaims(b"q", b"s", epoch, 1))
    store.run(FillClaim(b"q", b"s", epoch, 2, 300, seals=True))
    store.tick()
    store.run(FillClaim(b"q", b"s", epoch, 3, 300, seals=True))

    assert whole(store, answer) == MANY

    check_indexes(store)
    assert rows_of(store, 2) == [b"%d" % number for number in range(300)]
    assert rows_of(store, 3) == [b"%d" % number for number in range(300, 600)]
    assert claimed(store) == 600
    assert store.run(SettleClaims(b"q", b"s", epoch, 3)) == 600
    rest = [b"%d" % number for number in range(600, MANY)]
    assert taken(store, 4) == rest


def test_claims_that_are_closed_one_after_the_other_count_their_own_messages(
    store: EmbeddedStore, family: Family
) -> None:
    epoch = claim(store, family, 2_000)
    claim(store, family, 1_500, 2)
    claim(store, family, 1_000, 3)

    first = store.run(ReleaseClaims(b"q", b"s", epoch, 1))
    second = store.run(ReleaseClaims(b"q", b"s", epoch, 2))
    third = store.run(SettleClaims(b"q", b"s", epoch, 3))

    assert (whole(store, first), second.is_settled) == (2_000, False)
    assert (whole(store, second), whole(store, third)) == (1_500, 1_000)
    assert claimed(store) == 0
    check_indexes(store)


def test_a_subscription_that_is_dropped_releases_what_was_claimed_meanwhile(
    store: EmbeddedStore, family: Family
) -> None:
    epoch = claim(store, family, MANY)
    answer = store.run(DropClaims(b"q", b"s"))
    assert not answer.is_settled
    assert store.run(LookAtClaims(b"q", b"s")) is not None, "it is not gone yet"
    store.run(FillClaim(b"q", b"s", epoch, 2, 300))
    released = store.run(ReleaseClaims(b"q", b"s", epoch, 1))

    assert whole(store, answer) == MANY + 300

    assert whole(store, released) == 0
    assert store.run(LookAtClaims(b"q", b"s")) is None
    assert claimed(store) == 0
    check_indexes(store)


def test_a_claim_that_shrinks_and_is_released_meanwhile_is_not_there_to_be_read(
    store: EmbeddedStore, family: Family
) -> None:
    epoch = claim(store, family, MANY)
    shrinks = store.run(PlayClaim(b"q", b"s", epoch, 1, 10))
    assert not shrinks.is_settled

    assert whole(store, store.run(ReleaseClaims(b"q", b"s", epoch, 1))) + STEP_MOST >= MANY

    with pytest.raises(NoClaim):
        whole(store, shrinks)
    assert claimed(store) == 0
    check_indexes(store)


def test_a_client_that_waits_for_its_claims_does_not_lose_others_by_that(
    store: EmbeddedStore, clock: ManualClock
) -> None:
    epoch = claim(store, JOBS, MANY, release_ms=60_000)
    claim(store, JOBS, 10, 2)
    answer = store.run(ReleaseClaims(b"q", b"s", epoch, 1))

    for _ in range(3):
        clock.advance(50_000)
        store.tick()

    whole(store, answer)
    assert states(store) == [ClaimState.FORFEITED, ClaimState.SEALED]


def test_whoever_waits_for_the_end_of_a_job_is_told_when_it_is_true(
    store: EmbeddedStore,
) -> None:
    epoch = claim(store, JOBS, MANY)
    id = _ids(store)[-1]
    store.watched = [id]

    answer = store.run(SettleClaims(b"q", b"s", epoch, 1))
    assert not answer.is_settled
    assert id not in store.ready
    assert store.run(AwaitEnd(JOBS, [id])) is None
    whole(store, answer)

    assert id in store.ready
    assert store.run(AwaitEnd(JOBS, [id])) is not None


# -- restarts, compaction, copies -------------------------------------------------------------


@pytest.mark.parametrize("op", ["release", "settle", "drop", "shrink"])
def test_a_restart_goes_on_with_what_was_begun(
    folder: Path, clock: ManualClock, family: Family, op: str
) -> None:
    store = EmbeddedStore(folder / "data", clock=clock, segment_bytes=50_000)
    epoch = claim(store, family, MANY)
    if op == "settle":
        store.run(MarkClaim(b"q", b"s", 1, Outcome.NACK, _ids(store)[::2]))
    asked: dict[str, Op] = {
        "release": ReleaseClaims(b"q", b"s", epoch, 1),
        "settle": SettleClaims(b"q", b"s", epoch, 1),
        "drop": DropClaims(b"q", b"s"),
        "shrink": PlayClaim(b"q", b"s", epoch, 1, 10),
    }
    assert isinstance(store.run(asked[op]), Pending)

    for _ in range(20):
        store.commit()
        compact_always(store)
        seen = look_of(store)
        store.close()
        store = EmbeddedStore(folder / "data", clock=clock, segment_bytes=50_000)
        assert look_of(store) == seen
        check_indexes(store)
        if store.next_due_ms() > store.now_ms():
            break
        store.tick()
    else:
        raise AssertionError("there is no end to it")

    if op == "shrink":  # whoever asked for it was not answered, and asks again
        assert claimed(store) > 10
        view = whole(store, store.run(asked[op]))
        assert (view.messages, view.plays) == (10, 2)
    elif op == "drop":
        assert (states(store), claimed(store)) == ([ClaimState.FORFEITED], 0)
        assert store.run(asked[op]) == 0
    else:
        state = ClaimState.SETTLED if op == "settle" else ClaimState.FORFEITED
        assert (states(store), claimed(store)) == ([state], 0)
        back = taken(store, 2)
        expected = [b"%d" % number for number in range(MANY)]
        assert back == (expected[::2] if op == "settle" else expected)
    store.close()


def test_a_copy_is_refused_while_claims_are_being_closed(
    folder: Path, clock: ManualClock, family: Family
) -> None:
    store = EmbeddedStore(folder / "data", clock=clock)
    epoch = claim(store, family, MANY)
    answer = store.run(ReleaseClaims(b"q", b"s", epoch, 1))
    store.close()

    with pytest.raises(CopyRefused, match="being closed"):
        open_folder(folder / "data")

    assert not answer.is_settled
    store = EmbeddedStore(folder / "data", clock=clock)
    while store.next_due_ms() <= store.now_ms():
        store.tick()
        store.commit()
    store.close()
    open_folder(folder / "data").close()


@pytest.mark.usefixtures("one_chunk_in_a_step")
@pytest.mark.parametrize("seed", range(2))
def test_each_change_is_on_record_once(folder: Path, clock: ManualClock, seed: int) -> None:
    store = EmbeddedStore(folder / "data", clock=clock, fsync="no", segment_bytes=2048)
    worker = ManyChunksWorker(store, clock, seed)
    closing = 0
    for turn in range(100):
        worker.turn()
        closing += any(it.is_closing() for it in store.subscriptions.all())
        if turn % 5 == 0:
            check_indexes(store)
            check_record(store)
    store.close()

    assert closing > 10
    store = EmbeddedStore(folder / "data", clock=clock, fsync="no", segment_bytes=2048)
    check_record(store)
    store.close()
