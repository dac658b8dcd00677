"""An embedded store and brokers on one Redis that are asked the same, and must answer the same.

Called by   walk.py, tests/redis/test_unknown_outcomes.py.
Calls       both stores.

What they call things may differ: ids of messages, nodes. The embedded store's words are used
throughout; words.py has both. All share one clock, which stands still, and leases run as much
longer as the pair says.

Not here: which operations, in which order.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import Any, Final

import msgpack
import pytest

from quinque.engine.feed.feed import Feed
from quinque.engine.work.worklist import Worklist
from quinque.errors import NoReplicas, QuinqueError
from quinque.model.claim_ops import ReadClaim, SubscriptionView
from quinque.model.families import EVENTS, JOBS
from quinque.model.limits import NEVER_MS, RESERVE_MOST_BYTES
from quinque.model.look_ops import BrowsePlaces
from quinque.model.ops import (
    Count,
    FindReady,
    Flush,
    Op,
    Peek,
    Put,
    Reserve,
)
from quinque.model.rows import Row
from quinque.model.stage_ops import Publish, Published
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    AwaitEnd,
    Browse,
    Configure,
    FindKey,
    FindQueues,
    LookAt,
    PurgeAll,
    QueueView,
    ScanMessages,
    ScanQueues,
    Show,
    Take,
    WorkView,
)
from quinque.stores.chance import Chance
from quinque.stores.clock import ManualClock
from quinque.stores.embedded import feed_operations, work_looks, work_taking
from quinque.stores.embedded.store import EmbeddedStore
from quinque.stores.pending import Pending
from quinque.stores.redis import feeds, looks, taking
from quinque.stores.redis.store import RedisStore
from tests.conformance import record_words
from tests.model.due import exact_due_ms, spent_until_ms
from tests.model.machine import FAST, START_MS
from tests.model.scans import all_rows, by_id, check_places, scan_all
from tests.model.words import Words, plain
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer

_LONGEST_LEASE_MS: Final = 60_000
TICKS_MOST: Final = 50  # a store that is not done by then goes round in circles
_OF_SLOT: Final = (b"slot", b"awaited", b"record")  # keys that stay when all queues are gone
_LISTED: Final = (State.READY, State.DELAYED, State.DEAD)


class Pair:
    """`jitter_ms` is what chance gives both; `watched` are names and ids somebody waits for."""

    def __init__(
        self,
        urls: Sequence[str],
        server: RedisServer | RedisCluster,
        timeout_s: float = 5.0,
        *,
        room_bytes: int = 700,  # two large bodies and some small ones
        messages_most: int = 7,
    ) -> None:
        """A broker for each URL; all of them lead to this server, which is emptied. One answer has
        so many messages at most, and so much room for their bodies."""
        server.flush()
        self._server = server
        self._urls = urls
        self._timeout_s = timeout_s
        self._room_bytes = room_bytes
        self._folder = Path(tempfile.mkdtemp(prefix="quinque-pair-", dir=FAST))
        self._chance = Random(1).randbytes
        self.jitter_ms = 0
        self.may_wake_in_vain = False  # the embedded store
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(Chance, "jitter_ms", lambda chance: self.jitter_ms)
        self._set("RESERVE_MOST", messages_most)
        self._words = Words()
        self.watched: set[bytes] = set()
        self.clock = ManualClock(START_MS * 1000)
        self.embedded = self._open_embedded(self.clock)
        self.brokers = [self._open_broker(number) for number in range(len(urls))]
        # Worklists of which the embedded store may have forgotten since when they are there.
        self._unsure: set[bytes] = set()
        # Worklists that gave nothing because of their rate, and when they might.
        self._refused: dict[bytes, int] = {}

    def close(self) -> None:
        self._patch.undo()
        self.embedded.close()
        for broker in self.brokers:
            broker.close()
        shutil.rmtree(self._folder)

    def _set(self, limit: str, value: int) -> None:
        """The limit holds for both stores."""
        for module in (feed_operations, work_looks, work_taking, feeds, looks, taking):
            if hasattr(module, limit):
                self._patch.setattr(module, limit, value)

    @property
    def _stores(self) -> list[Any]:
        return [self.embedded, *self.brokers]

    # -- asking ----------------------------------------------------------------------------------

    def run(self, op: Op, by: int = 0) -> Any:
        """What both answer, one of the brokers for its side; an error as a value."""
        # Of several worklists, each may have its share of the room.
        is_from_many = isinstance(op, Take) and len(op.queues) > 1
        self._set("RESERVE_MOST_BYTES", RESERVE_MOST_BYTES if is_from_many else self._room_bytes)
        expected = _outcome(self.embedded, op)
        found = _outcome(self.brokers[by], self._words.to_redis(op))
        if isinstance(op, Put | Add) and isinstance(expected, list) and isinstance(found, list):
            self._words.learn(op, expected, found)
        if isinstance(expected, SubscriptionView) and isinstance(found, SubscriptionView):
            self._words.learn_epochs(expected, found)
        found = self._words.to_embedded(op, found)
        if isinstance(op, LookAt | Configure) and op.queue in self._unsure:
            if expected is None:
                self._unsure.discard(op.queue)
            expected, found = _ageless(expected), _ageless(found)
        assert plain(found) == plain(expected), f"{op}\nfound    {found}\nexpected {expected}"
        self.embedded.commit()
        if isinstance(op, Take) and expected == []:
            self._note_refusals(op.queues)
        return expected

    def read_claim(self, op: ReadClaim, by: int = 0) -> None:
        """All rows of the claim are the same, or the error is."""
        expected = _rows(self.embedded, op)
        found = _rows(self.brokers[by], op)
        if isinstance(found, list):
            # The queue may be gone by now; which family it was of tells the row.
            found = [
                row._replace(
                    place=0, id=self._words.id_of_redis(row.id, None if row.terms else op.queue)
                )
                for row in found
            ]
        if isinstance(expected, list):
            expected = [row._replace(place=0) for row in expected]
        assert found == expected, op

    def publish(self, op: Publish, by: int = 0) -> Any:
        """Both publish all of the batch, each in its own steps; how many messages that put into the
        queue, or the error."""
        expected = _published(self.embedded, op)
        found = _published(self.brokers[by], op)
        assert found == expected, op
        self.embedded.commit()
        if isinstance(expected, int) and expected:
            look = BrowsePlaces(op.family, op.queue, 0, 0, 100, tuple(State))
            rows = zip(all_rows(self.embedded, look), all_rows(self.brokers[by], look), strict=True)
            queue = None if op.family.is_worklist else op.queue
            self._words.learn_pairs(queue, ((one.id, other.id) for one, other in rows))
        return expected

    def take_by_patterns(self, op: Take, by: int = 0) -> Any:
        """In which order worklists are visited is up to the store: the embedded one follows the
        Redis store's."""
        self._set("RESERVE_MOST_BYTES", RESERVE_MOST_BYTES)
        found = self._words.to_embedded(op, _outcome(self.brokers[by], op))
        assert isinstance(found, list), found
        order = dict.fromkeys(delivery.queue for delivery in found)
        fitting = dict.fromkeys(
            name
            for _, names in (self.embedded.run(ScanQueues(JOBS, 0, 1_000, least=1)),)
            for name in names
            if _matches(name, op.patterns)
        )
        assert order.keys() <= fitting.keys(), "nothing can be taken from there"
        expected = self.embedded.run(Take(JOBS, list(order | fitting), op.count))
        assert found == expected, f"{op}"
        self.embedded.commit()
        return expected

    def run_alone(self, op: Op, by: int) -> Any:
        """What the broker answers; the embedded store is not asked."""
        return self._words.to_embedded(op, _outcome(self.brokers[by], self._words.to_redis(op)))

    def catch_up(self, op: Op) -> None:
        """The embedded store has done, too, what a broker did and nobody heard the answer of."""
        expected = _outcome(self.embedded, op)
        self.embedded.commit()
        broker = self.brokers[0]
        if isinstance(op, Add):
            views = sorted(scan_all(broker, ScanMessages(JOBS, 0, 1_000)), key=_place)
            unheard = [it.message_id for it in views if not self._words.is_of_redis(it.message_id)]
            self._words.learn(op, expected, unheard)
        elif isinstance(op, Put) and op.message_id is None:
            # A group that nobody else uses gets all there is, on both sides.
            spy = Reserve(EVENTS, op.queue, b"spy", lease_ms=1, count=1_000)
            rows = zip(self.embedded.run(spy), broker.run(spy), strict=True)
            pairs = [(one.message_id, other.message_id) for one, other in rows]
            self._words.learn(op, [one for one, _ in pairs], [other for _, other in pairs])

    def set_nodes(self, op: Op) -> Any:
        """The same for all brokers: each is a node of its own."""
        for by in range(1, len(self.brokers)):
            self.brokers[by].run(op)
        return self.run(op)

    # -- time ------------------------------------------------------------------------------------

    def advance(self, ms: float) -> None:
        self.clock.advance(ms)

    def now_ms(self) -> int:
        return self.embedded.now_ms()

    def next_instant_ms(self) -> int:
        """When time next brings something about."""
        return min([exact_due_ms(self.embedded), *self._refused.values()])

    def tick(self) -> None:
        """All that time has brought about is carried out by both."""
        for store in self._stores:
            for _ in range(TICKS_MOST):
                if store.next_due_ms() > self.now_ms():
                    break
                store.tick()
                store.commit()
            else:
                raise AssertionError(f"{store} has something to do, and never does it")
        assert exact_due_ms(self.embedded) > self.now_ms()
        told = {name for broker in self.brokers for name in broker.ready}
        for name, at_ms in list(self._refused.items()):
            if at_ms <= self.now_ms():
                assert name in told or spent_until_ms(self.embedded, name), name
                del self._refused[name]

    def clear_out(self, names: Sequence[bytes]) -> None:
        """All messages and queues go, and time passes; then no key is left that is of one."""
        self.run(PurgeAll(JOBS))
        for name in names:
            self.run(Flush(EVENTS, name))
        self.advance(_LONGEST_LEASE_MS)
        self.tick()
        with self._server.client() as client:
            keys: Iterable[bytes] = client.scan_iter(count=1_000)
            left = [key for key in keys if _is_of_queue(key)]
        assert left == [], left
        self.check_records()

    def check_records(self) -> None:
        """What became of each message is on record in both, in the same order."""
        expected = _histories(record_words.rows(self.embedded))
        found = _histories(
            row._replace(seen=row.seen._replace(id=self._words.id_of_redis(row.seen.id, queue)))
            for row in record_words.rows(self.brokers[0])
            for queue in [row.queue if row.family == EVENTS.code else None]
        )
        for key in expected.keys() | found.keys():
            history = f"{key}\nfound    {found.get(key)}\nexpected {expected.get(key)}"
            assert found.get(key) == expected.get(key), history

    def restart_brokers(self) -> None:
        """Nothing of what a broker knows matters."""
        self.brokers = [self._reopened(number) for number in range(len(self.brokers))]

    def restart_all(self, set_back_ms: int) -> None:
        """All go on, each from the latest time it knows of; the clocks then agree again."""
        known_ms = self.now_ms()
        lists = [it for it in self.embedded.queues.values() if isinstance(it, Worklist)]
        self._unsure.update(queue.name for queue in lists)
        vacant = [queue.name for queue in lists if queue.is_vacant]
        self.embedded.close()
        start_us = self.clock.now_us() - 1000 * set_back_ms
        clocks = [ManualClock(start_us), ManualClock(start_us)]
        self.embedded = self._open_embedded(clocks[0])
        self.clock = clocks[1]
        self.restart_brokers()
        for clock in clocks:
            assert known_ms - set_back_ms <= clock.now_us() // 1000 <= known_ms
        self.clock.start_from(clocks[0].now_us())
        self.embedded.clock = self.clock
        for name in vacant:
            # The embedded store may have forgotten it. It makes way for a feed, which then goes.
            self.run(Put(EVENTS, name, [b""]))
            self.run(Flush(EVENTS, name))

    # -- looking ---------------------------------------------------------------------------------

    def glance(self, lists: Sequence[bytes], by: int = 0) -> None:
        """What is in all queues is the same, and what is due next is known."""
        self.run(Count(EVENTS), by)
        self._scan(ScanMessages(JOBS, 0, 1_000, with_bodies=True), by)
        for name in lists:
            if not self._is_feed(name):
                self.run(LookAt(JOBS, name), by)
        self._check_due()

    def look(
        self, feeds: Sequence[bytes], groups: Sequence[bytes], lists: Sequence[bytes], by: int = 0
    ) -> None:
        """Whatever can be asked without changing anything is answered the same."""
        self.glance(lists, by)
        for group in groups:
            self.run(FindReady(EVENTS, group, feeds), by)
            for name in feeds:
                self.run(Peek(EVENTS, name, group), by)
                self.run(Peek(EVENTS, name, group, last=True), by)
        for name in feeds:
            self.run(Count(EVENTS, [name]), by)
        for name in lists:
            for state in _LISTED:
                for count in (0, 2, -2, 100, -100):
                    self.run(Browse(JOBS, name, state, count), by)
            for key in self._words.keys:
                self.run(FindKey(JOBS, name, key), by)
        ids = self._words.message_ids
        self.run(FindQueues(JOBS, ids), by)
        self.run(AwaitEnd(JOBS, ids), by)
        for id in ids[-8:]:
            self.run(Show(JOBS, id), by)
            self.run(AwaitEnd(JOBS, [id]), by)
        self._look_at_scans(by)
        self._look_at_pages((*feeds, *lists), by)
        self._look_at_facts(by)

    def check_ready(self) -> None:
        """The same queues have something for those who wait; the same watched messages ended."""
        found = {self._words.id_of_redis(name) for broker in self.brokers for name in broker.ready}
        expected = self.embedded.ready
        # With a rate, a store also says so when it comes upon an old reminder.
        differ = {name for name in found ^ expected if not self._has_rate(name)}
        if self.may_wake_in_vain:
            differ -= {name for name in expected - found if not self._has_reason(name)}
        assert differ == set(), f"told by Redis {found}, by the embedded store {expected}"
        self._refused = {name: at for name, at in self._refused.items() if name not in found}
        self.watched -= {id for id in found if id in self._words.message_ids}
        for store in self._stores:
            store.ready.clear()
        self._share_watched()

    def watch(self, ids: Iterable[bytes]) -> None:
        self.watched.update(ids)
        self._share_watched()

    def watched_ids(self) -> list[bytes]:
        return [name for name in self._words.message_ids if name in self.watched]

    # -- parts of it -----------------------------------------------------------------------------

    def _scan(self, op: ScanQueues | ScanMessages, by: int) -> None:
        """All that a scan finds is the same, in whatever order."""
        expected = scan_all(self.embedded, op)
        found = self._words.to_embedded(op, scan_all(self.brokers[by], op))
        if isinstance(op, ScanMessages):
            assert by_id(found) == by_id(expected)
            check_places(expected, found)
        else:
            assert sorted(found) == sorted(expected)

    def _check_due(self) -> None:
        """A broker at least knows when something is next due."""
        known_ms = min(broker.next_due_ms() for broker in self.brokers)
        assert known_ms <= exact_due_ms(self.embedded)

    def _look_at_scans(self, by: int) -> None:
        for count, least, most in ((1, 0, NEVER_MS), (100, 1, 2), (1, 0, 0)):
            self._scan(ScanQueues(JOBS, 0, count, least, most), by)
        for queue, states in (
            (None, ()),
            (b"v", ()),
            (None, (State.READY, State.DEAD)),
            (b"v", (State.LEASED, State.DELAYED)),
        ):
            self._scan(ScanMessages(JOBS, 0, 1, queue, states), by)

    def _look_at_pages(self, names: Sequence[bytes], by: int) -> None:
        """All that is shown of messages is the same, and in the same order."""
        for name in names:
            is_feed = self._is_feed(name)
            op = BrowsePlaces(EVENTS if is_feed else JOBS, name, 0, 0, 3, tuple(State))
            expected = [row._replace(place=0) for row in all_rows(self.embedded, op)]
            found = [
                row._replace(place=0, id=self._words.id_of_redis(row.id, name if is_feed else None))
                for row in all_rows(self.brokers[by], op)
            ]
            assert found == expected, name

    def _look_at_facts(self, by: int) -> None:
        expected, found = self.embedded.info(), self.brokers[by].info()
        for fact in (
            *("queues", "messages", "job_queues", "jobs"),
            *("claims_open", "claims_stalled", "claimed_messages", "stages"),
        ):
            assert found[fact] == expected[fact], fact

    def _note_refusals(self, names: Sequence[bytes]) -> None:
        """Whoever asked these in vain is told when their rates let them give something."""
        for name in names:
            at_ms = spent_until_ms(self.embedded, name)
            if 0 < at_ms < NEVER_MS:
                self._refused[name] = at_ms
                for store in self._stores:
                    store.ready.discard(name)  # that was before

    def _is_feed(self, name: bytes) -> bool:
        queue = self.embedded.queues.get(name)
        return queue is not None and queue.family is EVENTS

    def _has_reason(self, name: bytes) -> bool:
        """Whether there is something for those who wait on the queue, or for the message's end."""
        if name in self._words.message_ids:
            return self.embedded.run(AwaitEnd(JOBS, [name])) is not None
        queue = self.embedded.queues.get(name)
        return isinstance(queue, Feed) or (isinstance(queue, Worklist) and queue.ready.size > 0)

    def _has_rate(self, name: bytes) -> bool:
        queue = self.embedded.queues.get(name)
        return isinstance(queue, Worklist) and queue.rate is not None

    # -- opening ---------------------------------------------------------------------------------

    def _open_embedded(self, clock: ManualClock) -> EmbeddedStore:
        store = EmbeddedStore(self._folder, clock=clock, fsync="no", chance=self._chance)
        store.watched = self.watched
        return store

    def _open_broker(self, number: int) -> RedisStore:
        return RedisStore(
            self._urls[number],
            node=f"broker-{number}",
            clock=self.clock,
            chance=self._chance,
            timeout_s=self._timeout_s,
        )

    def _reopened(self, number: int) -> RedisStore:
        self.brokers[number].close()
        broker = self._open_broker(number)
        broker.watched = {self._words.id_of_embedded(name) for name in self.watched}
        return broker

    def _share_watched(self) -> None:
        for broker in self.brokers:
            broker.watched = {self._words.id_of_embedded(name) for name in self.watched}


