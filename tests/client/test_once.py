"""What is added is taken once, whoever adds and takes at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.server.resp import TIMEOUT_S

PRODUCERS, CONSUMERS, EACH = 2, 3, 40


class _Worked:
    """Two calls that every family has, by its own names."""

    def __init__(self, add: Callable[[list[str]], Any], take: Callable[[], list[Any]]) -> None:
        self.add = add
        self.take = take  # taken and finished


def _worked(queues: Any, family: str, name: str) -> _Worked:
    if family == "events":
        events = queues.events(name)
        group = events.group("g")
        return _Worked(events.add_many, lambda: _acked(group, group.take_many(5, timeout=0.05)))
    if family == "reliable":
        pushed = queues.reliable(name)
        return _Worked(pushed.push_many, lambda: _acked(pushed, pushed.pop_many(5, timeout=0.05)))
    if family == "items":
        items = queues.items(name)
        return _Worked(
            lambda bodies: items.add_many({body: body for body in bodies}),
            lambda: _completed(items, items.lease_many(5, 60, timeout=0.05)),
        )
    if family == "tubes":
        tube = queues.tube(name)
        tube.make("fifo")
        return _Worked(tube.put_many, lambda: _acked(tube, tube.take_many(5, timeout=0.05)))
    jobs = queues.jobs(name, retry=60)
    return _Worked(jobs.add_many, lambda: _acked(jobs, jobs.take_many(5, timeout=0.05)))


def _acked(queue: Any, taken: list[Any]) -> list[Any]:
    assert queue.ack(taken) == len(taken)
    return taken


def _completed(items: Any, taken: list[Any]) -> list[Any]:
    assert items.complete(taken) == len(taken)
    return taken


@pytest.mark.parametrize("family", ["events", "jobs", "tubes", "reliable", "items"])
def test_what_is_added_is_taken_once(queues: Any, queue: str, family: str) -> None:
    worked = _worked(queues, family, queue)
    taken: list[bytes] = []
    failures: list[BaseException] = []

    def produce(number: int) -> None:
        for start in range(0, EACH, 8):
            worked.add([f"{number}-{at}" for at in range(start, start + 8)])

    def consume() -> None:
        while len(taken) < PRODUCERS * EACH and not failures:
            taken.extend(it.body for it in worked.take())

    def noted(work: Callable[..., None], *args: int) -> None:
        try:
            work(*args)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=noted, args=(produce, it)) for it in range(PRODUCERS)]
    threads += [threading.Thread(target=noted, args=(consume,)) for _ in range(CONSUMERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)

    assert failures == []
    assert sorted(taken) == sorted(
        f"{number}-{at}".encode() for number in range(PRODUCERS) for at in range(EACH)
    )
