"""The Redis store as a broker uses it: it answers later, and nobody else waits meanwhile.

Called by   server/ for every operation, cli/serve.py to open and close it.
Calls       courier.py (calls on their way), wakeups.py (what other brokers did), the steps of
            operations, store.py (opening).

An operation's steps go on when the calls they asked for have come back; operations of one turn
travel together.

Not here: what an operation does (scripts/), a program without an event loop (store.py).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from quinque.errors import QuinqueError
from quinque.model.ops import Op
from quinque.model.work_ops import AwaitEnd, LookAtNode
from quinque.stores.clock import Clock
from quinque.stores.pending import Pending
from quinque.stores.redis import ticks
from quinque.stores.redis.calls import Call, Steps
from quinque.stores.redis.courier import Courier, Outcome
from quinque.stores.redis.keys import slot_of
from quinque.stores.redis.store import RUNNERS, RedisStore
from quinque.stores.redis.wakeups import Wakeups

_TICK_SLOTS: Final = 10  # looked at in one tick
_ROUND_S: Final = 1.0  # how often a broker asks for what nobody told it


class ServedRedisStore(RedisStore):
    def __init__(
        self,
        url: str,
        loop: asyncio.AbstractEventLoop,
        *,
        node: str = "quinque",
        clock: Clock | None = None,
        chance: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Connect, and go on from the latest time that is known there.

        Raises StoreUnavailable.
        """
        super().__init__(url, node=node, clock=clock, chance=chance)
        self._facts = super().info()
        super().run(LookAtNode())  # known from here on, so that it is answered at once
        self._loop = loop
        self._courier = Courier(url, loop)
        self._wakeups = Wakeups(url, loop, self._hear, self._look_again)
        self._round = loop.call_later(_ROUND_S, self._look_round)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return self._courier.is_idle

    def run(self, op: Op) -> Any:
        """As stores/base.py says."""
        if isinstance(op, LookAtNode):
            return self._edge.node
        if isinstance(op, AwaitEnd):
            self._wakeups.listen_for_ends()
        pending = Pending()
        self._go_on(RUNNERS[type(op)](op, self._edge), pending, None)
        return pending

    def tick(self) -> None:
        now_ms = self.now_ms()
        for _ in range(_TICK_SLOTS):
            slot = self._alarms.take(now_ms)
            if slot is None:
                return
            pending = Pending()
            pending.then(_ignore, _ignore)
            self._go_on(ticks.tick(slot, self._edge), pending, None)

    def info(self) -> dict[str, int | str]:
        """Facts as they were when they were last asked for; asking brings newer ones."""
        pending = Pending()
        pending.then(self._keep_facts, _ignore)
        self._go_on(ticks.info(self._edge), pending, None)
        return self._facts

    async def aclose(self) -> None:
        """Everything under way has come back; the store may be opened again."""
        self._round.cancel()
        await self._wakeups.close()
        await self._courier.close()
        super().close()

    # -- carrying out ----------------------------------------------------------------------------

    def _go_on(self, steps: Steps, pending: Pending, results: list[Any] | None) -> None:
        """The steps go on with the results of their calls, until they ask for more."""
        try:
            calls = next(steps) if results is None else steps.send(results)
        except StopIteration as stop:
            pending.settle(stop.value)
        except QuinqueError as error:
            pending.fail(error)
        else:
            self._post(steps, pending, calls)

    def _post(self, steps: Steps, pending: Pending, calls: Sequence[Call]) -> None:
        for call in calls:
            if call.makes:
                # Asked for at once, and so once for each slot: there are 16,384 at most.
                self._know_slots(call.keys)
        self._courier.post(calls, partial(self._came, steps, pending, calls))

    def _came(
        self, steps: Steps, pending: Pending, calls: Sequence[Call], outcomes: list[Outcome]
    ) -> None:
        results: list[Any] = []
        failure: QuinqueError | None = None
        for call, outcome in zip(calls, outcomes, strict=True):
            try:
                if isinstance(outcome, QuinqueError):
                    raise outcome
                results.append(self._note(call, outcome))
            except QuinqueError as error:
                failure = failure or error
        self.on_ready()  # also for the ticker: alarms may be set anew
        if failure is None:
            self._go_on(steps, pending, results)
        else:
            self._throw(steps, pending, failure)

    def _throw(self, steps: Steps, pending: Pending, failure: QuinqueError) -> None:
        try:
            calls = steps.throw(failure)
        except StopIteration as stop:
            pending.settle(stop.value)
        except QuinqueError as error:
            pending.fail(error)
        else:
            self._post(steps, pending, calls)

    # -- other brokers ---------------------------------------------------------------------------

    def _hear(self, name: bytes) -> None:
        """Another broker, or this one, had something put into the queue, or ended the message."""
        if name in self.watched:
            self.ready.add(name)
            self.on_ready()

    def _look_again(self) -> None:
        """Notices may have been missed: whoever waits looks again."""
        if self.watched:
            self.ready.update(self.watched)
            self.on_ready()

    def _look_round(self) -> None:
        """When something is next due where somebody waits may be known to another broker only, and
        that one may be gone."""
        self._round = self._loop.call_later(_ROUND_S, self._look_round)
        slots = {slot_of(name) for name in self.watched}
        if slots:
            pending = Pending()
            pending.then(_ignore, _ignore)
            self._go_on(ticks.look_round(slots), pending, None)

    def _keep_facts(self, facts: dict[str, int | str]) -> None:
        self._facts = facts


def _ignore(result: Any) -> None:
    """Nobody waits for it."""
