"""Claims on Redis: what is special there. Brokers share them and die in the middle, slots move, and
queues are spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing

import pytest

from quinque.errors import BadArgument, NoSubscription, Superseded, WrongType
from quinque.model.claim_ops import (
    ClaimState,
    DropClaims,
    FillClaim,
    FindClaims,
    MarkClaim,
    Outcome,
    PlayClaim,
    ReleaseClaims,
    RenewClaims,
    SettleClaims,
)
from quinque.model.families import EVENTS, JOBS
from quinque.model.limits import CLAIM_KEPT_MS
from quinque.model.ops import Op, Put
from quinque.model.rows import CHUNK_ROWS_MOST
from quinque.model.work_ops import Configure, FindKey, PurgeAll
from quinque.stores.clock import ManualClock
from quinque.stores.redis.keys import slot_of, slot_of_id
from quinque.stores.redis.spread import slot_of_partition
from quinque.stores.redis.store import RedisStore
from tests.conformance.words import tick
from tests.conformance.work_words import add, add_one, bodies, browse, counts, look, show
from tests.redis.claim_words import (
    MANY,
    S,
    begin,
    fill,
    fill_up,
    look_at,
    numbered,
    read,
    subscribe,
)
from tests.servers.redis_cluster import RedisCluster

MINUTE_MS = 60_000


# -- two brokers -----------------------------------------------------------------------------------


def test_who_opens_last_reads_and_nobody_else(store: RedisStore, other: RedisStore) -> None:
    add(store, b"1", b"2", b"3")
    first = subscribe(store)
    fill(store, first, 1, 2)

    second = subscribe(other)
    assert second.epoch > first.epoch
    assert [claim.state for claim in second.claims] == [ClaimState.SEALED]
    for op in (
        FillClaim(b"w", S, first.epoch, 2, 1),
        SettleClaims(b"w", S, first.epoch, 1),
        ReleaseClaims(b"w", S, first.epoch, 1),
        RenewClaims(b"w", S, first.epoch),
        PlayClaim(b"w", S, first.epoch, 1),
    ):
        with pytest.raises(Superseded, match=f"another reader opened it as epoch {second.epoch}"):
            store.run(op)
    assert [row.body for row in read(other, 1)] == [b"1", b"2"]
    assert other.run(SettleClaims(b"w", S, second.epoch, 1)) == 2


def test_an_epoch_does_not_come_again_after_a_drop(store: RedisStore) -> None:
    first = subscribe(store)
    store.run(DropClaims(b"w", S))

    assert subscribe(store).epoch > first.epoch
    with pytest.raises(Superseded):
        store.run(RenewClaims(b"w", S, first.epoch))


def test_a_stalled_claim_is_forfeited_by_whichever_broker_ticks(
    store: RedisStore, other: RedisStore, clock: ManualClock
) -> None:
    add(store, *numbered(MANY))
    view = subscribe(store, release_ms=MINUTE_MS)
    fill_up(store, view, 1)
    clock.advance(MINUTE_MS - 1)
    assert look_at(other).is_stalled
    tick(other)
    assert counts(other) == (0, 0, 0, 0)

    clock.advance(1)
    assert other.next_due_ms() <= other.now_ms()
    other.ready.clear()
    tick(other)

    assert counts(other) == (MANY, 0, 0, 0)
    assert b"w" in other.ready
    seen = look_at(store)
    assert [claim.state for claim in seen.claims] == [ClaimState.FORFEITED]
    assert (seen.settled, seen.is_stalled) == (1, False)


def test_a_claim_that_is_renewed_is_not_forfeited(
    store: RedisStore, other: RedisStore, clock: ManualClock
) -> None:
    add(store, b"1")
    view = subscribe(store, release_ms=MINUTE_MS)
    fill(store, view, 1)

    for _ in range(3):
        clock.advance(MINUTE_MS - 1)
        assert store.run(RenewClaims(b"w", S, view.epoch)) == 1
        tick(other)
    assert [row.body for row in read(other, 1)] == [b"1"]


def test_without_a_time_to_release_nothing_is_forfeited(
    store: RedisStore, clock: ManualClock
) -> None:
    add(store, b"1", ttl_ms=1_000)
    fill(store, subscribe(store), 1)

    clock.advance(100 * MINUTE_MS)
    tick(store)
    assert look_at(store).is_stalled
    assert [row.body for row in read(store, 1)] == [b"1"]


# -- a broker that is gone in the middle -----------------------------------------------------------


def test_a_claim_that_was_half_filled_is_filled_on_by_another(
    store: RedisStore, other: RedisStore
) -> None:
    ids = add(store, *numbered(MANY))
    view = subscribe(store)
    begin(store, FillClaim(b"w", S, view.epoch, 1, MANY, seals=True))

    seen = look_at(other)
    assert [(claim.state, claim.messages) for claim in seen.claims] == [
        (ClaimState.FILLING, CHUNK_ROWS_MOST)
    ]
    again = subscribe(other)
    assert fill(other, again, 1, MANY).messages == MANY
    assert [row.id for row in read(other, 1)] == ids


@pytest.mark.parametrize("kind", [SettleClaims, ReleaseClaims])
def test_what_a_broker_began_to_close_a_tick_of_another_finishes(
    store: RedisStore, other: RedisStore, clock: ManualClock, kind: Callable[..., Op]
) -> None:
    ids = add(store, *numbered(MANY))
    view = subscribe(store)
    fill_up(store, view, 1)
    store.run(MarkClaim(b"w", S, 1, Outcome.NACK, ids[::10]))
    begin(store, kind(b"w", S, view.epoch, 1))
    left = look(other).ready
    assert 0 < left < MANY // 10 or kind is ReleaseClaims

    clock.advance(1_000)
    other.run(FindClaims())
    tick(other)

    back = len(ids[::10]) if kind is SettleClaims else MANY
    assert counts(other) == (back, 0, 0, 0)
    assert look_at(other).settled == 1
    found = [body for some in iter(lambda: bodies(other, 1_000), []) for body in some]
    assert sorted(Counter(found).values()) == [1] * back


def test_closing_ends_though_another_family_has_the_name_by_then(
    store: RedisStore, clock: ManualClock
) -> None:
    keyed = 2 * CHUNK_ROWS_MOST
    ids = [add_one(store, key=b"%d" % number, ttl_ms=MINUTE_MS) for number in range(keyed)]
    view = subscribe(store)
    fill_up(store, view, 1, keyed)
    store.run(MarkClaim(b"w", S, 1, Outcome.NACK, ids[:1]))
    clock.advance(2 * MINUTE_MS)

    settle = SettleClaims(b"w", S, view.epoch, 1)
    begin(store, settle)
    begin(store, settle)  # all messages are dealt with, and some keys are left
    assert counts(store) == (0, 0, 0, 0)
    store.run(Put(EVENTS, b"w", [b"event"]))
    for _ in range(2):
        begin(store, settle)

    # Nothing is left to do until the claim has been kept long enough.
    assert store.next_due_ms() == store.now_ms() + CLAIM_KEPT_MS


def test_closing_goes_on_when_it_is_asked_for_again(store: RedisStore, other: RedisStore) -> None:
    add(store, *numbered(MANY))
    view = subscribe(store)
    fill_up(store, view, 1)
    begin(store, ReleaseClaims(b"w", S, view.epoch, 1))

    epoch = subscribe(other).epoch
    other.run(ReleaseClaims(b"w", S, epoch, 1))
    assert counts(other) == (MANY, 0, 0, 0)


# -- what else happens to the queue ----------------------------------------------------------------


def test_keys_of_claimed_messages_stay_taken_when_all_is_purged(store: RedisStore) -> None:
    kept = add_one(store, b"1", key=b"k")
    view = subscribe(store)
    fill(store, view, 1)
    add(store, b"2", key=b"l")

    assert store.run(PurgeAll(JOBS)) == 1
    assert add_one(store, b"3", key=b"k") == kept
    assert store.run(FindKey(JOBS, b"w", b"l")) is None
    with pytest.raises(WrongType):
        store.run(Put(EVENTS, b"w", [b"4"]))
    assert store.run(ReleaseClaims(b"w", S, view.epoch, 1)) == 1
    assert show(store, kept).key == b"k"


def test_a_worklist_of_which_all_is_claimed_stays(store: RedisStore, clock: ManualClock) -> None:
    id = add_one(store, b"1", key=b"k")
    view = subscribe(store)
    fill(store, view, 1)

    clock.advance(60 * MINUTE_MS)
    tick(store)
    with pytest.raises(WrongType):
        store.run(Put(EVENTS, b"w", [b"2"]))
    assert add_one(store, b"2", key=b"k") == id
    store.run(SettleClaims(b"w", S, view.epoch, 1))
    assert add_one(store, b"2", key=b"k") != id


# -- queues that are spread ------------------------------------------------------------------------


def test_each_partition_is_a_shard(redis_cluster_url: str, clock: ManualClock) -> None:
    with closing(RedisStore(redis_cluster_url, clock=clock)) as store:
        store.run(Configure(JOBS, b"w", partitions=4))
        ids = [add_one(store, b"%d" % number) for number in range(12)]

        found: list[bytes] = []
        for shard in range(4):
            view = subscribe(store, shard=shard)
            assert (view.shard, view.shards, view.backlog) == (shard, 4, 3)
            claim = store.run(FillClaim(b"w", S, view.epoch, 1, 9, seals=True, shard=shard))
            assert claim is not None
            assert claim.messages == 3
            rows = read(store, 1, shard=shard)
            assert {slot_of_id(row.id) for row in rows} == {slot_of_partition(b"w", shard)}
            found += [row.id for row in rows]
        assert sorted(found) == sorted(ids)
        assert [(it.queue, it.shard) for it in store.run(FindClaims())] == [
            (b"w", shard) for shard in range(4)
        ]
        for shard in range(4):
            epoch = look_at(store, shard=shard).epoch
            assert store.run(SettleClaims(b"w", S, epoch, 1, shard)) == 3
        with pytest.raises(BadArgument, match="no shard 4: the number of shards is 4"):
            subscribe(store, shard=4)
        with pytest.raises(NoSubscription):
            store.run(RenewClaims(b"v", S, 1))


# -- slots that move -------------------------------------------------------------------------------


def test_a_slot_moves_with_its_claims(redis_cluster: RedisCluster, clock: ManualClock) -> None:
    redis_cluster.flush()
    slot = slot_of(b"w")
    source = redis_cluster.primary_of(slot)
    target = next(node for node in redis_cluster.primaries if node is not source)
    with closing(RedisStore(redis_cluster.url, clock=clock)) as store:
        ids = add(store, *numbered(MANY))
        view = subscribe(store)
        fill_up(store, view, 1, count=1_500)
        store.run(FillClaim(b"w", S, view.epoch, 2, 500))
        redis_cluster.move_slot(slot, target)
        try:
            assert [row.id for row in read(store, 1)] == ids[:1_500]
            assert fill(store, view, 2, MANY).messages == MANY - 1_500
            assert store.run(SettleClaims(b"w", S, view.epoch, 1)) == 1_500
            assert store.run(ReleaseClaims(b"w", S, view.epoch, 2)) == MANY - 1_500
            assert browse(store, 1) == [b"1500"]
        finally:
            redis_cluster.flush()
            redis_cluster.move_slot(slot, source)
