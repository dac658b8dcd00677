"""A random walk of a pair of stores: one operation after another, and time passes.

Called by   test_random_stores.py.
Calls       pair.py, which compares all answers.

Every step draws from a source of its own, so that a walk that fails still fails without most of its
steps; which ones are needed is found by leaving others out.

Time mostly moves exactly to where something is due, and spans are chosen so that things become due
together. Sometimes nobody looks before the next operation.

Not here: what is compared (pair.py).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from quinque.model.families import EVENTS, JOBS
from quinque.model.limits import NEVER_MS
from quinque.model.ops import Ack, Count, FindReady, Flush, Op, Peek, Put, Release, Reserve
from quinque.model.own_ops import ExtendLeases
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    AwaitEnd,
    Browse,
    Configure,
    Extend,
    FindKey,
    Finish,
    Hold,
    LookAt,
    LookAtNode,
    Purge,
    PurgeAll,
    Redrive,
    Requeue,
    SetNode,
    Take,
    Terms,
)
from tests.model.pair import Pair

SAME_SLOT: Final = b"44930"  # as b"v"
ODD: Final = b"\r\n{v}:\0 -1 \xff"
WAITED_ON: Final = b"waited-on"
FEEDS: Final = (b"q", b"both", SAME_SLOT, ODD)
LISTS: Final = (b"v", b"w", b"both", WAITED_ON, SAME_SLOT, ODD)
GROUPS: Final = (b"g", b"h")
CHOSEN_IDS: Final = (b"x", b"y")
KEYS: Final = (b"x", b" 1 \0")
BODIES: Final = (b"", b"a", b" 1 -1 \r\n\0", b"b" * 300, b"c" * 1025)  # the last has its own key
REASONS: Final = (b"", b"no luck", b" 1 \r\n\0")
PATTERNS: Final = ((b"*",), (b"[vw]",), (b"w", b"wait*"))
NOBODY: Final = b"D-00000000-AAAAAAAAAAAAAAAAAAAAAAAA-05a1"
NOTHING_SET: Final = {
    "is_paused_in": False,
    "is_paused_out": False,
    "max_deliveries": 0,
    "rate": (0, 0),
}
# Nothing comes of much when all queues are paused, so most of the time nothing is set.
SETTINGS: Final[tuple[dict[str, Any], ...]] = (
    *[NOTHING_SET] * 6,
    {},
    {"is_paused_in": True},
    {"is_paused_in": True},
    {"is_paused_out": True},
    {"max_deliveries": 1},
    {"max_deliveries": 2, "is_paused_in": False},
    {"keeps_expired": True},
    {"keeps_expired": True},
    {"keeps_expired": False},
)
# What is rounded depends on how many are taken together: nothing is.
RATES: Final = ((1, 1_000), (3, 1_500), (2, 60_000))
LIVING: Final = (State.READY, State.DELAYED, State.LEASED)

SHRINKING_S: Final = 60.0
Steps = Sequence[tuple[Callable[[], None], int]]


class Walk:
    """`kind` is which families' operations there are: feeds, lists or both."""

    def __init__(self, pair: Pair, seed: int, kind: str) -> None:
        self._pair = pair
        self._seed = seed
        self.random = Random(seed)
        self.trace: list[str] = []
        self._by = 0
        self._is_seen = True
        self._made_ids: dict[bytes, list[bytes]] = {}
        steps = [*self._time_steps()]
        steps += self._feed_steps() if kind != "lists" else ()
        steps += self._list_steps() if kind != "feeds" else ()
        steps += self._more_steps(kind)
        self._steps, self._weights = zip(*steps, strict=True)
        pair.watch([WAITED_ON])

    def go(self, numbers: Sequence[int]) -> None:
        """Do these steps."""
        for number in numbers:
            self.random = Random(self._seed << 32 | number)
            self._is_seen = True
            self._by = self.random.randrange(len(self._pair.brokers))
            step = self.random.choices(self._steps, self._weights)[0]
            self.trace.append(f"{number}: {step.__name__} at {self._pair.now_ms()} by {self._by}")
            step()
            if self._is_seen and self.random.random() < 0.3:
                self._pair.glance(LISTS, self._by)
            self._pair.check_ready()
        self._pair.look(FEEDS, (*GROUPS, b"new"), LISTS, self._by)
        self.trace.append("all goes")
        self._clear_out()
        self._pair.clear_out((*FEEDS, *LISTS))

    def close(self) -> None:
        self._pair.close()

    def _more_steps(self, kind: str) -> Steps:
        """For a walk that can do more."""
        return ()

    def _clear_out(self) -> None:
        """What more there is goes."""

    # -- feeds -----------------------------------------------------------------------------------

    def _feed_steps(self) -> Steps:
        return (
            (self._put, 10),
            (self._put_with_id, 10),
            (self._reserve, 20),
            (self._ack, 12),
            (self._release, 6),
            (self._extend_leases, 8),
            (self._flush, 4),
            (self._look_at_feeds, 3),
        )

    def _put(self) -> None:
        queue, ttl_ms = self._feed(), self._span_ms()
        op = Put(EVENTS, queue, self._bodies(), ttl_ms, is_single=self._flip())
        if isinstance(ids := self._run(op), list):
            self._made_ids.setdefault(queue, []).extend(ids)

    def _put_with_id(self) -> None:
        id, ttl_ms = self._one(CHOSEN_IDS), self._span_ms()
        body, to_front = self._one(BODIES), self._flip()
        self._run(Put(EVENTS, self._feed(), [body], ttl_ms, id, to_front, self._flip()))

    def _reserve(self) -> None:
        lease_ms = self._one((0, 50, 1_000, 1_000, 60_000))
        self._run(Reserve(EVENTS, self._feed(), self._one(GROUPS), lease_ms, self._count()))

    def _ack(self) -> None:
        queue, group = self._feed(), self._one(GROUPS)
        self._run(Ack(EVENTS, queue, group, self._event_ids(queue, group), self._flip()))

    def _release(self) -> None:
        queue, group = self._feed(), self._one(GROUPS)
        ids, is_uncounted = self._event_ids(queue, group), self._flip()
        self._run(Release(EVENTS, queue, group, ids, is_uncounted=is_uncounted))

    def _extend_leases(self) -> None:
        queue, group = self._feed(), self._one(GROUPS)
        ids, lease_ms = self._event_ids(queue, group), self._one((1, 50, 1_000, 60_000))
        self._run(ExtendLeases(EVENTS, queue, ids, lease_ms, group))

    def _flush(self) -> None:
        self._run(Flush(EVENTS, self._feed()))

    def _look_at_feeds(self) -> None:
        names = [self._feed() for _ in range(self.random.randint(1, 3))]
        self._run(FindReady(EVENTS, self._one(GROUPS), names))
        self._run(Peek(EVENTS, names[0], self._one(GROUPS), self._flip()))
        self._run(Count(EVENTS, names[:1]))
        # One of another family refuses them all; what was seen of the others is up to the store.
        queues = self._pair.embedded.queues
        fitting = [name for name in names if name in queues and queues[name].family is EVENTS]
        self._run(Count(EVENTS, fitting))

    # -- worklists -------------------------------------------------------------------------------

    def _list_steps(self) -> Steps:
        return (
            (self._add, 12),
            (self._add_with_key, 8),
            (self._take, 16),
            (self._take_by_patterns, 4),
            (self._finish, 6),
            (self._requeue, 12),
            (self._hold, 3),
            (self._extend, 5),
            (self._configure, 8),
            (self._take_until_refused, 3),
            (self._redrive, 6),
            (self._purge, 2),
            (self._set_node, 1),
            (self._look_at_lists, 3),
        )

    def _terms(self) -> Terms:
        return Terms(
            ttl_ms=self._one((86_400_000, 86_400_000, 3_000, 1_000, 2_000, 1_000, 2_000, 1)),
            delay_ms=self._one((0, 0, 0, 1, 1_000)),
            retry_ms=self._one((1_000, 1_000, 2_000, 300_000, 0)),
            max_deliveries=self._one((0, 0, 1, 1, 2)),
            replicas=self._one((1,) * 30 + (9,)),
        )

    def _add(self) -> None:
        max_length = self._one((0, 0, 0, 0, 2))
        self._add_both(
            Add(JOBS, self._list(), self._bodies(), self._terms(), max_length=max_length)
        )

    def _add_with_key(self) -> None:
        body, key = self._one(BODIES), self._one(KEYS)
        self._add_both(Add(JOBS, self._list(), [body], self._terms(), key, self._one((0, 0, 0, 2))))

    def _add_both(self, op: Add) -> None:
        ids = self._run(op)
        if isinstance(ids, list) and self._flip():
            self._pair.watch(ids)

    def _take(self) -> None:
        names = list(dict.fromkeys(self._list() for _ in range(self._one((1, 1, 1, 2, 3)))))
        found = self._run(Take(JOBS, names, self._count(), is_waiting=self._flip()))
        if not isinstance(found, list):
            # What time made due in the others may have been settled before it was refused, or not.
            for name in names:
                self._run(LookAt(JOBS, name))

    def _take_by_patterns(self) -> None:
        op = Take(JOBS, (), self._count(), self._one(PATTERNS))
        self.trace.append(f"    {op}")
        self._pair.take_by_patterns(op, self._by)

    def _finish(self) -> None:
        self._run(Finish(JOBS, self._ids(self._one((LIVING, (State.LEASED,))))))

    def _requeue(self) -> None:
        ids, delay_ms = self._ids((State.LEASED, State.DELAYED)), self._one((0, 0, 1, 1_000))
        op = Requeue(JOBS, ids, self._flip(), delay_ms, self._one(REASONS))
        op.is_uncounted = self._flip()
        op.is_dead = self._one((False, False, True))
        self._run(op)

    def _hold(self) -> None:
        self._run(Hold(JOBS, self._ids((State.READY,))))

    def _extend(self) -> None:
        self._run(Extend(JOBS, self._ids(LIVING)[0]))

    def _configure(self) -> None:
        self._run(Configure(JOBS, self._list(), **self._one(SETTINGS)))

    def _take_until_refused(self) -> None:
        queue = self._list()
        self._run(Configure(JOBS, queue, rate=self._one(RATES)))
        self._run(Add(JOBS, queue, [b"1", b"2", b"3", b"4"], Terms(86_400_000, retry_ms=300_000)))
        for _ in range(5):
            if self._run(Take(JOBS, [queue], self._one((1, 2)))) == []:
                break
        if self._flip():
            self._pass_to_what_is_due()
            self._pair.tick()

    def _redrive(self) -> None:
        if self._flip():
            self._run(Redrive(JOBS, self._ids((State.DEAD,))))
        else:
            self._run(Redrive(JOBS, queue=self._list(), count=self.random.randint(0, 2)))

    def _purge(self) -> None:
        if self.random.random() < 0.1:
            self._run(PurgeAll(JOBS))
        else:
            states = self.random.sample(tuple(State), self.random.randint(0, 2))
            self._run(Purge(JOBS, self._list(), states))

    def _set_node(self) -> None:
        self._pair.set_nodes(SetNode(self._one((None, False, False, True)), self._flip()))
        self._run(LookAtNode())

    def _look_at_lists(self) -> None:
        queue = self._list()
        self._run(LookAt(JOBS, queue))
        self._run(Browse(JOBS, queue, self._one((State.READY, State.DEAD)), 2))
        self._run(FindKey(JOBS, queue, self._one(KEYS)))
        self._run(AwaitEnd(JOBS, [NOBODY, *self._ids(tuple(State))]))

    # -- time, restarts --------------------------------------------------------------------------

    def _time_steps(self) -> Steps:
        return (
            (self._pass_some_time, 8),
            (self._pass_to_what_is_due, 24),
            (self._tick, 5),
            (self._look, 1),
            (self._restart_brokers, 1),
            (self._restart_all, 1),
        )

    def _pass_some_time(self) -> None:
        self._pass(self._one((0.001, 0.4, 1, 49, 500, 1_000, 1_000, 70_000, 310_000)))

    def _pass_to_what_is_due(self) -> None:
        due_ms = self._pair.next_instant_ms() + self._one((-1, 0, 0, 0, 1))
        ms = due_ms - self._pair.clock.now_us() / 1000
        # A life of a day is rarely waited for: all else would be over as well.
        if 0 < ms < NEVER_MS / 2 and (ms < 1_000_000 or self.random.random() < 0.05):
            self._pass(ms)

    def _pass(self, ms: float) -> None:
        self._pair.advance(ms)
        self._is_seen = self._flip()
        self._pair.jitter_ms = self._one((0, 0, 0, -250, 249))

    def _tick(self) -> None:
        self._pair.tick()

    def _look(self) -> None:
        self._pair.look(FEEDS, (*GROUPS, b"new"), LISTS, self._by)

    def _restart_brokers(self) -> None:
        self._pair.restart_brokers()

    def _restart_all(self) -> None:
        self._pair.restart_all(set_back_ms=self._one((0, 0, 3_600_000)))

    # -- what is drawn ---------------------------------------------------------------------------

    def _run(self, op: Op) -> Any:
        self.trace.append(f"    {op}")
        return self._pair.run(op, self._by)

    def _one(self, some: Sequence[Any]) -> Any:
        return self.random.choice(some)

    def _flip(self) -> bool:
        return self.random.random() < 0.5

    def _feed(self) -> bytes:
        """Mostly the same, so that things meet; now and then one of the other family."""
        found: bytes = self._one((b"q",) * 20 + FEEDS[1:] + (b"v",))
        return found

    def _list(self) -> bytes:
        found: bytes = self._one((b"v",) * 20 + LISTS[1:] * 2 + (b"q",))
        return found

    def _span_ms(self) -> int:
        found: int = self._one((0, 0, 1, 50, 1_000, 1_000, 60_000))
        return found

    def _count(self) -> int:
        found: int = self._one((1, 1, 2, 3, 5, 100))
        return found

    def _bodies(self) -> list[bytes]:
        return [self._one(BODIES) for _ in range(self.random.randint(1, 4))]

    def _ids(self, states: Sequence[State]) -> list[bytes]:
        """Ids of messages in these states, mostly."""
        every = list(self._pair.embedded.directory.by_id.values())
        fitting = [message.id for message in every if message.state in states]
        known = [*fitting * 4, *[message.id for message in every[-3:]], NOBODY]
        return [self._one(known) for _ in range(self.random.randint(1, 3))]

    def _event_ids(self, queue: bytes, group: bytes) -> list[bytes]:
        """Ids of what the group holds, mostly."""
        feed: Any = self._pair.embedded.queues.get(queue)
        is_feed = feed is not None and feed.family is EVENTS
        held = list(feed.groups[group].held) if is_feed and group in feed.groups else []
        known = [*held * 4, *CHOSEN_IDS, *self._made_ids.get(queue, [])[-3:], b"never"]
        return [self._one(known) for _ in range(self.random.randint(1, 3))]


