"""Blocked readers of all families, which are served in the order in which they came.

Called by   dispatch.py (a request that found nothing), turn.py (queues that got something),
            connection.py (a client that went away).
Calls       the store, again, for each reader it wakes.

A reader is in a line for each queue it waits on. When a queue gets messages, the operations of its
readers run again from the front of the line. If one finds nothing for its group, the other readers
of the group are not tried.

A store that answers later gets a request for a queue only for the first reader of a kind, or one
for several readers from the front. Otherwise another reader could be faster, and get messages that
come in between. So a new reader goes behind others of its kind, without a request. A reader of
several queues makes requests only for queues where it is the first.

An iteration has a limit for this work. Queues and patterns beyond it are handled in the next
iterations, and other clients are served in between.

Not here: operations (engine/).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

from quinque.dialects.command import Wait
from quinque.errors import NotDone, QuinqueError
from quinque.model.families import TUBES
from quinque.model.giving_back import giving_back
from quinque.model.glob import compile_glob
from quinque.model.limits import NEVER_MS, RESERVE_MOST
from quinque.model.ops import FindReady, Op
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

Kind = tuple[str, bytes]  # the family, and the group or lane


def _nothing() -> None:
    """There are no other clients to serve."""


class Reader(Protocol):
    """The client that waits."""

    @property
    def is_gone(self) -> bool: ...


class Waiting:
    """One reader: its operation, and the functions for its result (None if the time is over) and
    for its error.

    While the store has not answered, a wake and the end of its time change nothing. They are
    recorded, and handled when the answer comes.
    """

    __slots__ = (
        "answer",
        "asked",
        "asks_again",
        "client",
        "has_follower",
        "is_asking",
        "is_late",
        "is_over",
        "kind",
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
        # Readers of one kind take the same messages of a queue.
        self.kind = kind_of(wait)
        self.is_over = False
        self.is_asking = False
        self.asked: Collection[bytes] = (
            wait.queues
        )  # the queues of the request that the store works on
        self.asks_again = False
        self.has_follower = False  # another reader waits for this one before it makes a request
        self.is_late = False


class _Pattern:
    """A pattern of blocked readers, in the order in which they came. It is compiled when the first
    name is compared with it."""

    __slots__ = ("line", "matches", "text", "weight")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.line: dict[Waiting, None] = {}
        self.matches: re.Pattern[bytes] | None = None
        # A pattern that ends with its first star fails early; any other may be tried at each place.
        self.weight = len(text) if b"*" in text[:-1] else 1

    def cost(self, name: bytes) -> int:
        """Return about how many bytes are compared."""
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
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        run: Callable[[Any], Any],
        *,
        answers_at_once: bool = True,
    ) -> None:
        self._loop = loop
        self._run = run
        self._answers_at_once = answers_at_once
        # By queue, in order of arrival.
        self.lines: dict[bytes, dict[Waiting, None]] = {}
        # The same, each kind by itself.
        self._kinds: dict[tuple[bytes, Kind], dict[Waiting, None]] = {}
        # Patterns of queues that clients wait on.
        self._patterns: dict[bytes, _Pattern] = {}
        self._listed: list[_Pattern] | None = None  # the same, until there are others
        self._comparing: dict[bytes, _Comparing] = {}  # by queue
        self._looks_left = LOOKS_MOST  # in this turn
        self._compared_left = COMPARED_MOST
        self._is_serving = False
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
            if waiting.kind is not None:
                self._kinds.setdefault((queue, waiting.kind), {})[waiting] = None
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
            alike = None if waiting.kind is None else self._kinds.get((name, waiting.kind))
            if alike is not None:
                assert waiting.kind is not None
                alike.pop(waiting, None)
                if not alike:
                    del self._kinds[name, waiting.kind]
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
        """Return whether readers of further queues wait for the next iteration."""
        return self._looks_left <= 0

    @property
    def is_comparing(self) -> bool:
        """Return whether patterns are left for the next iteration."""
        return bool(self._comparing)

    def part_for(self, wait: Wait) -> Op | None:
        """Return the operation for a new reader: its own, or only the part for queues where no
        other of its kind waits. None if there is no such queue."""
        kind = kind_of(wait)
        if self._answers_at_once or kind is None or not self.count:
            return wait.op
        free = [queue for queue in wait.queues if (queue, kind) not in self._kinds]
        return _narrowed(wait.op, wait.queues, free)

    def stand(self, waiting: Waiting) -> None:
        """Put the reader in line without a request for queues where it is not the first. It is
        served after the reader before it."""
        assert waiting.kind is not None, "a reader that takes nothing is always asked for"
        for queue in waiting.wait.queues:
            first = next(iter(self._kinds[queue, waiting.kind]))
            first.has_follower = first is not waiting

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
                self._serve(readers, 0, set(), queue, is_news=True)
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
        """Serve the readers of patterns that match the queue, as far as this iteration permits.
        Return whether all were served."""
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
                    self._serve(list(pattern.line), 0, set(), is_news=True)
        del self._comparing[queue]
        if comparing.is_again:
            self._comparing[queue] = _Comparing(self._all_patterns())
        return True

    def wake_all(self) -> None:
        """Serve all blocked readers, as if every queue had got messages."""
        for queue, line in list(self.lines.items()):
            self._serve(list(line), 0, set(), queue, is_news=True)
        self.wake_patterns()

    def wake_patterns(self) -> None:
        """Serve the readers of patterns, as if messages had come."""
        for pattern in list(self._patterns.values()):
            self._serve(list(pattern.line), 0, set(), is_news=True)

    def serve_late(self, waiting: Waiting) -> None:
        """Serve the lines of the reader again. It is in them since its operation found nothing, and
        missed messages that came in between."""
        self._go_through_again(waiting)

    def expect(
        self, waiting: Waiting, answer: Pending, asked: Collection[bytes] | None = None
    ) -> None:
        """Record that the reader's operation is running, for all of its queues or for those in
        `asked`. The reader is served with the answer, if it has messages."""
        waiting.is_asking = True
        waiting.asked = waiting.wait.queues if asked is None else asked
        answer.then(partial(self._came, waiting, set(), _nothing), partial(self._refused, waiting))

    def expect_all(
        self,
        waitings: Sequence[Waiting],
        answer: Pending,
        for_all: tuple[type[QuinqueError], ...],
    ) -> None:
        """Record that the operations of these readers of one queue run as one. Each gets an item of
        the answer, in order. An error `for_all` is that of each."""
        for waiting in waitings:
            waiting.is_asking = True

        def refused(error: QuinqueError) -> None:
            is_for_all = isinstance(error, for_all)
            again = _let_go(waitings, is_served=is_for_all)
            if is_for_all:
                for waiting in waitings:
                    self._fail(waiting, error)
            else:
                self._serve(waitings, 0, set())
            self._go_through_again(again)

        answer.then(partial(self._came_together, waitings, set(), _nothing), refused)

    def _serve(
        self,
        readers: Sequence[Waiting],
        at: int,
        empty: set[bytes],
        queue: bytes | None = None,
        done: Callable[[], None] = _nothing,
        *,
        is_news: bool = False,
    ) -> bool:
        """Serve the readers from number `at` on, which wait on `queue`, if it is known. There is
        nothing for the groups in `empty`. `is_news` means that the queue may have got messages.

        Return whether all of them were served. If the store answers later, `done` is called then.
        """
        while at < len(readers):
            waiting = readers[at]
            wait = waiting.wait
            at += 1
            if waiting.is_asking:
                # First: if there are new messages, or messages that it did not request, the line is
                # served again when its answer comes.
                waiting.asks_again |= is_news or (
                    queue is not None and queue not in waiting.asked and not waiting.is_over
                )
                empty.add(wait.group)
                continue
            if wait.group in empty or waiting.is_over or waiting.client.is_gone:
                continue
            op = self._part_of(waiting)
            if op is None:  # in other lines, others are before it
                continue
            together = [waiting] if self._answers_at_once else self._together(readers, at - 1)
            try:
                found = self._look(op, together, queue)
            except QuinqueError as error:
                self._fail(waiting, error)
                continue
            except Exception:
                log.exception("unexpected error for a blocked client")
                self._fail(waiting, QuinqueError(_INTERNAL))
                continue
            if not isinstance(found, Pending):
                self._give(waiting, found, empty)
                continue
            go_on = partial(self._go_on, readers, at, empty, queue, done)
            self._expect_next(together, found, empty, go_on)
            return False
        return True

    def _look(self, op: Any, together: Sequence[Waiting], queue: bytes | None) -> Any:
        """Run the operation of these readers, which no other reader must be served before."""
        self._is_serving = True
        try:
            if isinstance(op, FindReady) and queue is not None and self._answers_at_once:
                return self._find(op, queue)
            self._looks_left -= len(op.queues) if isinstance(op, Take | FindReady) else 1
            return self._run(op if len(together) == 1 else _gathered(op, together))
        finally:
            self._is_serving = False

    def _find(self, op: FindReady, queue: bytes) -> Any:
        """Return the first of the reader's queues that has something, now that this one may have.
        This one is looked at first, because it mostly has something for other groups only. When
        the looks of this iteration are used up, it is the result."""
        self._looks_left -= 1
        found = self._run(replace(op, queues=(queue,)))
        if found is None or self.is_spent or len(op.queues) == 1:
            return found
        self._looks_left -= len(op.queues)
        return self._run(op)

    def _expect_next(
        self,
        waitings: Sequence[Waiting],
        answer: Pending,
        empty: set[bytes],
        go_on: Callable[[], None],
    ) -> None:
        """The operation of the reader, or of several as one, is under way; the others follow."""
        for waiting in waitings:
            waiting.is_asking = True
        if len(waitings) == 1:
            came = partial(self._came, waitings[0], empty, go_on)
            answer.then(came, partial(self._failed, waitings[0], empty, go_on))
        else:
            came = partial(self._came_together, waitings, empty, go_on)
            answer.then(came, partial(self._failed_together, waitings, empty, go_on))

    def _part_of(self, waiting: Waiting) -> Op | None:
        """The reader's operation, for the queues where no other of its kind is before it."""
        wait = waiting.wait
        op = wait.op if wait.again is None else wait.again
        waiting.asked = wait.queues
        if self._answers_at_once or waiting.kind is None or len(wait.queues) == 1:
            return op
        free = [it for it in wait.queues if self._is_first(waiting, it)]
        waiting.asked = free
        return _narrowed(op, wait.queues, free)

    def _is_first(self, waiting: Waiting, queue: bytes) -> bool:
        """Return whether no reader of its kind is before it in the line."""
        assert waiting.kind is not None
        alike = self._kinds[queue, waiting.kind]
        return next(it for it in alike if it is waiting or not it.client.is_gone) is waiting

    def _together(self, readers: Sequence[Waiting], at: int) -> list[Waiting]:
        """Return the reader with this number, and those after it whose requests can be merged with
        its own: each takes a message in the same way."""
        first = readers[at]
        alike = [first]
        if _takes_one(first.wait):
            end = min(len(readers), at + RESERVE_MOST)
            while at + len(alike) < end and _is_like(readers[at + len(alike)], first):
                alike.append(readers[at + len(alike)])
        return alike

    def _go_on(
        self,
        readers: Sequence[Waiting],
        at: int,
        empty: set[bytes],
        queue: bytes | None,
        done: Callable[[], None],
    ) -> None:
        """Serve the other readers, now that the store has answered for one."""
        if self._serve(readers, at, empty, queue, done):
            done()

    def _came(
        self, waiting: Waiting, empty: set[bytes], go_on: Callable[[], None], found: Any
    ) -> None:
        again = _let_go([waiting], is_served=is_something(found))
        self._give(waiting, found, empty)
        # First: messages that came for this reader meanwhile go to it before those after it.
        self._go_through_again(again)
        go_on()

    def _failed(
        self, waiting: Waiting, empty: set[bytes], go_on: Callable[[], None], error: QuinqueError
    ) -> None:
        # If it was not done, it has got nothing, and waits for something anyway.
        is_over = not isinstance(error, NotDone)
        again = _let_go([waiting], is_served=is_over)
        if is_over:
            self._fail(waiting, error)
        else:
            self._give(waiting, None, empty)
        self._go_through_again(again)
        go_on()

    def _refused(self, waiting: Waiting, error: QuinqueError) -> None:
        again = _let_go([waiting], is_served=True)
        self._fail(waiting, error)
        self._go_through_again(again)

    def _came_together(
        self,
        waitings: Sequence[Waiting],
        empty: set[bytes],
        go_on: Callable[[], None],
        found: Sequence[Any],
    ) -> None:
        """Give each of the readers of a merged request an item, in order."""
        again = _let_go(waitings, is_served=bool(found))
        for waiting, item in zip(waitings, found, strict=False):
            self._give(waiting, [item], set())
        for waiting in waitings[len(found) :]:
            if not found or waiting.is_late or waiting.is_over or waiting.client.is_gone:
                self._give(waiting, None, empty)
        self._go_through_again(again)
        if 0 < len(found) < len(waitings):
            # Fewer results than requested may be due to their size.
            self._serve(waitings, len(found), set())
        go_on()

    def _failed_together(
        self,
        waitings: Sequence[Waiting],
        empty: set[bytes],
        go_on: Callable[[], None],
        error: QuinqueError,
    ) -> None:
        is_over = not isinstance(error, NotDone)
        again = _let_go(waitings, is_served=is_over)
        for waiting in waitings:
            if is_over:
                self._fail(waiting, error)
            else:
                self._give(waiting, None, empty)
        self._go_through_again(again)
        go_on()

    def _go_through_again(self, waiting: Waiting | None) -> None:
        """Offer messages that came during the reader's reply, or that may be left, to the client
        that is first now."""
        if waiting is not None:
            wait = waiting.wait
            lines: list[tuple[bytes | None, Sequence[Waiting]]] = [
                (name, list(self.lines.get(name, ()))) for name in wait.queues
            ]
            patterns = [self._patterns.get(text) for text in wait.patterns]
            lines += [(None, list(it.line)) for it in patterns if it is not None]
            self._serve_lines(lines, 0)

    def _serve_lines(
        self, lines: Sequence[tuple[bytes | None, Sequence[Waiting]]], number: int
    ) -> None:
        """Serve one line after the other, from that number on. The store gets no requests for two
        lines at once, because a reader may be in both."""
        while number < len(lines):
            queue, line = lines[number]
            number += 1
            if not self._serve(line, 0, set(), queue, partial(self._serve_lines, lines, number)):
                return

    def _give(self, waiting: Waiting, found: Any, empty: set[bytes]) -> None:
        """Give the reader the result, or let it wait if it is empty."""
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
        """Return messages that came for a reader after its client disconnected."""
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

    def has_takers(self, queue: bytes, lane: bytes | None) -> bool:
        """Return whether readers wait for messages of the queue, or of that lane, which they take;
        or on any patterns. False while a reader is served, because it is the first of its line."""
        if self._is_serving:
            return False
        ops = (waiting.wait.op for waiting in self.lines.get(queue, ()))
        return bool(self._patterns) or any(
            isinstance(op, Take) or (isinstance(op, TakeTasks) and op.lane in (None, lane))
            for op in ops
        )

    def waiting_on(self, queue: bytes) -> int:
        """Return how many readers wait for messages of the queue with this name. A put that waits
        for room does not count."""
        line = self.lines.get(queue, ())
        return sum(not isinstance(waiting.wait.op, PutTasks) for waiting in line)

    def consumers(self, queues: Iterable[bytes]) -> dict[bytes, dict[bytes, int]]:
        """Return how many readers wait on events queues, by queue and group, on these queues or,
        without any, on all."""
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
    """Return whether a result has what a reader waits for: it is neither None nor an empty list."""
    return found is not None and not (isinstance(found, list) and not found)


