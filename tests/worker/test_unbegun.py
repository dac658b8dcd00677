"""Messages that a worker has taken and not begun when it is told to end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from quinque.client.sync.queues import Queues
from quinque.model.ops import Op, Release
from quinque.model.own_ops import ExtendLeases
from quinque.model.work_ops import Requeue
from quinque.worker import Message
from quinque.worker.ahead import Ahead
from tests.server.resp import TIMEOUT_S
from tests.servers.patience import wait_until
from tests.worker.inside import CountingApp, working

DEADLINE_S = 2.0  # longer than a request that waits for messages is waited for


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


@pytest.fixture
def given_back(app: CountingApp, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The ids of messages that the worker asked to have given back."""
    run_all, ids = app.broker.run_all, list[bytes]()

    async def note(ops: Sequence[Op]) -> list[Any]:
        for op in ops:
            is_back = isinstance(op, Requeue | Release)
            if is_back or (isinstance(op, ExtendLeases) and op.lease_ms == 1):
                ids.extend(op.message_ids)  # type: ignore[attr-defined]
        results = await run_all(ops)
        if len(ids) == 2:  # those that had not begun: the answer comes after the deadline
            await asyncio.sleep(DEADLINE_S)
        return results

    monkeypatch.setattr(app.broker, "run_all", note)
    return ids


def add_three(queues: Queues, queue: str, family: str) -> None:
    if family == "jobs":
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


@pytest.mark.parametrize("family", ["events", "items"])
def test_those_that_are_lost_are_not_taken_from_who_has_them(
    app: CountingApp, queues: Queues, queue: str, family: str, given_back: list[bytes]
) -> None:
    go_on, began = threading.Event(), list[Message]()

    def block(body: bytes, message: Message) -> None:
        began.append(message)
        go_on.wait(TIMEOUT_S)

    app.add(queue, block, family=family, group="g", lease=0.3, concurrency=1)
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
        extended = app.broker.extended
        wait_until(lambda: app.broker.extended > extended + 4, "the worker knows of it")

    go_on.set()
    assert len(others) == 2
    assert [id.decode() for id in given_back] == [running.id]
