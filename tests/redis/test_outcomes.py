"""What an operation on several servers answers when some of them fail: done, not done, or unknown,
and unknown wins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quinque.errors import StoreUnavailable
from quinque.model.families import JOBS
from quinque.model.work_ops import Add, Finish, ScanQueues, Terms
from quinque.stores.redis.keys import ALL_SLOTS, slot_of, slot_of_key
from quinque.stores.redis.store import RedisStore
from tests.conformance.work_words import browse
from tests.servers.redis_cluster import RedisCluster

TERMS = Terms(60_000)


@pytest.fixture
def cluster() -> Iterator[RedisCluster]:
    # So patient that nobody is declared dead while a test runs.
    with RedisCluster(replicas=0, node_timeout_ms=300_000) as running:
        yield running
        for node in running.nodes:
            node.go_on()


@pytest.fixture
def store(cluster: RedisCluster) -> Iterator[RedisStore]:
    opened = RedisStore(cluster.url, timeout_s=3.0)
    yield opened
    opened.close()


def names_at(cluster: RedisCluster, number: int) -> Iterator[bytes]:
    """Names of queues that lie on that server."""
    node = cluster.primaries[number]
    names = (b"q%d" % at for at in range(10_000))
    return (name for name in names if cluster.primary_of(slot_of(name)) is node)


@pytest.mark.parametrize("is_hung_first", [False, True])
def test_what_a_hung_server_may_have_done_outweighs_what_a_dead_one_did_not(
    cluster: RedisCluster, store: RedisStore, is_hung_first: bool
) -> None:
    primaries = cluster.primaries
    home = primaries.index(cluster.primary_of(slot_of_key(ALL_SLOTS)))
    dead, hung = (number for number in range(3) if number != home)
    ids = [
        store.run(Add(JOBS, next(names_at(cluster, at)), [b"1"], TERMS))[0] for at in (dead, hung)
    ]

    primaries[dead].kill()
    primaries[hung].pause()
    with pytest.raises(StoreUnavailable):
        store.run(Finish(JOBS, ids[::-1] if is_hung_first else ids))


def test_a_job_in_a_new_slot_is_added_though_the_slot_cannot_be_noted(
    cluster: RedisCluster, store: RedisStore
) -> None:
    primaries = cluster.primaries
    home = primaries.index(cluster.primary_of(slot_of_key(ALL_SLOTS)))
    names = names_at(cluster, (home + 1) % 3)
    known, new = next(names), next(names)
    store.run(Add(JOBS, known, [b"1"], TERMS))
    primaries[home].pause()

    assert store.run(Add(JOBS, new, [b"1"], TERMS))
    assert browse(store, queue=new) == [b"1"]

    primaries[home].go_on()
    other = RedisStore(cluster.url, node="other", timeout_s=10.0)
    other.run(Add(JOBS, next(names), [b"1"], TERMS))  # as many slots are listed as the first knows
    assert len(store.run(ScanQueues(JOBS, 0, 100))[1]) == 3
    assert len(other.run(ScanQueues(JOBS, 0, 100))[1]) == 3
    other.close()
