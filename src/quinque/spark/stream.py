"""A queue as a stream: each micro-batch is a claim.

Called by   Spark: `read` on the executors, the rest in one process next to the driver.
Calls       subscriptions.py, keeping.py, schema.py, the broker.

The offset has, for each shard of each queue, the number of the last claim that Spark got, and when
its subscription was created:

    {"v": 1, "claims": {"clicks": {"0": 17}}, "created": {"clicks": {"0": 1700000000000001}}}

A subscription that was created again, or that is in another store, has claims with the same numbers
and other messages.

The calls of Spark, and their effect:

    latestOffset(start)    Spark has committed all up to `start`: settle that. Then the next claim:
                           the one there is already, or a new one, filled and sealed
    partitions(start, end) the claims after `start` are about to be read
    read                   rows of a claim; the same whenever and however often it is asked for
    commit(end)            comes one batch late, and never for the last one: settled long ago

`stop` releases nothing: Spark also calls it when its driver was killed in the middle of a batch,
and that batch is to be read again.

Not here: the lifecycle as a stream (log.py), the options (options.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from quinque.errors import NoClaim, many, printable
from quinque.model.claim_ops import ClaimState, ClaimView, ReadClaim
from quinque.spark.options import Options
from quinque.spark.queues import chooser, queue_name, queue_text
from quinque.spark.schema import ClaimName, Origin, rows_as_batch
from quinque.spark.subscriptions import DataLoss, Shard, Subscriptions

if TYPE_CHECKING:
    import pyarrow as pa

    from quinque.spark.keeping import Keeper

_LOG: Final = logging.getLogger(__name__)
_VERSION: Final = 1
# As many chunks in one reply as make a batch of the size that Spark itself uses, about 10,000 rows.
_CHUNKS_AT_ONCE: Final = 10
_REPORT_EVERY_S: Final = 1.0


class Reached(NamedTuple):
    """The last claim of a shard that Spark got, and when its subscription was created. 0 in old
    offsets, which do not have that time."""

    claim: int
    created_us: int


@dataclass
class ClaimPart(InputPartition):
    """Some chunks of one claim; or a piece of one chunk, of several that are about the same
    size."""

    shard: Shard
    claim: int
    first: int
    chunks: int
    piece: int = 0
    pieces: int = 1


class ClaimStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of messages that go to this query alone."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        # Nothing is opened here: Spark makes readers to plan with, and copies of them to read with.
        self._options = options
        self._columns = columns
        self._subscriptions: Subscriptions | None = None
        self._is_bounded = False
        self._is_chosen = chooser(options)
        self._strange: set[Shard] = set()  # that the checkpoint has of another subscription
        self._keeper: Keeper | None = None
        self._end: dict[str, Any] | None = None  # the offset that Spark got last
        self._report: tuple[float, dict[str, Any]] = (float("-inf"), {})

    def __getstate__(self) -> dict[str, Any]:
        """Send only the arguments to the executors."""
        return {"options": self._options, "columns": self._columns}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["options"], state["columns"])  # type: ignore[misc]

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:
        self._opened().bind()
        self._is_bounded = True

    def initialOffset(self) -> dict[str, Any]:
        """Return an empty position. The broker keeps the position of the subscription: Spark
        repeats this call until its first batch is committed, and must get the same."""
        return _offset({})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = _reached(start)
        reached = self._known(begun)
        self._settle(begun, reached)
        # A queue that the options no longer name is acked as far as Spark has come, and not read.
        chosen = self._is_chosen
        reached = {
            shard: self._base(shard, n) for shard, n in reached.items() if chosen(shard.queue)
        }
        ahead = {shard: n + 1 for shard, n in reached.items() if self._is_there(shard, n + 1)}
        if not ahead:
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_messages
            ahead = self._fill(reached, most)
        return self._handed_out(_offset({**begun, **self._dated(ahead)}))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[ClaimPart]:
        self._handed_out(end)
        begun, ended = _reached(start), _reached(end)
        self._known(ended)
        claims = {
            shard: reached.claim
            for shard, reached in ended.items()
            if shard not in self._strange and _is_ahead(begun.get(shard), reached)
        }
        self._opened().set_apart(claims)
        views: list[tuple[Shard, ClaimView]] = []
        for shard, number in claims.items():
            view = self._play(shard, number)
            if view is not None:
                views.append((shard, view))
        return _planned(views, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ClaimPart)
        options, shard = self._options, partition.shard
        subscription = (options.subscription or "").encode()
        claim = ClaimName(shard.queue, shard.number, subscription, partition.claim)
        origin = Origin(options.family.name, shard.queue, shard.number, str(claim))
        at, end = partition.first, partition.first + partition.chunks
        with options.broker() as broker:
            while at < end:
                count = min(end - at, _CHUNKS_AT_ONCE)
                try:
                    chunks = broker.run(
                        ReadClaim(*_place(claim), chunk=at, count=count, shard=shard.number)
                    )
                    if not chunks:
                        raise NoClaim(subscription, partition.claim, f"has no chunk {at}")
                except NoClaim as error:
                    self._lost(shard, str(error))
                    return
                at += len(chunks)
                yield rows_as_batch(
                    chunks, origin, self._columns, partition.piece, partition.pieces
                )

    def commit(self, end: dict[str, Any]) -> None:
        self._opened()
        ended = _reached(end)
        self._settle(ended, self._known(ended))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the offset that Spark got last, or the one after it while messages wait, with
        facts about the queue for the user."""
        if self._subscriptions is None or self._end is None:
            return None
        now_s = time.monotonic()
        if now_s - self._report[0] >= _REPORT_EVERY_S:
            self._report = now_s, self._newest(self._subscriptions, self._end)
        return self._report[1]

    def stop(self) -> None:
        if self._subscriptions is not None:
            self._subscriptions.close()

    def _handed_out(self, offset: dict[str, Any]) -> dict[str, Any]:
        if offset != self._end:
            self._end = offset
            self._report = float("-inf"), {}
        return offset

    def _newest(self, subscriptions: Subscriptions, end: dict[str, Any]) -> dict[str, Any]:
        # Of queues that the options name; others are only acked.
        shards = [shard for shard in subscriptions.shards if self._is_chosen(shard.queue)]
        backlogs, told = subscriptions.report(shards)
        reached = _reached(end)
        later = {
            shard: (reached[shard].claim if shard in reached else subscriptions.of(shard).settled)
            + 1
            for shard, backlog in backlogs.items()
            if backlog
        }
        return _offset({**reached, **self._dated(later)}) | told if later else end

    def _dated(self, claims: dict[Shard, int]) -> dict[Shard, Reached]:
        of = self._opened().of
        return {shard: Reached(n, of(shard).created_us) for shard, n in claims.items()}

    def _opened(self) -> Subscriptions:
        if self._subscriptions is None:
            self._subscriptions = Subscriptions(self._options)
        self._subscriptions.open_all()
        return self._subscriptions

    def _known(self, offset: dict[Shard, Reached]) -> dict[Shard, int]:
        """Return the position of the offset in each open shard that it has."""
        subscriptions = self._opened()
        for shard in offset:
            subscriptions.open(shard)
        return {shard: self._place(shard, offset.get(shard)) for shard in subscriptions.shards}

    def _place(self, shard: Shard, reached: Reached | None) -> int:
        """The claim that the offset is at; the last settled one for an offset that has no claim of
        this subscription."""
        it = self._opened().of(shard)
        if reached is None:
            return it.settled
        if _is_same(reached.created_us, it.created_us):
            self._strange.discard(shard)
            return reached.claim
        if shard not in self._strange:
            self._lost(
                shard,
                f"claim {reached.claim} of the checkpoint is of another subscription: this one was "
                "dropped and opened again, or the checkpoint belongs to another broker",
            )
            self._strange.add(shard)
        return it.settled

    def _settle(self, offset: dict[Shard, Reached], reached: dict[Shard, int]) -> None:
        """Ack the messages of claims that Spark has committed: those of the offset. Raise DataLoss
        for a claim that was never read, because a sink skips a batch whose number it knows from
        another checkpoint; and for a claim that was released before it was acked, because its
        messages are delivered again."""
        subscriptions = self._opened()
        for shard, number in reached.items():
            for claim in subscriptions.unread(shard, number):
                self._lost(
                    shard,
                    f"Spark committed claim {claim.number} of {many(claim.messages, 'message')}, "
                    "which was not read: the sink has a batch of that number from another "
                    "checkpoint, or does not read its batches",
                )
            self._keep(shard, subscriptions.unsettled(shard, number))
            subscriptions.settle(shard, number)
            released = subscriptions.take_released(shard, number)
            if shard not in offset or shard in self._strange:
                continue  # this checkpoint has committed none of them
            for claim in released:
                self._lost(
                    shard,
                    f"claim {claim.number}, which Spark committed, was released before it was "
                    "acked, because the query was away for longer than releaseAfter: its messages "
                    "are in the queue again",
                )

    def _keep(self, shard: Shard, claims: Sequence[ClaimView]) -> None:
        """The claims are in files, if the options say so. A claim that was released meanwhile is
        not acked, and so it is not kept."""
        options = self._options
        if options.keep_dir is None:
            return
        if self._keeper is None:
            # Not in every process of Spark: the import for Parquet takes as long as all others.
            from quinque.spark.keeping import Keeper

            self._keeper = Keeper(options, options.keep_dir)
        subscription = (options.subscription or "").encode()
        created_us = self._opened().of(shard).created_us
        for view in claims:
            claim = ClaimName(shard.queue, shard.number, subscription, view.number)
            with suppress(NoClaim):
                self._keeper.keep(claim, created_us, view.chunks)
        self._keeper.drop_old()

    def _base(self, shard: Shard, reached: int) -> int:
        """Return the claim after which the query continues: that of the checkpoint, if the broker
        has the next one."""
        it = self._opened().of(shard)
        if reached > it.last:
            self._lost(
                shard,
                f"the broker has no claim {reached}: the subscription was dropped, or the "
                "checkpoint belongs to another subscription",
            )
            return it.settled
        if reached < it.settled and not self._is_there(shard, reached + 1):
            # Of released claims that Spark knew nothing of, the messages are in the queue.
            released = self._opened().take_released(shard, it.settled)
            if len(released) < it.settled - reached:
                self._lost(
                    shard, f"claims {reached + 1} to {it.settled} were settled by another query"
                )
            return it.settled
        return reached

    def _is_there(self, shard: Shard, number: int) -> bool:
        """Return whether the claim can be read."""
        view = self._opened().of(shard).claims.get(number)
        return view is not None and view.state in (ClaimState.SEALED, ClaimState.SETTLED)

    def _fill(self, reached: dict[Shard, int], most: int) -> dict[Shard, int]:
        """New claims, sealed, with up to `most` messages in all."""
        filling = _Filling(self._opened(), reached, most, self._options)
        wait_ms = 0 if self._is_bounded else self._options.poll_ms
        return filling.sealed(wait_ms)

    def _play(self, shard: Shard, number: int) -> ClaimView | None:
        try:
            return self._opened().play(shard, number)
        except NoClaim as error:
            self._lost(shard, str(error))
            return None

    def _lost(self, shard: Shard, what: str) -> None:
        """Raise DataLoss, unless the options allow the query to continue."""
        told = f"queue '{printable(shard.queue)}' (shard {shard.number}): {what}"
        if self._options.fails_on_loss:
            raise DataLoss(f"{told}; to continue without it, set failOnDataLoss=false")
        _LOG.warning("%s; continuing without it", told)


