"""How claimed messages are finished, or go back."""

from __future__ import annotations

import pytest

from quinque.engine.claims import decide, returning
from quinque.engine.claims.apply import apply, finish
from quinque.engine.claims.due import is_stalled, lapsed_claims, stale_number
from quinque.engine.claims.rows import unpack
from quinque.engine.claims.subscription import FORFEITED, SETTLED
from quinque.engine.work.worklist import DEAD, DELAYED, READY
from quinque.errors import BadClaim, Superseded
from quinque.model.claim_events import (
    CLAIM_MARKED,
    ChunksClosed,
    ClaimMarked,
    ClaimReturned,
    ClaimShrunk,
)
from quinque.model.claim_ops import Outcome
from quinque.model.limits import CLAIM_KEPT_MS, NEVER_MS
from tests.engine.claims.steps import Scene, body_of
from tests.engine.work.steps import NOW_MS, add


def states(scene: Scene) -> dict[bytes, int]:
    return {message.id: message.state for message in scene.queue.all()}


def test_a_settled_claim_names_nobody(scene: Scene) -> None:
    add(scene.queue, 3)
    claim = scene.fill(1, 3)

    finishes = [unpack(ids) for ids in returning.settled_ids(claim)]
    part = scene.close(1, SETTLED)

    assert (len(part.events), part.finished) == (1, {1: 3})
    assert finishes == [[b"1000", b"1001", b"1002"]]


def test_a_worklist_knows_how_many_of_its_messages_are_claimed(scene: Scene) -> None:
    add(scene.queue, 2)
    add(scene.queue, key=b"k")
    scene.fill(1, 3)
    assert (scene.queue.size, scene.queue.claimed) == (0, 3)
    assert scene.queue.claimed_keys == {b"k": b"1002"}
    assert not scene.queue.is_vacant

    scene.settle(1)

    assert (scene.queue.claimed, scene.queue.claimed_keys) == (0, {})
    assert scene.queue.is_vacant


def test_marked_messages_go_where_their_marks_say(scene: Scene) -> None:
    add(scene.queue, 4)
    add(scene.queue, max_deliveries=1)
    claim = scene.fill(1, 3)
    scene.fill(1, 2)
    scene.mark(1, Outcome.NACK, b"1001")
    scene.mark(1, Outcome.NACK, b"1003", delay_ms=50)
    scene.mark(1, Outcome.NACK, b"1004")
    scene.mark(1, Outcome.DEAD, b"1002")
    assert [unpack(ids) for ids in returning.settled_ids(claim)] == [[b"1000"], []]

    assert scene.settle(1) == 1

    assert states(scene) == {b"1001": READY, b"1003": DELAYED, b"1002": DEAD, b"1004": DEAD}
    back = scene.queue.find(b"1003")
    assert back is not None
    assert (back.nacks, back.requeues, back.deliveries) == (1, 0, 1)
    assert (back.due_ms, scene.queue.claimed) == (NOW_MS + 50, 0)


def test_a_message_that_comes_into_the_claim_has_no_mark_while_a_journal_is_read(
    scene: Scene,
) -> None:
    """It may have been in the claim before, in a chunk that left and is no longer on record."""
    add(scene.queue, 2)
    claim = scene.fill(1, 1)
    marked = ClaimMarked(
        CLAIM_MARKED, b"w", b"s", 1, Outcome.NACK, 0, b"", [b"1000", b"1001", b"gone"]
    )
    apply(scene.subscriptions, scene.found, scene.queue, marked, 0)
    scene.queue.in_order = False

    scene.fill(1, 1)
    finish(claim)

    assert list(claim.marks) == [b"1000"]


def test_a_released_claim_goes_back_chunk_by_chunk(scene: Scene) -> None:
    add(scene.queue, 3)
    claim = scene.fill(1, 2)
    scene.fill(1, 1)

    part = scene.close(1, FORFEITED)

    assert part.returned == {1: 3}
    assert [len(it.rows) for it in part.events if isinstance(it, ClaimReturned)] == [2, 1]
    assert [it.id for it in scene.queue.ready.first(9)] == [b"1000", b"1001", b"1002"]
    assert (claim.state, claim.messages, scene.queue.claimed) == (FORFEITED, 0, 0)


@pytest.mark.parametrize("keep", range(1, 6))
def test_a_claim_shrinks_anywhere(scene: Scene, keep: int) -> None:
    add(scene.queue, 6)
    claim = scene.fill(1, 2)
    scene.fill(1, 3)
    scene.fill(1, 1)
    scene.mark(1, Outcome.DEAD, b"1000", b"1005")

    events = returning.shrink(scene.found, claim, scene.queue, body_of, NOW_MS, keep)
    scene.run(events)

    assert isinstance(events[-1], ChunksClosed if keep in (2, 5) else ClaimShrunk)
    left = [id for chunk in claim.in_order() for id in unpack(chunk.ids)]
    assert left == [b"%d" % (1000 + number) for number in range(keep)]
    assert claim.messages == scene.queue.claimed == keep
    assert scene.queue.ready.size == 6 - keep
    assert all(message.deliveries == 0 for message in scene.queue.all())
    assert claim.marks.keys() == {b"1000"}


def test_only_the_newest_epoch_is_let_through(scene: Scene) -> None:
    decide.check_epoch(scene.found, 1)

    for epoch in (0, 2):
        with pytest.raises(Superseded):
            decide.check_epoch(scene.found, epoch)


def test_the_next_claim_is_the_one_after_the_newest(scene: Scene) -> None:
    add(scene.queue, 2)
    assert decide.claim_to_fill(scene.found, 1) is None
    claim = scene.fill(1, 1)
    assert decide.claim_to_fill(scene.found, 1) is claim
    with pytest.raises(BadClaim):
        decide.claim_to_fill(scene.found, 2)
    scene.settle(1)

    assert claim.state == SETTLED
    assert decide.claim_to_fill(scene.found, 2) is None
    with pytest.raises(BadClaim):
        decide.claim_to_fill(scene.found, 3)


def test_what_time_does() -> None:
    scene = Scene(lease_ms=100, release_ms=500)
    add(scene.queue, 2)
    assert scene.found.due_ms() == NEVER_MS
    assert not is_stalled(scene.found, NOW_MS + 100)
    claim = scene.fill(1, 1)

    assert not is_stalled(scene.found, NOW_MS + 99)
    assert is_stalled(scene.found, NOW_MS + 100)
    assert scene.found.due_ms() == scene.subscriptions.soonest_ms == NOW_MS + 500
    assert lapsed_claims(scene.found, NOW_MS + 499) == []
    assert lapsed_claims(scene.found, NOW_MS + 500) == [claim]

    scene.settle(1)
    assert scene.found.due_ms() == NOW_MS + CLAIM_KEPT_MS
    assert stale_number(scene.found, NOW_MS + CLAIM_KEPT_MS - 1) == 0
    assert stale_number(scene.found, NOW_MS + CLAIM_KEPT_MS) == 1
