"""Readers that wait, beside a store that answers later."""

from __future__ import annotations

import asyncio
from typing import Any

from quinque.dialects.command import Wait
from quinque.errors import QuinqueError
from quinque.model.families import JOBS
from quinque.model.glob import compile_glob
from quinque.model.work_ops import Take
from quinque.server.waiters import Waiters
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

    def run(self, op: Any) -> Pending:
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
    waiters.wake([b"q1"])

    asked.pending[0].settle([])
    asked.pending[1].settle([b"found"])

    assert reader.answers == [[b"found"]]
    assert len(asked.pending) == 2
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

    assert compile_glob.cache_info().misses == before
    waiters.remove(waiting)
    waiters.remove(reader.waiting)
    loop.close()
