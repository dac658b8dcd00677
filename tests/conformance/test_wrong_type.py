"""A name that another family has: the error names the queue, its family, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest

from quinque.errors import WrongType
from quinque.errors.queues import REMOVED_WITH
from quinque.model.claim_ops import OpenClaims
from quinque.model.families import EVENTS, FAMILIES, ITEMS, JOBS, RELIABLE, TUBES, Family
from quinque.model.ops import Count, Op, Put, Reserve
from quinque.model.own_ops import AddItems
from quinque.model.queue_ops import DeleteQueues, RenameQueue
from quinque.model.tube_ops import LookAtTube, MakeTube, PutTasks, TaskTerms, TubeSettings
from quinque.model.work_ops import Add, LookAt, Take, Terms
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.claim_words import subscribe_group
from tests.conformance.stage_words import publish, run_of, stage
from tests.conformance.work_words import DAY_MS, configure

BEGINS = "Operation against a key holding the wrong kind of value: "
TERMS = Terms(DAY_MS)
# A queue of each family, with something in it.
MADE: dict[Family, Callable[[bytes], list[Op]]] = {
    EVENTS: lambda name: [Put(EVENTS, name, [b"x"])],
    JOBS: lambda name: [Add(JOBS, name, [b"x"], TERMS)],
    RELIABLE: lambda name: [Add(RELIABLE, name, [b"x"], Terms(0))],
    ITEMS: lambda name: [AddItems(ITEMS, name, [b"id"], [b"x"])],
    TUBES: lambda name: [MakeTube(name, b"fifo", TubeSettings())],
}
# Of each family what makes a queue, takes from one and looks at one.
ASKED: dict[Family, Callable[[bytes], list[Op]]] = {
    EVENTS: lambda name: [Reserve(EVENTS, name, b"g", 1_000), Count(EVENTS, [b"none", name])],
    JOBS: lambda name: [Take(JOBS, [b"none", name]), LookAt(JOBS, name)],
    RELIABLE: lambda name: [
        Take(RELIABLE, [name]),
        DeleteQueues(RELIABLE, [b"none", name]),
        RenameQueue(RELIABLE, name, b"{of one slot}new"),
    ],
    ITEMS: lambda name: [Take(ITEMS, [name], lease_ms=1_000), LookAt(ITEMS, name)],
    TUBES: lambda name: [PutTasks(name, [b"x"], TaskTerms()), LookAtTube(name)],
}
NAMES = {
    b"{of one slot}q": "{of one slot}q",
    b"{of one slot}\r\n\0'\xff": "{of one slot}  \\0'\\xff",
}


def told(family: Family, name: str) -> str:
    return (
        f"{BEGINS}queue '{name}' belongs to the family {family.name}; use a command of that family"
        f" or another name, or remove the queue with {REMOVED_WITH[family.name].format(name)}"
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("owner", "asking"),
    list(permutations(FAMILIES, 2)),
    ids=lambda family: family.name,
)
def test_the_queue_and_its_family_are_named(
    store: Store, owner: Family, asking: Family, name: bytes
) -> None:
    for op in MADE[owner](name):
        store.run(op)

    for op in (*MADE[asking](name), *ASKED[asking](name)):
        with pytest.raises(WrongType) as raised:
            store.run(op)
        assert str(raised.value) == told(owner, NAMES[name]), op


def test_of_several_names_the_first_is_told(store: Store) -> None:
    store.run(Put(EVENTS, b"{s}e", [b"x"]))
    store.run(MakeTube(b"{s}t", b"fifo", TubeSettings()))

    for names, owner, name in (
        ([b"{s}e", b"{s}t"], EVENTS, "{s}e"),
        ([b"{s}t", b"{s}e"], TUBES, "{s}t"),
    ):
        for op in (Take(JOBS, names), DeleteQueues(RELIABLE, names)):
            with pytest.raises(WrongType) as raised:
                store.run(op)
            assert str(raised.value) == told(owner, name)


def test_a_queue_that_is_only_set_is_told_as_one(store: Store) -> None:
    configure(store, is_paused_in=True)

    with pytest.raises(WrongType) as raised:
        store.run(Put(EVENTS, b"w", [b"x"]))

    assert str(raised.value) == told(JOBS, "w")


def test_a_batch_that_is_staged_for_another_family_is_told(store: Store) -> None:
    stage(store, run_of(b"1"))
    text = (
        f"{BEGINS}the batch of sink 'k' has messages of the family jobs; stage it for that "
        "family, or remove it first with STAGE.DROP"
    )

    with pytest.raises(WrongType) as raised:
        stage(store, run_of(b"2"), chunk=1, family=EVENTS)
    assert str(raised.value) == text
    with pytest.raises(WrongType) as raised:
        publish(store, (0, 0, 1), family=EVENTS)
    assert str(raised.value) == text


def test_a_subscription_with_claims_of_another_family_is_told(
    store: Store, clock: ManualClock
) -> None:
    store.run(Put(EVENTS, b"q", [b"x"], ttl_ms=1_000))
    subscribe_group(store).claim(1)
    clock.advance(1_000)
    assert store.run(Count(EVENTS)) == [], "the queue itself is gone"

    with pytest.raises(WrongType) as raised:
        store.run(OpenClaims(JOBS, b"q", b"s", b"", 1_000))

    assert str(raised.value) == (
        f"{BEGINS}subscription 's' has open claims of the family events; use another name, or "
        "drop the subscription first with CLAIM.DROP"
    )


def test_every_family_has_a_way_to_remove_a_queue() -> None:
    assert list(REMOVED_WITH) == [family.name for family in FAMILIES]
