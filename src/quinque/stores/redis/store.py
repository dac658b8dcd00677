"""The Redis store: carries out the steps of operations, one after the other.

Called by   server/ for every operation, cli/serve.py to open and close it.
Calls       feeds.py, worklists.py and looks.py (the steps of each operation), scripts.py, redis-py.

All that matters is in Redis, so there is nothing to commit. What is known here besides is when
something is next due in which slot.

Not here: the promises (stores/base.py), what an operation does (scripts/).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from quinque.errors import QuinqueError, StoreUnavailable
from quinque.model.ops import Op
from quinque.stores.base import Fsync
from quinque.stores.clock import Clock, SteadyClock
from quinque.stores.redis import feeds, looks, ticks, worklists
from quinque.stores.redis.alarms import SlotAlarms
from quinque.stores.redis.calls import Call, Runner, Steps
from quinque.stores.redis.edge import Edge
from quinque.stores.redis.keys import ALL_SLOTS, slot_of_tag
from quinque.stores.redis.scripts import SCRIPTS, error_of

RUNNERS: Final[dict[type, Runner]] = {**feeds.RUNNERS, **worklists.RUNNERS, **looks.RUNNERS}

_TICK_SLOTS: Final = 10  # looked at in one tick


class RedisStore:
    def __init__(
        self,
        url: str,
        *,
        node: str = "quinque",
        clock: Clock | None = None,
        chance: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Connect, and go on from the latest time that is known there.

        Raises StoreUnavailable.
        """
        # Never repeated by itself: an addition would be stored twice.
        self._client = redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0))
        self._edge = Edge(clock or SteadyClock(), chance, node)
        self._alarms = SlotAlarms()
        self.ready: set[bytes] = set()
        self.on_ready: Callable[[], None] = _nothing
        self._command(self._find_slots)
        if self._edge.slots:
            self._finish_steps(ticks.open_slots(self._edge))

    @property
    def watched(self) -> Collection[bytes]:
        return self._edge.watched

    @watched.setter
    def watched(self, watched: Collection[bytes]) -> None:
        self._edge.watched = watched

    def run(self, op: Op) -> Any:
        """As stores/base.py says."""
        return self._finish_steps(RUNNERS[type(op)](op, self._edge))

    def commit(self) -> None:
        """What a script did is in Redis when it has answered."""

    def tick(self) -> None:
        now_ms = self.now_ms()
        for _ in range(_TICK_SLOTS):
            slot = self._alarms.take(now_ms)
            if slot is None:
                return
            self._finish_steps(ticks.tick(slot, self._edge))

    def next_due_ms(self) -> int:
        return self._alarms.next_ms()

    def now_ms(self) -> int:
        return self._edge.now_ms()

    def info(self) -> dict[str, int | str]:
        facts: dict[str, int | str] = self._finish_steps(ticks.info(self._edge))
        return facts

    def configure(self, fsync: Fsync, maxmemory: int) -> None:
        """Only noted: how durable Redis is, and how much memory it takes, is set in Redis."""
        self._edge.fsync = fsync

    def close(self) -> None:
        self._client.close()

    # -- carrying out ----------------------------------------------------------------------------

    def _finish_steps(self, steps: Steps) -> Any:
        try:
            calls = next(steps)
            while True:
                try:
                    results = [self._result(call) for call in calls]
                except QuinqueError as error:
                    calls = steps.throw(error)
                else:
                    calls = steps.send(results)
        except StopIteration as stop:
            return stop.value

    def _result(self, call: Call) -> Any:
        if call.makes:
            self._know_slots(call.keys)
        return self._note(call, self._command(partial(self._evaluate, call)))

    def _note(self, call: Call, reply: Any) -> Any:
        """The result in what a script answered; what else it said is noted."""
        alarms, ready, ended, result = reply
        for key, due_ms in zip(call.keys, alarms, strict=False):
            self._alarms.set(key, due_ms)
        self.ready.update(ready)
        if ended and self._edge.watched:
            self.ready.update(id for id in ended if id in self._edge.watched)
        if isinstance(result, ResponseError):
            raise error_of(str(result)) from result
        return result

    def _evaluate(self, call: Call) -> Any:
        script = SCRIPTS[call.script]
        rest = (len(call.keys), *call.keys, *call.argv)
        try:
            return self._client.execute_command("EVALSHA", script.sha, *rest)
        except redis.exceptions.NoScriptError:
            return self._client.execute_command("EVAL", script.text, *rest)

    def _know_slots(self, keys: Sequence[bytes]) -> None:
        """The slots are found by whoever looks for all queues."""
        for key in keys:
            tag = key[key.index(b"{") + 1 : key.index(b"}")]
            slot = slot_of_tag(tag)
            if slot not in self._edge.slots:
                self._command(partial(self._client.sadd, ALL_SLOTS, tag))
                self._edge.slots.add(slot)

    def _find_slots(self) -> None:
        found: Any = self._client.smembers(ALL_SLOTS)
        self._edge.slots = {slot_of_tag(tag) for tag in found}

    def _command(self, ask: Callable[[], Any]) -> Any:
        """The answer; the one place where errors of redis-py become ours."""
        try:
            return ask()
        except ResponseError as error:
            raise error_of(str(error)) from error
        except RedisError as error:
            raise StoreUnavailable(f"Redis: {error}") from error


def _nothing() -> None:
    """Nobody is told."""
