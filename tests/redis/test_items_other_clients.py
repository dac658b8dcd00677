"""A broker's store and workers with the published clients on one queue, by the clock of Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import product

import pytest
import redis

from quinque.model.own_ops import Cleaned
from quinque.stores.redis.store import RedisStore
from tests.conformance import item_words
from tests.servers.patience import wait_until
from tests.servers.redis_server import RedisServer
from tests.workqueue.other_clients import (
    Client,
    NewGeneration,
    NodeProcess,
    Ours,
    PublishedNode,
    PublishedPython,
)

QUEUE = "shared"
NAMES = ("broker", "library", "python", "node", "new")
OTHERS = NAMES[1:]
NOTHING = Cleaned(0, 1, 0, 0, 0)  # one was looked at

# redis-py would rather have others than the published package asks for.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")


class Brokers:
    """A broker's store, with the calls that every client has."""

    def __init__(self, store: RedisStore) -> None:
        self.store = store

    def add(self, id: str, data: str) -> None:
        assert item_words.add_data(self.store, id.encode(), data.encode(), queue=QUEUE.encode())

    def lease(self, lease_s: int = 60) -> tuple[str, str] | None:
        given = item_words.lease_data(self.store, queue=QUEUE.encode(), lease_ms=lease_s * 1000)
        return (given[0][0].decode(), given[0][1].decode()) if given else None

    def complete(self, id: str) -> bool:
        return item_words.complete(self.store, id.encode(), queue=QUEUE.encode()) == [True]

    def clean(self) -> None:
        self.cleaned()

    def cleaned(self) -> Cleaned:
        return item_words.clean(self.store, queue=QUEUE.encode())

    def lengths(self) -> tuple[int, int]:
        return item_words.lengths(self.store, QUEUE.encode())


@pytest.fixture
def broker(redis_url: str) -> Iterator[Brokers]:
    with closing(RedisStore(redis_url)) as store:
        yield Brokers(store)


@pytest.fixture(scope="module")
def node_process(redis_server: RedisServer) -> Iterator[NodeProcess]:
    process = NodeProcess(redis_server.url.removeprefix("unix://"))
    yield process
    process.close()


@pytest.fixture
def keys(redis_server: RedisServer) -> redis.Redis:
    return redis_server.client()


@pytest.fixture
def clients(broker: Brokers, keys: redis.Redis, node_process: NodeProcess) -> dict[str, Client]:
    return {
        "broker": broker,
        "library": Ours(keys, QUEUE),
        "python": PublishedPython(keys, QUEUE),
        "node": PublishedNode(node_process, QUEUE),
        "new": NewGeneration(keys, QUEUE),
    }


def has_none(keys: redis.Redis, names: list[str]) -> bool:
    return keys.exists(*names) == 0


def test_one_adds_another_leases_a_third_completes(
    clients: dict[str, Client], broker: Brokers
) -> None:
    for names in product(NAMES, repeat=3):
        if "broker" not in names:
            continue
        adder, leaser, completer = names
        id = "-".join(names)
        clients[adder].add(id, f"data of {id}")

        assert clients[leaser].lease() == (id, f"data of {id}"), id
        assert broker.lengths() == (0, 1), id
        assert clients[completer].complete(id), id

        assert [clients[name].complete(id) for name in NAMES] == [False] * len(NAMES), id
        assert broker.lengths() == (0, 0), id


@pytest.mark.parametrize("cleaner", OTHERS)
def test_no_client_s_cleaner_takes_away_what_a_broker_leased(
    clients: dict[str, Client], broker: Brokers, cleaner: str
) -> None:
    broker.add("1", "data")
    broker.lease()

    clients[cleaner].clean()

    assert broker.lengths() == (0, 1)
    assert broker.complete("1")


@pytest.mark.parametrize("leaser", OTHERS)
def test_a_broker_s_cleaning_lets_be_what_anyone_holds_and_returns_what_was_abandoned(
    clients: dict[str, Client], broker: Brokers, keys: redis.Redis, leaser: str
) -> None:
    broker.add("1", "data")
    assert clients[leaser].lease() == ("1", "data")
    assert broker.cleaned() == NOTHING

    for kind in ("lease", "leased_by_session"):  # as Redis does when the time is over
        keys.delete(f"{QUEUE}:{kind}:1")

    assert broker.cleaned().returned == 1
    assert broker.lease() == ("1", "data")


def test_redis_ends_a_lease_when_the_broker_does(broker: Brokers, keys: redis.Redis) -> None:
    broker.add("1", "data")
    broker.lease(60)

    for kind in ("lease", "leased_by_session"):
        left_ms = keys.pttl(f"{QUEUE}:{kind}:1")
        assert isinstance(left_ms, int)
        assert 50_000 < left_ms <= 60_000


def test_a_broker_s_lease_that_redis_ended_is_cleaned_by_any_client(
    clients: dict[str, Client], broker: Brokers, keys: redis.Redis
) -> None:
    """Also when no broker is there any more to do it."""
    for name in OTHERS:
        broker.add(name, "data")
        item_words.lease(broker.store, queue=QUEUE.encode(), lease_ms=50)
        leases = [f"{QUEUE}:lease:{name}", f"{QUEUE}:leased_by_session:{name}"]
        wait_until(partial(has_none, keys, leases), "Redis has ended the lease")

        clients[name].clean()

        # By a broker, which passes over the id "0" that the cleaner for Node.js adds.
        assert broker.lease() == (name, "data")
        assert clients[name].complete(name)
