"""Handlers and hooks that do what they should not: hang, ignore that they are told to end, lie."""

from __future__ import annotations

import asyncio
import threading

from quinque.client.sync.queues import Queues
from quinque.model.states import State
from quinque.worker import Message
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
        (TimeoutError, "it took longer than 0.01 s")
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

    app.add(f"{queue}.thread", hang, timeout=0.05, concurrency=2, max_deliveries=1)
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
    assert reason.startswith("TimeoutError: it took longer than 0.05 s\n")
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
