"""The Redis store as a broker uses it: it answers later, and other clients do not wait meanwhile.

Called by   server/ for every operation, cli/serve.py to open and close it, store.py.
Calls       runners.py (the steps of an operation), routes.py (calls on their way), wakeups.py (what
            other brokers did).

All that matters is in Redis, so there is nothing to commit. This store also knows when something is
next due in which slot. An operation's steps go on when the calls they asked for have
come back; operations of one turn travel together.

Not here: the promises (stores/base.py), what an operation does (scripts/), a program without an
event loop (store.py).
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import cycle, islice
from typing import Any, Final

from hiredis import ReplyError

from quinque.errors import NotDone, QuinqueError, StoreUnavailable
from quinque.model.measure_ops import MeasureQueues, MeasureStore
from quinque.model.ops import Op
from quinque.model.work_ops import LookAtNode
from quinque.stats.expirations import Expirations
from quinque.stores.base import Fsync, HasTakers, no_takers
from quinque.stores.clock import Clock
from quinque.stores.consumers import Consumers
from quinque.stores.keeping import Keeping
from quinque.stores.pending import Pending
from quinque.stores.redis import (
    consumers,
    copy_mark,
    event_ids,
    items,
    nodes,
    records,
    sessions,
    ticks,
)
from quinque.stores.redis.calls import Call, Steps
from quinque.stores.redis.clock import FollowingClock
from quinque.stores.redis.courier import Outcome
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import slot_of_id, slot_of_key, tags
from quinque.stores.redis.measures import Health
from quinque.stores.redis.routes import Routes
from quinque.stores.redis.runners import steps_of
from quinque.stores.redis.scripts import error_of
from quinque.stores.redis.slots import look_at_slots, note_call, unknown_slots
from quinque.stores.redis.urls import parse_store_url
from quinque.stores.redis.wakeups import Wakeups

log = logging.getLogger("quinque.redis")

_WALL_OFF_US: Final = 1_000_000  # a clock that is off by more is reported
_INFO_SLOTS_FEW: Final = 100  # facts of no more slots are asked for each time
_INFO_RESTS: Final = 20  # times as long as it took, facts of more slots are not asked for again
_TICK_SLOTS: Final = 10  # looked at in one tick
_ROUND_S: Final = 1.0  # how often a broker asks for what it may have missed
_ROUND_LEAST: Final = 100  # queues that are looked at again in a round, if as many are waited on
_ROUNDS: Final = 30  # after this many rounds all of them have been
_EMPTY_ROUNDS: Final = (
    600  # after this many rounds all slots that are believed to be empty have been
)
_CLOSE_S: Final = 5.0  # for what is under way when the store of a broker is closed
_TRIM_ROUNDS: Final = 10  # after this many rounds, old entries of the record are removed
_TRIM_SLOTS: Final = 100  # slots that are asked for that in a round, on average, at most
_COUNTED: Final = 6  # fields of each change, as lib/record.lua has it


class _Running:
    """An operation that is under way."""

    __slots__ = ("has_changed", "pending", "steps")

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.pending = Pending()
        self.has_changed = False  # a call of it may have changed something


class ServedRedisStore:
    answers_at_once: bool = False

    def __init__(self, routes: Routes, edge: Edge, follows: FollowingClock | None) -> None:
        """Not for others: see open()."""
        self.ready: set[bytes] = set()
        self.ready_lanes: dict[bytes, set[bytes]] = {}  # not known here
        self.expired = Expirations()
        self.on_ready: Callable[[], None] = _nothing
        self.on_doubt: Callable[[], None] = _nothing
        self.has_takers: HasTakers = no_takers  # which is not asked
        self.edge = edge
        self._routes = routes
        self._follows = follows
        edge.follows = follows is not None
        self._alarms = edge.alarms
        self._facts: dict[str, int | str] = {}
        self._facts_until_s = 0.0  # until then they are good enough
        self._wakeups: Wakeups | None = None
        self._round: asyncio.TimerHandle | None = None
        self._health = Health()
        self._rounds = 0
        self._trimmed = 0  # the round in which the record was last trimmed
        self._has_warned = False  # of this machine's clock

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        node: str = "quinque",
        clock: Clock | None = None,
        chance: Callable[[int], bytes] = os.urandom,
        timeout_s: float = 5.0,
        replicas: int = 0,
        may_evict: bool = False,
        takes_fewer: bool = False,
        is_alone: bool = False,
        keeping: Keeping | None = None,
    ) -> ServedRedisStore:
        """Connect, and go on from the latest time that is known there. A store that `is_alone` does
        not listen for what others do, and asks for nothing by itself.

        Raises StoreUnavailable, NotDone, BadSetting.
        """
        tags()  # made now, which takes a moment, and not when the first client asks
        loop = asyncio.get_running_loop()
        routes = Routes(parse_store_url(url), loop, timeout_s, replicas, may_evict, takes_fewer)
        await routes.open()
        follows = None if clock is not None else FollowingClock()
        store = cls(routes, Edge(clock or follows or FollowingClock(), chance, node), follows)
        store.edge.keeping = keeping or Keeping()
        routes.is_counting = store.edge.keeping.is_counting
        store.edge.is_cluster = routes.is_cluster
        store.edge.timeout_ms = int(timeout_s * 1000)
        try:
            await store._learn(is_alone)
        except QuinqueError:
            await routes.close()
            raise
        if not is_alone:
            store._wakeups = Wakeups(
                routes,
                loop,
                timeout_s,
                got=store._hear,
                ended=store._hear_of_end,
                begun=store.edge.empty.hear,
                spread=store._look_at_partitions,
                missed=store._look_again,
            )
            store.edge.foreign.begin(
                loop, lambda: store.watched, store._find_foreign, store._hear_of_end
            )
            store._round = loop.call_later(_ROUND_S, store._look_round)
        return store

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return self._routes.is_idle

    @property
    def own_address(self) -> str:
        """The address by which this machine reaches Redis, if it is not the same machine."""
        return self._routes.own_address

    @property
    def watched(self) -> Collection[bytes]:
        return self.edge.watched

    @watched.setter
    def watched(self, watched: Collection[bytes]) -> None:
        self.edge.watched = watched

    @property
    def consumers(self) -> Consumers:
        return self.edge.consumers

    def run(self, op: Op) -> Any:
        """As stores/base.py says."""
        if isinstance(op, LookAtNode):
            return self.edge.node
        if isinstance(op, MeasureStore):
            return self._health.measure()
        if isinstance(op, MeasureQueues) and op.is_counting:
            self._routes.is_counting = True
        return self.start(steps_of(op, self.edge))

    def start(self, steps: Steps) -> Pending:
        """The steps are under way."""
        running = _Running(steps)
        self._go_on(running, None)
        return running.pending

    def commit(self) -> None:
        """Do nothing: the changes of a script are in Redis when it has answered."""

    def tick(self) -> None:
        now_ms = self.now_ms()
        for _ in range(_TICK_SLOTS):
            slot = self._alarms.take(now_ms)
            if slot is None:
                return
            self.start(ticks.tick(slot, self.edge)).then(
                partial(self._has_ticked, slot), partial(self._has_not_ticked, slot)
            )

    def _has_ticked(self, slot: bytes, _: Any) -> None:
        self._alarms.work(slot)

    def _has_not_ticked(self, slot: bytes, _: QuinqueError) -> None:
        self._alarms.rest(slot, self.now_ms())

    def next_due_ms(self) -> int:
        return self._alarms.next_ms()

    def is_awaited(self) -> bool:
        return False  # an operation takes all its steps itself

    def finish_slices(self) -> None:
        """Do nothing: no tick carries out an operation."""

    def now_ms(self) -> int:
        return self.edge.now_ms()

    def info(self) -> Pending:
        """Return the facts of stores/base.py, or the last known ones if Redis does not answer.
        Facts of many slots are read only now and then, so that a tool that polls them does not slow
        down clients."""
        pending = Pending()
        asked_s = time.monotonic()
        if asked_s < self._facts_until_s:
            pending.settle(self._facts)
            return pending

        def keep(facts: dict[str, int | str]) -> None:
            if self._follows is not None:
                facts["clock_ahead_ms"] = self._follows.wall_off_us // 1000
            self._facts = facts
            now_s = time.monotonic()
            if len(self.edge.slots) > _INFO_SLOTS_FEW:
                self._facts_until_s = now_s + _INFO_RESTS * (now_s - asked_s)
            pending.settle(facts)

        self.start(ticks.info(self.edge)).then(keep, lambda error: pending.settle(self._facts))
        return pending

    def configure(self, fsync: Fsync, maxmemory: int) -> None:
        """Only noted: how durable Redis is, and how much memory it takes, is set in Redis."""
        self.edge.fsync = fsync

    async def aclose(self) -> None:
        """Everything under way has come back; the store may be opened again."""
        self.on_ready = _nothing  # the ticker does not need what comes back now
        if self._round is not None:
            self._round.cancel()
        self.edge.foreign.end()
        within_s = self.edge.timeout_ms / 1000
        if self._wakeups is not None:
            await self._wakeups.close()
            within_s = min(within_s, _CLOSE_S)
            last = [steps(self.edge) for steps in (nodes.retire, consumers.retire, sessions.retire)]
        else:
            last = [sessions.part(self.edge)]
        late_s = asyncio.get_running_loop().time() + within_s
        # If Redis does not answer, its notes about this broker end by themselves.
        said = [self._ended(steps) for steps in (*last, event_ids.leave(self.edge))]
        await asyncio.wait(said, timeout=within_s)
        await self._routes.close(late_s)

    def compact(self) -> bool:
        """There is no journal."""
        return True

    def close(self) -> None:
        """The connections end now; what is under way is not waited for."""
        self._routes.abort()

    # -- carrying out ----------------------------------------------------------------------------

    async def _learn(self, is_alone: bool) -> None:
        """Read from Redis what the store has to know: slots, times, partitions, the node.

        Raises CopyUnfinished to a broker; a program of its own may be the one that copies.
        """
        for steps in (
            *(() if is_alone else (copy_mark.refuse_half("the store"),)),
            self._look_at_time(),
            event_ids.join(self.edge, may_fail=True),  # before the last places are read
            ticks.open_slots(self.edge),
            ticks.look_at_partitions(self.edge),
            nodes.known_node(self.edge),
            ticks.info(self.edge),
        ):
            result = await self._end_of(steps)
        self._facts = result

    async def _end_of(self, steps: Steps) -> Any:
        """Carry out the steps, and return their result or raise their error."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.start(steps).then(future.set_result, future.set_exception)
        return await future

    def _ended(self, steps: Steps) -> asyncio.Future[None]:
        """Carry out the steps; done when they are, or have failed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.start(steps).then(
            lambda result: future.set_result(None), lambda error: future.set_result(None)
        )
        return future

    def _start_unasked(self, steps: Steps) -> None:
        """As start(), without a caller that waits. If it fails, the next round does it."""
        self.start(steps).then(_ignore, _ignore)

    def _go_on(self, running: _Running, results: list[Any] | None) -> None:
        """The steps go on with the results of their calls, until they ask for more."""
        steps = running.steps
        self._advance(running, lambda: next(steps) if results is None else steps.send(results))

    def _post(self, running: _Running, calls: Sequence[Call]) -> None:
        if not calls:
            self._go_on(running, [])
            return
        for call in calls:
            if call.makes:
                self.edge.empty.hear(slot_of_key(call.keys[0]))
        unknown = unknown_slots(calls, self.edge)
        if unknown:
            # Together with what makes a queue there, so that nothing is done in another order than
            # it was asked for. It is answered when both have come back, even if another server,
            # which notes the slots, is down: what was added is there.
            calls = [*calls, note_call(sorted(unknown))._replace(may_fail=True)]
        if not self.edge.keeping.is_on:
            calls = [call._replace(is_recorded=False) for call in calls]
        self._routes.post(calls, partial(self._came, running, calls, unknown))

    def _came(
        self, running: _Running, calls: Sequence[Call], noted: set[int], outcomes: list[Outcome]
    ) -> None:
        results: list[Any] = []
        failure: QuinqueError | None = None
        for call, outcome in zip(calls, outcomes, strict=True):
            if isinstance(outcome, QuinqueError):
                result: Any = outcome
                self._health.failures += 1
            else:
                result = self._note(call, outcome)
                self._health.heard_s = time.monotonic()
            results.append(result)
            if not isinstance(result, QuinqueError):
                running.has_changed |= call.is_change and result != call.idle
            elif not call.may_fail and not isinstance(failure, StoreUnavailable):
                # An unknown outcome on one server is more important than a refusal of another.
                failure = result if isinstance(result, StoreUnavailable) else failure or result
        self.on_ready()  # also for the ticker, because alarms may have changed
        if noted:
            is_unnoted = isinstance(results.pop(), QuinqueError)
            if failure is None or not is_unnoted:
                self.edge.slots |= noted
            if failure is None and is_unnoted:
                # The operation was carried out. The next check of the slots records it.
                self.edge.unnoted_slots |= noted
        if failure is None:
            self._go_on(running, results)
        elif isinstance(failure, NotDone) and running.has_changed:
            self._throw(
                running, StoreUnavailable(f"the request was carried out only in part: {failure}")
            )
        else:
            self._throw(running, failure)

    def _throw(self, running: _Running, failure: QuinqueError) -> None:
        self._advance(running, lambda: running.steps.throw(failure))

    def _advance(self, running: _Running, step: Callable[[], Sequence[Call]]) -> None:
        try:
            calls = step()
        except StopIteration as stop:
            running.pending.settle(stop.value)
        except QuinqueError as error:
            running.pending.fail(error)
        except Exception as error:  # a defect of this program: one operation fails, no other
            log.exception("an operation on Redis failed")
            running.pending.fail(
                StoreUnavailable(f"the broker failed: {error!r}; the effect is unknown")
            )
        else:
            self._post(running, calls)

    def _note(self, call: Call, reply: Any) -> Any:
        """The result in what a script answered, or its error; what else it said is noted."""
        if len(reply) > 5:
            self._note_expired(reply.pop())
        if len(reply) > 4:
            self._count(reply.pop() or ())
        alarms, ready, ended, result = reply
        for number, due_ms in enumerate(alarms):
            self._alarms.set(call.keys[0], due_ms, is_timer=number > 0)
        if ready:
            self.ready.update(ready)
            for name in ready:
                self.edge.spread.believe(name, [slot_of_key(call.keys[0])])
        if ended and self.edge.watched:
            self.ready.update(id for id in ended if id in self.edge.watched)
        return error_of(str(result), call) if isinstance(result, ReplyError) else result

    def _count(self, counted: Sequence[Any]) -> None:
        for at in range(0, len(counted), _COUNTED):
            self.edge.tally.add(*counted[at : at + _COUNTED])

    def _note_expired(self, counts: Sequence[Any]) -> None:
        for at in range(0, len(counts), 2):
            self.expired.add(counts[at], counts[at + 1])

    # -- other brokers ---------------------------------------------------------------------------

    def _hear(self, name: bytes, slot: int) -> None:
        """Another broker, or this one, had something put into the queue."""
        self.edge.empty.hear(slot)
        self.edge.spread.believe(name, [slot])
        self._hear_of_end(name)

    def _hear_of_end(self, name: bytes) -> None:
        if name in self.watched:
            self.ready.add(name)
            self.on_ready()

    def _find_foreign(self, names: list[bytes]) -> Pending:
        return self.start(items.look_for_foreign(names))

    def _look_again(self) -> None:
        """Let blocked clients look again: wake-up notifications may have been missed."""
        self.edge.empty.miss()
        self.ready.update(self.watched)
        self.on_doubt()
        self.on_ready()

    def _look_at_partitions(self) -> None:
        self._start_unasked(ticks.look_at_partitions(self.edge))

    def _look_round(self) -> None:
        self._round = asyncio.get_running_loop().call_later(_ROUND_S, self._look_round)
        self.look_round()

    def look_round(self) -> None:
        """Ask for what this broker may have missed: the time, which slots are in use, which queues
        are spread. Ask what is due where clients wait, and in some other slots, since the broker
        that knows of it may be gone. Let some blocked clients look again, since a notice may have
        been lost."""
        self._routes.each_second()
        self._start_unasked(self._look_at_time())
        self._look_at_partitions()
        self._start_unasked(nodes.beat(self.edge))
        self._start_unasked(event_ids.keep(self.edge))
        self._start_unasked(consumers.share(self.edge))
        self._start_unasked(sessions.beat(self.edge))
        watched = list(self.watched)
        spread = self.edge.spread
        slots = {slot for name in watched for slot in spread.read_slots(name)}
        slots.update(map(slot_of_id, watched), self._some_slots())
        self._start_unasked(ticks.look_round(slots & self.edge.slots, self.edge))
        if watched:
            count = max(_ROUND_LEAST, len(watched) // _ROUNDS)
            first = self._rounds * count % len(watched)
            self.ready.update(islice(cycle(watched), first, first + min(count, len(watched))))
        self.on_doubt()
        self.on_ready()
        if self._rounds >= self._trimmed + max(_TRIM_ROUNDS, len(self.edge.slots) // _TRIM_SLOTS):
            self._trimmed = self._rounds
            self._start_unasked(records.trim(self.edge))
        self._rounds += 1

    def _some_slots(self) -> Sequence[int]:
        """A part of all slots, each time another: what is due there is found in the end. Slots that
        are believed to be empty are visited too, but rarely: a notice may have been lost."""
        # By number, and not by place among the others: more or fewer are empty in each round.
        empty = self.edge.empty.believed
        return [
            slot
            for slot in self.edge.slots
            if (slot - self._rounds) % (_EMPTY_ROUNDS if slot in empty else _ROUNDS) == 0
        ]

    def _look_at_time(self) -> Steps:
        """The slots in use are known, and this broker's time is that of Redis."""
        # Not the loop's time: uvloop looks at the clock once in a turn, and a turn may take long.
        asked_us = time.monotonic_ns() // 1000
        there_us: int = yield from look_at_slots(self.edge)
        if self._follows is not None:
            self._follows.follow(there_us, time.monotonic_ns() // 1000 - asked_us)
            self._look_at_wall(self._follows.wall_off_us)

    def _look_at_wall(self, off_us: int) -> None:
        """Messages go by the time of Redis. Logs, and a client that sends a date, do not."""
        if abs(off_us) > _WALL_OFF_US and not self._has_warned:
            self._has_warned = True
            log.warning(
                "this machine's clock is %.1f s %s the clock of Redis; the broker uses the clock "
                "of Redis, so set this machine's clock, for example with NTP",
                abs(off_us) / 1_000_000,
                "ahead of" if off_us > 0 else "behind",
            )


def _nothing() -> None:
    """Do nothing: no caller wants to know."""


def _ignore(result: Any) -> None:
    """Drop a result that no caller waits for."""
