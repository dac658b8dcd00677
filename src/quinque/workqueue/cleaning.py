"""Light and deep cleaning, as steps.

Called by   sync.py, aio.py.
Calls       the scripts look, settle, drop; lists.py.

The rule: an item that exists, does not wait and has no lease is taken out of `processing` and waits
again. Light cleaning asks this of the ids in `processing`, deep cleaning of every item.

    read      `processing`, and for deep cleaning the queue and all items: slices, changing nothing
    suspect   what has no lease
    grace     a client that has just moved an id to `processing` may be about to write its lease
    settle    each suspect again, and what to do about it, in one script

A script cannot search a long queue for an id: Redis would stand still. So the queue is read here
first. `landmark` was its first id then, and the script searches the ids to the left of it.

    what others added since | landmark | what was read

Not here: reading a list (lists.py), when to clean (cli/clean.py).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from quinque.workqueue.counts import CleanCounts, Progress
from quinque.workqueue.keys import Keys
from quinque.workqueue.lists import read_list
from quinque.workqueue.steps import Command, Pause, Scan, Size, Steps, call

# Each of these is about a millisecond of Redis: bench/work_queue.py.
LOOKED_AT_ONCE: Final = 500  # ids
SETTLED_AT_ONCE: Final = 50  # ids
SCANNED_AT_ONCE: Final = 1_000  # keys
PART: Final = 2_000  # ids of a list
# LREM passes an id in some 35 ns. More than this, and it is done by where the ids are.
PASSED_MOST: Final = 50_000
PASSES_MOST: Final = 3
_SLACK: Final = 100  # ids: a part may have moved so far since it was read

GRACE_S: Final = 0.2  # two round trips, wherever a worker may be

T = TypeVar("T")
_HELD, _UNHELD, _GONE = b"hwg"
_RETURNED, _DROPPED, _REMOVED = b"rdg"


class Cleaner:
    """One cleaning of one queue. `counts` is the work so far."""

    def __init__(
        self,
        keys: Keys,
        *,
        dry_run: bool = False,
        grace_s: float = GRACE_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts = CleanCounts()
        self._keys = keys
        self._is_dry = dry_run
        self._grace_s = grace_s
        self._now_s = now_s
        self._looked_s = now_s()
        self._landmark: bytes | None = None
        self._waiting: set[bytes] = set()  # ids in the queue
        self._asked: set[bytes] | None = None  # of these only; None: all of them
        self._unwanted: dict[bytes, str] = {}  # ids in the queue, and why they should not be
        self._settled = self._to_settle = 0

    def light(self) -> Steps[CleanCounts]:
        """Return items to the queue that workers took and whose lease has ended."""
        handed_out, under_way = yield from self._read_handed_out()
        kinds = (self._keys.lease, self._keys.item)
        suspects = yield from self._unheld(handed_out, *kinds)
        strays = yield from self._unheld(under_way, *kinds)
        self.counts.looked = len(handed_out) + len(under_way)
        if suspects or strays:
            self._asked = {*suspects, *strays}
            yield from self._read_queue()
            yield from self._settle(suspects, strays, len(handed_out))
        return self.counts

    def deep(self) -> Steps[CleanCounts]:
        """Do the same for all items, and make sure that the queue has each existing item once and
        no other ids."""
        # In this order: otherwise an item that a worker takes in between would seem to be in both.
        handed_out, under_way = yield from self._read_handed_out()
        yield from self._read_queue()
        # Which of them have no item is seen when all items have been.
        suspects = yield from self._unheld(handed_out, self._keys.lease)
        strays = yield from self._unheld(under_way, self._keys.lease)
        orphans, ghosts = yield from self._scan({*handed_out, *under_way})
        for id in ghosts & self._waiting:
            self._unwanted[id] = "g"
        for id in (self._waiting & set(handed_out)) - set(suspects) - ghosts:
            self._unwanted[id] = "h"
        known = set(suspects)
        suspects += [id for id in handed_out if id in ghosts and id not in known]
        yield from self._settle(suspects, strays + orphans, len(handed_out))
        yield from self._drop_unwanted()
        return self.counts

    # -- reading ----------------------------------------------------------------------------------

    def _read_handed_out(self) -> Steps[tuple[list[bytes], list[bytes]]]:
        """The ids in `processing`, the oldest first, and the ids that a cleaner of the old
        generation has under way and that are not in `processing`."""
        handed_out: list[bytes] = []
        yield from read_list(self._keys.processing, handed_out.extend, "processing")
        handed_out.reverse()
        cleaning: list[bytes] = []
        yield from read_list(self._keys.cleaning, cleaning.extend, "processing")
        under_way = set(cleaning).difference(handed_out) if cleaning else ()
        return handed_out, list(under_way)

    def _read_queue(self) -> Steps[None]:
        """Read the ids in the queue. After the first time, read only those added since."""
        until, firsts = self._landmark, list[bytes]()

        def visit(ids: list[bytes]) -> None:
            firsts.extend(ids[: 1 - len(firsts)])
            if self._asked is not None:
                self._waiting.update(self._asked & set(ids))
                return
            fresh = set(ids)
            if until is None and (len(fresh) < len(ids) or not fresh.isdisjoint(self._waiting)):
                self._note_copies(ids)
            self._waiting |= fresh

        yield from read_list(self._keys.queue, visit, "waiting", until=until)
        self._landmark = firsts[0] if firsts else until

    def _note_copies(self, ids: list[bytes]) -> None:
        before = set[bytes]()
        for id in ids:
            if id in self._waiting or id in before:
                self._unwanted[id] = "t"
            before.add(id)

    def _unheld(self, ids: Sequence[bytes], *kinds: bytes) -> Steps[list[bytes]]:
        """The ids that lack a key of one of these kinds."""
        unheld: list[bytes] = []
        for at, some in enumerate(_batches(ids, LOOKED_AT_ONCE)):
            # Usually all of them are leased, and then one command is enough.
            there = yield Command(("EXISTS", *(kind + id for kind in kinds for id in some)))
            if there < len(some) * len(kinds):
                states = yield call("look", self._keys.prefix, *some)
                unheld += [id for id, it in zip(some, states, strict=True) if it != _HELD]
            if len(ids) > LOOKED_AT_ONCE:
                yield Progress("leases", at * LOOKED_AT_ONCE + len(some), len(ids))
        if ids:
            self._looked_s = self._now_s()
        return unheld

    def _states(self, ids: Sequence[bytes]) -> Steps[list[tuple[bytes, int]]]:
        """Each id with what it is, a letter of look.lua."""
        states = bytearray()
        for some in _batches(ids, LOOKED_AT_ONCE):
            states += yield call("look", self._keys.prefix, *some)
        if ids:
            self._looked_s = self._now_s()
        return list(zip(ids, states, strict=True))

    def _scan(self, handed_out: set[bytes]) -> Steps[tuple[list[bytes], set[bytes]]]:
        """Find items that are neither queued, in progress nor leased, and ids that are queued or in
        progress without an item."""
        key, pattern = self._keys.item, self._keys.items_pattern
        total: int = yield Size(key)
        known = self._waiting | handed_out
        unseen, strangers, strange = set(known), set[bytes](), list[bytes]()
        orphans: list[bytes] = []
        server, cursor, scanned = None, 0, 0
        while True:
            name, cursor, found = yield Scan(key, cursor, pattern, SCANNED_AT_ONCE)
            if server is not None and name != server:
                # The slot has moved, and a cursor means something at its own server only.
                cursor = scanned = 0
                server = name
                continue
            server = name
            ids = {it[len(key) :] for it in found}  # SCAN may return one twice
            unseen -= ids
            strange += ids - known - strangers
            strangers |= ids - known
            self.counts.looked = len(known) - len(unseen) + len(strangers)
            scanned += SCANNED_AT_ONCE
            if len(strange) >= LOOKED_AT_ONCE or not cursor:
                states = yield from self._states(strange)
                orphans += [id for id, state in states if state == _UNHELD]
                strange = []
            yield Progress("items", min(scanned, total), total)
            if not cursor:
                break
        states = yield from self._states(list(unseen))
        return orphans, {id for id, state in states if state == _GONE}

    # -- putting right ----------------------------------------------------------------------------

    def _settle(self, suspects: list[bytes], strays: list[bytes], handed_out: int) -> Steps[None]:
        """Settle ids. `suspects` were in `processing`, which had `handed_out` ids; `strays` were
        not."""
        if not suspects and not strays:
            return
        wait_s = self._looked_s + self._grace_s - self._now_s()
        if wait_s > 0:
            yield Pause(wait_s)
        if self._is_dry:
            yield from self._only_count([(id, True) for id in suspects])
            yield from self._only_count([(id, False) for id in strays])
            return
        self._to_settle = len(suspects) + len(strays)
        if len(suspects) * handed_out <= PASSED_MOST:
            yield from self._settle_some([(id, True) for id in suspects])
        else:
            yield from self._pass_processing(set(suspects))
        yield from self._settle_some([(id, False) for id in strays])

    def _pass_processing(self, suspects: set[bytes]) -> Steps[None]:
        """Each suspect is settled where it is, from the right to the left."""
        right = 0
        while True:
            words = ("LRANGE", self._keys.processing, -right - PART, -right - 1)
            ids: list[bytes] = yield Command(words)
            found = [(at, id) for at, id in enumerate(reversed(ids), right) if id in suspects]
            taken_out = 0
            for some in _batches(found, SETTLED_AT_ONCE):
                passed = sum(at - taken_out - number for number, (at, _) in enumerate(some))
                is_near = passed <= PASSED_MOST
                place = (0, 0) if is_near else (max(0, right - _SLACK), PART + 2 * _SLACK)
                taken_out += yield from self._settle_some([(id, True) for _, id in some], *place)
            yield Progress("returning", min(self._settled, self._to_settle), self._to_settle)
            if len(ids) < PART:
                return
            right = max(0, right + len(ids) - taken_out - _SLACK)

    def _settle_some(
        self, about: Sequence[tuple[bytes, bool]], right: int = 0, size: int = 0
    ) -> Steps[int]:
        """Settle each id. Count how many ids were removed from `processing`. With a size, the ids
        are in a part of it, at that distance from its right end."""
        at = taken_out = 0
        while at < len(about):
            some = about[at : at + SETTLED_AT_ONCE]
            words = [word for row in self._kinds(some) for word in row]
            mark = self._landmark
            place = (int(mark is not None), mark or b"", right, size)
            answer = yield call("settle", self._keys.prefix, *place, *words)
            if answer == 0:
                yield from self._read_queue()
                continue
            outcomes, self._landmark, new = answer
            self._waiting.update(new)
            taken_out += self._count(some, outcomes)
            at += len(some)
            self._settled += len(some)
            yield Progress("returning", min(self._settled, self._to_settle), self._to_settle)
        return taken_out

    def _kinds(self, some: Iterable[tuple[bytes, bool]]) -> Iterator[tuple[str, bytes]]:
        """Return where each id is, as a letter of settle.lua."""
        before = set[bytes]()
        for id, was_handed_out in some:
            waits = id in self._waiting or id in before
            if was_handed_out:
                before.add(id)
                yield "b" if waits else "p", id
            else:
                yield "q" if waits else "n", id

    def _count(self, some: Sequence[tuple[bytes, bool]], outcomes: bytes) -> int:
        """Count the outcomes. Return how many ids were removed from `processing`."""
        taken_out = 0
        for (id, was_handed_out), outcome in zip(some, outcomes, strict=True):
            if outcome == _RETURNED:
                self.counts.returned += 1
                self._waiting.add(id)
            elif outcome == _DROPPED:
                self.counts.duplicates += 1
            elif outcome == _REMOVED:
                self.counts.ghosts += 1
            else:
                continue
            taken_out += was_handed_out
        return taken_out

    def _only_count(self, about: Sequence[tuple[bytes, bool]]) -> Steps[None]:
        """Count what a cleaning would do, as far as reading shows it."""
        states = yield from self._states([id for id, _ in about])
        for (kind, _), (_, state) in zip(self._kinds(about), states, strict=True):
            if state == _GONE:
                self.counts.ghosts += kind in "pb"
            elif state == _UNHELD:
                self.counts.returned += kind in "pn"
                self.counts.duplicates += kind == "b"

    def _drop_unwanted(self) -> Steps[None]:
        """Ids are out of the queue that were found not to belong there, and still do not."""
        for _ in range(PASSES_MOST):
            if not self._unwanted or not (yield from self._pass_queue()) or self._is_dry:
                return
            # Where a place was given to the newest id, that one may be unwanted itself.

    def _pass_queue(self) -> Steps[int]:
        """Drop unwanted ids, from the right to the left. Returns how many were dropped."""
        mark = uuid.uuid4().hex
        copies: dict[bytes, int] = {}  # how far from the right end the first one was
        total: int = yield Command(("LLEN", self._keys.queue))
        right = dropped = 0
        while True:
            words = ("LRANGE", self._keys.queue, -right - PART, -right - 1)
            ids: list[bytes] = yield Command(words)
            found = list(self._unwanted_in(ids, right, copies))
            some = yield from self._drop(found, right, mark)
            dropped += some
            yield Progress("dropping", min(total, right + len(ids)), total)
            if len(ids) < PART:
                return dropped
            right = max(0, right + len(ids) - some - _SLACK)

    def _unwanted_in(
        self, ids: list[bytes], right: int, copies: dict[bytes, int]
    ) -> Iterator[tuple[str, bytes, int]]:
        """Return the ids to remove from a part that is at that distance from the right end."""
        if self._unwanted.keys().isdisjoint(ids):
            return
        for at, id in enumerate(reversed(ids), right):
            kind = self._unwanted.get(id)
            if kind == "t" and id not in copies:
                copies[id] = at
            elif kind is not None:
                yield kind, id, copies.get(id, 0)

    def _drop(self, found: list[tuple[str, bytes, int]], right: int, mark: str) -> Steps[int]:
        if self._is_dry:
            # A copy lies in two parts if it lies where they overlap.
            for kind, id, _ in found:
                self.counts.ghosts += kind == "g"
                self.counts.duplicates += kind != "g"
                self._unwanted.pop(id, None)
            return 0
        dropped = 0
        for some in _batches(found, SETTLED_AT_ONCE):
            words = [word for row in some for word in row]
            is_more = 1
            while is_more:
                ghosts, others, is_more = yield call(
                    *("drop", self._keys.prefix, max(0, right - _SLACK), PART + 2 * _SLACK),
                    *(mark, *words),
                )
                self.counts.ghosts += ghosts
                self.counts.duplicates += others
                dropped += ghosts + others
        return dropped


def _batches(rows: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for at in range(0, len(rows), size):
        yield rows[at : at + size]
