"""Messages that a worker has taken and not begun: when it is told to end, and when others take
long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from math import inf
from typing import Any

import pytest

from quinque.client.sync.queues import Queues
from quinque.errors import NotDone
from quinque.model.ops import Op, Release
from quinque.model.own_ops import ExtendLeases, Undeliver
from quinque.model.tube_ops import ReleaseTasks
from quinque.model.work_ops import Requeue
from quinque.worker import Message
from quinque.worker.ahead import Ahead
from quinque.worker.board import Hand
from tests.server.resp import TIMEOUT_S
from tests.servers.patience import wait_until
from tests.worker.inside import CountingApp, working

DEADLINE_S = 0.0  # it is over when the worker asks to have messages given back


class Five(Ahead):
    """Five are taken ahead, however quick the handler is."""

    def __init__(self, most: int, now_s: float) -> None:
        super().__init__(most, now_s)
        self.count = 5

    def rate(self, ended: int, now_s: float) -> None:
        pass


@pytest.fixture(autouse=True)
def _taken_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quinque.worker.desk.Ahead", Five)
    monkeypatch.setattr("quinque.worker.desk.STUCK_S", inf)


@pytest.fixture
def warnings() -> list[str]:
    """The warnings of the worker."""
    return []


@pytest.fixture
def given_back(
    app: CountingApp, monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> list[bytes]:
    """The ids of messages that the worker asked to have given back."""
    run_all, ids = app.broker.run_all, list[bytes]()
    is_over = asyncio.Event()

    def hear(text: str, *words: object) -> None:
        warnings.append(text)
        if text.startswith("handlers did not finish"):
            is_over.set()

    async def note(ops: Sequence[Op]) -> list[Any]:
        for op in ops:
            is_back = isinstance(op, Requeue | Release)
            if is_back or (isinstance(op, ExtendLeases) and op.lease_ms == 1):
                ids.extend(op.message_ids)  # type: ignore[attr-defined]
        results = await run_all(ops)
        if len(ids) == 2:  # those that had not begun: the answer comes after the deadline
            await is_over.wait()
        return results

    monkeypatch.setattr("quinque.worker.runtime.LOG.warning", hear)
    monkeypatch.setattr(app.broker, "run_all", note)
    return ids


def add_three(queues: Queues, queue: str, family: str) -> None:
    if family == "tubes":
        queues.tube(queue).make()
        queues.tube(queue).put_many([b"1", b"2", b"3"])
    elif family == "reliable":
        queues.reliable(queue).push_many([b"1", b"2", b"3"])
    elif family == "jobs":
        queues.jobs(queue).add_many([b"1", b"2", b"3"], retry=300)
    elif family == "events":
        queues.events(queue).add_many([b"1", b"2", b"3"])
    else:
        queues.items(queue).add_many({"1": b"1", "2": b"2", "3": b"3"})


@pytest.mark.parametrize("family", ["jobs", "events", "items"])
def test_they_are_given_back_once_though_the_deadline_is_over(
    app: CountingApp, queues: Queues, queue: str, family: str, given_back: list[bytes]
) -> None:
    """By the second time somebody else may have them."""
    go_on = threading.Event()
    app.add(
        queue,
        lambda body: go_on.wait(TIMEOUT_S),
        family=family,
        group="g",
        lease=300,
        concurrency=1,
    )
    add_three(queues, queue, family)
    with working(app, DEADLINE_S) as board:
        wait_until(lambda: board.read().held == 3, "all are taken")
    go_on.set()

    assert len(given_back) == len(set(given_back)) == 3


@pytest.mark.parametrize("family", ["jobs", "reliable"])
def test_those_that_no_lease_brings_back_are_ready_again(
    app: CountingApp, queues: Queues, queue: str, family: str
) -> None:
    """Jobs with RETRY 0, and elements. The one that was begun stays: a handler has seen it."""
    go_on = threading.Event()
    app.add(queue, lambda body: go_on.wait(TIMEOUT_S), family=family, lease=300, concurrency=1)
    jobs, elements = queues.jobs(queue), queues.reliable(queue)
    if family == "jobs":
        jobs.add_many([b"1", b"2", b"3"], retry=0)
    else:
        elements.push_many([b"1", b"2", b"3"])
    with working(app, DEADLINE_S) as board:
        wait_until(lambda: board.count()[0, Hand.RUNNING] == 1, "one has begun")
        wait_until(lambda: board.read().held == 3, "all are taken")
    go_on.set()

    view = (jobs if family == "jobs" else elements).info()
    assert view is not None
    assert (view.ready, view.leased) == (2, 1)


@pytest.mark.parametrize("family", ["events", "items"])
def test_those_that_are_lost_are_not_taken_from_who_has_them(
    app: CountingApp,
    queues: Queues,
    queue: str,
    family: str,
    given_back: list[bytes],
    warnings: list[str],
) -> None:
    go_on, began = threading.Event(), list[Message]()

    def are_lost() -> bool:
        return len([text for text in warnings if text.startswith("cannot extend the lease")]) == 2

    def block(body: bytes, message: Message) -> None:
        began.append(message)
        go_on.wait(TIMEOUT_S)

    app.add(queue, block, family=family, group="g", lease=6, concurrency=1)
    add_three(queues, queue, family)
    items, group = queues.items(queue), queues.events(queue).group("g")
    with working(app, DEADLINE_S) as board:
        wait_until(lambda: board.read().held == 3 and bool(began), "all are taken")
        [running] = began
        if family == "items":
            others = [id for id in ("1", "2", "3") if id != running.id]
            assert items.complete(others) == 2
        else:
            held = sorted(str(int(running.id) + number) for number in (1, 2))
            others = [id for id in held if group.ack([id])]
        wait_until(are_lost, "the worker knows of it")

    go_on.set()
    assert len(others) == 2
    assert [id.decode() for id in given_back] == [running.id]


def take_two(queues: Queues, queue: str, family: str) -> int:
    """How many of them another consumer gets."""
    if family == "tubes":
        return len(queues.tube(queue).take_many(2))
    if family == "reliable":
        return len(queues.reliable(queue).pop_many(2))
    if family == "jobs":
        return len(queues.jobs(queue).take_many(2))
    if family == "events":
        return len(queues.events(queue).group("g").take_many(2))
    return len(queues.items(queue).lease_many(2, 300))


@pytest.mark.parametrize("is_away", [False, True])
@pytest.mark.parametrize("family", ["jobs", "events", "items", "tubes", "reliable"])
def test_they_do_not_wait_for_a_handler_that_takes_long(
    app: CountingApp,
    queues: Queues,
    queue: str,
    family: str,
    is_away: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another consumer gets them, also if the broker was away when they were given back first."""
    monkeypatch.setattr("quinque.worker.desk.STUCK_S", 0.0)
    go_on, began, tries = threading.Event(), list[bytes](), list[Op]()
    run_all = app.broker.run_all

    async def refuse(ops: Sequence[Op]) -> list[Any]:
        for op in ops:
            is_back = isinstance(op, Requeue | Release | ReleaseTasks | Undeliver)
            if is_back or (isinstance(op, ExtendLeases) and op.lease_ms == 1):
                tries.append(op)
                if is_away and len(tries) == 1:
                    raise NotDone("the broker is away")
        return await run_all(ops)

    def work(body: bytes) -> None:
        began.append(body)
        go_on.wait(TIMEOUT_S)

    monkeypatch.setattr(app.broker, "run_all", refuse)
    app.add(queue, work, family=family, group="g", lease=300, concurrency=1)
    add_three(queues, queue, family)
    with working(app):
        wait_until(lambda: len(began) == 1 and len(tries) > is_away, "they are given back")
        taken = 0

        def are_taken() -> bool:
            nonlocal taken
            taken += take_two(queues, queue, family)
            return taken == 2

        wait_until(are_taken, "another consumer has both")
        go_on.set()

    assert len(began) == 1
