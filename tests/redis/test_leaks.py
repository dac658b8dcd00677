"""What is gone leaves no keys and no fields in Redis: memory does not grow with what was done."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

import pytest

from quinque.model.families import EVENTS, ITEMS, JOBS, RELIABLE
from quinque.model.limits import QUEUE_IDLE_MOST_MS
from quinque.model.ops import Ack, Flush, Put, Release, Reserve
from quinque.model.own_ops import (
    RELIABLE_TERMS,
    AddItems,
    Complete,
    ExtendLeases,
    Recover,
    Undeliver,
)
from quinque.model.queue_ops import DeleteQueues, RenameQueue, SetExpiry
from quinque.model.stage_ops import DropStage
from quinque.model.work_ops import Add, Configure, Extend, Finish, Purge, Requeue, Take, Terms
from quinque.stores.clock import ManualClock
from quinque.stores.keeping import Keeping
from quinque.stores.redis.store import RedisStore
from tests.conformance import stage_words, tube_words
from tests.conformance.claim_words import subscribe, subscribe_group
from tests.servers.patience import PATIENCE_S
from tests.servers.redis_server import RedisServer

HOUR_MS: Final = 3_600_000
TIMES: Final = 3


def use_jobs(store: RedisStore, name: bytes) -> None:
    terms = Terms(HOUR_MS, retry_ms=HOUR_MS)
    [id] = store.run(Add(JOBS, name, [b"x"], terms, key=name))
    for _ in range(TIMES):
        store.run(Take(JOBS, [name]))
        store.run(Extend(JOBS, id))
        store.run(Requeue(JOBS, [id], True, reason=b"none"))
    store.run(Take(JOBS, [name]))
    store.run(Finish(JOBS, [id]))
    store.run(Add(JOBS, name, [b"x"], Terms(HOUR_MS, delay_ms=60_000)))
    store.run(Configure(JOBS, name, max_deliveries=3, rate=(5, 1_000)))
    store.run(Purge(JOBS, name, forgets=True))


def use_events(store: RedisStore, name: bytes) -> None:
    ids = store.run(Put(EVENTS, name, [b"x", b"y"], HOUR_MS))
    ids += store.run(Put(EVENTS, name, [b"z"], HOUR_MS, name, to_front=True))
    for group in (name, b"g"):
        store.run(Reserve(EVENTS, name, group, HOUR_MS, 3))
        store.run(ExtendLeases(EVENTS, name, ids, 2 * HOUR_MS, group=group))
        store.run(Release(EVENTS, name, group, ids[:1]))
        store.run(Ack(EVENTS, name, group, ids[1:]))
    store.run(Flush(EVENTS, name))


def use_reliable(store: RedisStore, name: bytes) -> None:
    store.run(Add(RELIABLE, name, [b"x", b"y", b"z"], RELIABLE_TERMS))
    store.run(Undeliver(RELIABLE, store.run(Take(RELIABLE, [name], 2))))
    store.run(Take(RELIABLE, [name], 2))
    store.run(Recover(RELIABLE, name, 1, 0))
    store.run(SetExpiry(RELIABLE, name, store.now_ms() + HOUR_MS))
    new_name = name + b"-new"
    store.run(RenameQueue(RELIABLE, name, new_name))
    store.run(DeleteQueues(RELIABLE, [new_name]))


def use_items(store: RedisStore, name: bytes) -> None:
    store.run(AddItems(ITEMS, name, [b"a", b"b"], [b"x", b"y"]))
    store.run(Take(ITEMS, [name], 2, lease_ms=HOUR_MS))
    store.run(ExtendLeases(ITEMS, name, [b"a"], 2 * HOUR_MS))
    store.run(Complete(ITEMS, name, [b"a", b"b"], is_leased=True))


def use_tube(store: RedisStore, name: bytes) -> None:
    session = name[-16:].rjust(16)
    tube_words.join(store, session, is_new=True)
    tube_words.make(store, b"utubettl", name)
    tube_words.put(store, b"x", b"y", queue=name, lane=name, ttl_ms=HOUR_MS, ttr_ms=HOUR_MS)
    for _ in range(TIMES):
        ids = tube_words.take(store, session=session, queue=name)
        tube_words.touch(store, *ids, by_ms=1, session=session, queue=name)
        tube_words.release(store, *ids, session=session, queue=name)
    tube_words.bury(store, b"1", queue=name)
    tube_words.kick(store, 1, queue=name)
    tube_words.leave(store, session)
    tube_words.drop(store, name)


def use_claims(store: RedisStore, name: bytes) -> None:
    store.run(Add(JOBS, name, [b"x", b"y"], Terms(HOUR_MS, retry_ms=HOUR_MS)))
    jobs = subscribe(store, name, name)
    store.run(Put(EVENTS, name + b"-events", [b"x", b"y"], HOUR_MS))
    events = subscribe_group(store, name + b"-events", name, name)
    for driver in (jobs, events):
        driver.claim(1, 1)
        driver.settle(1)
        driver.claim(2)
        driver.drop()
    store.run(Purge(JOBS, name, forgets=True))
    store.run(Flush(EVENTS, name + b"-events"))


def use_stages(store: RedisStore, name: bytes) -> None:
    stage_words.stage(store, stage_words.run_of(b"x"), queue=name, run=name)
    store.run(DropStage(name, b"k", name, 0))


USES: Final[dict[str, Callable[[RedisStore, bytes], None]]] = {
    "jobs": use_jobs,
    "events": use_events,
    "reliable": use_reliable,
    "items": use_items,
    "tube": use_tube,
    "claims": use_claims,
    "stages": use_stages,
}


@pytest.mark.parametrize("what", USES)
def test_what_is_gone_leaves_nothing_behind(
    redis_server: RedisServer, redis_url: str, clock: ManualClock, what: str
) -> None:
    client = redis_server.client()
    keeping = Keeping(is_on=False)
    left: list[dict[bytes, int]] = []
    with closing(
        RedisStore(redis_url, clock=clock, timeout_s=PATIENCE_S, keeping=keeping)
    ) as store:
        for number in range(3):
            USES[what](store, b"{s}%d" % number)
            clock.advance(QUEUE_IDLE_MOST_MS + 1)
            while store.next_due_ms() <= store.now_ms():
                store.tick()
            left.append(sizes(client))

    assert left[1] == left[0]
    assert left[2] == left[0]


def sizes(client: Any) -> dict[bytes, int]:
    """The number of elements of each key."""
    count = {b"hash": client.hlen, b"zset": client.zcard, b"set": client.scard}
    count |= {b"list": client.llen, b"stream": client.xlen, b"string": client.exists}
    return {key: count[client.type(key)](key) for key in client.scan_iter(count=1_000)}
