"""Claims on Redis in many chunks, each of which a script of its own deals with."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import msgpack
import pytest

from quinque.model.claim_ops import (
    ClaimState,
    DropClaims,
    FillClaim,
    MarkClaim,
    Outcome,
    PlayClaim,
    ReadClaim,
    SettleClaims,
)
from quinque.model.families import EVENTS, JOBS
from quinque.model.lifecycle import Kind
from quinque.model.limits import CLAIM_KEPT_MS, FILL_MOST, FILL_MOST_BYTES
from quinque.model.ops import Put, Release, Reserve
from quinque.model.rows import CHUNK_BYTES_MOST, CHUNK_ROWS_MOST
from quinque.model.states import State
from quinque.model.work_ops import Browse
from quinque.stores.clock import ManualClock
from quinque.stores.redis.keys import slot_of, slot_of_key
from quinque.stores.redis.store import RedisStore
from tests.conformance.record_words import rows
from tests.conformance.words import counts as feed_counts
from tests.conformance.words import tick
from tests.conformance.work_words import add, counts, show
from tests.redis.claim_words import (
    MANY,
    S,
    fill,
    fill_up,
    look_at,
    numbered,
    read,
    subscribe,
)
from tests.redis.script_work import measured
from tests.servers.redis_server import RedisServer

MINUTE_MS = 60_000
ONE_BY_ONE = 2_100  # acks of them were too much for one item of the record


# -- chunks ----------------------------------------------------------------------------------------


def test_chunks_are_as_large_as_they_may_be(store: RedisStore) -> None:
    add(store, *numbered(MANY))
    view = subscribe(store)
    claim = fill_up(store, view, 1)

    packed = store.run(ReadClaim(b"w", S, 1, 0, 99))
    sizes = [len(msgpack.unpackb(chunk, raw=True)) for chunk in packed]
    assert sizes == [CHUNK_ROWS_MOST, CHUNK_ROWS_MOST, MANY - 2 * CHUNK_ROWS_MOST]
    assert claim.chunks == 3


def test_a_claim_that_was_filled_one_by_one_is_settled_in_short_steps_and_all_on_record(
    redis_server: RedisServer, clock: ManualClock
) -> None:
    redis_server.flush()
    with closing(RedisStore(redis_server.url, clock=clock)) as store:
        store.run(Put(EVENTS, b"q", numbered(ONE_BY_ONE), is_single=True))
        view = subscribe(store, EVENTS, b"q", group=b"g")
        for _ in range(ONE_BY_ONE):
            store.run(FillClaim(b"q", S, view.epoch, 1, 1))
        assert fill(store, view, 1, 0, b"q").chunks == ONE_BY_ONE

        with measured(redis_server) as works:
            assert store.run(SettleClaims(b"q", S, view.epoch, 1)) == ONE_BY_ONE
            assert max(works()).amount < 20_000

        acked = Counter(row.seen.id for row in rows(store, 9_000) if row.seen.kind is Kind.ACKED)
        assert len(acked) == ONE_BY_ONE
        assert set(acked.values()) == {2}  # for the group, and for everyone


def test_a_chunk_of_large_bodies_has_fewer_rows(store: RedisStore) -> None:
    size_bytes = 300_000
    add(store, *(b"%d" % number * size_bytes for number in range(8)))
    view = subscribe(store)
    claim = fill(store, view, 1, 8)

    packed = store.run(ReadClaim(b"w", S, 1, 0, 99))
    assert claim.body_bytes == 8 * size_bytes
    assert all(len(chunk) <= CHUNK_BYTES_MOST for chunk in packed)
    assert [len(msgpack.unpackb(chunk, raw=True)) for chunk in packed] == [3, 3, 2]


def test_one_fill_takes_so_much_and_no_more(store: RedisStore) -> None:
    size_bytes = 900_000
    count = FILL_MOST_BYTES // size_bytes + 3
    for number in range(count):
        add(store, b"%d" % number * size_bytes)
    add(store, *numbered(FILL_MOST + 1), queue=b"v")

    view = subscribe(store)
    claim = fill(store, view, 1, count)
    assert claim.state is ClaimState.SEALED
    assert 0 < claim.messages < count
    assert claim.body_bytes <= FILL_MOST_BYTES + size_bytes
    view = subscribe(store, queue=b"v")
    assert fill(store, view, 1, 9 * FILL_MOST, queue=b"v").messages == FILL_MOST


def test_what_is_read_at_once_has_a_limit_too(store: RedisStore) -> None:
    for number in range(8):
        add(store, b"%d" % number * 1_000_000)
    view = subscribe(store)
    while (store.run(FillClaim(b"w", S, view.epoch, 1, 1)) or view).messages < 8:  # type: ignore[union-attr]
        pass
    fill(store, view, 1, 0)

    first = store.run(ReadClaim(b"w", S, 1, 0, 99))
    rest = store.run(ReadClaim(b"w", S, 1, len(first), 99))
    assert 0 < len(first) < 8
    assert len(first) + len(rest) == 8


def test_all_of_a_claim_lies_in_the_slot_of_its_queue(
    redis_server: RedisServer, clock: ManualClock
) -> None:
    redis_server.flush()
    with closing(RedisStore(redis_server.url, clock=clock)) as store:
        ids = add(store, b"1", b"2")
        add(store, b"3", key=b"k")
        view = subscribe(store)
        fill(store, view, 1, 9)
        store.run(MarkClaim(b"w", S, 1, Outcome.NACK, ids[:1]))

        keys = [key for key in redis_server.ask("KEYS", "*") if b"claim" in key or b"subs" in key]
        assert len(keys) == 6
        assert {slot_of_key(key) for key in keys} == {slot_of(b"w")}


def test_nothing_is_left_of_a_subscription_that_is_dropped(
    redis_server: RedisServer, clock: ManualClock
) -> None:
    redis_server.flush()
    with closing(RedisStore(redis_server.url, clock=clock)) as store:
        add(store, *numbered(MANY))
        view = subscribe(store)
        fill_up(store, view, 1, count=1_500)
        fill_up(store, view, 2)
        store.run(SettleClaims(b"w", S, view.epoch, 1))

        assert store.run(DropClaims(b"w", S)) == MANY - 1_500
        assert [key for key in redis_server.ask("KEYS", "*") if b"claim" in key] == []
        assert [key for key in redis_server.ask("KEYS", "*") if b"subscription" in key] == []
        assert store.run(DropClaims(b"w", S)) is None


def test_what_is_settled_goes_when_its_time_is_over(store: RedisStore, clock: ManualClock) -> None:
    add(store, b"1")
    view = subscribe(store)
    fill(store, view, 1)
    store.run(SettleClaims(b"w", S, view.epoch, 1))

    clock.advance(CLAIM_KEPT_MS - 1)
    tick(store)
    assert len(read(store, 1)) == 1
    clock.advance(1)
    tick(store)
    assert look_at(store).claims == []
    assert look_at(store).settled == 1
    assert store.next_due_ms() > store.now_ms()


# -- shrinking, and marks over several chunks ------------------------------------------------------


@pytest.mark.parametrize("keep", [1, 999, 1_000, 1_001, 2_400])
def test_a_claim_shrinks_over_several_chunks(store: RedisStore, keep: int) -> None:
    ids = add(store, *numbered(MANY))
    view = subscribe(store)
    fill_up(store, view, 1)

    claim = store.run(PlayClaim(b"w", S, view.epoch, 1, keep))
    assert (claim.messages, claim.plays) == (keep, 1)
    assert [row.id for row in read(store, 1)] == ids[:keep]
    assert counts(store) == (MANY - keep, 0, 0, 0)
    assert show(store, ids[keep]).deliveries == 0
    assert store.run(SettleClaims(b"w", S, view.epoch, 1)) == keep


def test_marks_in_several_chunks_are_found_and_kept_to(store: RedisStore) -> None:
    ids = add(store, *numbered(MANY))
    view = subscribe(store)
    fill_up(store, view, 1)
    nacked, dead = ids[::700], ids[1::700]
    assert store.run(MarkClaim(b"w", S, 1, Outcome.NACK, [*nacked, b"nobody"])) == len(nacked)
    assert store.run(MarkClaim(b"w", S, 1, Outcome.DEAD, dead * 2, reason=b"bad")) == len(dead)
    assert store.run(MarkClaim(b"w", S, 1, Outcome.ACK, nacked[:1])) == 1

    assert store.run(SettleClaims(b"w", S, view.epoch, 1)) == MANY - len(nacked) - len(dead) + 1
    back = store.run(Browse(JOBS, b"w", State.READY, 99))
    assert [view.message_id for view in back] == nacked[1:]
    assert counts(store) == (len(nacked) - 1, 0, 0, len(dead))
    assert show(store, dead[0]).reason == b"bad"


def test_an_id_that_is_a_part_of_another_is_not_taken_for_it(store: RedisStore) -> None:
    for id in (b"aa", b"a", b"b"):
        store.run(Put(EVENTS, b"q", [id], message_id=id))
    view = subscribe(store, EVENTS, b"q", group=b"g")
    fill(store, view, 1, 2, queue=b"q")

    assert store.run(MarkClaim(b"q", S, 1, Outcome.NACK, [b"b"])) == 0
    assert store.run(MarkClaim(b"q", S, 1, Outcome.NACK, [b"a"])) == 1
    assert store.run(SettleClaims(b"q", S, view.epoch, 1)) == 1
    assert feed_counts(store) == (0, 1, 1, 1)


# -- feeds -----------------------------------------------------------------------------------------


def test_a_lease_that_somebody_else_has_by_now_is_left_alone(
    store: RedisStore, clock: ManualClock
) -> None:
    store.run(Put(EVENTS, b"q", [b"1"], ttl_ms=1_000, message_id=b"x"))
    view = subscribe(store, EVENTS, b"q", group=b"g")
    fill(store, view, 1, 1, queue=b"q")
    clock.advance(1_000)
    store.run(Put(EVENTS, b"q", [b"2"], message_id=b"x"))
    store.run(Reserve(EVENTS, b"q", b"g", MINUTE_MS, 1))

    assert [row.body for row in read(store, 1, queue=b"q")] == [b"1"]
    assert store.run(SettleClaims(b"q", S, view.epoch, 1)) == 0
    assert feed_counts(store) == (1, 0, 0, 0)


def test_what_comes_again_and_what_is_new_fill_one_claim(store: RedisStore) -> None:
    ids = store.run(Put(EVENTS, b"q", numbered(10)))
    taken = store.run(Reserve(EVENTS, b"q", b"g", MINUTE_MS, 4))
    store.run(Release(EVENTS, b"q", b"g", [it.message_id for it in taken]))
    view = subscribe(store, EVENTS, b"q", group=b"g")

    assert fill(store, view, 1, 7, queue=b"q").messages == 7
    rows = read(store, 1, queue=b"q")
    assert [row.id for row in rows] == ids[:7]
    assert [row.attempt for row in rows] == [2] * 4 + [1] * 3
    assert feed_counts(store) == (7, 0, 0, 3)


def test_a_feed_is_claimed_and_settled_over_several_chunks(store: RedisStore) -> None:
    store.run(Put(EVENTS, b"q", numbered(MANY)))
    view = subscribe(store, EVENTS, b"q", group=b"g")
    fill_up(store, view, 1, queue=b"q")

    assert feed_counts(store) == (MANY, 0, 0, 0)
    assert store.run(SettleClaims(b"q", S, view.epoch, 1)) == MANY
    assert feed_counts(store) == (0, 0, MANY, 0)
