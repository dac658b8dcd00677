"""Workers of other clients share a queue with ours: one adds, another leases, a third completes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from tests.servers.redis_server import RedisServer
from tests.workqueue.other_clients import (
    Client,
    NewGeneration,
    NodeProcess,
    Ours,
    PublishedNode,
    PublishedPython,
)
from tests.workqueue.stage import Picture, Place, abandon

NAMES = ("ours", "python", "node", "new")
OLD = ("python", "node")
Open = Callable[[str], Client]
KINDS: dict[str, Callable[[Any, str], Client]] = {
    "ours": Ours,
    "python": PublishedPython,
    "new": NewGeneration,
}

# redis-py would rather have others than the published package asks for.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")


@pytest.fixture(scope="module")
def node_process(redis_server: RedisServer) -> Iterator[NodeProcess]:
    process = NodeProcess(redis_server.url.removeprefix("unix://"))
    yield process
    process.close()


@pytest.fixture
def open_client(place: Place, prefix: str, node_process: NodeProcess) -> Open:
    """A worker of the test's queue, by the name of its client."""

    def open_one(name: str) -> Client:
        if name == "node":
            return PublishedNode(node_process, prefix)
        return KINDS[name](place.raw, prefix)

    return open_one


def test_one_adds_another_leases_a_third_completes_in_all_orders(
    place: Place, prefix: str, open_client: Open
) -> None:
    clients = {name: open_client(name) for name in NAMES}
    for adder, leaser, completer in product(NAMES, repeat=3):
        id = f"{adder}-{leaser}-{completer}"
        clients[adder].add(id, f"data of {id}")

        assert clients[leaser].lease() == (id, f"data of {id}"), id
        assert clients[completer].complete(id), id

        assert [clients[name].complete(id) for name in NAMES] == [False] * 4, id
        picture = Picture(place.raw, prefix)
        assert (picture.waiting, picture.processing, picture.items) == ([], [], set()), id


@pytest.mark.parametrize("leaser", NAMES)
def test_our_cleaner_returns_what_anyone_abandoned_and_lets_be_what_anyone_holds(
    place: Place, prefix: str, open_client: Open, leaser: str
) -> None:
    ours, client = open_client("ours"), open_client(leaser)
    ours.add("1", "one")
    ours.add("2", "two")
    client.lease()
    abandon(place.raw, prefix)
    client.lease()

    ours.clean()

    assert Picture(place.raw, prefix).waiting == ["1"]
    assert Picture(place.raw, prefix).processing == ["2"]
    assert client.lease() == ("1", "one")
    assert client.complete("1")
    assert client.complete("2")


@pytest.mark.parametrize("cleaner", ["python", "new"])
def test_the_cleaner_of_either_generation_lets_be_what_we_hold(
    place: Place, prefix: str, open_client: Open, cleaner: str
) -> None:
    ours = open_client("ours")
    ours.add("1", "one")
    ours.lease()

    open_client(cleaner).clean()

    assert Picture(place.raw, prefix).waiting == []
    assert Picture(place.raw, prefix).processing == ["1"]


@pytest.mark.parametrize(("writes", "cleaner"), [("new", "python"), ("old", "new")])
def test_a_cleaner_of_the_other_generation_takes_away_what_is_held_under_one_lease_only(
    place: Place, prefix: str, open_client: Open, writes: str, cleaner: str
) -> None:
    """This is why both leases are written unless one is told otherwise."""
    ours = Ours(place.raw, prefix, writes=writes)
    ours.add("1", "one")
    ours.lease()

    open_client(cleaner).clean()

    assert Picture(place.raw, prefix).waiting == ["1"]
    # Even so it is not in two hands, if the others are ours.
    assert open_client("ours").lease() is None
    assert ours.complete("1")


@pytest.mark.parametrize("cleaner", NAMES)
def test_nothing_completed_runs_again_whoever_cleans(
    place: Place, prefix: str, open_client: Open, cleaner: str
) -> None:
    ours, client = open_client("ours"), open_client(cleaner)
    for id in "abc":
        client.add(id, id)
    for _ in "abc":
        ours.lease()
    abandon(place.raw, prefix)
    client.clean()
    assert ours.complete("b")

    ours.clean()
    run = []
    while (item := ours.lease()) is not None:
        run.append(item)
        assert ours.complete(item[0])
        client.clean()

    assert sorted(run) == [("a", "a"), ("c", "c")]
    assert Picture(place.raw, prefix).items == set()


@pytest.mark.parametrize("worker", OLD)
def test_an_id_without_data_reaches_workers_of_the_old_generation_unless_it_is_cleaned(
    place: Place, prefix: str, open_client: Open, worker: str
) -> None:
    client = open_client(worker)
    place.raw.lpush(f"{prefix}:processing", "ghost")

    client.clean()  # puts it back, for it does not look whether there is an item
    waiting = Picture(place.raw, prefix).waiting
    ours = Ours(place.raw, prefix)

    assert "ghost" in waiting
    assert ours.lease() is None
    assert Picture(place.raw, prefix).waiting == []
    assert client.lease() is None
