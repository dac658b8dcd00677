"""Subscriptions, their claims and what was published, for a copy.

Called by   copy_out.py (reads them), copy_in.py (writes them).
Calls       the scripts copy_out_claims, copy_out_chunk, copy_out_published, copy_in_subscription,
            copy_in_chunk, copy_in_published.

Redis's own msgpack does not know bytes from text, Python's does. On the way, rows are packed as
Python does it, so that they compare equal whichever store they come from.

Not here: what the items are (stores/portable.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgpack

from quinque.errors import CopyRefused, printable
from quinque.model.claim_events import CHUNK_KEPT, SUBSCRIPTION_KEPT, ChunkKept, SubscriptionKept
from quinque.model.families import BY_CODE
from quinque.model.rows import Row
from quinque.model.stage_events import PUBLISHED_KEPT, PublishedKept
from quinque.stores.portable import Claim, Facts
from quinque.stores.redis.calls import Arg, Call, Steps
from quinque.stores.redis.keys import slot_key, slot_of, slot_of_id

Ask = Callable[..., Any]  # the script, the queue, what follows in ARGV
Marks = Sequence[tuple[bytes, int, int, bytes]]


def read_claims(ask: Ask, queue: bytes, at_ms: int) -> Iterator[Claim]:
    """The subscriptions on the queue with their chunks, and what was published into it. Raises
    CopyRefused while claims are being closed."""
    for row in sorted(ask("copy_out_claims", queue)):
        name, family, group, epoch, lease_ms, release_ms, settled, *rest = row
        created_us, is_closing, claims = rest
        if is_closing:
            raise CopyRefused(
                f"claims on queue {printable(queue)} are being closed: run a broker to finish "
                "that first"
            )
        kept = [(*fields[:5], _read_marks(fields[6])) for fields in claims]
        yield SubscriptionKept(
            SUBSCRIPTION_KEPT,
            queue,
            family,
            name,
            group,
            epoch,
            lease_ms,
            release_ms,
            settled,
            kept,
            created_us,
        )
        for number, _, _, _, _, chunks, _ in claims:
            for chunk in range(chunks):
                rows = msgpack.unpackb(ask("copy_out_chunk", queue, name, number, chunk), raw=True)
                packed = msgpack.packb(rows)
                yield ChunkKept(CHUNK_KEPT, queue, family, name, number, chunk, packed)
    for sink, run, number, until_ms, content in sorted(ask("copy_out_published", queue)):
        if not 0 < until_ms <= at_ms:
            yield PublishedKept(PUBLISHED_KEPT, queue, sink, run, number, until_ms, content)


class ClaimWriter:
    """Writes what read_claims() gives, in its order."""

    def __init__(self) -> None:
        self._marks: dict[int, Marks] = {}  # of the subscription that is written, by claim

    def take(self, items: Sequence[Claim], facts: Facts, now_ms: int) -> Steps:
        """The items are in Redis. Raises CopyRefused."""
        for item in items:
            if isinstance(item, SubscriptionKept):
                yield [self._subscription(item, facts, now_ms)]
            elif isinstance(item, ChunkKept):
                yield [self._chunk(item)]
            else:
                argv: list[Arg] = [item.queue, facts.at_ms, facts.stamp_us, item.sink, item.run]
                argv += [item.number, item.until_ms, item.content]
                yield [Call("copy_in_published", [_home(item)], argv, makes=True)]

    def _subscription(self, item: SubscriptionKept, facts: Facts, now_ms: int) -> Call:
        self._marks = {claim[0]: claim[5] for claim in item.claims}
        is_worklist = BY_CODE[item.family].is_worklist
        argv: list[Arg] = [item.family, facts.at_ms, item.queue, facts.stamp_us, int(is_worklist)]
        argv += [item.subscription, item.group, item.epoch, item.lease_ms, item.release_ms]
        # The lease restarts: its reader could not renew it while the copy was made.
        argv += [item.settled, max(facts.at_ms, now_ms), item.created_us]
        for claim in item.claims:
            argv += claim[:5]
        return Call("copy_in_subscription", [_home(item)], argv, makes=True)

    def _chunk(self, item: ChunkKept) -> Call:
        rows = [Row(*fields) for fields in msgpack.unpackb(item.rows, raw=True)]
        if BY_CODE[item.family].is_worklist:
            _check_ids(item.queue, rows)
        ids = [row.id for row in rows]
        keyed = [(row.key, row.id) for row in rows if row.key is not None]
        argv: list[Arg] = [item.queue, item.subscription, item.number, item.chunk]
        argv += [_for_lua(rows), _for_lua(ids), len(rows), sum(len(row.body) for row in rows)]
        argv += [max(row.place for row in rows), len(keyed)]
        for key, id in keyed:
            argv += [key, id]
        here = set(ids)
        for id, outcome, delay_ms, reason in self._marks.get(item.number, ()):
            if id in here:
                argv += [id, b"%d %d %d %b" % (item.chunk, outcome, delay_ms, reason)]
        return Call("copy_in_chunk", [_home(item)], argv)


def _read_marks(kept: Sequence[bytes]) -> list[tuple[bytes, int, int, bytes]]:
    """As claim_mark.lua keeps them: "chunk outcome delay_ms reason" by id."""
    marks = []
    for id, mark in zip(kept[::2], kept[1::2], strict=True):
        _, outcome, delay_ms, reason = mark.split(b" ", 3)
        marks.append((id, int(outcome), int(delay_ms), reason))
    return sorted(marks)


def _check_ids(queue: bytes, rows: Sequence[Row]) -> None:
    """Raises CopyRefused when one could not be found again by its id."""
    for row in rows:
        if slot_of_id(row.id) != slot_of(queue):
            raise CopyRefused(
                f"message {printable(row.id)} in a claim on queue {printable(queue)} has an id "
                "without its slot: settle or release the claim before the copy"
            )


def _for_lua(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value, use_bin_type=False)
    return packed


def _home(item: Claim) -> bytes:
    return slot_key(slot_of(item.queue))
