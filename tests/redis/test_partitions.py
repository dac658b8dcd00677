"""A worklist that is spread over several slots: what one sees of it is one worklist."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from quinque.errors import BadRequest, QueueFull, WrongType
from quinque.model.families import EVENTS, JOBS
from quinque.model.limits import RESERVE_MOST_BYTES
from quinque.model.ops import Put
from quinque.model.queue_ops import FindFamilies
from quinque.model.states import State
from quinque.model.work_ops import Configure, FindKey, LookAt, Purge, Redrive
from quinque.stores.clock import ManualClock
from quinque.stores.redis.calls import Arg, Call, Steps
from quinque.stores.redis.keys import slot_key, slot_of, slot_of_id
from quinque.stores.redis.looks import queue_view
from quinque.stores.redis.routes import Routes
from quinque.stores.redis.spread import slot_of_partition
from quinque.stores.redis.store import RedisStore
from tests.conformance.work_words import (
    add,
    add_one,
    all_queues,
    bodies,
    browse,
    finish,
    look,
    take,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(redis_cluster_url: str, clock: ManualClock) -> Iterator[RedisStore]:
    opened = RedisStore(redis_cluster_url, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def other(store: RedisStore, redis_cluster_url: str, clock: ManualClock) -> Iterator[RedisStore]:
    """Opened by spread() of the first: it has to know."""
    spread(store, 4)
    opened = RedisStore(redis_cluster_url, node="other", clock=clock)
    yield opened
    opened.close()


def spread(store: RedisStore, count: int, queue: bytes = b"w") -> int:
    partitions: int = store.run(Configure(JOBS, queue, partitions=count)).partitions
    return partitions


def test_messages_go_to_each_in_turn(store: RedisStore) -> None:
    assert spread(store, 4) == 4

    ids = [add_one(store, b"%d" % number) for number in range(8)]

    slots = Counter(map(slot_of_id, ids))
    assert slots == {slot_of_partition(b"w", number): 2 for number in range(4)}
    assert slot_of(b"w") in slots


def test_one_answer_from_all_of_them_has_no_more_room_than_one_from_one(store: RedisStore) -> None:
    spread(store, 4)
    size_bytes = 300_000
    added = [b"%d" % (number % 10) * size_bytes for number in range(12)]
    for body in added:
        add_one(store, body)
    most = RESERVE_MOST_BYTES // size_bytes + 1

    shown = browse(store)
    assert len(shown) == most
    assert shown == added[:most]
    assert 0 < len(take(store, 100)) <= most


def test_all_of_them_are_found_wherever_they_are(store: RedisStore, other: RedisStore) -> None:
    added = {b"%d" % number for number in range(40)}
    for body in added:
        add_one(store, body)

    found: set[bytes] = set()
    while some := take(other, 3):
        assert not found & {delivery.body for delivery in some}
        found |= {delivery.body for delivery in some}
        assert all(finish(store, *(delivery.message_id for delivery in some)))
    assert found == added


def test_one_call_finds_something_as_long_as_there_is_much(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    spread(store, 8)
    for number in range(64):
        add_one(store, b"%d" % number)
    counted = count_calls(monkeypatch)

    for _ in range(32):
        assert len(take(store, 1)) == 1
    assert counted == {"take": 32}


def test_one_call_finds_what_came_last_when_there_is_little(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    spread(store, 8)
    assert take(store, 1) == []
    counted = count_calls(monkeypatch)

    for number in range(32):
        add_one(store, b"%d" % number)
        assert len(take(store, 1)) == 1
    assert counted == {"add": 32, "take": 32}


def test_it_is_looked_at_as_one(store: RedisStore) -> None:
    spread(store, 4)
    for number in range(6):
        add_one(store, b"%d" % number)
    take(store, 1)

    view = look(store)
    assert (view.ready, view.leased, view.came, view.went, view.partitions) == (5, 1, 6, 1, 4)
    assert browse(store, 9) == [b"1", b"2", b"3", b"4", b"5"]
    assert browse(store, -2) == [b"5", b"4"]
    assert all_queues(store) == [b"w"]


def test_fewer_partitions_are_written_to_and_all_are_read(store: RedisStore) -> None:
    spread(store, 4)
    for number in range(4):
        add_one(store, b"old %d" % number)

    assert spread(store, 1) == 1
    for number in range(4):
        assert slot_of_id(add_one(store, b"new %d" % number)) == slot_of(b"w")
    assert len(bodies(store, 99)) == 8


def test_a_key_is_one_message_in_all_of_them(store: RedisStore) -> None:
    spread(store, 4)

    id = add_one(store, b"1", key=b"k")
    assert all(add_one(store, b"2", key=b"k") == id for _ in range(8))
    assert store.run(FindKey(JOBS, b"w", b"k")) == id


def test_a_key_is_one_message_whatever_the_number_of_partitions_is(store: RedisStore) -> None:
    keys = [b"k%d" % number for number in range(20)]
    spread(store, 2)
    ids = [add_one(store, b"1", key=key) for key in keys]

    for count in (8, 1, 3):
        spread(store, count)
        assert [add_one(store, b"2", key=key) for key in keys] == ids
        assert [store.run(FindKey(JOBS, b"w", key)) for key in keys] == ids


def test_messages_with_a_key_may_be_as_many_as_the_length_says(store: RedisStore) -> None:
    spread(store, 4)

    for number in range(8):
        add_one(store, b"1", key=b"k%d" % number, max_length=8)
    with pytest.raises(QueueFull):
        add_one(store, b"1", key=b"k8", max_length=8)


def test_what_was_set_before_holds_in_new_partitions(store: RedisStore) -> None:
    store.run(Configure(JOBS, b"w", max_deliveries=1, is_paused_out=True, keeps_expired=True))

    spread(store, 8)
    add(store, *(b"%d" % number for number in range(8)))
    assert take(store, 9) == []
    for slot in {slot_of_partition(b"w", number) for number in range(8)}:
        view = queue_view(b"w", look_in(store, slot))
        assert (view.max_deliveries, view.keeps_expired) == (1, True)


def look_in(store: RedisStore, slot: int) -> list[int]:
    """What one partition has."""

    def steps() -> Steps:
        argv: list[Arg] = [JOBS.code, store.now_ms(), b"w", 0, 100]
        (row,) = yield [Call("look_at", [slot_key(slot)], argv)]
        return row

    row: list[int] = store.finish(steps())
    return row


def test_each_takes_its_share_of_a_length(store: RedisStore) -> None:
    spread(store, 4)

    for number in range(8):
        add_one(store, b"%d" % number, max_length=8)
    with pytest.raises(QueueFull, match="MAXLEN count"):
        add_one(store, b"8", max_length=8)


def test_what_is_set_holds_in_all_of_them(store: RedisStore) -> None:
    spread(store, 4)
    add(store, b"1")
    add(store, b"2")

    store.run(Configure(JOBS, b"w", is_paused_out=True))
    assert take(store, 9) == []
    store.run(Configure(JOBS, b"w", is_paused_out=False))
    assert len(take(store, 9)) == 2


def test_dead_ones_are_driven_back_and_purged_in_all_of_them(
    store: RedisStore, clock: ManualClock
) -> None:
    spread(store, 4)
    for number in range(8):
        add_one(store, b"%d" % number, max_deliveries=1)
    take(store, 8)
    clock.advance(61_000)

    assert len(browse(store, 9, State.DEAD)) == 8
    assert store.run(Redrive(JOBS, queue=b"w", count=5)) == 5
    assert store.run(Purge(JOBS, b"w")) == 8
    assert take(store, 9) == []


def test_a_purge_that_forgets_removes_all_of_them(store: RedisStore, other: RedisStore) -> None:
    spread(store, 4)
    for number in range(8):
        add_one(store, b"%d" % number)
    store.run(Configure(JOBS, b"w", max_deliveries=3))

    assert store.run(Purge(JOBS, b"w", forgets=True)) == 8

    assert store.run(FindFamilies([b"w"])) == [None]
    assert other.run(LookAt(JOBS, b"w")) is None
    add_one(store, b"new")
    view = look(store)
    assert (view.max_deliveries, view.partitions) == (0, 1)


def test_a_rate_and_partitions_are_not_for_the_same_queue(store: RedisStore) -> None:
    store.run(Configure(JOBS, b"w", rate=(5, 1000)))
    with pytest.raises(BadRequest, match="RATE or several PARTITIONS"):
        spread(store, 2)
    assert look(store).partitions == 1

    spread(store, 2, b"v")
    with pytest.raises(BadRequest, match="RATE or several PARTITIONS"):
        store.run(Configure(JOBS, b"v", rate=(5, 1000)))


def count_calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """From here on the calls of each script are counted."""
    counted: Counter[str] = Counter()
    post = Routes.post

    def posted(self: Routes, some: list[Call], then: object) -> None:
        counted.update(call.script for call in some)
        post(self, some, then)  # type: ignore[arg-type]

    monkeypatch.setattr(Routes, "post", posted)
    return counted


def test_no_other_family_gets_the_name_while_a_partition_has_messages(store: RedisStore) -> None:
    spread(store, 4)
    ids = [add_one(store, b"%d" % number) for number in range(4)]
    home = [id for id in ids if slot_of_id(id) == slot_of(b"w")]
    assert finish(store, *home) == [True]

    with pytest.raises(WrongType):
        store.run(Put(EVENTS, b"w", [b"event"]))
    assert len(bodies(store, 4)) == 3

    assert spread(store, 1) == 1
    with pytest.raises(WrongType):
        store.run(Put(EVENTS, b"w", [b"event"]))
    store.run(Purge(JOBS, b"w", forgets=True))
    assert store.run(Put(EVENTS, b"w", [b"event"]))
