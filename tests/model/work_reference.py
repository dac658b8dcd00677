"""What a store must answer about worklists, the slow and obvious way.

Called by   the tests beside this file.
Calls       nothing of the engine.

All items are in one list. Time is the only thing that is carried out here rather than asked of the
clock: `pass_time` goes from instant to instant and does what each brings, in order, so that an hour
in one step is the same as an hour in a thousand.

Two things are not known before the store is asked. How long a lease runs is partly chance: it is
assumed to be as long as was asked for, until `learn_due` is told what the store says, which must be
within the bounds of that chance. And when nobody looks at a queue for long, the store need not know
when something came back to it, nor even that it did if it has expired since: `learn_queue`.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from quinque.errors import NoMessage, NoReplicas, QueueFull, QueuePaused, TooLate
from quinque.model.states import State
from quinque.model.work_ops import QueueView, Terms

IDLE_MS = 300_000
NEVER_MS = 1 << 62
JITTER_MS = range(-250, 250)


@dataclass
class Item:
    """One message. `began_ms` is when its life began: when it was added, or redriven."""

    id: bytes
    queue: bytes
    body: bytes
    terms: Terms
    began_ms: int
    key: bytes | None
    state: State = State.READY
    came_unseen: bool = False
    due_ms: int = NEVER_MS
    is_due_by_chance: bool = False
    was_ready: bool = False
    nacks: int = 0
    requeues: int = 0
    requeues_unseen: int = 0  # of those, one that nobody noticed before it expired may not count
    deliveries: int = 0
    reason: bytes = b""

    @property
    def expires_ms(self) -> int:
        return NEVER_MS if self.state is State.DEAD else self.began_ms + self.terms.ttl_ms


@dataclass
class Queue:
    """When it was made, and when something was last queued or taken, is known to lie between two
    instants; of what came, some may not have been noticed."""

    made_ms: int
    made_most_ms: int
    active_ms: int
    active_most_ms: int
    recorded_ms: int = 0  # when something was first in it or set for it, not only asked for
    is_forgettable: bool = False
    is_unnoticed: bool = False  # something came due, and perhaps nobody has looked since
    came: int = 0
    came_unnoticed: int = 0
    went: int = 0
    is_paused_in: bool = False
    is_paused_out: bool = False
    max_deliveries: int = 0
    keeps_expired: bool = False
    rate: tuple[int, int] = (0, 0)
    tokens: Fraction = Fraction(0)
    tokens_ms: int = 0

    def touch(self, now_ms: int) -> None:
        self.active_ms = self.active_most_ms = now_ms
        self.is_unnoticed = False

    @property
    def has_settings(self) -> bool:
        has_limit = self.max_deliveries > 0 or self.rate != (0, 0)
        return self.is_paused_in or self.is_paused_out or has_limit or self.keeps_expired


@dataclass
class WorkReference:
    now_ms: int
    items: list[Item] = field(default_factory=list)
    queues: dict[bytes, Queue] = field(default_factory=dict)
    watched: Container[bytes] = frozenset()
    is_leaving: bool = False

    # -- operations ---------------------------------------------------------------------------

    def known(self, queue: bytes, terms: Terms, key: bytes | None, max_length: int) -> Item | None:
        """The item that an addition is answered with because it has that key already.

        Raises what the addition is refused with.
        """
        if terms.replicas > 1 or self.is_leaving:
            raise NoReplicas
        found = self.with_key(queue, key) if key is not None else None
        if found is not None:
            return found
        ready = len(self.listed(queue, State.READY))
        if max_length and ready >= max_length:
            raise QueueFull
        if queue in self.queues and self.queues[queue].is_paused_in:
            raise QueuePaused(queue)
        return None

    def add(self, queue: bytes, id: bytes, body: bytes, terms: Terms, key: bytes | None) -> None:
        """The item is there, under the id that the store gave it."""
        made = self.made(queue)
        made.recorded_ms = made.recorded_ms or self.now_ms
        made.touch(self.now_ms)
        item = Item(id, queue, body, terms, self.now_ms, key)
        self.items.append(item)
        if terms.delay_ms:
            self.enter(item, State.DELAYED, self.now_ms + terms.delay_ms)
        else:
            self.enter_ready(item)

    def take(self, queues: Sequence[bytes], count: int) -> list[Item]:
        given: list[Item] = []
        before = -1
        while len(given) > before:
            before = len(given)
            for name in queues:
                if len(given) < count:
                    given += self.take_one(name)
        return given

    def take_one(self, name: bytes) -> list[Item]:
        if not self.can_take(name):
            return []
        queue, item = self.queues[name], self.listed(name, State.READY)[0]
        item.deliveries += 1
        queue.went += 1
        queue.touch(self.now_ms)
        if queue.rate != (0, 0):
            queue.tokens, queue.tokens_ms = self.tokens(queue) - 1, self.now_ms
        self.lease(item)
        return [item]

    def finish(self, ids: Sequence[bytes]) -> list[bool]:
        return [self.remove(item) for item in self.find_each(ids)]

    def requeue(
        self, ids: Sequence[bytes], is_nack: bool, delay_ms: int, reason: bytes
    ) -> list[bool]:
        items = self.find_each(ids)
        return [self.requeue_one(item, is_nack, delay_ms, reason) for item in items]

    def requeue_one(self, item: Item | None, is_nack: bool, delay_ms: int, reason: bytes) -> bool:
        if item is None or item.state not in (State.LEASED, State.DELAYED):
            return False
        if not item.terms.retry_ms and item.was_ready:
            return False
        if is_nack:
            item.nacks += 1
            item.reason = reason
        elif item.was_ready:
            item.requeues += 1
        if is_nack and self.is_last(item):
            self.bury(item, reason or b"nacked")
            return True
        self.queues[item.queue].touch(self.now_ms)
        if delay_ms:
            self.enter(item, State.DELAYED, self.now_ms + delay_ms)
        else:
            self.enter_ready(item)
        return True

    def hold(self, ids: Sequence[bytes]) -> list[bool]:
        results = []
        for item in self.find_each(ids):
            is_ready = item is not None and item.state is State.READY
            if item is not None and is_ready:
                self.lease(item)
            results.append(is_ready)
        return results

    def extend(self, id: bytes) -> int:
        item = self.find(id)
        if item is None or item.state is State.DEAD:
            raise NoMessage(id)
        if 2 * (self.now_ms - item.began_ms) > item.terms.ttl_ms:
            raise TooLate(id)
        if item.terms.retry_ms or item.state is State.READY:
            self.lease(item)
        return item.terms.retry_ms

    def configure(
        self,
        name: bytes,
        is_paused_in: bool | None = None,
        is_paused_out: bool | None = None,
        max_deliveries: int | None = None,
        rate: tuple[int, int] | None = None,
        keeps_expired: bool | None = None,
    ) -> Queue:
        is_new = name not in self.queues
        queue = self.made(name)
        queue.recorded_ms = queue.recorded_ms or self.now_ms
        queue.touch(self.now_ms)
        if is_paused_in is not None:
            queue.is_paused_in = is_paused_in
        if is_paused_out is not None:
            queue.is_paused_out = is_paused_out
        if max_deliveries is not None:
            queue.max_deliveries = max_deliveries
        if keeps_expired is not None:
            queue.keeps_expired = keeps_expired
        if rate not in (None, queue.rate):
            queue.rate, queue.tokens, queue.tokens_ms = rate, Fraction(rate[0]), self.now_ms
        if is_new and not queue.has_settings:
            del self.queues[name]
        return queue

    def redrive(self, ids: Sequence[bytes]) -> int:
        redriven = 0
        for id in ids:
            item = self.find(id)
            if item is None or item.state is not State.DEAD:
                continue
            is_key_taken = item.key is not None and self.with_key(item.queue, item.key) is not None
            if is_key_taken:
                item.key = None
            item.nacks = item.requeues = item.deliveries = 0
            item.reason = b""
            item.began_ms = self.now_ms
            self.queues[item.queue].touch(self.now_ms)
            self.enter_ready(item)
            redriven += 1
        return redriven

    def redrive_queue(self, queue: bytes, most: int) -> int:
        dead = [item.id for item in self.listed(queue, State.DEAD)]
        return self.redrive(dead[:most] if most else dead)

    def purge(self, queue: bytes, states: Sequence[State]) -> int:
        gone = [
            item
            for item in self.items
            if item.queue == queue and (not states or item.state in states)
        ]
        for item in gone:
            self.items.remove(item)
        return len(gone)

    def purge_all(self) -> int:
        gone = len(self.items)
        self.items.clear()
        self.queues.clear()
        return gone

    def restart(self) -> None:
        """The store was opened anew: that a queue was only asked for, it may have forgotten, and
        nobody waits on any."""
        for name, queue in self.queues.items():
            queue.is_forgettable = not queue.recorded_ms or name in self.watched
            queue.made_most_ms = queue.recorded_ms or queue.made_ms

    def learn_due(self, id: bytes, due_ms: int) -> None:
        """The store says when the lease of this item ends: it is one that may have been drawn."""
        item = self.find(id)
        assert item is not None
        if item.is_due_by_chance:
            assert due_ms - item.due_ms in JITTER_MS
            item.due_ms = due_ms
            item.is_due_by_chance = False

    def learn_requeues(self, id: bytes, requeues: int) -> None:
        """The store says how often this item, which expired, was queued again."""
        item = self.find(id)
        assert item is not None
        assert item.requeues - item.requeues_unseen <= requeues <= item.requeues
        item.requeues, item.requeues_unseen = requeues, 0

    def learn_queue(self, name: bytes, view: QueueView | None) -> None:
        """The store says what it noticed, which may have been so."""
        queue = self.queues.get(name)
        if view is None and queue is not None and self.is_unsure_of(name):
            del self.queues[name]
        elif view is not None and queue is not None:
            assert view.age_ms is not None
            assert view.idle_ms is not None
            assert view.came is not None
            made_ms, active_ms = self.now_ms - view.age_ms, self.now_ms - view.idle_ms
            assert made_ms in (queue.made_ms, queue.made_most_ms)
            assert queue.active_ms <= active_ms <= queue.active_most_ms
            assert queue.came - queue.came_unnoticed <= view.came <= queue.came
            queue.made_ms = queue.made_most_ms = made_ms
            queue.is_forgettable = False
            queue.touch(active_ms)
            queue.came, queue.came_unnoticed = view.came, 0
            for item in self.items:
                item.came_unseen = item.came_unseen and item.queue != name

    # -- looking ------------------------------------------------------------------------------

    def find(self, id: bytes) -> Item | None:
        return next((item for item in self.items if item.id == id), None)

    def find_each(self, ids: Sequence[bytes]) -> list[Item | None]:
        """The items, each where it is named first."""
        return [self.find(id) if id not in ids[:at] else None for at, id in enumerate(ids)]

    def with_key(self, queue: bytes, key: bytes) -> Item | None:
        """The item that lives under the key: a dead one does not."""
        return next(
            (
                item
                for item in self.items
                if (item.queue, item.key) == (queue, key) and item.state is not State.DEAD
            ),
            None,
        )

    def listed(self, queue: bytes, state: State) -> list[Item]:
        """Those of the queue in that state, as they were added."""
        return [item for item in self.items if (item.queue, item.state) == (queue, state)]

    def can_take(self, name: bytes) -> bool:
        queue = self.queues.get(name)
        if queue is None or queue.is_paused_out or not self.listed(name, State.READY):
            return False
        return queue.rate == (0, 0) or self.tokens(queue) >= 1

    def has_rate(self, name: bytes) -> bool:
        return self.queues[name].rate != (0, 0)

    def is_spent(self, name: bytes) -> bool:
        """Whether only its rate keeps the queue from handing something out."""
        queue = self.queues.get(name)
        if queue is None:
            return False
        is_open = queue.rate != (0, 0) and not queue.is_paused_out
        return is_open and bool(self.listed(name, State.READY)) and self.tokens(queue) < 1

    def tokens(self, queue: Queue) -> Fraction:
        """What the bucket of its rate holds by now."""
        most, span_ms = queue.rate
        return min(
            Fraction(most), queue.tokens + Fraction(most * (self.now_ms - queue.tokens_ms), span_ms)
        )

    def limit_of(self, item: Item) -> int:
        return item.terms.max_deliveries or self.queues[item.queue].max_deliveries

    def is_last(self, item: Item) -> bool:
        """Whether it has been delivered as often as it may."""
        return 0 < self.limit_of(item) <= item.deliveries

    def ended(self, ids: Sequence[bytes]) -> int | None:
        """How many are gone; None while one is neither gone nor dead."""
        found = [item for item in map(self.find, ids) if item is not None]
        if any(item.state is not State.DEAD for item in found):
            return None
        return len(ids) - len(found)

    def instants(self) -> list[int]:
        """When time brings something."""
        dues = [item.due_ms for item in self.items if item.due_ms < NEVER_MS]
        expiries = [item.expires_ms for item in self.items if item.expires_ms < NEVER_MS]
        idle = [queue.active_ms + IDLE_MS for queue in self.queues.values()]
        refills = [
            queue.tokens_ms + -(-queue.rate[1] // queue.rate[0])
            for queue in self.queues.values()
            if queue.rate != (0, 0)
        ]
        return sorted(dues + expiries + idle + refills)

    # -- time ---------------------------------------------------------------------------------

    def pass_time(self, now_ms: int) -> None:
        """It is `now_ms`, and all that was due by then has happened when it was due."""
        while True:
            dues = [item.due_ms for item in self.items] + [item.expires_ms for item in self.items]
            at_ms = min(dues, default=NEVER_MS)
            if at_ms > now_ms:
                break
            for item in [item for item in self.items if item.expires_ms <= at_ms]:
                self.queues[item.queue].came_unnoticed += item.came_unseen
                self.expire(item)
            for item in [item for item in self.items if item.due_ms <= at_ms]:
                self.come_due(item, at_ms)
                self.queues[item.queue].is_unnoticed = True
        self.now_ms = now_ms
        for queue in self.queues.values():
            if queue.is_unnoticed:  # somebody may have noticed at once, or only now
                queue.active_most_ms = now_ms
        for name in [name for name in self.queues if self.is_forgotten(name)]:
            del self.queues[name]

    def expire(self, item: Item) -> None:
        """It is gone, or dead. What was delivered, and does not come back, need not be acked."""
        is_given_away = item.state is State.LEASED and not item.terms.retry_ms
        if self.queues[item.queue].keeps_expired and not is_given_away:
            item.requeues_unseen = min(item.requeues, int(item.came_unseen))
            item.came_unseen = False
            self.bury(item, b"expired")
        else:
            self.items.remove(item)

    def come_due(self, item: Item, at_ms: int) -> None:
        """A lease lapses, or a delay is over."""
        retry_ms = item.terms.retry_ms
        if item.state is State.LEASED and self.is_last(item):
            self.bury(item, b"lapsed")
        elif retry_ms and self.queues[item.queue].is_paused_in:
            item.due_ms = at_ms + retry_ms
        else:
            if item.state is State.LEASED and item.was_ready:
                item.requeues += 1
            self.enter_ready(item)
            item.came_unseen = True

    def is_forgotten(self, name: bytes, least: bool = False) -> bool:
        """Whether the queue goes, as nobody has used it for long; with `least`, it may have."""
        queue = self.queues[name]
        used_ms = queue.active_ms if least else queue.active_most_ms
        is_empty = all(item.queue != name for item in self.items)
        is_wanted = name in self.watched or queue.has_settings
        return is_empty and not is_wanted and self.now_ms - used_ms >= IDLE_MS

    def is_unsure_of(self, name: bytes) -> bool:
        return self.queues[name].is_forgettable or self.is_forgotten(name, least=True)

    # -- changes of state ---------------------------------------------------------------------

    def made(self, name: bytes) -> Queue:
        now_ms = self.now_ms
        return self.queues.setdefault(name, Queue(now_ms, now_ms, now_ms, now_ms))

    def enter(self, item: Item, state: State, due_ms: int = NEVER_MS) -> None:
        item.state, item.due_ms, item.is_due_by_chance = state, due_ms, False

    def enter_ready(self, item: Item) -> None:
        self.enter(item, State.READY)
        item.was_ready = True
        self.queues[item.queue].came += 1

    def lease(self, item: Item) -> None:
        """Leased from now on; for good, when it is not to come back."""
        retry_ms = item.terms.retry_ms
        self.enter(item, State.LEASED, self.now_ms + retry_ms if retry_ms else NEVER_MS)
        item.is_due_by_chance = retry_ms > 0

    def bury(self, item: Item, reason: bytes) -> None:
        self.enter(item, State.DEAD)
        item.reason = reason

    def remove(self, item: Item | None) -> bool:
        if item is None:
            return False
        self.items.remove(item)
        return True