class _Filling:
    """The claims of one micro-batch while they are filled: of each shard a fair share, and what
    one does not use goes to the others."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        reached: dict[Shard, int],
        most: int,
        options: Options,
    ) -> None:
        self._subscriptions = subscriptions
        self._most = most
        self._most_bytes = options.max_bytes
        self._numbers = {shard: number + 1 for shard, number in reached.items()}
        self._views: dict[Shard, ClaimView] = {}
        # Filled in an earlier run, and not sealed.
        for shard, number in self._numbers.items():
            left = subscriptions.of(shard).claims.get(number)
            if left is not None:
                self._views[shard] = left

    def sealed(self, wait_ms: int) -> dict[Shard, int]:
        """The number of each claim that has something in it."""
        hungry = list(self._numbers)
        while hungry and self._has_room():
            share = max(1, self._room // len(hungry))
            hungry = [shard for shard in hungry if self._has_room() and self._fill(shard, share, 0)]
        if not self._views and wait_ms and self._numbers:
            wait_each_ms = max(1, wait_ms // len(self._numbers))
            for shard in self._numbers:
                if self._fill(shard, self._room, wait_each_ms):
                    return self.sealed(0)
        for shard in self._views:
            self._subscriptions.seal(shard, self._numbers[shard])
        return {shard: self._numbers[shard] for shard in self._views}

    @property
    def _room(self) -> int:
        return self._most - sum(view.messages for view in self._views.values())

    def _has_room(self) -> bool:
        held_bytes = sum(view.body_bytes for view in self._views.values())
        return self._room > 0 and held_bytes < self._most_bytes

    def _fill(self, shard: Shard, count: int, wait_ms: int) -> bool:
        """Fill the claim. Return whether there was a message for it."""
        known = self._views.get(shard)
        before = known.messages if known else 0
        view = self._subscriptions.fill(shard, self._numbers[shard], count, wait_ms)
        if view is not None:
            self._views[shard] = view
        return view is not None and view.messages > before


def _offset(reached: dict[Shard, Reached]) -> dict[str, Any]:
    """Return an offset in one order, because Spark compares offsets as text."""
    claims: dict[str, dict[str, int]] = {}
    created: dict[str, dict[str, int]] = {}
    for shard in sorted(reached):
        queue, number = queue_text(shard.queue), str(shard.number)
        claims.setdefault(queue, {})[number] = reached[shard].claim
        if reached[shard].created_us:
            created.setdefault(queue, {})[number] = reached[shard].created_us
    return {"v": _VERSION, "claims": claims} | ({"created": created} if created else {})


def _reached(offset: dict[str, Any]) -> dict[Shard, Reached]:
    if offset.get("v") != _VERSION or "claims" not in offset:
        raise DataLoss(f"the checkpoint has an offset that is not from this source: {offset}")
    created = offset.get("created", {})
    return {
        Shard(queue_name(queue), int(number)): Reached(claim, created.get(queue, {}).get(number, 0))
        for queue, shards in offset["claims"].items()
        for number, claim in shards.items()
    }


def _is_same(one_us: int, other_us: int) -> bool:
    """Return whether both belong to one subscription, as far as is known."""
    return not one_us or not other_us or one_us == other_us


def _is_ahead(begun: Reached | None, ended: Reached) -> bool:
    """Whether a batch has the claim at which it ended: it has one claim of a shard, or none."""
    if begun is None or not _is_same(begun.created_us, ended.created_us):
        return True
    return begun.claim != ended.claim


def _planned(views: list[tuple[Shard, ClaimView]], options: Options) -> list[ClaimPart]:
    """Parts of about the same size, in the order of the messages."""
    total = sum(view.messages for _, view in views)
    parts: list[ClaimPart] = []
    for shard, view in views:
        wished = ceil(options.min_partitions * view.messages / total) if total else 0
        count = max(ceil(view.messages / options.max_records), wished)
        if count > view.chunks > 0:
            # Each of these tasks reads the chunk, and takes its piece of the rows.
            pieces = ceil(min(count, view.messages) / view.chunks)
            parts.extend(
                ClaimPart(shard, view.number, chunk, 1, piece, pieces)
                for chunk in range(view.chunks)
                for piece in range(pieces)
            )
            continue
        bounds = [view.chunks * i // count for i in range(count + 1)] if count else []
        parts.extend(
            ClaimPart(shard, view.number, first, end - first) for first, end in pairwise(bounds)
        )
    return parts


def _place(claim: ClaimName) -> tuple[bytes, bytes, int]:
    return claim.queue, claim.subscription, claim.number
