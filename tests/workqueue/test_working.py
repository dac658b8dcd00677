"""Adding, leasing and completing: what is true afterwards, for both kinds of WorkQueue."""

from __future__ import annotations

import threading
import time

import pytest
import redis

from quinque.errors import BadArgument
from quinque.workqueue import Item, KeyPrefix, WorkQueue, working
from quinque.workqueue.keys import Keys
from quinque.workqueue.scripts import SCRIPTS
from quinque.workqueue.steps import Call, Command
from tests.servers.patience import wait_until
from tests.servers.redis_cluster import RedisCluster
from tests.workqueue.conftest import Make
from tests.workqueue.stage import Picture, Place, Worker, abandon, sync_worker


def test_an_item_goes_round_and_leaves_nothing(
    worker: Worker, place: Place, prefix: str, on_cluster: None
) -> None:
    data = bytes(range(256))
    assert worker.add_item(Item(data, id="1"))
    assert worker.lengths() == (1, 0)

    item = worker.lease(30)

    assert item == {"data": data, "id": "1"}
    assert worker.lengths() == (0, 1)
    assert worker.complete(item)
    assert not worker.complete(item)
    assert worker.lengths() == (0, 0)
    assert Picture(place.raw, prefix).is_empty


def test_those_that_wait_longest_come_first(worker: Worker) -> None:
    for id in "abc":
        worker.add_unique_item(Item("x", id=id))

    leased = [worker.lease() for _ in "abc"]

    assert [item.id() for item in leased if item] == ["a", "b", "c"]
    assert worker.lease() is None


def test_an_id_that_is_taken_changes_nothing(worker: Worker, place: Place, prefix: str) -> None:
    assert worker.add_item(Item("first", id="1"))

    assert not worker.add_item(Item("second", id="1"))
    assert not worker.add_new_item(Item("third", id="1"))

    assert worker.lease() == Item("first", id="1")
    assert not worker.add_item(Item("fourth", id="1"))  # held, and still there
    assert worker.lengths() == (0, 1)


def test_items_come_by_pipeline(worker: Worker, on_cluster: None) -> None:
    worker.add_in_pipeline(Item("x", id="1"), Item("y", id="2"))

    assert worker.lease() == Item("x", id="1")
    assert worker.lease() == Item("y", id="2")


@pytest.mark.parametrize(
    ("writes", "new", "old"),
    [("new", {"1"}, set()), ("old", set(), {"1"}), ("both", {"1"}, {"1"})],
)
def test_a_lease_is_written_as_the_setting_says(
    make: Make, place: Place, prefix: str, writes: str, new: set[str], old: set[str]
) -> None:
    worker = make(writes=writes, session="me")
    worker.add_item(Item("x", id="1"))

    item = worker.lease(30)

    picture = Picture(place.raw, prefix)
    assert (picture.leases, picture.old_leases) == (new, old)
    for kind in [*["lease"] * len(new), *["leased_by_session"] * len(old)]:
        key = f"{prefix}:{kind}:1"
        assert place.raw.get(key) == b"me"
        assert 29_000 < place.raw.pttl(key) <= 30_000
    assert item is not None
    assert make().complete(item)
    assert Picture(place.raw, prefix).is_empty


@pytest.mark.parametrize("kind", ["lease", "leased_by_session"])
@pytest.mark.parametrize("writes", ["new", "old", "both"])
def test_what_somebody_holds_is_not_leased_again(
    make: Make, place: Place, prefix: str, kind: str, writes: str
) -> None:
    worker = make(writes=writes)
    worker.add_item(Item("x", id="1"))
    place.raw.set(f"{prefix}:{kind}:1", "another", ex=60)

    assert worker.lease() is None

    picture = Picture(place.raw, prefix)
    # By that id a cleaner finds it when the lease ends.
    assert (picture.waiting, picture.processing) == ([], ["1"])
    assert len(picture.leases) + len(picture.old_leases) == 1
    assert place.raw.get(f"{prefix}:{kind}:1") == b"another"
    abandon(place.raw, prefix)
    assert worker.light_clean().returned == 1
    assert worker.lease() == Item("x", id="1")


def test_an_id_that_waits_twice_is_leased_once(worker: Worker, place: Place, prefix: str) -> None:
    worker.add_unique_item(Item("old", id="1"))
    worker.add_unique_item(Item("new", id="1"))

    item = worker.lease()

    assert item == Item("new", id="1")
    assert worker.lease() is None
    assert Picture(place.raw, prefix).processing == ["1"]
    assert worker.complete(item)
    assert Picture(place.raw, prefix).is_empty


