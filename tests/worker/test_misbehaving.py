"""Handlers and hooks that do what they should not: hang, ignore that they are told to end, lie."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from quinque.client.sync.queues import Queues
from quinque.model.ops import Op
from quinque.model.states import State
from quinque.model.work_ops import Finish
from quinque.worker import Message, Retry
from tests.server.resp import TIMEOUT_S
from tests.servers.patience import wait_until
from tests.worker.inside import CountingApp, is_working, working


def test_a_coroutine_that_takes_too_long_is_cancelled(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    seen, errors = list[int](), list[BaseException]()

    async def hang(body: bytes, message: Message) -> None:
        seen.append(message.deliveries)
        if message.deliveries == 1:
            await asyncio.sleep(TIMEOUT_S)

    app.add(queue, hang, timeout=0.01, backoff=(0, 0))
    app.failed(lambda message, error: errors.append(error))
    with working(app):
        queues.jobs(queue).add(b"x")
        wait_until(lambda: seen == [1, 2], "it is tried again")

    assert [(type(error), str(error)) for error in errors] == [
        (TimeoutError, "the handler took longer than 0.01 s")
    ]


def test_a_handler_that_never_ends_has_failed_and_is_left_behind(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    go_on, held, errors = threading.Event(), list[bool](), list[BaseException]()

    def hang(body: bytes, message: Message) -> None:
        if body == b"hang":
            go_on.wait(TIMEOUT_S)
            held.append(message.is_held)

    async def ignore(body: bytes) -> None:
        while not go_on.is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                pass

    app.add(f"{queue}.thread", hang, timeout=1, concurrency=2, max_deliveries=1)
    app.add(f"{queue}.task", ignore, timeout=0.05, concurrency=2, max_deliveries=1)
    app.failed(lambda message, error: errors.append(error))
    thread, task = queues.jobs(f"{queue}.thread"), queues.jobs(f"{queue}.task")
    with working(app):
        ids = [thread.add(b"hang", retry=300), thread.add(b"good"), task.add(b"x", retry=300)]
        dead = [thread.peek, task.peek]
        wait_until(lambda: all(look(state=State.DEAD) for look in dead), "both have failed")
        wait_until(lambda: thread.show(ids[1]) is None, "the other is worked")
        go_on.set()
        wait_until(lambda: held == [False], "the handler ended, and knew")

    [reason] = [job.reason.decode() for job in thread.peek(state=State.DEAD)]
    assert reason.startswith("TimeoutError: the handler took longer than 1 s\n")
    assert "in hang: go_on.wait(TIMEOUT_S)" in reason  # where it hung
    assert [type(error) for error in errors] == [TimeoutError] * 2


def test_a_process_whose_handlers_all_hang_ends(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    go_on = threading.Event()
    app.add(queue, lambda body: go_on.wait(TIMEOUT_S), timeout=0.05, concurrency=1)
    with working(app, deadline_s=0.01) as board:
        id = queues.jobs(queue).add(b"x", retry=300)
        wait_until(lambda: not is_working(), "the process has ended")
        go_on.set()
        assert (board.read().failed, board.read().held) == (1, 0)

    job = queues.jobs(queue).show(id)
    assert job is not None
    assert job.nacks == 1


def test_what_is_lost_is_not_taken_from_who_has_it(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    items, go_on, began = queues.items(queue), threading.Event(), threading.Event()
    seen: list[Message] = []

    def fail(body: bytes, message: Message) -> None:
        seen.append(message)
        began.set()
        go_on.wait(TIMEOUT_S)
        raise ValueError

    app.add(queue, fail, family="items", lease=0.3, concurrency=1, backoff=(0, 0))
    items.add("x", b"x")
    with working(app) as board:
        assert began.wait(TIMEOUT_S)
        items.complete(["x"])
        wait_until(lambda: not seen[0].is_held, "the worker knows that it is lost")
        items.add("x", b"x")
        other = items.lease(300, timeout=TIMEOUT_S)
        go_on.set()
        wait_until(lambda: board.read().failed and not board.read().held, "it is settled")

    assert other is not None
    assert items.lease(300) is None  # or it would rest no longer


@pytest.mark.parametrize("family", ["items", "tubes", "events"])
def test_what_is_lost_is_not_put_aside_though_it_failed_too_often(
    app: CountingApp, queues: Queues, queue: str, family: str
) -> None:
    go_on, began, seen = threading.Event(), threading.Event(), list[Message]()

    def fail(body: bytes, message: Message) -> None:
        seen.append(message)
        began.set()
        go_on.wait(TIMEOUT_S)
        raise ValueError

    app.add(queue, fail, family=family, group="g", lease=0.3, max_deliveries=1, concurrency=1)
    items, tube, events = queues.items(queue), queues.tube(queue), queues.events(queue)
    if family == "items":
        items.add("x", b"x")
    elif family == "tubes":
        tube.make("fifottl")
        tube.put(b"x", ttr=300)
    else:
        events.add(b"x")
    with working(app) as board:
        assert began.wait(TIMEOUT_S)
        # Somebody else gets it, or has even done it.
        if family == "items":
            items.complete(["x"])
            wait_until(lambda: not seen[0].is_held, "the worker knows that it is lost")
            items.add("x", b"x")
            assert items.lease(300, timeout=TIMEOUT_S) is not None
        elif family == "tubes":
            tube.release_all()
            assert tube.take() is not None
        else:
            assert events.group("g").ack([seen[0].id]) == 1
        wait_until(lambda: not seen[0].is_held, "the worker knows that it is lost")
        go_on.set()
        wait_until(lambda: board.read().failed and not board.read().held, "it is settled")

    if family == "items":
        assert (it := items.info()) is not None
        assert it.leased == 1
    elif family == "tubes":
        assert (view := tube.info()) is not None
        assert (view.taken, view.buried) == (1, 0)
    assert queues.jobs(f"{queue}.dead").info() is None


def test_hooks_that_raise_and_awaitables_that_nobody_awaits(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    done: list[str] = []

    def fail(message: Message, value: object) -> None:
        done.append(f"{value}")
        raise RuntimeError("a hook")

    async def coroutine() -> None: ...

    app.after(fail)
    app.failed(fail)
    app.progress(fail)
    app.add(f"{queue}.good", lambda body, message: message.progress("half"))
    app.add(f"{queue}.bad", lambda body: coroutine(), max_deliveries=1)
    good, bad = queues.jobs(f"{queue}.good"), queues.jobs(f"{queue}.bad")
    with working(app):
        id = good.add(b"x")
        bad.add(b"x")
        wait_until(lambda: good.show(id) is None, "it is acked, whatever the hooks do")
        wait_until(lambda: bad.peek(state=State.DEAD), "it failed")

    [job] = bad.peek(state=State.DEAD)
    assert job.reason.startswith(b"TypeError: the handler returned an awaitable")
    assert {"half", "None"} < set(done)


class Own(BaseException):
    """An error that is no Exception."""


@dataclass(frozen=True)
class Frozen(Exception):
    """An error to which no traceback can be assigned."""

    number: int


class Forgetful(Retry):
    """An error that says that it has a delay, and has none."""

    def __init__(self) -> None:
        pass


class Mute(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


ERRORS: dict[bytes, BaseException] = {
    b"interrupt": KeyboardInterrupt(),
    b"exit": SystemExit(3),
    b"own": Own(),
    b"close": GeneratorExit(),
    b"cancel": asyncio.CancelledError(),
    b"frozen": Frozen(1),
    b"forgetful": Forgetful(),
    b"mute": Mute(),
}


@pytest.mark.parametrize("is_async", [False, True])
def test_whatever_a_handler_raises_is_a_failure_of_its_message(
    app: CountingApp, queues: Queues, queue: str, is_async: bool
) -> None:
    def fail(body: bytes) -> None:
        raise ERRORS[body]

    async def fail_soon(body: bytes) -> None:
        raise ERRORS[body]

    def fail_too(message: Message, error: BaseException) -> None:
        raise SystemExit

    app.failed(fail_too)
    app.add(queue, fail_soon if is_async else fail, max_deliveries=1, concurrency=2)
    jobs = queues.jobs(queue, retry=300)
    with working(app):
        jobs.add_many(list(ERRORS))
        wait_until(lambda: (view := jobs.info()) is not None and view.dead == len(ERRORS), "all")

    reasons = {it.body: it.reason.partition(b":")[0].decode() for it in jobs.peek(9, State.DEAD)}
    assert reasons == {body: type(error).__name__ for body, error in ERRORS.items()}


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_process_that_a_handler_forked_ends_with_it(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    forked: list[int] = []

    def fork(body: bytes) -> None:
        if body == b"fork" and (pid := os.fork()):
            forked.append(pid)

    app.add(queue, fork, concurrency=1)
    jobs = queues.jobs(queue, retry=300)
    with working(app):
        ids = jobs.add_many([b"fork", b"other"])
        wait_until(lambda: not any(jobs.show(id) for id in ids), "both are worked")

    assert os.waitpid(forked[0], 0)[1] == 0


@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_that_has_ended_is_not_over_its_time_while_its_ack_is(
    app: CountingApp, queues: Queues, queue: str, is_async: bool
) -> None:
    go_on, errors = threading.Event(), list[BaseException]()
    run_all = app.broker.run_all

    async def late(ops: Sequence[Op]) -> list[Any]:
        while any(isinstance(op, Finish) for op in ops) and not go_on.is_set():
            await asyncio.sleep(0.01)
        return await run_all(ops)

    async def soon(body: bytes) -> None: ...

    app.broker.run_all = late  # type: ignore[method-assign]
    app.failed(lambda message, error: errors.append(error))
    app.add(queue, soon if is_async else len, timeout=0.01)
    with working(app) as board:
        id = queues.jobs(queue).add(b"x", retry=300)
        wait_until(lambda: board.read().finished, "it has ended")
        # Those that hang are looked for ten times a second, and coroutines have a second more.
        until_s = board.read().beat_s + (1.5 if is_async else 0.5)
        wait_until(lambda: board.read().beat_s > until_s, "there was time to take it for one")
        go_on.set()
        wait_until(lambda: queues.jobs(queue).show(id) is None, "it is acked")

    assert errors == []