def _outcome(store: EmbeddedStore | RedisStore, op: Op) -> Any:
    """What the store answers; an error as its kind and its text."""
    try:
        answer = store.run(op)
        if isinstance(answer, Pending):
            store.finish_slices()
            return answer.value()
        return answer
    except QuinqueError as error:
        if isinstance(error, NoReplicas):  # a store on Redis says besides what is missing there
            return type(error), str(error).partition(": REPLICATE")[0]
        return type(error), str(error)


def _rows(store: EmbeddedStore | RedisStore, op: ReadClaim) -> Any:
    packed = _outcome(store, op)
    if not isinstance(packed, list):
        return packed
    return [Row(*row) for some in packed for row in msgpack.unpackb(some, raw=True)]


def _published(store: EmbeddedStore | RedisStore, op: Publish) -> Any:
    moved, left = 0, 1
    while left:
        done = _outcome(store, op)
        if not isinstance(done, Published):
            return done
        moved, left = moved + done.messages, done.left
    return moved


def _histories(rows: Iterable[record_words.Row]) -> dict[Any, list[tuple[int, record_words.Seen]]]:
    """What is on record of each message. Which of several groups is seen to first when leases end
    at the same time is up to the store, so each has its own history."""
    found: dict[Any, list[tuple[int, record_words.Seen]]] = {}
    for row in rows:
        key = row.family, row.queue, row.seen.id, row.seen.group
        found.setdefault(key, []).append((row.at_ms, row.seen))
    return found


def _ageless(view: Any) -> Any:
    return replace(view, age_ms=0) if isinstance(view, QueueView) else view


def _is_of_queue(key: bytes) -> bool:
    """Whether the key is there for a queue; quinque:{tag}:slot, say, is for all of its slot."""
    begin, tag, *rest = key.split(b":", 3)
    return begin == b"quinque" and tag[:1] == b"{" and rest[0] not in _OF_SLOT


def _place(view: WorkView) -> int:
    return view.place or 0


def _matches(name: bytes, patterns: Sequence[bytes]) -> bool:
    text = name.decode("latin-1")
    return any(fnmatchcase(text, pattern.decode("latin-1")) for pattern in patterns)
