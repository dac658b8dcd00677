"""Readers that wait, for all families: first come, first served.

Called by   dispatch.py (a request that found nothing), turn.py (queues that got something),
            connection.py (a client that went away).
Calls       the store, again, for each reader it wakes.

A reader stands in a line for each queue it waits on. When a queue gets something, the line is gone
through from the front, and each reader's operation is run again; what gives nothing for a group
ends the line for that group.

A turn has a limit for this work. Queues and patterns beyond it come in the next turns, and other
clients are served in between.

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
from quinque.model.work_ops import Take
from quinque.stores.pending import Pending

log = logging.getLogger("quinque.server")

_NO_LANES: Final[Mapping[bytes, Collection[bytes]]] = {}

# How many queues the operations of readers look at in one turn, each of which takes about 1 µs.
LOOKS_MOST: Final = 10_000
# How many bytes of names and patterns are compared in one turn: about 5 ms. A short pattern counts
# as some bytes, and to read one takes as long as to compare thousands for each of its own.
COMPARED_MOST: Final = 6_400_000
_SHORT_COST: Final = 256
_READ_COST: Final = 4_096

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


class _Pattern:
    """A pattern that readers wait on, in order of their arrival. It is compiled when a name is
    first compared with it."""

    __slots__ = ("line", "matches", "text", "weight")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.line: dict[Waiting, None] = {}
        self.matches: re.Pattern[bytes] | None = None
        # A pattern that ends with its first star fails early; any other may be tried at each place.
        self.weight = len(text) if b"*" in text[:-1] else 1

    def cost(self, name: bytes) -> int:
        """How many bytes are compared, about."""
        read = _READ_COST * len(self.text) if self.matches is None else 0
        return _SHORT_COST + len(self.text) + self.weight * len(name) + read

    def means(self, name: bytes) -> bool:
        if self.matches is None:
            self.matches = compile_glob(self.text)
        return self.matches.fullmatch(name) is not None


class _Comparing:
    """A queue that got something: which patterns its name is to be compared with, from which number
    on; and whether it got something more meanwhile."""

    __slots__ = ("at", "is_again", "patterns")

    def __init__(self, patterns: Sequence[_Pattern]) -> None:
        self.patterns = patterns
        self.at = 0
        self.is_again = False


class Waiters:
    def __init__(self, loop: asyncio.AbstractEventLoop, run: Callable[[Any], Any]) -> None:
        self._loop = loop
        self._run = run
        # By queue, in order of arrival.
        self.lines: dict[bytes, dict[Waiting, None]] = {}
        # Patterns of queues that clients wait on.
        self._patterns: dict[bytes, _Pattern] = {}
        self._listed: list[_Pattern] | None = None  # the same, until there are others
        self._comparing: dict[bytes, _Comparing] = {}  # by queue
        self._looks_left = LOOKS_MOST  # in this turn
        self._compared_left = COMPARED_MOST
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
        for text in wait.patterns:
            pattern = self._patterns.get(text)
            if pattern is None:
                pattern = self._patterns[text] = _Pattern(text)
                self._listed = None
            pattern.line[waiting] = None
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
        for name in waiting.wait.queues:
            line = self.lines.get(name)
            if line is not None:
                line.pop(waiting, None)
                if not line:
                    del self.lines[name]
        for text in waiting.wait.patterns:
            pattern = self._patterns.get(text)
            if pattern is not None:
                pattern.line.pop(waiting, None)
                if not pattern.line:
                    del self._patterns[text]
                    self._listed = None

    def begin_turn(self) -> None:
        """The work of a turn begins, with the patterns that the one before did not get to."""
        self._looks_left, self._compared_left = LOOKS_MOST, COMPARED_MOST
        if not self._patterns:
            self._comparing.clear()
        while self._comparing and self._compare(next(iter(self._comparing))):
            pass

    @property
    def is_spent(self) -> bool:
        """Whether the readers of further queues wait for the next turn."""
        return self._looks_left <= 0

    @property
    def is_comparing(self) -> bool:
        """Whether patterns are left for the next turn."""
        return bool(self._comparing)

    def wake(
        self, queues: Iterable[bytes], lanes: Mapping[bytes, Collection[bytes]] = _NO_LANES
    ) -> list[bytes]:
        """Serve the readers that wait on these queues. If `lanes` names lanes of a queue, only they
        got something: readers of its other lanes go on waiting. Return the queues that this turn
        does not get to."""
        left: list[bytes] = []
        for queue in queues:
            if self.is_spent:
                left.append(queue)
                continue
            line = self.lines.get(queue)
            if line is not None:
                news = lanes.get(queue)
                if news is None:
                    readers = list(line)
                else:
                    readers = [it for it in line if it.lane is None or it.lane in news]
                self._serve(readers, 0, set())
            under_way = self._comparing.get(queue)
            if under_way is not None:
                under_way.is_again = True
            elif self._patterns:
                self._comparing[queue] = _Comparing(self._all_patterns())
                self._compare(queue)
        return left

    def _all_patterns(self) -> list[_Pattern]:
        if self._listed is None:
            self._listed = list(self._patterns.values())
        return self._listed

    def _compare(self, queue: bytes) -> bool:
        """Serve the readers of the patterns that mean the queue, as far as this turn goes. Return
        whether it went to the end."""
        comparing = self._comparing[queue]
        patterns = comparing.patterns
        while comparing.at < len(patterns):
            if self._compared_left <= 0:
                return False
            pattern = patterns[comparing.at]
            comparing.at += 1
            if pattern.line:
                self._compared_left -= pattern.cost(queue)
                if pattern.means(queue):
                    self._serve(list(pattern.line), 0, set())
        del self._comparing[queue]
        if comparing.is_again:
            self._comparing[queue] = _Comparing(self._all_patterns())
        return True

    def wake_all(self) -> None:
        """Serve everyone who waits, as if every queue had got something."""
        for line in list(self.lines.values()):
            self._serve(list(line), 0, set())
        self.wake_patterns()

    def wake_patterns(self) -> None:
        """Serve those who wait on patterns of queues, as if something had come."""
        for pattern in list(self._patterns.values()):
            self._serve(list(pattern.line), 0, set())

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
                op = wait.op if wait.again is None else wait.again
                self._looks_left -= len(op.queues) if isinstance(op, Take | FindReady) else 1
                try:
                    found = self._run(op)
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
            patterns = [self._patterns.get(text) for text in wait.patterns]
            lines += [pattern.line for pattern in patterns if pattern is not None]
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