def kind_of(wait: Wait) -> Kind | None:
    """Return the kind of the readers that compete for the same messages. None if the reader takes
    no messages, or waits on patterns."""
    op = wait.op
    if wait.patterns:
        return None
    if isinstance(op, Take):
        return op.family.name, wait.group
    return (TUBES.name, wait.group) if isinstance(op, TakeTasks) else None


def _narrowed(op: Op, queues: Sequence[bytes], some: Sequence[bytes]) -> Op | None:
    """The operation, for some of its queues; None without a queue."""
    if len(some) == len(queues):
        return op
    if not some:
        return None
    assert isinstance(op, Take), "no other operation takes from several queues"
    return replace(op, queues=some)


def _takes_one(wait: Wait) -> bool:
    """Return whether the reader takes one message of one queue."""
    op = wait.op
    if not isinstance(op, Take | TakeTasks) or wait.patterns:
        return False
    return len(wait.queues) == 1 and op.count == 1


def _is_like(waiting: Waiting, first: Waiting) -> bool:
    """Return whether the requests of both readers of a line can be merged."""
    if waiting.is_asking or waiting.is_over or waiting.client.is_gone:
        return False
    wait, other = waiting.wait, first.wait
    if waiting.kind != first.kind or not _takes_one(wait):
        return False
    op, other_op = wait.op, other.op
    if isinstance(op, TakeTasks) and isinstance(other_op, TakeTasks):
        return op.is_strict is other_op.is_strict
    return bool(op == other_op and wait.again == other.again)


def _gathered(op: Op, waitings: Sequence[Waiting]) -> Op:
    """The operation that takes a message for each of these readers."""
    if isinstance(op, TakeTasks):
        ops = [it.wait.op for it in waitings]
        sessions = [each.session for each in ops if isinstance(each, TakeTasks)]
        return replace(op, count=len(waitings), sessions=sessions)
    assert isinstance(op, Take), "no other operation takes a message for each reader"
    return replace(op, count=len(waitings))


def _let_go(waitings: Sequence[Waiting], *, is_served: bool = False) -> Waiting | None:
    """Remove the readers, which have their answers. Return the first of them if its lines must be
    served again, because messages came for one of them meanwhile, or a reader behind them has made
    no request yet."""
    is_next = any(it.asks_again or (is_served and it.has_follower) for it in waitings)
    for waiting in waitings:
        waiting.is_asking = waiting.asks_again = False
    return waitings[0] if is_next else None
