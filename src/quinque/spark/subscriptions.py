"""The claims of one running query: opened, filled, settled and kept alive.

Called by   stream.py, in the one process beside Spark's driver that lives as long as the query.
Calls       the broker.

A queue has one or more shards, and each shard has its own claims, numbered from 1. Facts about
claims are stored here only while the query runs. The broker has everything that must survive.

Not here: offsets and partitions (stream.py), reading what is claimed (stream.py, on executors).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgpack

from quinque.errors import BadClaim, QuinqueError, many, printable
from quinque.model.claim_ops import (
    ClaimState,
    ClaimView,
    FillClaim,
    LookAtClaims,
    MarkClaim,
    OpenClaims,
    Outcome,
    PlayClaim,
    ReadClaim,
    RenewClaims,
    SettleClaims,
    SubscriptionView,
)
from quinque.model.limits import FILL_MOST
from quinque.spark.options import Options
from quinque.spark.queues import OPEN_CLAIMS, claimed_queues, find_queues

_LOG: Final = logging.getLogger(__name__)
_LOOK_EVERY_S: Final = 5.0  # for queues that match a pattern, and shards that were added


class Shard(NamedTuple):
    queue: bytes
    number: int


class DataLoss(Exception):
    """Messages that the checkpoint needs are missing; the text names them."""


class Poison(Exception):
    """A batch that was begun too often; the text names its claim."""


@dataclass
class Subscription:
    """The claims of one shard that are open or can be read, by number.

    A query that reads only the messages that existed when it started claims none after the position
    `until_place`, and at most `left`: a message that it returns keeps its position, and would be
    claimed repeatedly.
    """

    epoch: int
    settled: int
    created_us: int
    until_place: int = 0
    left: int | None = None
    claims: dict[int, ClaimView] = field(default_factory=dict)
    played: set[int] = field(default_factory=set)
    unread: set[int] = field(default_factory=set)  # played, and nothing of them is to be read

    @property
    def last(self) -> int:
        return max(self.settled, *self.claims, 0)


class Subscriptions:
    """All subscriptions of a query. Every method may raise Superseded if another query has opened
    them under the same name."""

    def __init__(self, options: Options) -> None:
        self._options = options
        assert options.subscription is not None
        self._name = options.subscription.encode()
        self._broker = options.broker()
        self._by_shard: dict[Shard, Subscription] = {}
        self._looked_s = float("-inf")
        self._is_bounded = False
        self._spared: set[Shard] = set()  # their last message does not become dead yet
        self._pulse: _Pulse | None = None

    @property
    def shards(self) -> list[Shard]:
        """Return the shards, always in the same order."""
        return sorted(self._by_shard)

    def of(self, shard: Shard) -> Subscription:
        return self._by_shard[shard]

    def open_all(self) -> None:
        """Open everything that the options name for this query alone. This includes new queues and
        shards, except in a query that reads only the messages that existed when it started."""
        now_s = time.monotonic()
        if self._is_bounded or now_s - self._looked_s < _LOOK_EVERY_S:
            return
        is_first = self._looked_s == float("-inf")
        self._looked_s = now_s
        queues = find_queues(self._broker, self._options)
        if is_first:
            queues += claimed_queues(self._broker, self._options)
        for queue in queues:
            self._open_queue(queue)
        self._beat()

    def open(self, shard: Shard) -> None:
        """The one shard is open too; of a queue that a checkpoint knows and a pattern does not
        find, because there is nothing in it at the moment."""
        if shard in self._by_shard:
            return
        self._open_queue(shard.queue)
        if shard not in self._by_shard:
            self._open_shard(shard)
        self._beat()

    def bind(self) -> None:
        """Claim no messages that are added from here on."""
        self._is_bounded = True
        for shard, subscription in self._by_shard.items():
            view = self._look(shard)
            # 0 would be no bound at all.
            subscription.until_place = max(1, view.stamp_us)
            subscription.left = view.backlog

    def settle(self, shard: Shard, number: int) -> None:
        """All claims of the shard up to that one are finished. A claim that the broker does not
        know is of a subscription that was dropped: the numbers since then mean others."""
        it = self._by_shard[shard]
        if not it.settled < number <= it.last:
            return
        settle = SettleClaims(shard.queue, self._name, it.epoch, number, shard.number)
        if not self._broker.run(settle):
            # Nothing was finished: it may have been released meanwhile.
            it.claims |= {claim.number: claim for claim in self._look(shard).claims}
        it.settled = number
        released = ClaimState.FORFEITED
        it.claims = {
            k: view for k, view in it.claims.items() if k >= number or view.state == released
        }
        it.played = {k for k in it.played if k >= number}

    def unread(self, shard: Shard, number: int) -> list[ClaimView]:
        """Return those of unsettled() that were never read."""
        views = self.unsettled(shard, number)
        return [view for view in views if not view.plays and view.messages]

    def unsettled(self, shard: Shard, number: int) -> list[ClaimView]:
        """The claims up to that one that are about to be settled."""
        it = self._by_shard[shard]
        return [
            view
            for claim, view in sorted(it.claims.items())
            if it.settled < claim <= number and view.state == ClaimState.SEALED
        ]

    def take_released(self, shard: Shard, number: int) -> list[ClaimView]:
        """Return the claims up to that one whose messages returned to the queue. A second call does
        not return them."""
        it = self._by_shard[shard]
        released = [
            view
            for claim, view in sorted(it.claims.items())
            if claim <= number and view.state == ClaimState.FORFEITED
        ]
        for view in released:
            del it.claims[view.number]
        return released

    def fill(self, shard: Shard, number: int, count: int, wait_ms: int) -> ClaimView | None:
        """Add messages to the claim, up to `count` and as many as one request moves. Return None if
        there are none for it. Raises DataLoss if the broker cannot continue there."""
        it = self._by_shard[shard]
        known = it.claims.get(number)
        if it.left is None:
            view = self._fill(shard, number, min(count, FILL_MOST), wait_ms, seals=False)
        elif it.left > 0:
            view = self._fill(shard, number, min(count, FILL_MOST, it.left), 0, seals=False)
            if view is not None:
                it.left -= view.messages - (known.messages if known else 0)
        else:
            view = known
        if view is not None:
            it.claims[number] = view
        return view

    def seal(self, shard: Shard, number: int) -> ClaimView:
        """Seal the claim: its contents are fixed from here on."""
        view = self._fill(shard, number, 0, 0, seals=True)
        assert view is not None
        self._by_shard[shard].claims[number] = view
        return view

    def set_apart(self, batch: dict[Shard, int]) -> None:
        """Find out which claim of a batch that failed too often has the bad message, when each is
        down to one message: one of them is read without the others, whose messages return to their
        queues. If that fails twice, the message may become dead. Its claim was then started more
        often than the others; once may be chance, if the query was killed between two of them."""
        self._spared = set()
        if self._options.on_poison != "deadletter":
            return
        views = {
            shard: view
            for shard, number in batch.items()
            if number not in self._by_shard[shard].played
            and (view := self._by_shard[shard].claims.get(number)) is not None
            and view.state == ClaimState.SEALED
            and view.messages
        }
        if len(views) < 2:
            return
        least = min(view.plays for view in views.values())
        suspect = max(sorted(views), key=lambda shard: views[shard].plays)
        is_over = all(view.messages == 1 for view in views.values())
        is_over &= least >= self._options.max_replays
        if not is_over or views[suspect].plays < least + 2:
            self._spared = set(views)
        if not is_over:
            return
        for shard, view in views.items():
            if shard != suspect:
                self._give_up(shard, view.number, Outcome.NACK, "set apart from a bad message")
                it = self._by_shard[shard]
                if it.left is not None:
                    it.left += view.messages

    def play(self, shard: Shard, number: int) -> ClaimView | None:
        """The claim is about to be read, and that is counted once in the life of this query; None
        when there is nothing to read, because its one message was too much too often, or is set
        apart.

        Raises NoClaim; Poison when it was begun too often and the options want to know.
        """
        it = self._by_shard[shard]
        if number in it.played:
            return None if number in it.unread else it.claims[number]
        view = it.claims.get(number) or self._find(shard, number)
        keep = 0
        if view is not None and view.state == ClaimState.SEALED:
            is_dead, keep = self._judge(shard, view)
            if is_dead:
                reason = f"replayed {many(view.plays, 'time')}"
                self._give_up(shard, number, Outcome.DEAD, reason)
                return None
        played = self._broker.run(
            PlayClaim(shard.queue, self._name, it.epoch, number, keep, shard.number)
        )
        it.played.add(number)
        it.claims[number] = played
        if keep and view is not None and it.left is not None:
            it.left += view.messages - played.messages
        return played

    def report(self, shards: Iterable[Shard]) -> tuple[dict[Shard, int], dict[str, int]]:
        """Return how many messages wait in each shard; and for all shards, how many wait, how many
        are claimed, and the age of the oldest that waits."""
        views = {shard: self._look(shard) for shard in shards}
        claims = [claim for view in views.values() for claim in view.claims]
        return {shard: view.backlog for shard, view in views.items()}, {
            "backlog": sum(view.backlog for view in views.values()),
            "inflight": sum(claim.messages for claim in claims if claim.state in OPEN_CLAIMS),
            "oldest_ms": max((view.oldest_ms for view in views.values()), default=0),
        }

    def close(self) -> None:
        """Stop the heartbeat. Claims stay claimed."""
        if self._pulse is not None:
            self._pulse.stop()

    def _beat(self) -> None:
        if self._pulse is None:
            self._pulse = _Pulse(self._options)
        self._pulse.beat_for({shard: it.epoch for shard, it in self._by_shard.items()})

    def _open_queue(self, queue: bytes) -> None:
        first = Shard(queue, 0)
        if first in self._by_shard:
            view = self._broker.run(LookAtClaims(queue, self._name))
            shards = view.shards if view is not None else 1
        else:
            shards = self._open_shard(first)
        for number in range(1, shards):
            if Shard(queue, number) not in self._by_shard:
                self._open_shard(Shard(queue, number))

    def _open_shard(self, shard: Shard) -> int:
        """Open the shard. Return the number of shards of its queue."""
        options = self._options
        group = b""
        if not options.family.is_worklist:
            group = options.group.encode() if options.group else self._name
        view = self._broker.run(
            OpenClaims(
                options.family,
                shard.queue,
                self._name,
                group,
                options.lease_ms,
                options.release_ms,
                shard.number,
            )
        )
        claims = {claim.number: claim for claim in view.claims}
        # For a bounded query, a queue that it did not see at its start is newer.
        left = 0 if self._is_bounded else None
        self._by_shard[shard] = Subscription(
            view.epoch, view.settled, view.created_us, left=left, claims=claims
        )
        return view.shards

    def _fill(
        self, shard: Shard, number: int, count: int, wait_ms: int, *, seals: bool
    ) -> ClaimView | None:
        it = self._by_shard[shard]
        operation = FillClaim(
            shard.queue,
            self._name,
            it.epoch,
            number,
            count,
            it.until_place,
            seals,
            shard.number,
        )
        try:
            return self._broker.run(operation, wait_ms)
        except BadClaim as error:
            raise DataLoss(
                f"the broker at {self._options.shown_url} cannot continue claim {number} of "
                f"{self._shown(shard)}: {error}. The subscription was dropped, or the checkpoint "
                "belongs to another subscription"
            ) from error

    def _look(self, shard: Shard) -> SubscriptionView:
        view = self._broker.run(LookAtClaims(shard.queue, self._name, shard.number))
        if view is None:
            raise DataLoss(f"{self._shown(shard)} was dropped while the query ran")
        return view

    def _find(self, shard: Shard, number: int) -> ClaimView | None:
        return next((c for c in self._look(shard).claims if c.number == number), None)

    def _judge(self, shard: Shard, view: ClaimView) -> tuple[bool, int]:
        """Return whether to give up its last message, and how many of its messages to keep (0:
        all)."""
        options = self._options
        if options.on_poison == "replay" or view.plays < options.max_replays:
            return False, 0
        told = f"claim {view.number} of {self._shown(shard)} was started {many(view.plays, 'time')}"
        if options.on_poison == "fail":
            raise Poison(
                f"{told} without finishing {many(view.messages, 'message')}: one of them "
                "may make the query fail; see the options onPoison and maxReplays"
            )
        if view.messages <= 1 and shard in self._spared:
            return False, 0
        if view.messages <= 1:
            _LOG.warning("%s: its last message becomes dead", told)
            return True, 0
        _LOG.warning("%s: half of its %d messages return to the queue", told, view.messages)
        return False, max(1, view.messages // 2)

    def _give_up(self, shard: Shard, number: int, outcome: Outcome, reason: str) -> None:
        """Decide the outcome of the one message of the claim. It is not read."""
        it = self._by_shard[shard]
        chunks = self._broker.run(ReadClaim(shard.queue, self._name, number, 0, 1, shard.number))
        self._broker.run(
            MarkClaim(
                shard.queue,
                self._name,
                number,
                outcome,
                [_first_id(chunks)],
                reason=reason.encode(),
                shard=shard.number,
                epoch=it.epoch,
            )
        )
        it.played.add(number)
        it.unread.add(number)

    def _shown(self, shard: Shard) -> str:
        return (
            f"subscription '{printable(self._name)}' on queue '{printable(shard.queue)}' "
            f"(shard {shard.number})"
        )


class _Pulse:
    """A thread that renews the subscriptions, on a connection of its own."""

    def __init__(self, options: Options) -> None:
        assert options.subscription is not None
        self._name = options.subscription.encode()
        self._every_s = options.lease_ms / 3000
        self._broker = options.broker()
        self._epochs: dict[Shard, int] = {}
        self._is_stopped = threading.Event()
        threading.Thread(target=self._run, name="quinque pulse", daemon=True).start()

    def beat_for(self, epochs: dict[Shard, int]) -> None:
        self._epochs = epochs

    def stop(self) -> None:
        self._is_stopped.set()

    def _run(self) -> None:
        while not self._is_stopped.wait(self._every_s):
            for shard, epoch in self._epochs.items():
                try:
                    self._broker.run(RenewClaims(shard.queue, self._name, epoch, shard.number))
                except QuinqueError as error:
                    # The query finds out by itself, at its next request.
                    _LOG.warning("cannot renew the subscription: %s", error)


def _first_id(chunks: list[bytes]) -> bytes:
    row = msgpack.unpackb(chunks[0], raw=True)[0]
    assert isinstance(row[0], bytes)
    return row[0]
