"""Read a store on Redis for a copy, and change nothing in it.

Called by   cli/copy.py (as the source), copy_in.py (to see what has come).
Calls       the scripts copy_queues and copy_out_…, copy_mark.py, store.py.

A worklist may be spread over several slots. Here it is one again: its messages slot by slot, and
what was counted in each, added up.

Not here: what the items are (stores/portable.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

from quinque.errors import CopyRefused, printable
from quinque.model.claim_ops import ClaimState
from quinque.model.events import (
    GROUP_KEPT,
    KEPT,
    WORK_KEPT,
    WORKLIST_KEPT,
    GroupKept,
    Kept,
    WorkKept,
    WorklistKept,
)
from quinque.model.families import BY_CODE, ITEMS, TUBES
from quinque.model.limits import NODE_FORGOTTEN_MS
from quinque.model.stage_ops import FindStages
from quinque.model.states import State
from quinque.model.urls import split_url
from quinque.stores.clock import ManualClock
from quinque.stores.portable import (
    CHUNK_MOST,
    CHUNK_MOST_BYTES,
    Chunk,
    Detached,
    Facts,
    Item,
    Partitions,
)
from quinque.stores.redis import copy_mark, ticks
from quinque.stores.redis.calls import Arg, Call, Steps
from quinque.stores.redis.copy_claims import read_claims
from quinque.stores.redis.copy_items import read_items
from quinque.stores.redis.copy_tubes import read_tube
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import BROKERS, slot_key, slot_of
from quinque.stores.redis.slots import known_slots
from quinque.stores.redis.store import RedisStore
from quinque.version import __version__

_TIMEOUT_S: Final = 5.0  # then it fails, and can be gone on with
_HEARD_MS: Final = 5_000  # a broker that was seen since is running
_NO_QUEUE: Final = 0  # a name of which only claims or published batches are known
_OPEN: Final = (ClaimState.FILLING, ClaimState.SEALED)
_LOOKS_MOST: Final = 100_000  # by one call of a script: about 50 ms


class Part(NamedTuple):
    """A queue, or the part of it that lies in this slot."""

    slot: int
    messages: int


def identity_of(url: str) -> str:
    """The URL without what lets one in."""
    parts = split_url(url)
    database = parse_qs(parts.query).get("db")
    hosts = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{hosts}{parts.path}" + (f"?db={database[0]}" if database else "")


def connect(url: str, *, is_live: bool, may_evict: bool = False) -> RedisStore:
    """A store for a copy. Raises CopyRefused when brokers run on it, unless it `is_live`;
    StoreUnavailable, NotDone, BadSetting."""
    store = RedisStore(url, node="copy", timeout_s=_TIMEOUT_S, may_evict=may_evict)
    try:
        if not is_live and (running := store.finish(_running_brokers())):
            raise CopyRefused(
                f"{identity_of(url)} is in use by {', '.join(running)}: stop these brokers first"
            )
    except BaseException:
        store.close()
        raise
    return store


def open_redis(url: str, *, is_live: bool, chunk_most: int = CHUNK_MOST) -> RedisReader:
    """The store as a source. Raises CopyUnfinished besides."""
    store = connect(url, is_live=is_live, may_evict=True)
    try:
        store.finish(copy_mark.refuse_half(identity_of(url)))
        return RedisReader(store, url, chunk_most)
    except BaseException:
        store.close()
        raise


class RedisReader:
    """As stores/portable.py says. It closes the store if it `is_owner`."""

    def __init__(
        self, store: RedisStore, url: str, chunk_most: int, *, is_owner: bool = True
    ) -> None:
        self.identity = identity_of(url)
        self._store = store
        self._is_owner = is_owner
        self._chunk_most = chunk_most
        # One of its own: its clock starts at 0, so that it shows the latest time that is known.
        edge = Edge(ManualClock(0), os.urandom, "copy")
        slots: Sequence[int] = store.finish(known_slots(edge))
        store.finish(ticks.open_slots(edge))
        store.finish(ticks.look_at_partitions(edge))
        self._spread = edge.spread
        self.facts = Facts(edge.now_ms(), edge.stamp_us, b"", False)
        self._families: dict[bytes, int] = {}
        self._parts: dict[bytes, list[Part]] = {}
        for slot, rows in zip(slots, store.finish(_queues_of(slots)), strict=True):
            for name, code, messages in rows:
                parts = self._parts.setdefault(name, [])
                if int(code) != _NO_QUEUE:
                    self._families[name] = int(code)
                    parts.append(Part(slot, messages))
        self._refuse_batches()

    def queues(self) -> dict[bytes, int]:
        parts = sorted(self._parts.items())
        return {name: sum(part.messages for part in some) for name, some in parts}

    def read(self, queue: bytes, after: int) -> Iterator[Chunk]:
        code = self._families.get(queue, _NO_QUEUE)
        if code == _NO_QUEUE:
            yield from self._claims(queue, after)
        elif code == ITEMS.code:
            yield self._worklist_head(queue, after)
            yield from read_items(self._ask, queue, after, self._chunk_most)
        elif code == TUBES.code:
            yield from read_tube(self._ask, queue, after, self._chunk_most)
        elif BY_CODE[code].is_worklist:
            yield self._worklist_head(queue, after)
            yield from self._claims(queue, after)
            yield from self._worklist(queue, after)
        else:
            groups = self._ask("copy_out_groups", queue)
            yield from self._feed_heads(queue, groups, after)
            yield from self._claims(queue, after)
            yield from self._feed(queue, len(groups), after)

    def close(self) -> None:
        if self._is_owner:
            self._store.close()

    def _ask(self, script: str, queue: bytes, *argv: Arg, slot: int | None = None) -> Any:
        """Return the answer of the script for this queue, in that slot or the only one."""
        where = self._parts[queue][0].slot if slot is None else slot
        return self._store.finish(_one_call(Call(script, [slot_key(where)], [queue, *argv])))

    def _claims(self, queue: bytes, after: int) -> Iterator[Chunk]:
        """Return the claims on it. Raises CopyRefused for open claims of partitions other than the
        first: another store cannot hold them."""
        home = slot_of(queue)
        for slot in self._spread.read_slots(queue):
            for row in self._ask("copy_out_claims", queue, slot=slot) if slot != home else ():
                if any(ClaimState(claim[1]) in _OPEN for claim in row[-1]):
                    raise CopyRefused(
                        f"queue {printable(queue)} is partitioned and has open claims: settle or "
                        "release them first"
                    )
        for item in read_claims(partial(self._ask, slot=home), queue, self.facts.at_ms):
            yield Chunk(queue, [item], after)

    def _refuse_batches(self) -> None:
        for view in self._store.run(FindStages()):
            if view.is_decided:
                raise CopyRefused(
                    f"{self.identity} has a batch that is only partly published: publish it first"
                )

    # -- worklists -------------------------------------------------------------------------------

    def _worklist_head(self, queue: bytes, after: int) -> Chunk:
        rows = [
            self._ask("copy_out_worklist", queue, slot=part.slot) for part in self._parts[queue]
        ]
        since_ms, active_ms, came, went = zip(*(map(int, row[:4]) for row in rows), strict=True)
        is_paused_in, is_paused_out, *limits = map(int, rows[0][4:])
        max_deliveries, rate_count, rate_ms, full_us, ends_ms, keeps_expired = limits
        kept = WorklistKept(
            WORKLIST_KEPT,
            queue,
            self._families[queue],
            min(since_ms),
            max(active_ms),
            sum(came),
            sum(went),
            bool(is_paused_in),
            bool(is_paused_out),
            max_deliveries,
            rate_count,
            rate_ms if rate_count else 0,
            full_us if rate_count else 0,
            ends_ms,
            bool(keeps_expired),
        )
        items: list[Item] = [kept]
        if self._spread.is_spread(queue):
            written, read = self._spread.partitions(queue), len(self._spread.read_slots(queue))
            items.append(Partitions(queue, written, read))
        return Chunk(queue, items, after)

    def _worklist(self, queue: bytes, after: int) -> Iterator[Chunk]:
        """Messages part by part; `after` is how many have gone before."""
        passed = 0
        for part in self._parts[queue]:
            while after < passed + part.messages:
                argv = (after - passed, self._chunk_most, CHUNK_MOST_BYTES)
                rows = self._ask("copy_out_work", queue, *argv, slot=part.slot)
                if not rows:  # in a store that is in use they may be fewer by now
                    break
                after += len(rows)
                yield Chunk(
                    queue, [_work_kept(queue, self._families[queue], it) for it in rows], after
                )
            passed += part.messages
            after = max(after, passed)

    # -- feeds -----------------------------------------------------------------------------------

    def _feed_heads(
        self, queue: bytes, groups: Sequence[Sequence[Any]], after: int
    ) -> Iterator[Chunk]:
        code = self._families[queue]
        for at in range(0, len(groups), self._chunk_most):
            some = groups[at : at + self._chunk_most]
            kept = [GroupKept(GROUP_KEPT, queue, code, name, int(at)) for name, at, _ in some]
            yield Chunk(queue, kept, after)
        for name, _, _ in groups:
            passed = 0
            while rows := self._ask("copy_out_detached", queue, name, passed, self._chunk_most):
                passed += len(rows)
                yield Chunk(
                    queue,
                    [Detached(queue, code, name, row[0], int(row[1]), int(row[2])) for row in rows],
                    after,
                )

    def _feed(self, queue: bytes, groups: int, after: int) -> Iterator[Chunk]:
        """Messages in their order; `after` is the place of the last that has gone before."""
        count = max(1, min(self._chunk_most, _LOOKS_MOST // (3 * groups + 3)))
        while rows := self._ask("copy_out_feed", queue, after, count, CHUNK_MOST_BYTES):
            items = [_kept(queue, self._families[queue], row) for row in rows]
            after = items[-1].place
            yield Chunk(queue, items, after)


def _one_call(call: Call) -> Steps:
    (reply,) = yield [call]
    return reply


def _queues_of(slots: Sequence[int]) -> Steps:
    return (yield [Call("copy_queues", [slot_key(slot)], []) for slot in slots])


def _running_brokers() -> Steps:
    """Where the brokers are that use the store."""
    argv: list[Arg] = [b"", 0, 0, __version__.encode(), b"", NODE_FORGOTTEN_MS]
    (rows,) = yield [Call("beat", [BROKERS], argv)]
    return [
        f"{host.decode()}:{port}" for _, _, host, port, unheard_ms in rows if unheard_ms < _HEARD_MS
    ]


def _work_kept(queue: bytes, code: int, row: Sequence[Any]) -> WorkKept:
    """Read a message in the answer of copy_out_work.lua, which keeps some numbers as text."""
    id, place, ttl_ms, delay_ms, retry_ms, max_deliveries, replicas, key, state = row[:9]
    expires_ms, due_ms, nacks, requeues, deliveries, is_new = map(int, row[9:15])
    terms = (int(ttl_ms), int(delay_ms), int(retry_ms), int(max_deliveries), int(replicas))
    return WorkKept(
        WORK_KEPT,
        queue,
        code,
        id,
        int(place),
        terms,
        key,
        int(State[state.decode().upper()]),
        expires_ms,
        due_ms,
        nacks,
        requeues,
        deliveries,
        not is_new,
        *row[15:],  # the reason, and the body
    )


def _kept(queue: bytes, code: int, row: Sequence[Any]) -> Kept:
    """Read a message in the answer of copy_out_feed.lua."""
    id, place, expires_ms, is_single, body, holds = row
    rows = sorted(zip(holds[::3], map(int, holds[1::3]), map(int, holds[2::3]), strict=True))
    is_single = bool(int(is_single))
    return Kept(KEPT, queue, code, id, int(place), int(expires_ms), is_single, None, rows, body)