def test_ids_without_an_item_are_passed_over(worker: Worker, place: Place, prefix: str) -> None:
    place.raw.rpush(f"{prefix}:queue", *(f"ghost{number}" for number in range(1200)))
    worker.add_item(Item("x", id="1"))

    assert worker.lease() == Item("x", id="1")

    assert worker.lengths() == (0, 1)


def test_an_old_lease_does_not_keep_a_new_item_waiting(
    worker: Worker, place: Place, prefix: str
) -> None:
    place.raw.set(f"{prefix}:lease:1", "too late", ex=60)
    place.raw.set(f"{prefix}:leased_by_session:1", "too late", ex=60)

    worker.add_item(Item("x", id="1"))

    assert worker.lease() == Item("x", id="1")


def test_completing_what_a_cleaner_put_back_ends_it(
    worker: Worker, place: Place, prefix: str
) -> None:
    worker.add_item(Item("x", id="1"))
    item = worker.lease()
    abandon(place.raw, prefix)
    worker.light_clean()

    assert item is not None
    assert worker.complete(item)

    assert Picture(place.raw, prefix).is_empty


def test_only_who_holds_an_item_extends_its_lease(make: Make, place: Place, prefix: str) -> None:
    worker, other = make(), make()
    worker.add_item(Item("x", id="1"))
    item = worker.lease(5)
    assert item is not None

    assert worker.extend(item, 90)

    for kind in ("lease", "leased_by_session"):
        assert place.raw.ttl(f"{prefix}:{kind}:1") > 80
    assert not other.extend(item, 90)
    worker.complete(item)
    assert not worker.extend(item, 90)
    assert Picture(place.raw, prefix).is_empty


def test_a_lease_may_be_shorter_than_a_second(worker: Worker, place: Place, prefix: str) -> None:
    worker.add_item(Item("x", id="1"))

    began_s = time.monotonic()
    worker.lease(0.25)
    left_ms = place.raw.pttl(f"{prefix}:lease:1")
    is_over = time.monotonic() - began_s >= 0.25

    assert 0 < left_ms <= 250 or (is_over and left_ms == -2)


@pytest.mark.parametrize(
    ("lease_secs", "timeout"), [(0, 0), (-1, 0), (1e30, 0), (5, -1), (float("nan"), 0)]
)
def test_a_span_that_cannot_be_is_refused_and_nothing_is_taken(
    worker: Worker, lease_secs: float, timeout: float
) -> None:
    worker.add_item(Item("x", id="1"))

    with pytest.raises(BadArgument, match=" s must be "):
        worker.lease(lease_secs, block=True, timeout=timeout)

    assert worker.lengths() == (1, 0)


def test_a_wait_ends_with_nothing_after_its_time(worker: Worker, on_cluster: None) -> None:
    began_s = time.monotonic()

    assert worker.lease(5, block=True, timeout=0.05) is None

    assert time.monotonic() - began_s >= 0.05


def test_one_that_waits_gets_what_comes(place: Place, prefix: str, on_cluster: None) -> None:
    waiting, adding = place.open(), place.open()
    queue, got = WorkQueue(KeyPrefix(prefix)), list[Item | None]()
    thread = threading.Thread(target=lambda: got.append(queue.lease(waiting, 30)))
    thread.start()
    wait_until(lambda: _waits(place, prefix), "somebody waits")

    adding.lpush(f"{prefix}:queue", "ghost")  # is not what it waits for
    queue.add_item(adding, Item("x", id="1"))

    thread.join(20)
    assert got == [Item("x", id="1")]
    assert Picture(place.raw, prefix).processing == ["1"]
    assert Picture(place.raw, prefix).leases == {"1"}
    waiting.close()
    adding.close()


@pytest.mark.parametrize(
    ("wait_s", "longest_wait_s", "told_s"),
    [(None, None, 0), (None, 2.5, 2.5), (1.0, 2.5, 1.0), (7.0, 2.5, 2.5), (1.0, None, 1.0)],
)
def test_a_wait_in_redis_is_shorter_than_the_client_is_patient(
    wait_s: float | None, longest_wait_s: float | None, told_s: float
) -> None:
    steps = working.lease(
        *(Keys(KeyPrefix("p")), "me", "both", 1000),
        wait_s=wait_s,
        longest_wait_s=longest_wait_s,
        now_s=lambda: 0.0,
    )

    assert isinstance(next(steps), Call)
    waits = steps.send(0)

    assert waits == Command(("BLMOVE", b"p:queue", b"p:processing", "RIGHT", "LEFT", told_s))
    assert isinstance(steps.send(None), Call)  # asks again, and waits again
    assert steps.send(0) == waits


