"""Readers that wait, beside a store that answers later."""

from __future__ import annotations

import asyncio
from typing import Any

from quinque.dialects.command import Wait
from quinque.errors import NotDone, QuinqueError, StoreUnavailable
from quinque.model.families import JOBS, RELIABLE
from quinque.model.glob import compile_glob
from quinque.model.work_ops import Take
from quinque.server.waiters import LOOKS_MOST, Waiters
from quinque.stores.pending import Pending

MANY = 10_000


class Reader:
    """A client that waits on these queues. It keeps what it is told."""

    is_gone = False

    def __init__(self, waiters: Waiters, queues: list[bytes]) -> None:
        self.answers: list[Any] = []
        self.errors: list[QuinqueError] = []
        wait = Wait(Take(JOBS, queues), queues=queues, group=b"", timeout_ms=60_000)
        self.waiting = waiters.add(self, wait, self.answers.append, self.errors.append)


class Asked:
    """What a store was asked for and has not answered."""

    def __init__(self) -> None:
        self.pending: list[Pending] = []
        self.ops: list[Any] = []

    def run(self, op: Any) -> Pending:
        self.ops.append(op)
        self.pending.append(Pending())
        return self.pending[-1]


def test_a_reader_of_many_queues_is_asked_for_again_without_recursion() -> None:
    """A queue gets something while the answer for its only reader is on the way: all queues of the
    reader are gone through again, and nobody else waits on them."""
    loop = asyncio.new_event_loop()
    asked = Asked()
    waiters = Waiters(loop, asked.run)
    queues = [b"q%d" % number for number in range(MANY)]
    reader = Reader(waiters, queues)
    waiters.wake([b"q0"])
    waiters.begin_turn()
    waiters.wake([b"q1"])

    asked.pending[0].settle([b"found"])

    assert reader.answers == [[b"found"]]
    assert waiters.count == 0
    loop.close()


def test_a_reader_of_many_queues_whose_answer_was_nothing_is_asked_for_once_more() -> None:
    loop = asyncio.new_event_loop()
    asked = Asked()
    waiters = Waiters(loop, asked.run)
    queues = [b"q%d" % number for number in range(MANY)]
    reader = Reader(waiters, queues)
    waiters.wake([b"q0"])
    waiters.begin_turn()
    waiters.wake([b"q1"])

    asked.pending[0].settle([])
    asked.pending[1].settle([b"found"])

    assert reader.answers == [[b"found"]]
    assert len(asked.pending) == 2
    loop.close()


class PatternReader(Reader):
    """A client that waits on these patterns."""

    def __init__(self, waiters: Waiters, patterns: list[bytes]) -> None:
        self.answers = []
        self.errors = []
        wait = Wait(Take(JOBS, [], patterns=patterns), (), b"", 60_000, patterns=patterns)
        self.waiting = waiters.add(self, wait, self.answers.append, self.errors.append)


def slow_patterns(count: int, number: int = 0) -> list[bytes]:
    """Patterns that take long to read, and to compare with LONG, which they do not mean."""
    return [b"*%b%d-%d*" % (b"a" * 500, number, at) for at in range(count)]


LONG = b"a" * 1_000


def turns_until_compared(waiters: Waiters) -> int:
    """Turns pass until all names are compared with all patterns; how many."""
    turns = 0
    while waiters.is_comparing:
        waiters.begin_turn()
        turns += 1
    return turns


def test_a_name_is_compared_with_many_patterns_in_several_turns() -> None:
    loop = asyncio.new_event_loop()
    waiters = Waiters(loop, lambda op: [b"found"] if LONG[:5] + b"*" in op.patterns else [])
    others = [PatternReader(waiters, slow_patterns(20, number)) for number in range(5)]
    reader = PatternReader(waiters, [LONG[:5] + b"*"])

    waiters.wake([LONG])

    assert not reader.answers
    assert turns_until_compared(waiters) > 10
    assert reader.answers == [[b"found"]]
    assert waiters.count == len(others)
    for other in others:
        waiters.remove(other.waiting)
    waiters.begin_turn()
    loop.close()


