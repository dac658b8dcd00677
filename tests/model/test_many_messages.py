"""Thousands of messages at once, more than one call of a script settles, and more than fits into
one command of it: both stores answer the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quinque.model.families import EVENTS, JOBS
from quinque.model.limits import JITTER_MS, RESERVE_MOST, RESERVE_MOST_BYTES
from quinque.model.ops import Ack, Count, Peek, Put, Release, Reserve
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    AwaitEnd,
    Browse,
    FindQueues,
    Finish,
    Hold,
    LookAt,
    Purge,
    Redrive,
    Requeue,
    Take,
    Terms,
)
from tests.model.pair import Pair
from tests.servers.redis_server import RedisServer

MANY = 4_500
LEASE_MS = 1_000
LIFE_MS = 60_000


@pytest.fixture
def pair(redis_server: RedisServer) -> Iterator[Pair]:
    made = Pair(
        [redis_server.url],
        redis_server,
        room_bytes=RESERVE_MOST_BYTES,
        messages_most=RESERVE_MOST,
    )
    yield made
    made.clear_out([b"q", b"v"])
    made.close()


def test_events(pair: Pair) -> None:
    ids = pair.run(Put(EVENTS, b"q", [b"%d" % number for number in range(MANY)], LIFE_MS))
    assert len(pair.run(Reserve(EVENTS, b"q", b"g", LEASE_MS, MANY))) == MANY
    assert all(pair.run(Ack(EVENTS, b"q", b"g", ids[:300])))
    assert all(pair.run(Release(EVENTS, b"q", b"g", ids[300:])))
    assert len(pair.run(Reserve(EVENTS, b"q", b"g", LEASE_MS, MANY))) == MANY - 300

    pair.advance(LEASE_MS)

    assert len(pair.run(Reserve(EVENTS, b"q", b"g", LIFE_MS, MANY))) == MANY - 300
    pair.advance(LIFE_MS)
    assert pair.run(Peek(EVENTS, b"q", b"h")) is None
    pair.tick()
    assert pair.run(Count(EVENTS)) == []


def test_jobs(pair: Pair) -> None:
    terms = Terms(LIFE_MS, retry_ms=LEASE_MS)
    ids = pair.run(Add(JOBS, b"v", [b"%d" % number for number in range(MANY)], terms))
    assert len(pair.run(Take(JOBS, [b"v"], MANY))) == MANY
    assert all(pair.run(Requeue(JOBS, ids[:3_000], is_nack=True, delay_ms=5)))
    assert all(pair.run(Finish(JOBS, ids[3_000:3_600])))

    pair.advance(LEASE_MS + JITTER_MS)
    pair.tick()

    assert len(pair.run(Browse(JOBS, b"v", State.READY, MANY))) == MANY - 600
    assert all(pair.run(Hold(JOBS, ids[:700])))
    pair.run(FindQueues(JOBS, ids))
    pair.run(AwaitEnd(JOBS, ids))
    assert pair.run(Purge(JOBS, b"v", [State.LEASED])) == 700
    assert pair.run(LookAt(JOBS, b"v")).ready == MANY - 1_300
    pair.advance(LIFE_MS)
    pair.tick()
    assert pair.run(LookAt(JOBS, b"v")).ready == 0


def test_dead_jobs_with_long_bodies(pair: Pair) -> None:
    terms = Terms(10 * LIFE_MS, retry_ms=LEASE_MS, max_deliveries=1)
    pair.run(Add(JOBS, b"v", [b"x" * 2_000] * 1_200, terms))
    while pair.run(Take(JOBS, [b"v"], MANY)):
        pass

    pair.advance(LEASE_MS + JITTER_MS)
    pair.tick()

    assert pair.run(LookAt(JOBS, b"v")).dead == 1_200
    assert [pair.run(Redrive(JOBS, queue=b"v")) for _ in range(2)] == [1_000, 200]
    assert pair.run(LookAt(JOBS, b"v")).ready == 1_200