def check_walk(
    make: Callable[[], Pair], seed: int, kind: str, steps: int, walker: type[Walk] = Walk
) -> None:
    """The walk is done, or fails with as few steps as are needed to."""

    def failure(numbers: Sequence[int]) -> tuple[Exception, list[str]] | None:
        return _failure(walker(make(), seed, kind), numbers)

    if failure(range(steps)) is None:
        return
    found = failure(_shrunk(failure, list(range(steps))))
    error, trace = found if found is not None else (None, ["it does not fail again"])
    text = "\n".join([f"{kind} {seed}: {error!r}", *trace])
    raise AssertionError(re.sub(r"(\w)\1{20,}", r"\1…", text)) from error


def _failure(walk: Walk, numbers: Sequence[int]) -> tuple[Exception, list[str]] | None:
    try:
        walk.go(numbers)
    except Exception as error:
        return error, walk.trace
    finally:
        walk.close()
    return None


def _shrunk(failure: Callable[[Sequence[int]], object], numbers: list[int]) -> list[int]:
    """Fewer steps that fail, too: ever smaller pieces are left out if that can be."""
    end_s = time.monotonic() + SHRINKING_S
    size = len(numbers) // 2
    while size and time.monotonic() < end_s:
        at = 0
        while at < len(numbers):
            fewer = numbers[:at] + numbers[at + size :]
            if time.monotonic() < end_s and failure(fewer) is not None:
                numbers = fewer
            else:
                at += size
        size //= 2
    return numbers