def test_a_queue_that_gets_more_meanwhile_is_compared_once_more() -> None:
    loop = asyncio.new_event_loop()
    there: list[bytes] = []
    waiters = Waiters(loop, lambda op: [there.pop()] if there and b"a*" in op.patterns else [])
    reader = PatternReader(waiters, [b"a*"])
    other = PatternReader(waiters, slow_patterns(20))
    waiters.wake([LONG])  # which another client has emptied by now
    assert waiters.is_comparing

    there.append(b"found")
    waiters.wake([LONG])

    assert not reader.answers
    turns_until_compared(waiters)
    assert reader.answers == [[b"found"]]
    waiters.remove(other.waiting)
    loop.close()


def test_nothing_is_compared_when_no_client_waits_on_patterns_any_more() -> None:
    loop = asyncio.new_event_loop()
    waiters = Waiters(loop, lambda op: [])
    reader = PatternReader(waiters, slow_patterns(20))
    waiters.wake([LONG, LONG + b"b"])
    assert waiters.is_comparing

    waiters.remove(reader.waiting)
    waiters.begin_turn()

    assert turns_until_compared(waiters) == 0
    loop.close()


def test_a_reader_of_many_queues_is_asked_for_a_limited_number_of_times_in_a_turn() -> None:
    """It finds nothing each time, for example because the queues are paused."""
    loop = asyncio.new_event_loop()
    asked: list[Any] = []
    waiters = Waiters(loop, asked.append)
    queues = [b"q%d" % number for number in range(LOOKS_MOST // 4)]
    reader = Reader(waiters, queues)

    left = waiters.wake(queues[:10])

    assert left == queues[4:10]
    assert waiters.wake(left) == left
    waiters.begin_turn()
    assert waiters.wake(left) == left[4:]
    assert len(asked) == 8
    waiters.remove(reader.waiting)
    loop.close()


def test_patterns_that_are_waited_on_are_compiled_once() -> None:
    """Though there are more of them than the cache of patterns holds."""
    loop = asyncio.new_event_loop()
    waiters = Waiters(loop, lambda op: [])
    patterns = [b"%d.*" % number for number in range(3_000)]
    wait = Wait(Take(JOBS, [], patterns=patterns), (), b"", 60_000, patterns=patterns)
    reader = Reader(waiters, [])
    waiting = waiters.add(reader, wait, reader.answers.append, reader.errors.append)
    before = compile_glob.cache_info().misses

    for number in range(5):
        waiters.wake([b"q%d" % number])
        turns_until_compared(waiters)

    assert compile_glob.cache_info().misses == before + len(patterns)
    waiters.remove(waiting)
    waiters.remove(reader.waiting)
    loop.close()


def late_waiters(asked: Asked) -> tuple[asyncio.AbstractEventLoop, Waiters]:
    loop = asyncio.new_event_loop()
    return loop, Waiters(loop, asked.run, answers_at_once=False)


def test_a_reader_that_comes_where_another_waits_is_not_asked_for() -> None:
    asked = Asked()
    loop, waiters = late_waiters(asked)
    Reader(waiters, [b"a", b"b"])

    behind = Wait(Take(JOBS, [b"a"]), [b"a"], b"", 60_000)
    partly = Wait(Take(JOBS, [b"b", b"c"]), [b"b", b"c"], b"", 60_000)
    elsewhere = Wait(Take(JOBS, [b"c"]), [b"c"], b"", 60_000)
    of_another_family = Wait(Take(RELIABLE, [b"a"]), [b"a"], b"", 60_000)

    assert waiters.part_for(behind) is None
    part = waiters.part_for(partly)
    assert isinstance(part, Take)
    assert part.queues == [b"c"]
    assert waiters.part_for(elsewhere) is elsewhere.op
    assert waiters.part_for(of_another_family) is of_another_family.op
    loop.close()


def test_a_reader_is_asked_for_only_where_it_is_the_first() -> None:
    """It gets nothing of a queue where another waits, though that one was told of nothing yet."""
    asked = Asked()
    loop, waiters = late_waiters(asked)
    Reader(waiters, [b"a"])
    Reader(waiters, [b"a", b"c"])

    waiters.wake([b"c"])

    assert [list(op.queues) for op in asked.ops] == [[b"c"]]
    loop.close()


def test_a_reader_behind_another_is_asked_for_when_that_one_is_served() -> None:
    asked = Asked()
    loop, waiters = late_waiters(asked)
    first = Reader(waiters, [b"a", b"b"])
    waiters.expect(first.waiting, asked.run(first.waiting.wait.op))
    second = Reader(waiters, [b"a"])
    waiters.stand(second.waiting)

    asked.pending[0].settle([b"one"])
    assert first.answers == [[b"one"]]
    asked.pending[1].settle([b"two"])

    assert second.answers == [[b"two"]]
    loop.close()


def test_readers_from_the_front_are_asked_for_as_one() -> None:
    """However many wait, and whatever is there for them, the store is asked a few times."""
    asked = Asked()
    loop, waiters = late_waiters(asked)
    readers = [Reader(waiters, [b"a"]) for _ in range(100)]

    waiters.wake([b"a"])
    asked.pending[0].settle([b"%d" % at for at in range(60)])
    asked.pending[1].settle([])

    assert [op.count for op in asked.ops] == [100, 40]
    assert [it.answers for it in readers[:60]] == [[[b"%d" % at]] for at in range(60)]
    assert waiters.count == 40
    loop.close()


def test_an_error_is_that_of_each_reader_that_was_asked_for() -> None:
    asked = Asked()
    loop, waiters = late_waiters(asked)
    readers = [Reader(waiters, [b"a"]) for _ in range(3)]

    waiters.wake([b"a"])
    asked.pending[0].fail(NotDone("not now"))
    assert [it.errors for it in readers] == [[], [], []]
    waiters.wake([b"a"])
    asked.pending[1].fail(StoreUnavailable("lost"))

    assert [len(it.errors) for it in readers] == [1, 1, 1]
    assert waiters.count == 0
    loop.close()


def test_the_first_request_of_each_reader_is_refused_when_it_was_not_done() -> None:
    asked = Asked()
    loop, waiters = late_waiters(asked)
    readers = [Reader(waiters, [b"a"]) for _ in range(3)]
    waiters.expect_all([it.waiting for it in readers], asked.run(None), (NotDone,))

    asked.pending[0].fail(NotDone("not now"))

    assert [len(it.errors) for it in readers] == [1, 1, 1]
    loop.close()


def test_messages_that_come_while_the_first_is_asked_for_go_to_the_first() -> None:
    asked = Asked()
    loop, waiters = late_waiters(asked)
    first, second = Reader(waiters, [b"b", b"a"]), Reader(waiters, [b"b", b"a"])
    waiters.wake([b"b"])
    waiters.wake([b"a"])

    asked.pending[0].settle([])
    asked.pending[1].settle([b"one"])

    assert first.answers == [[b"one"]]
    assert second.answers == []
    loop.close()


def test_a_reader_that_is_gone_is_before_no_other() -> None:
    asked = Asked()
    loop, waiters = late_waiters(asked)
    gone = Reader(waiters, [b"a"])
    Reader(waiters, [b"a", b"b"])
    gone.is_gone = True

    waiters.wake([b"a"])

    assert [list(op.queues) for op in asked.ops] == [[b"a", b"b"]]
    loop.close()


def test_the_store_is_asked_for_a_reader_that_is_alone_once_and_once_for_each_message() -> None:
    asked = Asked()
    loop, waiters = late_waiters(asked)
    op = Take(JOBS, [b"a", b"b"])
    assert waiters.part_for(Wait(op, [b"a", b"b"], b"", 60_000)) is op
    reader = Reader(waiters, [b"a", b"b"])
    waiters.expect(reader.waiting, asked.run(op))

    asked.pending[0].settle([])
    waiters.wake([b"b"])
    asked.pending[1].settle([b"one"])

    assert reader.answers == [[b"one"]]
    assert len(asked.ops) == 2
    loop.close()
