"""Steps on a subscription, as a store takes them: decide, then apply.

Called by   the tests beside this file.
Calls       engine/claims/.

The subscription s is on the worklist w; a message's id is its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from quinque.engine.claims import decide, returning
from quinque.engine.claims.apply import apply, apply_claimed, apply_subscribed
from quinque.engine.claims.rows import pack
from quinque.engine.claims.subscription import (
    SETTLED,
    Chunk,
    Claim,
    Subscription,
    Subscriptions,
)
from quinque.engine.work.directory import Directory
from quinque.engine.work.worklist import Worklist
from quinque.model.claim_events import CLAIMED, Claimed, ClaimEvent, Why
from quinque.model.claim_ops import MarkClaim, OpenClaims, Outcome
from quinque.model.families import JOBS
from tests.engine.work.invariants import check_worklist
from tests.engine.work.steps import NOW_MS


class Scene:
    """A worklist and a subscription on it."""

    def __init__(self, lease_ms: int = 1_000, release_ms: int = 0) -> None:
        self.queue = Worklist(b"w", JOBS, Directory(), NOW_MS)
        self.subscriptions = Subscriptions()
        op = OpenClaims(JOBS, b"w", b"s", b"", lease_ms, release_ms)
        event = decide.open_(None, op, 0, NOW_MS)
        self.found: Subscription = apply_subscribed(self.subscriptions, event, NOW_MS)

    def fill(self, number: int, count: int) -> Claim:
        """One more chunk, of so many messages."""
        messages = self.queue.ready.first(count)
        rows = decide.rows_to_claim(messages, [it.id for it in messages])
        claim = self.found.claims.get(number)
        chunk = len(claim.chunks) if claim is not None else 0
        event = Claimed(CLAIMED, b"w", JOBS.code, b"s", b"", number, chunk, NOW_MS, 0, pack(rows))
        apply_claimed(self.subscriptions, self.queue, event, 0, rows)
        return self.found.claims[number]

    def mark(self, number: int, outcome: Outcome, *ids: bytes, delay_ms: int = 0) -> None:
        op = MarkClaim(b"w", b"s", number, outcome, ids, delay_ms)
        self.run([decide.mark(self.found, op)])

    def settle(self, number: int, now_ms: int = NOW_MS) -> int:
        finished = 0
        is_whole = False
        while not is_whole:
            part = self.close(number, SETTLED, now_ms)
            finished += sum(part.finished.values())
            is_whole = part.is_whole
        return finished

    def close(self, number: int, state: int, now_ms: int = NOW_MS) -> returning.Part:
        """One step of it."""
        part = returning.close(self.found, number, state, Why.RELEASED, self.queue, body_of, now_ms)
        self.run(part.events)
        return part

    def run(self, events: Sequence[ClaimEvent]) -> None:
        for event in events:
            apply(self.subscriptions, self.found, self.queue, event, 0)
        self.queue.alarm_ms = self.queue.soonest_ms  # as a store would set it
        check_worklist(self.queue, NOW_MS)


def body_of(chunk: Chunk) -> bytes:
    assert chunk.body is not None
    return chunk.body
