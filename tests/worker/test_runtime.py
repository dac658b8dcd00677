"""One process of a worker, inside the test: leases, hooks, tries and the memory it leaves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

import quinque
from quinque.client.aio.broker import Broker
from quinque.client.sync.queues import Queues
from quinque.errors import BadSetting
from quinque.model.ops import Op
from quinque.model.own_ops import ExtendLeases
from quinque.model.tube_ops import TouchTasks
from quinque.model.work_ops import Extend
from quinque.worker import App, Backoff, Message, Retry
from quinque.worker.board import Board, Hand, Left, Told
from quinque.worker.runtime import Runtime
from tests.server.broker import RunningBroker
from tests.server.resp import TIMEOUT_S
from tests.servers.patience import wait_until


class Counting(Broker):
    """A broker that counts how often leases are extended."""

    extended = 0

    async def run_all(self, ops: Sequence[Op]) -> list[Any]:
        self.extended += sum(isinstance(op, Extend | ExtendLeases | TouchTasks) for op in ops)
        return await super().run_all(ops)


class CountingApp(App):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.broker = Counting(url)

    def connect(self) -> Broker:
        return self.broker


@pytest.fixture
def app(broker: RunningBroker) -> CountingApp:
    return CountingApp(f"redis://127.0.0.1:{broker.port}")


@pytest.fixture
def queues(app: CountingApp) -> Iterator[Queues]:
    with quinque.connect(app.url) as connected:
        yield connected


@contextmanager
def working(app: App, deadline_s: float = 10.0, board: Board | None = None) -> Iterator[Board]:
    """Within, the app works, in the place of the process that the board is of."""
    board = board or Board()
    begun: list[Callable[[], object]] = []
    is_there = threading.Event()

    async def work() -> None:
        runtime = Runtime(app, board, threads=2, deadline_s=deadline_s)
        loop = asyncio.get_running_loop()
        begun.append(lambda: loop.call_soon_threadsafe(runtime.stop))
        is_there.set()
        await runtime.run()

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    assert is_there.wait(TIMEOUT_S)
    try:
        yield board
    finally:
        begun[0]()
        thread.join(TIMEOUT_S)
        board.close()


def test_a_lease_is_extended_while_the_handler_runs_and_not_after(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    jobs, go_on = queues.jobs(queue), threading.Event()
    app.add(queue, lambda body: go_on.wait(TIMEOUT_S))
    with working(app) as board:
        id = jobs.add(b"long", retry=2)

        wait_until(lambda: app.broker.extended >= 4, "it is extended for longer than its lease")
        held = jobs.show(id)
        go_on.set()
        wait_until(lambda: jobs.show(id) is None, "it is acked")
        extended, ended_s = app.broker.extended, board.read().beat_s
        # It was extended every two thirds of a second.
        wait_until(lambda: board.read().beat_s > ended_s + 0.8, "there was time to extend it")

    assert held is not None
    assert (held.requeues, held.nacks, held.deliveries) == (0, 0, 1)
    assert app.broker.extended == extended


@pytest.mark.parametrize("family", ["items", "tubes"])
def test_leases_of_other_families_are_extended_too(
    app: CountingApp, queues: Queues, queue: str, family: str
) -> None:
    began, go_on = [], threading.Event()

    def wait(body: bytes) -> None:
        began.append(body)
        go_on.wait(TIMEOUT_S)

    app.add(queue, wait, family=family, lease=1.5)
    if family == "items":
        queues.items(queue).add("long", b"x")
    else:
        queues.tube(queue).make("fifottl")
        queues.tube(queue).put(b"x", ttr=1.5)
    with working(app):
        wait_until(lambda: app.broker.extended >= 4, "it is extended for longer than its lease")
        go_on.set()

    assert began == [b"x"]


def test_a_handler_that_takes_too_long_is_not_waited_for(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    seen: list[int] = []

    async def hang(body: bytes, message: Message) -> None:
        seen.append(message.deliveries)
        if message.deliveries == 1:
            await asyncio.sleep(TIMEOUT_S)

    app.add(queue, hang, timeout=0.01, backoff=(0, 0))
    errors: list[BaseException] = []
    app.failed(lambda message, error: errors.append(error))
    with working(app):
        queues.jobs(queue).add(b"x")
        wait_until(lambda: seen == [1, 2], "it is tried again")

    assert [type(error) for error in errors] == [TimeoutError]


def test_what_failed_rests_as_its_family_can(app: CountingApp, queues: Queues, queue: str) -> None:
    def fail(body: bytes) -> None:
        raise Retry(50, "later")

    app.add(f"{queue}.jobs", fail)
    app.add(f"{queue}.tube", fail, family="tubes")
    app.add(f"{queue}.items", fail, family="items", lease=600)
    jobs, tube, items = (
        queues.jobs(f"{queue}.jobs"),
        queues.tube(f"{queue}.tube"),
        queues.items(f"{queue}.items"),
    )
    tube.make("fifottl")
    with working(app) as board:
        id = jobs.add(b"x")
        tube.put(b"x")
        items.add("x", b"x")
        wait_until(lambda: board.read().failed == 3 and not board.read().held, "all rest")

    job, view, leased = jobs.show(id), tube.info(), items.info()
    assert job is not None
    assert view is not None
    assert leased is not None
    assert (job.state.name, job.nacks) == ("DELAYED", 1)
    assert job.reason.startswith(b"Retry: later\n")
    assert 40_000 < (job.due_within_ms or 0) <= 50_000
    assert (view.delayed, leased.leased) == (1, 1)


def test_what_cannot_be_put_aside_or_told_stays(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    def obey(body: bytes) -> int:
        if body == b"fail":
            raise ValueError
        return 1

    other = f"{queue}.other"  # no job can be added to what is a tube
    queues.tube(other).make()
    queues.items(f"{queue}.items").add("x", b"fail")
    app.add(f"{queue}.items", obey, family="items", lease=600, max_deliveries=1, dead=other)
    app.add(f"{queue}.jobs", obey, max_deliveries=1, results=other)
    jobs, items = queues.jobs(f"{queue}.jobs"), queues.items(f"{queue}.items")
    with working(app) as board:
        id = jobs.add(b"work")
        wait_until(lambda: (view := jobs.info()) is not None and view.dead, "it failed")
        wait_until(lambda: board.read().failed and not board.read().held, "nothing is held")

    job, left = jobs.show(id), items.info()
    assert job is not None
    assert job.reason.startswith(b"WrongType: ")
    assert left is not None
    assert (left.ready, left.leased) == (0, 1)


def test_hooks_see_each_message_where_it_is_worked(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    told: list[tuple[Any, ...]] = []
    app.before(lambda message: told.append(("before", message.body)))
    app.after(lambda message, result: told.append(("after", message.body, result)))
    app.failed(lambda message, error: told.append(("failed", message.body, str(error))))
    app.progress(lambda message, value: told.append(("progress", message.body, value)))

    @app.handler(queue, codec="json", backoff=(0, 0), concurrency=1)
    def work(number: int, message: Message) -> int:
        message.progress(0.5)
        if message.deliveries == 1:
            raise Retry(0, "not yet")
        return number + 1

    with working(app):
        queues.jobs(queue, codec="json").add(4)
        wait_until(lambda: ("after", 4, 5) in told, "it is worked")

    assert told == [
        ("before", 4),
        ("progress", 4, 0.5),
        ("failed", 4, "not yet"),
        ("before", 4),
        ("progress", 4, 0.5),
        ("after", 4, 5),
    ]


def test_many_are_worked_once_each_and_leave_nothing(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    jobs, seen = queues.jobs(queue, codec="json"), list[int]()

    async def note(number: int) -> None:
        seen.append(number)

    app.add(queue, note, codec="json")
    with working(app) as board:
        jobs.add_many(range(2_000))
        wait_until(lambda: (view := jobs.info()) is not None and not view.leased + view.ready, "")
        wait_until(lambda: board.read().finished == 2_000, "it is told")

        assert sorted(seen) == list(range(2_000))
        assert board.read().held == 0


def test_many_events_are_worked_once_each(app: CountingApp, queues: Queues, queue: str) -> None:
    events, seen = queues.events(queue, codec="json"), list[int]()

    async def note(number: int) -> None:
        seen.append(number)

    app.add(queue, note, family="events", group="g", codec="json", lease=600)
    with working(app):
        events.add_many(range(500))
        wait_until(lambda: len(seen) == 500, "all are worked")

    assert sorted(seen) == list(range(500))


def test_coroutines_that_do_not_end_are_cancelled_and_given_back(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    jobs, ended = queues.jobs(queue), list[str]()

    async def hang(body: bytes) -> None:
        try:
            await asyncio.sleep(TIMEOUT_S)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    app.add(queue, hang)
    with working(app, deadline_s=0.01):
        id = jobs.add(b"x", retry=300)
        wait_until(lambda: (view := jobs.info()) is not None and view.leased, "it is worked")

    shown = jobs.show(id)
    assert ended == ["cancelled"]
    assert shown is not None
    assert (shown.state.name, shown.nacks) == ("READY", 0)


def test_what_a_process_had_in_hand_when_it_died_is_settled_by_the_next(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    jobs, seen = queues.jobs(queue, retry=300), dict[bytes, Message]()
    jobs.add_many([b"held", b"running", b"done"])
    taken = [Message(queue, it.id.encode(), it.body, 1) for it in jobs.take_many(3)]
    held, running, done = taken
    board = Board()
    board.hold(taken, 0, [0, 0, 0])
    board.mark(running, Hand.RUNNING)
    board.mark(done, Hand.DONE)

    def note(body: bytes, message: Message) -> None:
        seen[body] = message

    app.add(queue, note)
    with working(app, board=board):
        wait_until(lambda: set(seen) == {b"held", b"running"}, "they are worked again")
        wait_until(lambda: jobs.show(held.id) is None, "they are acked")

    assert {body: it.deliveries for body, it in seen.items()} == {b"held": 2, b"running": 2}
    assert jobs.show(done.id) is None


def test_a_worker_waits_for_a_broker_that_is_not_there_yet(
    tmp_path_factory: pytest.TempPathFactory, queue: str
) -> None:
    from tests.server.broker import start_broker

    with start_broker(tmp_path_factory.mktemp("late")) as broker:
        app, seen = App(f"redis://127.0.0.1:{broker.port}", retries=0), list[bytes]()
        app.add(queue, seen.append)
        broker.stop()
        with working(app):
            broker.restart(same_port=True)
            with quinque.connect(app.url) as queues:
                queues.jobs(queue).add(b"one")
                wait_until(lambda: seen == [b"one"], "it is worked")
                broker.kill()
                broker.restart(same_port=True)
                queues.jobs(queue).add(b"two")
                wait_until(lambda: seen[1:] == [b"two"], "it is worked")


def test_what_an_app_cannot_do_is_said_when_it_is_asked() -> None:
    app = App("redis://127.0.0.1:1")
    app.add("q", print)
    for asked in (
        {"family": "stacks"},
        {"family": "events"},  # without a group
        {"lease": 0},
        {"batch": 0},
        {},  # there is one for this queue
    ):
        with pytest.raises(BadSetting):
            app.add("q", lambda body: None, **asked)
    with pytest.raises(BadSetting, match="takes a body"):
        app.add("other", lambda: None)


def test_a_rest_is_twice_as_long_each_time_and_up_to_half_of_it_less() -> None:
    backoff = Backoff(first=1, most=10)

    assert [backoff.delay_s(failures, chance=0) for failures in range(1, 6)] == [1, 2, 4, 8, 10]
    assert backoff.delay_s(2, chance=1) == 1
    assert backoff.delay_s(10_000, chance=0) == 10


def test_a_board_shows_what_was_in_hand() -> None:
    board = Board()
    try:
        held, running, done, gone = (Message("q", id, b"", 1) for id in (b"h", b"r", b"d", b"g"))
        board.hold([held, running, done, gone], 3, [0, 1, 0, 0])
        board.mark(running, Hand.RUNNING)
        board.mark(done, Hand.DONE)
        board.drop(gone)
        board.hold([Message("q", b"x" * 200, b"", 1)], 3, [0])  # it has no room
        board.write(Told(1.5, 2, 3, 4, 5))

        assert board.read() == Told(1.5, 2, 3, 4, 5)
        assert set(board.take_left()) == {
            Left(Hand.HELD, 3, 0, b"h"),
            Left(Hand.RUNNING, 3, 1, b"r"),
            Left(Hand.DONE, 3, 0, b"d"),
        }
        assert list(board.take_left()) == []
    finally:
        board.close()
