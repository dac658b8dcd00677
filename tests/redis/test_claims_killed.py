"""A broker is killed while it fills, settles or releases claims, or publishes a batch; another one
goes on, and every message is where it must be, once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import msgpack
import pytest

from quinque.client.sync.broker import Broker
from quinque.errors import NotDone, StoreUnavailable
from quinque.model.claim_ops import (
    ClaimState,
    FillClaim,
    LookAtClaims,
    OpenClaims,
    ReadClaim,
    ReleaseClaims,
    SettleClaims,
)
from quinque.model.families import JOBS
from quinque.model.look_ops import BrowsePlaces
from quinque.model.stage_ops import Part, Publish, Stage
from quinque.model.work_ops import LookAt
from quinque.stores.redis.store import RedisStore
from tests.server.broker import RunningBroker, start_broker
from tests.servers import stores
from tests.servers.patience import wait_until

S = b"s"
COUNT = 8_000
PART = 2_000


@pytest.fixture(params=stores.SHARED)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningBroker]:
    """The one that is killed."""
    with start_broker(tmp_path, *stores.store_flags(request, request.param)) as running:
        yield running


@pytest.fixture
def other(broker: RunningBroker) -> Iterator[RedisStore]:
    """What lives on: all that matters of a broker is its store. The queue has COUNT messages."""
    url = broker.flags[broker.flags.index("--store") + 1]
    with closing(RedisStore(url)) as store:
        put_all(store)
        yield store


def test_a_broker_is_killed_while_a_claim_is_filled(
    broker: RunningBroker, other: RedisStore
) -> None:
    epoch = other.run(OpenClaims(JOBS, b"w", S, b"", 60_000)).epoch

    def fill(client: Broker) -> None:
        number = 1
        while client.run(FillClaim(b"w", S, epoch, number, 1_500, seals=True)) is not None:
            number += 1

    kill_during(broker, fill, lambda: backlog(other) < COUNT)

    view = other.run(OpenClaims(JOBS, b"w", S, b"", 60_000))
    if view.claims and view.claims[-1].state is ClaimState.FILLING:
        other.run(FillClaim(b"w", S, view.epoch, view.claims[-1].number, 0, seals=True))
    claimed = [body for claim in view.claims for body in claimed_bodies(other, claim.number)]
    assert claimed
    assert_once([*claimed, *waiting_bodies(other)])


@pytest.mark.parametrize("ends", [SettleClaims, ReleaseClaims])
def test_a_broker_is_killed_while_claims_are_closed(
    broker: RunningBroker, other: RedisStore, ends: type[SettleClaims] | type[ReleaseClaims]
) -> None:
    epoch = other.run(OpenClaims(JOBS, b"w", S, b"", 60_000)).epoch
    for number in (1, 2):
        while other.run(FillClaim(b"w", S, epoch, number, PART)).messages < 2 * PART:
            pass
        other.run(FillClaim(b"w", S, epoch, number, 0, seals=True))

    kill_during(
        broker,
        lambda client: client.run(ends(b"w", S, epoch, 2)),
        lambda: other.run(LookAtClaims(b"w", S)).settled == 2,
    )

    back = COUNT if ends is ReleaseClaims else 0
    # Should there be a rest, the other broker sees to it by itself.
    wait_until(lambda: backlog_now(other) == back, "the claims are closed")
    if back:
        assert_once(waiting_bodies(other))
    assert other.run(LookAtClaims(b"w", S)).settled == 2


def test_a_broker_is_killed_while_a_batch_is_published(
    broker: RunningBroker, other: RedisStore
) -> None:
    for part in range(4):
        bodies = [b"new %d" % number for number in range(part * PART, part * PART + PART)]
        rows = msgpack.packb([[0, 0, -1, 0, None, bodies]])
        other.run(Stage(JOBS, b"n", b"k", b"r", 1, part, 0, 0, rows))
    op = Publish(JOBS, b"n", b"k", b"r", 1, [Part(part, 0, 1) for part in range(4)], 1_000)

    def publish(client: Broker | RedisStore) -> None:
        while client.run(op).left:
            pass

    kill_during(broker, publish, lambda: other.run(LookAt(JOBS, b"n")) is not None)

    publish(other)
    assert sorted(waiting_bodies(other, b"n")) == sorted(b"new %d" % it for it in range(4 * PART))


# -- words ---------------------------------------------------------------------------------------


def kill_during(
    broker: RunningBroker, do: Callable[[Broker], object], has_begun: Callable[[], bool]
) -> None:
    """The broker is killed while it is at it, or just done."""

    def try_it() -> None:
        try:
            with Broker(url_of(broker), retries=0) as client:
                do(client)
        except (NotDone, StoreUnavailable):
            pass

    worker = threading.Thread(target=try_it)
    worker.start()
    wait_until(has_begun, "it has begun")
    broker.kill()
    worker.join()


def put_all(client: RedisStore) -> None:
    bodies = [b"%d" % number for number in range(COUNT)]
    Random(1).shuffle(bodies)
    rows = [[0, 0, -1, 0, None, bodies[at : at + PART]] for at in range(0, COUNT, PART)]
    for part, row in enumerate(rows):
        client.run(Stage(JOBS, b"w", b"k", b"r", 1, part, 0, 0, msgpack.packb([row])))
    parts = [Part(part, 0, 1) for part in range(len(rows))]
    while client.run(Publish(JOBS, b"w", b"k", b"r", 1, parts, COUNT)).left:
        pass


def backlog(client: RedisStore) -> int:
    ready: int = client.run(LookAt(JOBS, b"w")).ready
    return ready


def backlog_now(store: RedisStore) -> int:
    """When all that is due is carried out."""
    store.tick()
    return backlog(store)


def claimed_bodies(client: RedisStore, number: int) -> list[bytes]:
    found: list[bytes] = []
    chunk = 0
    while packed := client.run(ReadClaim(b"w", S, number, chunk, 99)):
        found += [row[1] for some in packed for row in msgpack.unpackb(some, raw=True)]
        chunk += len(packed)
    return found


def waiting_bodies(client: RedisStore, queue: bytes = b"w") -> list[bytes]:
    found: list[bytes] = []
    after = 0
    while True:
        page = client.run(BrowsePlaces(JOBS, queue, after, 0, 1_000))
        found += [row[1] for row in msgpack.unpackb(page.rows, raw=True)]
        after = page.place
        if page.is_last:
            return found


def assert_once(bodies: list[bytes]) -> None:
    assert Counter(bodies) == Counter(b"%d" % number for number in range(COUNT))


def url_of(broker: RunningBroker) -> str:
    return f"redis://127.0.0.1:{broker.port}"
