"""The record of what became of messages, on Redis: every slot has its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quinque.errors import BadArgument
from quinque.model.families import EVENTS, JOBS
from quinque.model.lifecycle import Kind, Reason
from quinque.model.look_ops import FindRecords, ReadRecord
from quinque.model.ops import Ack, Count, Flush, Put, Release, Reserve
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    Configure,
    Finish,
    Hold,
    LookAt,
    Purge,
    Redrive,
    Requeue,
    Take,
    Terms,
)
from quinque.stores.clock import ManualClock
from quinque.stores.keeping import Keeping
from quinque.stores.redis.calls import Call, Steps
from quinque.stores.redis.keys import slot_key, slot_of
from quinque.stores.redis.script_texts import FOLDER
from quinque.stores.redis.store import RedisStore
from tests.conformance import words
from tests.conformance.record_words import rows, rows_of
from tests.conformance.work_words import DAY_MS, MINUTE_MS, add, add_one, finish, take
from tests.model.effort import EFFORT
from tests.model.replay import events_of_feeds, leases_of_feeds, states_of_work
from tests.model.walk import SAME_SLOT
from tests.server.broker import start_broker, wait_until
from tests.servers import stores
from tests.servers.redis_cluster import RedisCluster

BROKERS, ROUNDS = 4, 40
WALKS, STEPS = 6, 250

Open = Callable[..., RedisStore]


@pytest.fixture(params=stores.SHARED)
def url(request: pytest.FixtureRequest) -> str:
    return stores.empty_store_url(request, request.param)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def open_one(url: str, clock: ManualClock) -> Iterator[Open]:
    """Opens a store as one more broker does; all have the same time."""
    with ExitStack() as opened:
        yield lambda **options: opened.enter_context(
            closing(RedisStore(url, clock=clock, **options))
        )


@pytest.fixture
def store(open_one: Open) -> RedisStore:
    return open_one()


def test_a_kind_or_a_reason_is_the_same_number_in_scripts() -> None:
    text = (FOLDER / "lib" / "record.lua").read_text(encoding="utf-8")

    found: dict[str, int] = {}
    for names, numbers in re.findall(r"^local ([A-Z_, ]+) = ([\d, ]+)$", text, re.MULTILINE):
        found.update(zip(names.split(", "), map(int, numbers.split(", ")), strict=True))
    assert found == {it.name: it.value for kind in (Kind, Reason) for it in kind}


# -- many brokers --------------------------------------------------------------------------------


def test_rows_of_many_brokers_at_once_have_numbers_without_a_gap(url: str) -> None:
    def work(number: int) -> None:
        with closing(RedisStore(url, node=f"broker-{number}")) as store:
            for _ in range(ROUNDS):
                add(store, b"1", b"2", b"3")
                words.put(store, b"1", b"2", queue=SAME_SLOT)
                finish(store, *(it.message_id for it in take(store, 2, b"w", b"v")))
                words.take(store, 2, queue=SAME_SLOT, lease_ms=0)

    with ThreadPoolExecutor(BROKERS) as threads:
        for done in [threads.submit(work, number) for number in range(BROKERS)]:
            done.result()

    with closing(RedisStore(url)) as store:
        found = rows(store)  # sees that there is no gap
        kinds = Counter((row.queue, row.seen.kind) for row in found)
        assert kinds[b"w", Kind.ADDED] == 3 * BROKERS * ROUNDS
        assert kinds[b"w", Kind.ACKED] == kinds[b"w", Kind.DELIVERED] == 2 * BROKERS * ROUNDS
        assert kinds[SAME_SLOT, Kind.ADDED] == 2 * BROKERS * ROUNDS
        assert len(set(found)) == len(found)


def test_what_time_brings_about_is_recorded_once_though_every_broker_ticks(
    open_one: Open, clock: ManualClock
) -> None:
    brokers = [open_one() for _ in range(3)]
    for broker in brokers:
        add(broker, b"1", b"2", ttl_ms=2 * MINUTE_MS, retry_ms=1_000)
        words.put(broker, b"1", b"2", ttl_ms=2 * MINUTE_MS)
    for broker in brokers:
        take(broker, 2)
        words.lease(broker, 2, lease_ms=1_000)

    for _ in range(4):
        clock.advance(MINUTE_MS)
        for broker in brokers:
            broker.tick()

    kinds = Counter((row.queue, row.seen.kind) for row in rows(brokers[0]))
    for queue in (b"w", b"q"):
        assert kinds[queue, Kind.RETURNED] == kinds[queue, Kind.DELIVERED] == 6
        assert kinds[queue, Kind.EXPIRED] == kinds[queue, Kind.ADDED] == 6


def test_a_broker_that_does_not_record_leaves_no_hole_in_the_numbers(
    store: RedisStore, open_one: Open
) -> None:
    quiet = open_one(keeping=Keeping(is_on=False))
    id = add_one(store)
    unseen = add_one(quiet, b"22")
    take(quiet, 2)
    finish(store, id, unseen)

    assert [(row.number, row.seen.kind, row.seen.id) for row in rows(store)] == [
        (1, Kind.ADDED, id),
        (2, Kind.ACKED, id),
        (3, Kind.ACKED, unseen),
    ]


# -- where it lies -------------------------------------------------------------------------------


def test_every_slot_has_a_record_of_its_own(store: RedisStore) -> None:
    add(store, b"1", b"2")
    add(store, b"3", queue=b"v")
    words.put(store, b"4", queue=SAME_SLOT)

    records = {record.shard: record for record in store.run(FindRecords())}
    assert records.keys() == {slot_of(b"w"), slot_of(b"v")}
    assert all(record.first == 1 and record.next == 3 for record in records.values())
    assert {record.first_ms for record in records.values()} == {store.now_ms()}


@pytest.mark.parametrize("shard", [-1, 16_384])
def test_there_are_as_many_shards_as_slots(store: RedisStore, shard: int) -> None:
    with pytest.raises(BadArgument, match=f"no shard {shard}"):
        store.run(ReadRecord(shard, 1, 10))


def test_a_spread_queue_has_its_rows_where_its_messages_are(
    redis_cluster_url: str, clock: ManualClock
) -> None:
    with closing(RedisStore(redis_cluster_url, clock=clock)) as store:
        store.run(Configure(JOBS, b"w", partitions=4))
        for number in range(8):
            add(store, b"%d" % number)
        finish(store, *(it.message_id for it in take(store, 8)))

        shares = Counter((row.shard, row.seen.kind) for row in rows(store))
        assert set(shares.values()) == {2}
        assert len(shares) == 4 * 3


def test_a_slot_that_moves_takes_its_record_with_it(
    redis_cluster: RedisCluster, clock: ManualClock
) -> None:
    redis_cluster.flush()
    slot = slot_of(b"w")
    source = redis_cluster.primary_of(slot)
    target = next(node for node in redis_cluster.primaries if node is not source)
    with closing(RedisStore(redis_cluster.url, clock=clock)) as store:
        for _ in range(200):
            add(store, b"1", b"2")
        before = rows(store)
        redis_cluster.move_slot(slot, target)
        try:
            assert rows(store) == before
            id = add_one(store)
            assert [(row.number, row.seen.id) for row in rows(store)[400:]] == [(401, id)]
        finally:
            redis_cluster.flush()
            redis_cluster.move_slot(slot, source)


# -- reading -------------------------------------------------------------------------------------


def test_large_entries_come_a_few_at_a_time(store: RedisStore) -> None:
    bodies = [b"x"] * 5_000
    for _ in range(30):
        add(store, *bodies)
    shard = slot_of(b"w")

    entries = store.run(ReadRecord(shard, 1, 1 << 40))
    assert 1 < len(entries) < 30
    assert sum(map(len, entries)) < 5 << 20
    assert len(rows(store, 1 << 40)) == 150_000


def test_about_as_many_rows_come_as_were_asked_for(store: RedisStore) -> None:
    for _ in range(100):
        add(store, b"1", b"2", b"3")

    found = list(rows_of(0, store.run(ReadRecord(slot_of(b"w"), 50, 30))))
    assert (found[0].number, found[-1].number) == (49, 81)


# -- keeping -------------------------------------------------------------------------------------


def test_what_is_older_than_it_may_be_goes(
    store: RedisStore, open_one: Open, clock: ManualClock
) -> None:
    other = open_one(keeping=Keeping(max_age_ms=10_000))
    for _ in range(250):
        add(store, b"1", b"2")
    clock.advance(5_000)
    late_ms = store.now_ms()
    ids = add(store, b"3", b"4")
    clock.advance(5_001)

    other.trim_record()

    (record,) = store.run(FindRecords())
    assert (record.first, record.next, record.first_ms) == (501, 503, late_ms)
    assert [row.seen.id for row in rows(store)] == ids
    assert [row.number for row in rows_of(0, store.run(ReadRecord(record.shard, 1, 1)))] == [
        501,
        502,
    ]


def test_numbers_go_on_when_all_of_it_was_too_old(
    store: RedisStore, open_one: Open, clock: ManualClock
) -> None:
    other = open_one(keeping=Keeping(max_age_ms=1_000))
    add(store, b"1", b"2")
    clock.advance(1_001)

    other.trim_record()

    (record,) = store.run(FindRecords())
    assert (record.first, record.next, record.first_ms) == (3, 3, 0)
    assert store.run(ReadRecord(record.shard, 1, 10)) == []
    add(store, b"3")
    assert [row.number for row in rows(store)] == [3]


def test_of_too_much_every_slot_gives_up_its_oldest(store: RedisStore, open_one: Open) -> None:
    other = open_one(keeping=Keeping(max_bytes=100_000))
    for _ in range(1_000):
        add(store, b"1")
        add(store, b"1", b"2", b"3", queue=b"v")
    before = {it.shard: it for it in store.run(FindRecords())}

    other.trim_record()

    whole = 0
    for record in store.run(FindRecords()):
        assert before[record.shard].first < record.first < record.next
        assert record.next == before[record.shard].next
        whole += _size_bytes(store, record.shard)
    assert 50_000 < whole < 130_000, "about as much as it may"
    rows(store)  # sees that there is no gap


def test_without_limits_all_of_it_stays(open_one: Open, clock: ManualClock) -> None:
    store = open_one(keeping=Keeping(max_age_ms=0, max_bytes=0))
    add(store, b"1")
    clock.advance(1_000 * DAY_MS)

    store.trim_record()

    assert [row.number for row in rows(store)] == [1]


def test_a_broker_sees_to_it_by_itself(url: str, open_one: Open, tmp_path: Path) -> None:
    store = open_one()
    add(store, b"1", b"2")  # by a clock that is years behind

    with start_broker(tmp_path, "--store", url, "--lifecycle-max-age", "1d"):
        wait_until(lambda: store.run(FindRecords())[0].first == 3, "what is old is gone")


# -- what it tells -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(1, 1 + WALKS * max(1, EFFORT)))
def test_the_record_tells_how_many_messages_are_where(
    seed: int, store: RedisStore, open_one: Open, clock: ManualClock
) -> None:
    walk = Walk([store, open_one()], clock, Random(seed))
    for _ in range(STEPS):
        walk.step()
    words.tick(store)

    found = rows(store)
    work = [row for row in found if row.family == JOBS.code]
    feeds = [row for row in found if row.family == EVENTS.code]
    states = states_of_work(work)
    for name in walk.LISTS:
        view = store.run(LookAt(JOBS, name))
        seen = [0] * 4 if view is None else [view.ready, view.delayed, view.leased, view.dead]
        assert [states.get(name, Counter())[state] for state in State] == seen
    ids, held = events_of_feeds(feeds), leases_of_feeds(feeds)
    for count in store.run(Count(EVENTS, walk.FEEDS)):
        assert len(ids.get(count.queue, ())) == count.total
        for group in count.groups:
            assert held[count.queue, group.group] == group.leased


class Walk:
    """Random work of brokers that take turns."""

    LISTS = (b"v", b"w", b"x")
    FEEDS = (SAME_SLOT, b"q")

    def __init__(self, brokers: list[RedisStore], clock: ManualClock, random: Random) -> None:
        self._brokers = brokers
        self._clock = clock
        self._random = random
        self._ids: list[bytes] = []
        self._events: list[bytes] = []
        for name in self.LISTS[:1]:
            brokers[0].run(Configure(JOBS, name, max_deliveries=2))

    def step(self) -> None:
        random = self._random
        weights = {self._add: 5, self._take: 5, self._change: 8, self._remove: 1, self._wait: 3}
        weights |= {self._put: 3, self._reserve: 5, self._end: 5, self._flush: 1}
        random.choices(list(weights), list(weights.values()))[0]()

    def _run(self, op: Any) -> Any:
        return self._random.choice(self._brokers).run(op)

    def _span_ms(self, *more: int) -> int:
        return self._random.choice([1_000, 5_000, 60_000, *more])

    def _some(self, ids: list[bytes]) -> list[bytes]:
        known = ids[-20:]
        return self._random.sample(known, min(len(known), self._random.randrange(4)))

    def _add(self) -> None:
        ttl_ms = self._span_ms()
        delay_ms = min(self._span_ms(0, 0), ttl_ms - 1)
        terms = Terms(ttl_ms, delay_ms, self._span_ms(0))
        bodies = [b"x"] * self._random.randrange(1, 4)
        self._ids += self._run(Add(JOBS, self._random.choice(self.LISTS), bodies, terms))

    def _take(self) -> None:
        self._run(Take(JOBS, self._random.sample(self.LISTS, 2), self._random.randrange(1, 5)))

    def _change(self) -> None:
        ids = self._some(self._ids)
        delay_ms, is_nack = self._span_ms(0, 0), self._random.random() < 0.5
        finished = Finish(JOBS, ids, is_ack=is_nack)
        requeued = Requeue(JOBS, ids, is_nack=is_nack, delay_ms=delay_ms)
        self._run(self._random.choice([finished, requeued, requeued, Hold(JOBS, ids)]))

    def _remove(self) -> None:
        queue = self._random.choice(self.LISTS)
        states = self._random.sample(list(State), 2)
        redriven = Redrive(JOBS, queue=queue, count=2)
        self._run(self._random.choice([redriven, redriven, Purge(JOBS, queue, states)]))

    def _put(self) -> None:
        op = Put(EVENTS, self._random.choice(self.FEEDS), [b"1", b"2"], self._span_ms(0))
        op.is_single = self._random.random() < 0.3
        self._events += self._run(op)

    def _reserve(self) -> None:
        queue, group = self._random.choice(self.FEEDS), self._random.choice([b"g", b"h"])
        self._run(Reserve(EVENTS, queue, group, self._span_ms(0), self._random.randrange(1, 4)))

    def _end(self) -> None:
        queue, group = self._random.choice(self.FEEDS), self._random.choice([b"g", b"h"])
        kind = self._random.choice([Ack, Ack, Release])
        self._run(kind(EVENTS, queue, group, self._some(self._events)))

    def _flush(self) -> None:
        self._run(Flush(EVENTS, self._random.choice(self.FEEDS)))

    def _wait(self) -> None:
        self._clock.advance(self._random.choice([1, 700, 2_000]))
        if self._random.random() < 0.5:
            self._random.choice(self._brokers).tick()


def _size_bytes(store: RedisStore, shard: int) -> int:
    def look() -> Steps:
        (reply,) = yield [Call("find_record", [slot_key(shard)], [0])]
        return reply[3]

    size_bytes: int = store.finish(look())
    return size_bytes
