"""Operations on families whose ids are their own, asked for over the wire."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quinque.client.sync.broker import Broker
from quinque.errors import BadArgument, WrongType
from quinque.model.families import EVENTS, ITEMS, JOBS, RELIABLE
from quinque.model.ops import Op
from quinque.model.own_ops import (
    RELIABLE_TERMS,
    AddItems,
    Complete,
    ExtendLeases,
    Inspect,
    Recover,
)
from quinque.model.queue_ops import DeleteQueues, FindFamilies
from quinque.model.tube_ops import FindTubes
from quinque.model.work_ops import Add, Configure, LookAt, ScanQueues, Take, Terms
from tests.server.broker import RunningBroker


@pytest.fixture
def asked(broker: RunningBroker) -> Iterator[Broker]:
    with Broker(f"redis://127.0.0.1:{broker.port}") as client:
        yield client


@pytest.fixture
def name(queue: str) -> bytes:
    return queue.encode()


def test_queues_of_elements_may_have_the_names_of_options(asked: Broker) -> None:
    names = [b"BLOCK", b"5", b"COUNT", b"7", b"last"]
    for name in names:
        asked.run(Add(RELIABLE, name, [name], RELIABLE_TERMS))

    taken = asked.run(Take(RELIABLE, names, 10, is_drained=True))

    assert [it.queue for it in taken] == names
    for it in taken:
        asked.run(Complete(RELIABLE, it.queue, [it.message_id], is_leased=True))


def test_elements_are_pushed_popped_recovered_and_acked(asked: Broker, name: bytes) -> None:
    ids = asked.run(Add(RELIABLE, name, [b"a", b"b", b"c"], RELIABLE_TERMS))
    taken = asked.run(Take(RELIABLE, [name], 2))
    view = asked.run(LookAt(RELIABLE, name))
    waiting = asked.run(Inspect(RELIABLE, name, is_leased=False, start=0, count=5))
    again = asked.run(Recover(RELIABLE, name, 1, 0))
    delivered = asked.run(Inspect(RELIABLE, name, is_leased=True, start=0, count=5))
    acked = asked.run(Complete(RELIABLE, name, [ids[1], ids[2], ids[1]], is_leased=True))

    assert [(it.queue, it.message_id, it.body) for it in taken] == [
        (name, ids[0], b"a"),
        (name, ids[1], b"b"),
    ]
    assert view is not None
    assert (view.ready, view.leased) == (1, 2)
    assert waiting is not None
    assert [(it.message_id, it.body, it.deliveries) for it in waiting] == [(ids[2], b"c", 0)]
    assert again is not None
    assert [it.message_id for it in again] == ids[:1]
    assert delivered is not None
    assert [(it.message_id, it.deliveries) for it in delivered] == [(ids[1], 1), (ids[0], 2)]
    assert all(it.delivered_ms > 1_600_000_000_000 for it in delivered)
    assert acked == [True, False, False]


def test_many_elements_are_several_requests(asked: Broker, name: bytes) -> None:
    ids = asked.run(
        Add(RELIABLE, name, [b"%d" % number for number in range(2_500)], RELIABLE_TERMS)
    )
    taken = asked.run(Take(RELIABLE, [name], 2_500))
    acked = asked.run(Complete(RELIABLE, name, ids, is_leased=True))

    assert [it.message_id for it in taken] == ids
    assert acked == [True] * 2_500
    assert asked.run(Add(RELIABLE, name, [], RELIABLE_TERMS)) == []


def test_a_queue_that_is_not_there_is_none(asked: Broker, name: bytes) -> None:
    assert asked.run(LookAt(RELIABLE, name)) is None
    assert asked.run(Inspect(RELIABLE, name, is_leased=True, start=0, count=5)) is None
    assert asked.run(Recover(RELIABLE, name, 1, 0)) is None
    assert asked.run(Complete(RELIABLE, name, [b"1-1"], is_leased=True)) is None
    missing, taken = asked.run_all([LookAt(RELIABLE, name), Take(RELIABLE, [name])])
    assert (missing, taken) == (None, [])


def test_queues_are_found_by_their_family(asked: Broker, name: bytes) -> None:
    asked.run(Add(RELIABLE, name, [b"a"], RELIABLE_TERMS))
    asked.run(AddItems(ITEMS, name + b".items", [b"id"], [b"data"]))
    asked.run(Add(JOBS, name + b".jobs", [b"a"], Terms(60_000)))

    assert name in all_queues(asked, ScanQueues(RELIABLE, 0, 7))
    assert name + b".items" in all_queues(asked, ScanQueues(ITEMS, 0, 7))
    names = [name, name + b".items", name + b".jobs", name + b".none"]
    assert asked.run(FindFamilies(names)) == [RELIABLE, ITEMS, JOBS, None]
    assert asked.run(DeleteQueues(RELIABLE, [name, name + b".none"])) == 1
    with pytest.raises(WrongType):
        asked.run(DeleteQueues(RELIABLE, [name + b".jobs"]))


def all_queues(asked: Broker, op: ScanQueues) -> list[bytes]:
    names: list[bytes] = []
    while True:
        op.cursor, some = asked.run(op)
        names += some
        if not op.cursor:
            return names


def test_tubes_are_found_with_what_is_in_them(asked: Broker, name: bytes) -> None:
    asked.call("TUBE.CREATE", name, "fifottl")
    asked.call("TUBE.CREATE", name + b" 2", "utube", "TEMPORARY")
    asked.call("TUBE.MPUT", name, b"a", b"b", b"c", b"d")
    asked.call("TUBE.PUT", name, b"e", "DELAY", 60)
    asked.call("TUBE.BURY", name, 1)
    asked.call("TUBE.DELETE", name, 2)
    asked.call("TUBE.TAKE", name)

    found = [tube for tube in asked.run(FindTubes()) if tube.queue.startswith(name)]

    assert [(tube.kind, tube.settings.is_temporary) for tube in found] == [
        (b"fifottl", False),
        (b"utube", True),
    ]
    tube = found[0]
    assert (tube.ready, tube.taken, tube.delayed, tube.buried, tube.done) == (1, 1, 1, 1, 1)
    assert (tube.calls, tube.is_asleep) == ([5, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0], False)


def test_items_are_added_leased_extended_and_completed(asked: Broker, name: bytes) -> None:
    assert asked.run(AddItems(ITEMS, name, [b"1", b"2", b"1"], [b"a", b"b", b"c"])) == [
        True,
        True,
        False,
    ]
    taken = asked.run(Take(ITEMS, [name], 1, lease_ms=60_000))
    view = asked.run(LookAt(ITEMS, name))
    extended = asked.run(ExtendLeases(ITEMS, name, [b"1", b"2"], 90_000))
    completed = asked.run(Complete(ITEMS, name, [b"1", b"1", b"2"], is_leased=False))

    assert [(it.queue, it.message_id, it.body) for it in taken] == [(name, b"1", b"a")]
    assert view is not None
    assert (view.ready, view.leased) == (1, 1)
    assert extended == [True, False]
    assert completed == [True, False, True]


@pytest.mark.parametrize(
    "op",
    [
        Add(ITEMS, b"q", [b"a"], RELIABLE_TERMS),
        Add(RELIABLE, b"q", [b"a"], Terms(60_000)),
        Add(RELIABLE, b"q", [b"a"], RELIABLE_TERMS, key=b"k"),
        Take(RELIABLE, [b"a", b"b"], 2),
        Take(RELIABLE, (), patterns=[b"*"]),
        Take(ITEMS, [b"a", b"b"], lease_ms=1_000),
        Complete(RELIABLE, b"q", [b"1-1"], is_leased=False),
        Complete(ITEMS, b"q", [b"1"], is_leased=True),
        Recover(ITEMS, b"q", 1, 0),
        Inspect(EVENTS, b"q", is_leased=True, start=0, count=1),
        ScanQueues(RELIABLE, 0, 10, least=1),
        Configure(JOBS, b"q", is_paused_in=True),
        Configure(JOBS, b"q", is_paused_out=True),
    ],
    ids=lambda op: f"{type(op).__name__}-{op.family.name}",
)
def test_what_a_family_has_no_words_for_is_refused(asked: Broker, op: Op) -> None:
    with pytest.raises(BadArgument):
        asked.run_all([op])