def _waits(place: Place, prefix: str) -> bool:
    if isinstance(place.raw, redis.RedisCluster):
        node = place.raw.get_node_from_key(f"{prefix}:queue")
        assert node is not None
        return bool(place.raw.info("clients", target_nodes=node)["blocked_clients"] > 0)
    return bool(place.raw.info("clients")["blocked_clients"] > 0)


def test_what_was_put_back_while_its_lease_was_on_the_way_is_not_held_twice(
    worker: Worker, place: Place, prefix: str
) -> None:
    """A worker that waits in Redis gets an id first, then its lease: a cleaner may come between."""
    worker.add_item(Item("x", id="1"))
    raw = place.raw
    raw.lmove(f"{prefix}:queue", f"{prefix}:processing", "RIGHT", "LEFT")
    worker.light_clean()
    assert Picture(raw, prefix).waiting == ["1"]
    script = (worker.queue.keys.prefix, "late", 60_000, "both", "1")

    found = raw.eval(SCRIPTS["lease"].text, 1, *script)

    assert found == [b"1", b"x"]
    assert Picture(raw, prefix).waiting == []
    assert Picture(raw, prefix).processing == ["1"]


@pytest.mark.parametrize("decode", [True, False])
def test_whether_a_client_decodes_does_not_matter(
    make: Make, place: Place, prefix: str, decode: bool, on_cluster: None
) -> None:
    worker = make(client={"decode_responses": decode})
    odd = Item(b"\xff\x00", id=b"\xfe")
    worker.add_item(odd)
    worker.add_item(Item("é", id="é"))

    first, second = worker.lease(), worker.lease()

    assert (first, second) == (odd, Item("é", id="é"))
    assert first is not None
    assert worker.complete(first)
    place.raw.delete(f"{prefix}:lease:é", f"{prefix}:leased_by_session:é")
    assert worker.deep_clean().returned == 1


def test_a_server_that_forgot_the_scripts_is_told_them(worker: Worker, place: Place) -> None:
    place.raw.script_flush()

    assert worker.add_item(Item("x", id="1"))
    assert worker.lease() == Item("x", id="1")


def test_what_is_no_list_is_an_error_and_nothing_is_left(
    worker: Worker, place: Place, prefix: str
) -> None:
    place.raw.set(f"{prefix}:queue", "text")

    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        worker.add_item(Item("x", id="1"))

    place.raw.delete(f"{prefix}:queue")
    assert Picture(place.raw, prefix).is_empty


def test_a_connection_that_was_lost_is_made_again(place: Place, prefix: str) -> None:
    worker = sync_worker(place.open(), prefix)
    worker.add_item(Item("x", id="1"))
    place.raw.execute_command("CLIENT", "KILL", "TYPE", "normal")  # but the one that asks for it

    assert worker.lease() == Item("x", id="1")
    worker.db.close()


def test_while_a_slot_is_moved_nothing_is_done_by_halves(redis_cluster: RedisCluster) -> None:
    prefix = "{moved}"
    with redis_cluster.client() as db:
        worker = sync_worker(db, prefix)
        for number in range(30):
            worker.add_item(Item("x", id=str(number)))
        held = worker.lease()
        assert held is not None
        slot = db.keyslot(prefix)
        was = redis_cluster.primary_of(slot)
        to = next(node for node in redis_cluster.primaries if node is not was)
        redis_cluster.begin_move(slot, to)
        redis_cluster.move_keys(slot, to, most=15)

        for act in (worker.lease, lambda: worker.complete(held), worker.light_clean):
            with pytest.raises(redis.RedisError, match=r"TRYAGAIN|TTL|Multiple keys"):
                act()

        while redis_cluster.move_keys(slot, to):
            pass
        redis_cluster.end_move(slot, to)
        assert worker.complete(held)
        assert worker.deep_clean().repaired == 0
        assert worker.lengths() == (29, 0)
        redis_cluster.move_slot(slot, was)


def test_a_cluster_wants_a_hash_tag(make: Make, place: Place, on_cluster: None) -> None:
    worker = make("no-tag")
    if not isinstance(place.raw, redis.RedisCluster):
        assert worker.lease() is None
        return

    with pytest.raises(BadArgument, match=r"hash tag: use \{no-tag\} instead of no-tag"):
        worker.add_item(Item("x"))
    with pytest.raises(BadArgument, match="needs a hash tag"):
        worker.deep_clean_in_slices()
