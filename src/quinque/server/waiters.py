"""Readers that wait, for all families: first come, first served.

Called by   dispatch.py (a request that found nothing), turn.py (queues that got something),
            connection.py (a client that went away).
Calls       the store, again, for each reader it wakes.

A reader stands in a line for each queue it waits on. When a queue gets something, the line is gone
through from the front, and each reader's operation is run again; what gives nothing for a group
ends the line for that group.

Not here: what an operation finds (engine/).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from quinque.dialects.command import Wait
from quinque.errors import NotDone, QuinqueError
from quinque.model.giving_back import giving_back
from quinque.model.glob import compile_glob
from quinque.model.limits import NEVER_MS
from quinque.model.ops import FindReady
from quinque.model.tube_ops import PutTasks, TakeTasks
from quinque.stores.pending import Pending

log = logging.getLogger("quinque.server")

_NO_LANES: Final[Mapping[bytes, Collection[bytes]]] = {}

_INTERNAL = "internal error; the broker's log has the details"


class Reader(Protocol):
    """The client that waits."""

    @property
    def is_gone(self) -> bool: ...


class Waiting:
    """One reader: its operation, and what to do with the answer (None when time is up) or with the
    error it gives.

    While the store has not answered, neither a wake nor the end of its time may change anything:
    both are noted, and looked at when the answer is there.
    """

    __slots__ = (
        "answer",
        "asks_again",
        "client",
        "is_asking",
        "is_late",
        "is_over",
        "lane",
        "refuse",
        "timer",
        "wait",
    )

    def __init__(
        self,
        client: Reader,
        wait: Wait,
        answer: Callable[[Any], None],
        refuse: Callable[[QuinqueError], None],
    ) -> None:
        self.client = client
        self.wait = wait
        # The only lane of its tube whose tasks it takes.
        self.lane = wait.op.lane if isinstance(wait.op, TakeTasks) else None
        self.answer = answer
        self.refuse = refuse
        self.timer: asyncio.TimerHandle | None = None
        self.is_over = False
        self.is_asking = False
        self.asks_again = False
        self.is_late = False


class Waiters:
    def __init__(self, loop: asyncio.AbstractEventLoop, run: Callable[[Any], Any]) -> None:
        self._loop = loop
        self._run = run
        # By queue, in order of arrival.
        self.lines: dict[bytes, dict[Waiting, None]] = {}
        # Clients that wait on patterns of queues, by pattern.
        self._lines_by_pattern: dict[bytes, dict[Waiting, None]] = {}
        # Each of these patterns, compiled once.
        self._matches: dict[bytes, re.Pattern[bytes]] = {}
        self.count = 0

    def add(
        self,
        client: Reader,
        wait: Wait,
        answer: Callable[[Any], None],
        refuse: Callable[[QuinqueError], None],
    ) -> Waiting:
        """The reader waits until woken, or until its time is up."""
        waiting = Waiting(client, wait, answer, refuse)
        if wait.timeout_ms < NEVER_MS:
            waiting.timer = self._loop.call_later(wait.timeout_ms / 1000, self.give_up, waiting)
        for queue in wait.queues:
            self.lines.setdefault(queue, {})[waiting] = None
        for pattern in wait.patterns:
            if pattern not in self._matches:
                self._matches[pattern] = compile_glob(pattern)
            self._lines_by_pattern.setdefault(pattern, {})[waiting] = None
        self.count += 1
        return waiting

    def remove(self, waiting: Waiting) -> None:
        """The reader waits no more."""
        if waiting.is_over:
            return
        waiting.is_over = True
        if waiting.timer is not None:
            waiting.timer.cancel()
        self.count -= 1
        for lines, names in (
            (self.lines, waiting.wait.queues),
            (self._lines_by_pattern, waiting.wait.patterns),
        ):
            for name in names:
                line = lines.get(name)
                if line is not None:
                    line.pop(waiting, None)
                    if not line:
                        del lines[name]
                        if lines is self._lines_by_pattern:
                            del self._matches[name]

    def wake(
        self, queues: Iterable[bytes], lanes: Mapping[bytes, Collection[bytes]] = _NO_LANES
    ) -> None:
        """Serve the readers that wait on these queues. If `lanes` names lanes of a queue, only they
        got something: readers of its other lanes go on waiting."""
        for queue in queues:
            line = self.lines.get(queue)
            if line is not None:
                news = lanes.get(queue)
                if news is None:
                    readers = list(line)
                else:
                    readers = [it for it in line if it.lane is None or it.lane in news]
                self._serve(readers, 0, set())
            for pattern, matches in list(self._matches.items()):
                if matches.fullmatch(queue):
                    self._serve(list(self._lines_by_pattern.get(pattern, ())), 0, set())

    def wake_all(self) -> None:
        """Serve everyone who waits, as if every queue had got something."""
        for line in list(self.lines.values()):
            self._serve(list(line), 0, set())
        self.wake_patterns()

    def wake_patterns(self) -> None:
        """Serve those who wait on patterns of queues, as if something had come."""
        for line in list(self._lines_by_pattern.values()):
            self._serve(list(line), 0, set())

    def serve_late(self, waiting: Waiting) -> None:
        """Ask for the reader once more. It stands in line since its operation found nothing, and
        was not woken by what came between."""
        self._serve([waiting], 0, set())

    def expect(self, waiting: Waiting, answer: Pending) -> None:
        """The reader's operation is under way; it is served when the answer is there, if it is
        something."""
        waiting.is_asking = True
        answer.then(partial(self._came, waiting, set(), _nothing), partial(self._refused, waiting))

    def expect_all(
        self,
        waitings: Sequence[Waiting],
        answer: Pending,
        for_all: tuple[type[QuinqueError], ...],
    ) -> None:
        """The operations of these readers of one queue are under way as one. When the answer is
        there, each gets an item of it, the first come first. An error `for_all` is that of each."""
        for waiting in waitings:
            waiting.is_asking = True

        def came(found: Sequence[Any]) -> None:
            is_news = _let_go(waitings)
            for waiting, item in zip(waitings, found, strict=False):
                self._give(waiting, [item], set())
            if found:
                # Less than was asked for may be a matter of size.
                self._serve(waitings[len(found) :], 0, set())
            else:
                for waiting in waitings:
                    self._give(waiting, None, set())
            waitings[0].asks_again |= is_news
            self._go_through_again(waitings[0])

        def refused(error: QuinqueError) -> None:
            is_news = _let_go(waitings)
            if isinstance(error, for_all):
                for waiting in waitings:
                    self._fail(waiting, error)
            else:
                self._serve(waitings, 0, set())
            waitings[0].asks_again |= is_news
            self._go_through_again(waitings[0])

        answer.then(came, refused)

    def _serve(
        self,
        readers: Sequence[Waiting],
        at: int,
        empty: set[bytes],
        done: Callable[[], None] | None = None,
    ) -> bool:
        """Serve the readers from number `at` on; nothing is left for the groups in `empty`.

        Return whether all of them have been served. If the store has to be waited for, `done` is
        called when they have; it is None where they are served for the first time.
        """
        while at < len(readers):
            waiting = readers[at]
            at += 1
            wait = waiting.wait
            if waiting.is_asking:
                # It comes first: if this is news, the line is gone through again when it has its
                # answer.
                waiting.asks_again |= done is None
                empty.add(wait.group)
            elif wait.group in empty or waiting.is_over or waiting.client.is_gone:
                continue
            else:
                try:
                    found = self._run(wait.op if wait.again is None else wait.again)
                except QuinqueError as error:
                    self._fail(waiting, error)
                    continue
                except Exception:
                    log.exception("unexpected error for a blocked client")
                    self._fail(waiting, QuinqueError(_INTERNAL))
                    continue
                if isinstance(found, Pending):
                    waiting.is_asking = True
                    go_on = partial(self._go_on, readers, at, empty, done)
                    found.then(
                        partial(self._came, waiting, empty, go_on),
                        partial(self._failed, waiting, go_on),
                    )
                    return False
                self._give(waiting, found, empty)
        return True

    def _go_on(
        self,
        readers: Sequence[Waiting],
        at: int,
        empty: set[bytes],
        done: Callable[[], None] | None,
    ) -> None:
        """Serve the other readers, now that the store has answered for one."""
        if self._serve(readers, at, empty, done) and done is not None:
            done()

    def _came(
        self, waiting: Waiting, empty: set[bytes], go_on: Callable[[], None], found: Any
    ) -> None:
        waiting.is_asking = False
        self._give(waiting, found, empty)
        go_on()
        self._go_through_again(waiting)

    def _failed(self, waiting: Waiting, go_on: Callable[[], None], error: QuinqueError) -> None:
        waiting.is_asking = False
        if isinstance(error, NotDone):  # it has got nothing, and waits for something anyway
            self._give(waiting, None, set())
        else:
            self._fail(waiting, error)
        go_on()
        self._go_through_again(waiting)

    def _refused(self, waiting: Waiting, error: QuinqueError) -> None:
        waiting.is_asking = False
        self._fail(waiting, error)
        self._go_through_again(waiting)

    def _go_through_again(self, waiting: Waiting) -> None:
        """Offer messages that came during the reader's reply to the client that is first now."""
        if waiting.asks_again:
            waiting.asks_again = False
            wait = waiting.wait
            lines = [self.lines.get(name, {}) for name in wait.queues]
            lines += [self._lines_by_pattern.get(name, {}) for name in wait.patterns]
            self._serve_lines([list(line) for line in lines], 0)

    def _serve_lines(self, lines: Sequence[Sequence[Waiting]], number: int) -> None:
        """Serve one line after the other, from that number on: the store is not asked for two lines
        at once, because a reader may stand in both."""
        while number < len(lines):
            line = lines[number]
            number += 1
            if not self._serve(line, 0, set(), partial(self._serve_lines, lines, number)):
                return

    def _give(self, waiting: Waiting, found: Any, empty: set[bytes]) -> None:
        """The reader has what was found; or goes on waiting, if it was nothing."""
        if waiting.is_over or waiting.client.is_gone:
            self._give_back(waiting, found)
            return
        if is_something(found):
            self.remove(waiting)
            waiting.answer(found)
        elif waiting.is_late:
            self.give_up(waiting)
        else:
            empty.add(waiting.wait.group)

    def _give_back(self, waiting: Waiting, found: Any) -> None:
        """Give messages back that came for a reader after it was gone."""
        wait = waiting.wait
        for back in giving_back(wait.op if wait.again is None else wait.again, found or ()):
            try:
                self._run(back)
            except QuinqueError as error:
                log.warning("messages for a client that is gone come back later: %s", error)

    def _fail(self, waiting: Waiting, error: QuinqueError) -> None:
        if not waiting.is_over:
            self.remove(waiting)
            waiting.refuse(error)

    def waiting_on(self, queue: bytes) -> int:
        """How many wait for messages of the queue by its name. A put that waits for room in it
        does not count."""
        line = self.lines.get(queue, ())
        return sum(not isinstance(waiting.wait.op, PutTasks) for waiting in line)

    def consumers(self, queues: Iterable[bytes]) -> dict[bytes, dict[bytes, int]]:
        """How many wait on feeds, by queue and group: on these queues, or on any if there are
        none."""
        counts: dict[bytes, dict[bytes, int]] = {}
        for queue in dict.fromkeys(queues) or self.lines:
            for waiting in self.lines.get(queue, ()):
                if isinstance(waiting.wait.op, FindReady):
                    groups = counts.setdefault(queue, {})
                    groups[waiting.wait.group] = groups.get(waiting.wait.group, 0) + 1
        return counts

    def give_up(self, waiting: Waiting) -> None:
        """The reader is answered that there was nothing, unless something is on its way."""
        if waiting.is_asking:
            waiting.is_late = True
            return
        self.remove(waiting)
        waiting.answer(None)


def is_something(found: Any) -> bool:
    """Whether an operation found what a reader waits for: not None, not an empty list."""
    return found is not None and not (isinstance(found, list) and not found)


def _let_go(waitings: Sequence[Waiting]) -> bool:
    """The readers have their answer; whether something came for one of them meanwhile."""
    is_news = any(waiting.asks_again for waiting in waitings)
    for waiting in waitings:
        waiting.is_asking = waiting.asks_again = False
    return is_news


def _nothing() -> None:
    """There are no other clients to serve."""
