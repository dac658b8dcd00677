"""The messages of one handler: taken in batches, given to its executor, and settled in batches.

Called by   runtime.py; leases.py looks at what is held.
Calls       sources.py (the operations), executors.py (where handlers run), a Runner.

queue --take--> waiting --> running --> done --settle--> acked, returned or buried

The next batch is taken while a batch is settled, on another connection. Messages that end meanwhile
are settled together. No timer collects batches: under load a request is always in progress, and
without load no message waits.

Not here: the number of prefetched messages (ahead.py), leases (leases.py), the end of the process
(runtime.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic
from typing import Final

from quinque.client.aio.runner import Runner
from quinque.errors import NotDone, QuinqueError, StoreUnavailable, TooLarge, many
from quinque.model.ops import Op
from quinque.worker.ahead import Ahead
from quinque.worker.app import App
from quinque.worker.asking import AGAIN, Asking
from quinque.worker.backoff import Fail, Retry, rest_s
from quinque.worker.board import Left
from quinque.worker.counting import count_ended
from quinque.worker.executors import STOPPING_S, Executor, Stopped, Tasks, Threads
from quinque.worker.failures import key_of
from quinque.worker.figures import Count, Tally
from quinque.worker.handlers import TASKS, Handler
from quinque.worker.leftovers import settle_left
from quinque.worker.message import Message, text_of
from quinque.worker.shared import Shared
from quinque.worker.sources import PARTS, Source, result_ops
from quinque.worker.tracing import Tracing

LOG = logging.getLogger("quinque.worker")

# At its end the process waits for a request that takes messages, at most for this time, because
# such a request may have received messages already.
WAIT_MS: Final = 1_000
_LOOK_S: Final = 0.1
_COUNT_LOOK_S: Final = 0.01
_COUNTED_S: Final = 5.0  # a supervisor that needs longer to count a death does not run
# If no handler has ended for this time, other processes may start waiting messages sooner.
STUCK_S: Final = 1.0
_CAREFUL_S: Final = 60.0  # after a process died, no message is prefetched for this time


class NeverFinished(Exception):
    """The previous processes died while they handled the message, maybe because of it, or reported
    no result."""

    def __init__(self, deliveries: int) -> None:
        super().__init__(
            f"delivered {many(deliveries, 'time')} without a result: the worker processes "
            "died or lost the message"
        )


class Desk:
    def __init__(
        self,
        app: App,
        number: int,
        source: Source,
        runner: Runner,
        shared: Shared,
        tally: Tally,
        tracing: Tracing | None,
        threads: int,
    ) -> None:
        handler: Handler = source.handler
        self.handler, self.source = handler, source
        self.held: set[Message] = set()
        self.finished = self.failed = 0
        # Set when a handler ended or reported progress, or when the broker had no messages.
        self.moved_s = monotonic()
        self.is_stalled = False
        self.order = asyncio.Lock()  # orders the requests about held messages
        self._app, self._number, self._tally = app, number, tally
        self._board, self._failures, self._lives = shared.board, shared.failures, shared.lives
        self._asking = Asking(runner, handler.name)
        self._open = 0  # messages that are not done yet
        self._done: list[Message] = []
        self._unbegun: list[Message] = []
        self._some_done = asyncio.Event()
        self._changed = asyncio.Event()
        self._is_stopping = False
        self._is_taking = False
        self._turned_s = monotonic()  # when a handler ended or could start
        self._ahead = Ahead(handler.batch, monotonic())
        self._most = handler.concurrency or (TASKS if handler.is_async else threads)
        kind = Tasks if handler.is_async else Threads
        self._concurrency = f"{self._most} {'tasks' if handler.is_async else 'threads'}"
        self._executor: Executor = kind(
            app, handler, shared.board, tracing, self._ended, self._most
        )

    def __str__(self) -> str:
        """Name the handler and its queue for the log line at the start."""
        handler = self.handler
        group = f" of group {handler.group.decode('utf-8', 'replace')}" if handler.group else ""
        return (
            f"handler {handler.called} for {handler.family.name} queue {handler.name}{group}, "
            f"up to {self._concurrency}"
        )

    # -- taking ----------------------------------------------------------------------------------

    async def take(self) -> None:
        """Take messages while there is room, until the desk is told to stop."""
        tries, was_away = 0, False
        while not self._is_stopping:
            room = self._most + self._ahead.count - self._open
            if room <= 0 or self._executor.waiting > self._ahead.count // 2 or self._is_stuck:
                self._changed.clear()
                await self._changed.wait()
                continue
            asked_s = monotonic()
            self._is_taking = True
            try:
                messages = await self.source.take(room, WAIT_MS)
            except QuinqueError as error:
                tries += 1
                was_away = isinstance(error, NotDone | StoreUnavailable)
                LOG.warning(
                    "cannot take messages from queue %s: %s; retrying", self.handler.name, error
                )
                self._is_taking = False
                await self._pause(AGAIN.delay_s(tries))
                continue
            if tries:
                LOG.info(
                    "%s: taking messages from queue %s again",
                    "reconnected" if was_away else "recovered",
                    self.handler.name,
                )
            tries = 0
            await self._begin(messages, asked_s)
            self._is_taking = False

    @property
    def _is_stuck(self) -> bool:
        """Return whether as many handlers run as may, and none has ended for some time."""
        return self._open >= self._most and monotonic() - self._turned_s >= STUCK_S

    async def return_waiting(self) -> None:
        """Return prefetched messages that wait for slow handlers, because another process may be
        idle. Take no more until a handler ends."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._has_stuck:
                async with self.order:
                    if self._has_stuck:
                        await self._return_waiting()

    @property
    def _has_stuck(self) -> bool:
        # Not while a request takes messages: it could return the same ones.
        is_busy = self._is_taking or self._is_stopping
        return not is_busy and self._executor.waiting > 0 and self._is_stuck

    async def _return_waiting(self) -> None:
        ours: list[Message] = []
        lost: list[Message] = []
        others: list[Message] = []
        for message in self._executor.take_back():
            can_go = self.source.can_give_back(message)
            (lost if message.is_lost else ours if can_go else others).append(message)
        self._executor.submit(others)
        self._open -= len(ours) + len(lost)
        self._forget(ours + lost)  # first, as in give_back_unbegun
        if not ours:
            return
        LOG.info("returning %s to queue %s", many(len(ours), "waiting message"), self.handler.name)
        error = await self._asking.once(self.source.give_back(ours))
        if not isinstance(error, NotDone):
            return
        if self._is_stopping:
            self._unbegun += ours
            return
        extend_s = [message.extend_s for message in ours]
        self._hold(ours, monotonic())
        for message, due_s in zip(ours, extend_s, strict=True):
            message.extend_s = due_s
        self._turned_s = monotonic()  # do not repeat this at once

    async def _begin(self, messages: list[Message], asked_s: float) -> None:
        if messages and self.source.returns_at_once:
            await self._until_counted()
        if self._is_stopping:
            await self._asking.once([*self.source.give_back(messages)] if messages else [])
            return
        now_s = monotonic()
        if not messages:
            self.moved_s = now_s
        if (
            self.source.retries_here
        ):  # the request may have recovered messages that this process holds
            known = {message.raw_id for message in self.held}
            messages = [message for message in messages if message.raw_id not in known]
        for message in messages:
            message.ours_until_s = asked_s + self.source.first_lease_s
        self._hold(messages, now_s)
        self._ahead.rate(self.finished + self.failed, now_s)

    async def _until_counted(self) -> None:
        """Wait until the failures of dead processes are counted, which may include those of new
        messages."""
        until_s = monotonic() + _COUNTED_S
        while not (self._is_stopping or self._lives.are_counted() or monotonic() > until_s):
            await asyncio.sleep(_COUNT_LOOK_S)

    def _hold(self, messages: Sequence[Message], now_s: float) -> None:
        """Hold the messages, and start their handlers."""
        extend_s = now_s + self.source.first_extend_s
        for message in messages:
            message.taken_s, message.extend_s = now_s, extend_s
            message.on_progress = self._tell_progress
        if not self.source.is_counted and self._failures.are_any:
            for message in messages:
                failures = self._failures.of(self._key(message))
                message.deliveries = max(message.deliveries, failures + 1)
        if self._open < self._most:
            self._turned_s = now_s
        self._board.hold(messages, self._number, self.handler.salt)
        self.held.update(messages)
        self._open += len(messages)
        self._executor.submit([message for message in messages if not self._is_over(message)])

    def _is_over(self, message: Message) -> bool:
        """Return whether the message reached its limit before this delivery. Then it has failed,
        and its handler is not called."""
        if self.source.is_limited or not 0 < self.handler.limit < message.deliveries:
            return False
        message.deliveries -= 1  # this delivery does not count
        message.error = NeverFinished(message.deliveries)
        self._ended([message])
        return True

    def _key(self, message: Message) -> bytes:
        return key_of(self.handler.salt, message.raw_id)

    def _tell_progress(self, message: Message, value: object) -> None:
        self.moved_s = monotonic()
        for hook in self._app.progress_hooks:
            try:
                hook(message, value)
            except BaseException:  # it may raise any error and must not end its thread
                LOG.exception("a hook of App.progress failed for %s", message)

    # -- settling --------------------------------------------------------------------------------

    def _ended(self, messages: Sequence[Message]) -> None:
        """The handlers of these messages have ended. Called in the event loop."""
        self._open -= len(messages)
        self._turned_s = monotonic()
        for message in messages:
            if message.error is None:
                self.finished += 1
            elif not isinstance(message.error, Stopped):
                self.failed += 1
        self._done += messages
        self._some_done.set()
        self._changed.set()

    def extended(self, message: Message, until_s: float) -> None:
        """Record until when the lease certainly lasts, on the monotonic clock."""
        message.ours_until_s = until_s
        self._board.extend(message)

    def is_done(self, message: Message) -> bool:
        """Return whether its handler has ended, with or without an error: the message waits for a
        retry or is being settled."""
        return message.error is not None or message.ended_s > 0

    async def abandon(self) -> None:
        """Fail handlers that have exceeded their timeout. Coroutines were cancelled and had time to
        end. Return when as many handlers hang as may run at a time, because only the end of the
        process ends them."""
        timeout_s, abandoned = self.handler.timeout_s, 0
        assert timeout_s is not None
        most_s = timeout_s + (STOPPING_S if self.handler.is_async else 0)
        while abandoned < self._most:
            await asyncio.sleep(_LOOK_S)
            before_s = monotonic() - most_s
            for message in list(self.held):
                if 0 < message.started_s < before_s and not self.is_done(message):
                    LOG.error(
                        "abandoned the handler of %s: it did not stop after its timeout", message
                    )
                    abandoned += 1
                    self._executor.abandon(message)
                    self._ended([message])
        LOG.error(
            "stopping the process: %s of queue %s hung",
            many(abandoned, "handler"),
            self.handler.name,
        )

    async def settle(self) -> None:
        """Settle messages whose handlers have ended, until this is cancelled."""
        while True:
            await self._some_done.wait()
            self._some_done.clear()
            async with self.order:
                batch, self._done = self._done, []
                await self._settle([message for message in batch if message in self.held])
            self.moved_s = monotonic()
            self._changed.set()

    async def _settle(self, batch: list[Message]) -> None:
        good = await self._tell_results([message for message in batch if message.error is None])
        if good:
            # Before they are acked: a broker may be away for long.
            count_ended(self._tally, self.source, good, Count.FINISHED)
            await self._asking.for_good(self.source.ack(good))
            if not self.source.is_counted:
                for message in good:
                    if message.deliveries > 1:
                        self._failures.forget(self._key(message))
            self._forget(good)
        if len(good) == len(batch):
            return
        ops: list[Op] = []
        over: list[Message] = []
        for message in batch:
            if isinstance(message.error, Stopped):
                ops += [] if message.is_lost else self.source.give_back([message], are_begun=True)
                self._forget([message])
            elif message.error is not None:
                ops += self._after_failure(message, over)
        await self._asking.once(ops)
        await self._put_aside(over)

    async def _tell_results(self, good: list[Message]) -> list[Message]:
        """Store the results of the handlers, and return the messages that may be acked. A result
        that cannot be stored is a failure: an ack would lose it."""
        told = [message for message in good if message.told is not None]
        if not told or self.handler.results is None:
            return good
        refusal = await self._asking.surely(result_ops(told, self.handler.results))
        if refusal is None:
            return good
        for message in told:
            message.error = refusal
            # Only one of them may have been refused as too large, so send each alone.
            if len(told) > 1 and not isinstance(refusal, NotDone | StoreUnavailable):
                ops = result_ops([message], self.handler.results)
                message.error = await self._asking.surely(ops)
        return [message for message in good if message.error is None]

    def _after_failure(self, message: Message, over: list[Message]) -> list[Op]:
        """Return the operations for a message whose handler failed, or add it to `over` if it is
        dead."""
        error, source = message.error, self.source
        assert error is not None
        count = message.deliveries
        if message.started_s:
            count_ended(self._tally, source, [message], Count.FAILED)
        if not source.is_counted and not isinstance(error, NeverFinished):
            count = self._failures.add(self._key(message), least=count)
        # Do not bury a message that another consumer may hold by now: that consumer settles it.
        is_over = isinstance(error, Fail) or (
            not source.is_limited and 0 < self.handler.limit <= count
        )
        if is_over and not message.is_lost:
            self._log_failure(message, count, f"dead after {_deliveries(count)}")
            over.append(message)
            return []
        is_last = source.is_last(count)
        self._tally.add(Count.DEAD if is_last else Count.RETRIED)
        delay_s = source.delay_s(rest_s(error, self.handler.backoff, count))
        next_ = f"dead after {_deliveries(count)}" if is_last else f"retry in {delay_s:.3g} s"
        # The delay here ends before its lease: otherwise another consumer would recover the
        # message.
        rests_until_s = message.taken_s + self.handler.lease_s
        if source.retries_here and monotonic() + delay_s < rests_until_s and not self._is_stopping:
            self._log_failure(message, count, next_)
            # Its handler does not run: the end of the process must not count as its failure.
            self._board.drop([message])
            asyncio.get_running_loop().call_later(delay_s, self._again, message)
            return []
        if message.is_lost:
            next_ = "its lease was lost, so that another consumer may have it"
        elif source.retries_here:
            next_ = "retry when a worker recovers it"
        self._log_failure(message, count, next_)
        self._forget([message])
        # Do not return a message that another consumer may hold by now.
        return [] if message.is_lost else source.retry(message, delay_s)

    def _log_failure(self, message: Message, count: int, next_: str) -> None:
        """Log why the handler failed and what happens to the message. The log has no
        traceback of Retry and Fail."""
        error = message.error
        assert error is not None
        if isinstance(error, Retry):
            LOG.info(
                "handler %s requested a retry of %s at delivery %d: %s; %s",
                *(self.handler.called, message, count, text_of(error), next_),
            )
            return
        LOG.warning(
            "handler %s failed for %s at delivery %d: %s: %s; %s",
            *(self.handler.called, message, count),
            *(type(error).__name__, text_of(error), next_),
            exc_info=None if isinstance(error, Fail | NeverFinished) else error,
        )

    async def _put_aside(self, over: list[Message]) -> None:
        """Keep messages that failed too often elsewhere, and only then remove them from their
        queue. A message that cannot be kept comes back."""
        if not over:
            return
        kept = await self._kept_elsewhere(over)
        if kept:
            self._tally.add(Count.DEAD, len(kept))
            await self._asking.for_good(self.source.forget(kept))
            if not self.source.is_counted:
                for message in kept:
                    self._failures.forget(self._key(message))
        if len(kept) < len(over):
            self._asking.has_failed = True
        self._forget(over)

    async def _kept_elsewhere(self, over: list[Message]) -> list[Message]:
        """Return the messages that are kept elsewhere now. A message that is refused does not hold
        up the others, and one that is too large is kept in parts."""
        refusal = await self._asking.surely(self.source.bury(over))
        if refusal is None:
            return over
        if isinstance(refusal, NotDone | StoreUnavailable):
            return []
        kept: list[Message] = []
        for message in over:
            for parts in PARTS:
                refusal = await self._asking.surely(self.source.bury([message], parts))
                if not isinstance(refusal, TooLarge):
                    break
            if refusal is None:
                kept.append(message)
            else:
                LOG.error(
                    "cannot move %s to the dead queue; it is delivered again: %s", message, refusal
                )
        return kept

    def _again(self, message: Message) -> None:
        """Start the handler again after the delay, with a new Message, because the failed handler
        may still run."""
        self._forget([message])
        if not self._is_stopping:
            again = Message(message.queue, message.raw_id, message.raw, message.deliveries + 1)
            self._hold([again], monotonic())
            again.taken_s = message.taken_s

    def _forget(self, messages: Sequence[Message]) -> None:
        """Remove the messages from the set in progress."""
        self.held.difference_update(messages)
        self._board.drop(messages)

    # -- what another process left ---------------------------------------------------------------

    async def prepare(self) -> None:
        """Prepare the queue as the handler needs it, as far as this user may."""
        tries = 0
        while not self._is_stopping:
            try:
                await self.source.prepare()
                if tries:
                    LOG.info("reconnected: prepared queue %s", self.handler.name)
                return
            except (NotDone, StoreUnavailable) as error:
                tries += 1
                LOG.warning("no broker for queue %s yet: %s; retrying", self.handler.name, error)
                await self._pause(AGAIN.delay_s(tries))
            except QuinqueError as error:
                LOG.warning(
                    "cannot prepare queue %s: %s; using it as it is", self.handler.name, error
                )
                return

    async def take_over(self, left: Sequence[Left]) -> None:
        """Settle the messages that a process held when it died. From here on, take only messages
        that can start at once, so that another crash affects few."""
        self._ahead.most = 0
        asyncio.get_running_loop().call_later(_CAREFUL_S, self._take_ahead_again)
        try:
            await settle_left(left, self.source, self._asking)
        except asyncio.CancelledError:  # the process ends and does not wait for the broker
            self._asking.has_failed = True
            raise

    def _take_ahead_again(self) -> None:
        """Prefetch again, as before the process died."""
        self._ahead.most = self.handler.batch

    # -- ending ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Take and start no more messages. Return messages that still arrive."""
        self._is_stopping = True
        self._asking.has_failed = False
        self._changed.set()
        unbegun = self._executor.take_back()
        self._executor.begin_no_more()
        self._unbegun += unbegun
        self._open -= len(unbegun)

    @property
    def is_settled(self) -> bool:
        """Return whether all messages that were held at the stop were finished or returned."""
        return not self._asking.has_failed

    @property
    def has_running(self) -> bool:
        """Return whether a handler runs, once the desk was told to stop."""
        return self._open > 0

    async def give_back_unbegun(self) -> None:
        """Return messages that were not started. Call this after `take` has ended, which would take
        them again."""
        async with self.order:
            ours = [message for message in self._unbegun if not message.is_lost]
            # First, so that it is not requested twice: another consumer may hold them by then.
            self._forget(self._unbegun)
            if ours:
                await self._asking.once(self.source.give_back(ours))

    async def finish(self) -> None:
        """Wait until all started handlers have ended and their messages are settled."""
        while self._open or self._done:
            self._changed.clear()
            await self._changed.wait()
        async with self.order:  # wait for the requests in progress
            pass

    async def give_up(self) -> None:
        """Stop the handlers that still run, as far as possible, and return their messages."""
        self._asking.is_late = True
        await self._executor.stop()
        async with self.order:
            batch, self._done = self._done, []
            await self._settle([message for message in batch if message in self.held])
            left = [message for message in self.held if message.error is None]
            ours = [message for message in left if not message.is_lost]
            if ours:
                LOG.warning(
                    "returning %d unfinished messages to queue %s", len(ours), self.handler.name
                )
                await self._asking.once(self.source.give_back(ours, are_begun=True))
            self._forget(left)

    async def _pause(self, pause_s: float) -> None:
        """Wait for `pause_s`, or until the desk is told to stop."""
        until_s = monotonic() + pause_s
        while not self._is_stopping and (left_s := until_s - monotonic()) > 0:
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), left_s)
            except TimeoutError:
                return


def _deliveries(count: int) -> str:
    return many(count, "delivery", "deliveries")
