"""The nodes of a store that one broker uses: itself, as it announced itself, and nobody else."""

from __future__ import annotations

from quinque.model.work_ops import Announce, FindNodes, ForgetNode, LookAtNode, SetNode
from quinque.stores.base import Store
from quinque.stores.clock import ManualClock
from tests.conformance.conftest import Reopen

NOBODY = b"0" * 40


def test_it_is_the_only_one(store: Store) -> None:
    node = store.run(LookAtNode())

    assert store.run(FindNodes()) == [node]
    assert (node.host, node.port, node.is_self) == (b"", 0, True)
    assert not node.is_doubted


def test_it_has_the_address_it_announced(store: Store) -> None:
    node = store.run(Announce(b"here.example", 7711))

    assert (node.host, node.port) == (b"here.example", 7711)
    assert store.run(LookAtNode()) == node
    assert store.run(FindNodes()) == [node]
    leaving = store.run(SetNode(is_leaving=True))
    assert (leaving.host, leaving.port, leaving.is_leaving) == (b"here.example", 7711, True)
    assert store.run(FindNodes()) == [leaving]


def test_it_may_announce_another_one(store: Store) -> None:
    store.run(Announce(b"here.example", 7711))

    moved = store.run(Announce(b"there.example", 7712))

    assert store.run(FindNodes()) == [moved]


def test_a_renamed_one_is_the_only_one_still(store: Store) -> None:
    store.run(Announce(b"here.example", 7711))

    renamed = store.run(SetNode(is_renamed=True))

    assert store.run(FindNodes()) == [renamed]


def test_one_that_comes_back_is_the_only_one(
    store: Store, reopen: Reopen, clock: ManualClock
) -> None:
    before = store.run(Announce(b"here.example", 7711))

    (node,) = reopen(clock).run(FindNodes())

    assert (node.node_id, node.host) == (before.node_id, b"")


def test_nobody_else_can_be_forgotten(store: Store) -> None:
    store.run(ForgetNode(NOBODY))

    assert len(store.run(FindNodes())) == 1
