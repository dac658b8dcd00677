"""One process of a worker, inside the test: leases, hooks, tries and the memory it leaves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from time import monotonic
from typing import Any

import pytest

import quinque
from quinque.client.sync.queues import Queues
from quinque.errors import NoPermission, OutcomeUnknown
from quinque.model.ops import Op
from quinque.model.own_ops import Complete
from quinque.model.states import State
from quinque.model.work_ops import Add, LookAt, WorkView
from quinque.worker import App, Message, Retry
from quinque.worker.board import Board, Hand
from tests.server.broker import start_broker
from tests.server.resp import TIMEOUT_S
from tests.servers.patience import wait_until
from tests.worker.inside import CountingApp, undisturbed, working


def test_a_lease_is_extended_while_the_handler_runs_and_not_after(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    jobs, gates = queues.jobs(queue), list[threading.Event]()
    app.add(queue, lambda body: gates[int(body)].wait(TIMEOUT_S))

    def hold() -> WorkView | None:
        """A job as it is when it was worked for longer than its lease."""
        began_s = monotonic()
        gates.append(threading.Event())
        id = jobs.add(b"%d" % (len(gates) - 1), retry=1)
        # A lease of 1 s is up to a quarter shorter, by chance.
        is_fair = app.broker.are_extended(4, began_s, 0.75)
        held = jobs.show(id)
        is_fair = is_fair and app.broker.are_extended(0, began_s, 0.75)
        gates[-1].set()
        wait_until(lambda: jobs.show(id) is None, "it is acked")
        return held if is_fair else None

    with working(app) as board:
        held = undisturbed(hold)
        extended, ended_s = app.broker.extended, board.read().beat_s
        # It was extended every third of a second.
        wait_until(lambda: board.read().beat_s > ended_s + 0.4, "there was time to extend it")

    assert (held.requeues, held.nacks, held.deliveries) == (0, 0, 1)
    assert app.broker.extended == extended


def test_a_job_is_worked_once_at_a_time_until_its_life_is_over(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    jobs, began, ends = queues.jobs(queue), list[bytes](), threading.Event()

    def work(body: bytes) -> None:
        began.append(body)
        ends.wait(TIMEOUT_S)

    app.add(queue, work, concurrency=100)

    def live() -> int | None:
        """How often a job was begun that was worked for as long as it lived."""
        began_s = monotonic()
        body = b"%d" % len(began)
        id = jobs.add(body, retry=1, ttl=3)
        wait_until(lambda: jobs.show(id) is None, "its life is over")
        is_fair = app.broker.are_extended(0, began_s, 0.75)
        return began.count(body) if is_fair else None

    with working(app):
        times = undisturbed(live)
        ends.set()

    assert times == 1


def test_leases_of_other_families_are_extended_too(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    began, gates = list[bytes](), list[threading.Event]()

    def wait(body: bytes) -> None:
        began.append(body)
        gates[int(body)].wait(TIMEOUT_S)

    app.add(f"{queue}.events", wait, family="events", group="g", lease=1.5)
    app.add(f"{queue}.items", wait, family="items", lease=1.5)
    app.add(f"{queue}.tube", wait, family="tubes", lease=1.5)
    queues.tube(f"{queue}.tube").make("fifottl")

    def hold() -> int | None:
        """How often messages were begun when each was worked for longer than its lease."""
        began_s = monotonic()
        body = b"%d" % len(gates)
        gates.append(threading.Event())
        queues.events(f"{queue}.events").add(body)
        queues.items(f"{queue}.items").add(body.decode(), body)
        queues.tube(f"{queue}.tube").put(body, ttr=1.5)
        is_fair = app.broker.are_extended(12, began_s, 1.5)
        times = began.count(body)
        is_fair = is_fair and app.broker.are_extended(0, began_s, 1.5)
        gates[-1].set()
        return times if is_fair else None

    with working(app):
        assert undisturbed(hold) == 3


def test_what_failed_rests_as_its_family_can(app: CountingApp, queues: Queues, queue: str) -> None:
    def fail(body: bytes) -> None:
        raise Retry(600, "later")

    app.add(f"{queue}.jobs", fail)
    app.add(f"{queue}.tube", fail, family="tubes")
    app.add(f"{queue}.items", fail, family="items", lease=600)
    app.add(f"{queue}.events", fail, family="events", group="g", lease=600)
    jobs, tube, items, events = (
        queues.jobs(f"{queue}.jobs"),
        queues.tube(f"{queue}.tube"),
        queues.items(f"{queue}.items"),
        queues.events(f"{queue}.events"),
    )
    tube.make("fifottl")
    with working(app) as board:
        id = jobs.add(b"x")
        tube.put(b"x")
        items.add("x", b"x")
        events.add(b"x")
        wait_until(lambda: board.read().failed == 4 and not board.read().held, "all rest")

    job, view, leased, counted = jobs.show(id), tube.info(), items.info(), events.info()
    assert job is not None
    assert view is not None
    assert leased is not None
    assert counted is not None
    assert (job.state.name, job.nacks) == ("DELAYED", 1)
    assert job.reason.startswith(b"Retry: later\n")
    assert 500_000 < (job.due_within_ms or 0) <= 600_000
    assert (view.delayed, leased.leased, counted.groups[0].leased) == (1, 1, 1)


def test_an_element_that_waits_for_a_retry_is_not_one_whose_handler_runs(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    def fail(body: bytes) -> None:
        raise Retry(600, "later")

    app.add(queue, fail, family="reliable", lease=1200)
    with working(app) as board:
        queues.reliable(queue).push(b"x")
        wait_until(lambda: board.read().failed == 1, "it failed")
        # What is on the board when the process dies counts as one more failure.
        wait_until(lambda: not board.count(), "it is not on the board")
        assert board.read().held == 1


def test_a_worker_asks_now_and_then_whether_messages_wait(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    run, looks = app.broker.run, list[Op]()

    async def count(op: Op, wait_ms: int = 0) -> Any:
        looks.extend([op] if isinstance(op, LookAt) else [])
        return await run(op, wait_ms)

    app.broker.run = count  # type: ignore[method-assign]
    app.add(queue, print, max_deliveries=1)
    began_s = monotonic()
    with working(app, stalled_s=0.0) as board:
        wait_until(lambda: len(looks) > 2, "it has asked")
        beat_s = board.read().beat_s
        wait_until(lambda: board.read().beat_s > beat_s, "it lives")

    assert len(looks) <= 4 * (monotonic() - began_s) + 1


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


def test_a_result_that_json_cannot_express_fails_its_message(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    app.add(queue, float, results=f"{queue}.done", max_deliveries=1)
    jobs = queues.jobs(queue)
    with working(app):
        jobs.add_many([b"nan", b"1"])
        wait_until(
            lambda: (it := jobs.info()) is not None and it.dead and not it.ready + it.leased,
            "both have ended",
        )

    [dead] = jobs.peek(state=State.DEAD)
    [told] = queues.jobs(f"{queue}.done", codec="json").take_many(100)
    assert (dead.body, told.body["result"]) == (b"nan", 1.0)
    assert dead.reason.startswith(b"ValueError: ")


@pytest.mark.parametrize("lost", [Add, Complete])
@pytest.mark.parametrize("family", ["reliable", "items"])
def test_what_failed_too_often_is_put_aside_once_though_an_answer_is_lost(
    app: CountingApp, queues: Queues, queue: str, family: str, lost: type[Op]
) -> None:
    """Of the letter, or of the end of what it is about: then it comes back, and fails again."""
    run_all, losses = app.broker.run_all, list[type[Op]]()

    async def lose(ops: Sequence[Op]) -> list[Any]:
        is_lost = not losses and any(isinstance(op, lost) for op in ops)
        if is_lost and lost is Complete:
            losses.append(lost)
            raise NoPermission("not yet")
        results = await run_all(ops)
        if is_lost:
            losses.append(lost)
            raise OutcomeUnknown("no answer")
        return results

    def fail(body: bytes) -> None:
        raise ValueError

    app.broker.run_all = lose  # type: ignore[method-assign]
    app.add(queue, fail, family=family, max_deliveries=1, lease=0.5)
    items, elements = queues.items(queue), queues.reliable(queue)
    kept = items if family == "items" else elements
    with working(app):
        if family == "items":
            items.add("x", b"x")
        else:
            elements.push(b"x")
        wait_until(
            lambda: losses and ((it := kept.info()) is None or not it.ready + it.leased),
            "it is put aside",
        )

    view = queues.jobs(f"{queue}.dead").info()
    assert view is not None
    assert (view.ready, view.came) == (1, 1)


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
        wait_until(lambda: (told := board.read()).finished == 2_000 and not told.held, "it is told")

        assert sorted(seen) == list(range(2_000))


def test_many_events_are_worked_once_each(app: CountingApp, queues: Queues, queue: str) -> None:
    events, seen = queues.events(queue, codec="json"), list[int]()

    async def note(number: int) -> None:
        seen.append(number)

    app.add(queue, note, family="events", group="g", codec="json", lease=600)
    with working(app):
        events.add_many(range(500))
        wait_until(lambda: len(seen) == 500, "all are worked")

    assert sorted(seen) == list(range(500))


def test_tasks_are_worked_once_each_beside_many_other_queues(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    tube, names = queues.tube(queue), [f"{queue}.{number}" for number in range(9)]
    worked, others, are_all_there = list[bytes](), list[bytes](), asyncio.Event()

    async def hold(body: bytes) -> None:
        worked.append(body)
        await are_all_there.wait()

    async def note(body: bytes) -> None:
        others.append(body)
        if len(others) == 900:
            are_all_there.set()

    tube.make()
    tube.put_many([b"%d" % number for number in range(50)])
    app.add(queue, hold, family="tubes", concurrency=50)
    for name in names:
        app.add(name, note)
    with working(app):
        for _ in range(10):
            for name in names:
                queues.jobs(name).add_many([b"x"] * 10)
        wait_until(lambda: (view := tube.info()) is not None and view.done == 50, "all are worked")

    assert sorted(worked, key=int) == [b"%d" % number for number in range(50)]


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


@pytest.mark.parametrize("family", ["jobs", "events", "items", "tubes"])
def test_an_orderly_stop_is_no_delivery(
    app: CountingApp, queues: Queues, queue: str, family: str
) -> None:
    jobs, events = queues.jobs(queue), queues.events(queue)
    items, tube = queues.items(queue), queues.tube(queue)
    if family == "jobs":
        jobs.add(b"x", retry=300)
    elif family == "events":
        events.add(b"x")
    elif family == "items":
        items.add("x", b"x")
    else:
        tube.make()
        tube.put(b"x")
    began, errors = list[int](), list[BaseException]()

    async def hang(body: bytes, message: Message) -> None:
        began.append(message.deliveries)
        await asyncio.sleep(TIMEOUT_S)

    async def fail(body: bytes) -> None:
        raise ValueError

    app.failed(lambda message, error: errors.append(error))
    settings = {"family": family, "group": "g", "max_deliveries": 2, "backoff": (0, 0)}
    app.add(queue, hang, **settings)  # type: ignore[arg-type]
    for times in range(1, 5):
        with working(app, deadline_s=0.01):
            wait_until(lambda times=times: len(began) == times, "it is worked")  # type: ignore[misc]

    assert errors == []
    app.handlers.clear()
    app.add(queue, fail, **settings)  # type: ignore[arg-type]
    with working(app):
        wait_until(lambda: len(errors) == 2, "it failed as often as it may")
    assert [type(error) for error in errors] == [ValueError] * 2


def test_what_a_process_had_in_hand_when_it_died_is_settled_by_the_next(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    jobs, seen = queues.jobs(queue, retry=300), dict[bytes, Message]()
    jobs.add_many([b"held", b"running", b"done"])
    taken = [Message(queue, it.id.encode(), it.body, 1) for it in jobs.take_many(3)]
    held, running, done = taken
    board = Board()
    board.hold(taken, 0, b"")
    board.mark(running, Hand.RUNNING)
    board.mark(done, Hand.DONE)
    board.crash([b""])

    def note(body: bytes, message: Message) -> None:
        seen[body] = message

    app.add(queue, note)
    with working(app, board=board):
        wait_until(lambda: set(seen) == {b"held", b"running"}, "they are worked again")
        wait_until(lambda: jobs.show(held.id) is None, "they are acked")

    assert {body: it.deliveries for body, it in seen.items()} == {b"held": 1, b"running": 2}
    assert jobs.show(done.id) is None


def test_a_board_tells_until_when_a_message_is_surely_of_its_process(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    began, ends = dict[bytes, Message](), threading.Event()

    def work(body: bytes, message: Message) -> None:
        began[body] = message
        ends.wait(TIMEOUT_S)

    app.add(f"{queue}.jobs", work)
    app.add(f"{queue}.items", work, family="items", lease=300)
    with working(app) as board:
        # Long enough that it does not end on a machine that stands still for a moment.
        queues.jobs(f"{queue}.jobs").add(b"job", retry=6)
        queues.items(f"{queue}.items").add("x", b"item")
        # The first is on the board by then: at least 0.4 s after the job was taken, for 6 s.
        wait_until(lambda: app.broker.extended >= 2, "the lease of the job is extended twice")
        until_s = {it.handler: it.ours_until_s for it in board.take_left()}
        ends.set()

    job, item = began[b"job"], began[b"item"]
    assert until_s[0] >= job.taken_s + 6.4
    assert item.taken_s < until_s[1] <= item.taken_s + 300


@pytest.mark.parametrize("hand", [Hand.HELD, Hand.CRASHED, Hand.DONE])
@pytest.mark.parametrize("family", ["jobs", "events", "items"])
def test_what_another_consumer_holds_by_now_is_not_taken_from_it(
    app: CountingApp, queues: Queues, queue: str, family: str, hand: Hand
) -> None:
    """The lease of the dead process has ended before its replacement was there. A job or an event
    that was done is acked all the same: its id is never another one's."""
    jobs, events, items = queues.jobs(queue, retry=300), queues.events(queue), queues.items(queue)
    group, seen = events.group("g", lease=300), list[bytes]()
    if family == "jobs":
        id = jobs.add(b"x")
        jobs.nack(jobs.take_many(1))
        assert [it.id for it in jobs.take_many(1)] == [id]
    elif family == "events":
        id = events.add(b"x")
        assert len(group.take_many(1)) == 1
    else:
        id = "x"
        items.add(id, b"x")
        assert items.lease(300) is not None
    left, board = Message(queue, id.encode(), b"x", 1), Board()
    left.ours_until_s = monotonic()
    board.hold([left], 0, b"")
    board.mark(left, hand)
    app.add(queue, seen.append, family=family, group="g", lease=300)
    with working(app, board=board):
        if family == "jobs":
            jobs.add(b"next")
        elif family == "events":
            events.add(b"next")
        else:
            items.add("next", b"next")
        wait_until(lambda: b"next" in seen, "the next is worked")

    is_acked = hand is Hand.DONE and family != "items"
    leased: int | None
    if family == "events":
        counted = events.info()
        leased = counted.groups[0].leased if counted is not None else 0
    else:
        view = (jobs if family == "jobs" else items).info()
        leased = view.leased if view is not None else 0
    assert seen == [b"next"]
    assert leased == (0 if is_acked else 1)


def test_what_was_left_is_of_its_queue_though_the_app_was_changed_since(
    app: CountingApp, queues: Queues, queue: str
) -> None:
    names = (f"{queue}.one", f"{queue}.other")
    one, other = (queues.items(name) for name in names)
    for items in (one, other):
        items.add("x", b"x")
        assert items.lease(300) is not None
    for name in names:
        app.add(name, lambda body: None, family="items", lease=300)
    left_by = [handler.salt for handler in app.handlers]
    app.handlers.reverse()
    done, board = Message(names[0], b"x", b"", 1), Board()
    board.hold([done], 0, left_by[0])
    board.mark(done, Hand.DONE)

    with working(app, board=board, left_by=left_by):
        wait_until(lambda: (view := one.info()) is None or not view.leased, "it is completed")

    left = other.info()
    assert left is not None
    assert left.leased == 1


def test_a_worker_waits_for_a_broker_that_is_not_there(
    tmp_path_factory: pytest.TempPathFactory, queue: str
) -> None:
    with start_broker(tmp_path_factory.mktemp("late")) as broker:
        url, seen = f"redis://127.0.0.1:{broker.port}", list[bytes]()
        early, late = App(url, retries=0), App(url, retries=0)
        early.add(f"{queue}.early", seen.append)
        late.add(f"{queue}.late", seen.append)
        with quinque.connect(url) as queues, working(early):
            id = queues.jobs(f"{queue}.early").add(b"one")
            wait_until(lambda: seen == [b"one"], "it is worked")
            wait_until(lambda: queues.jobs(f"{queue}.early").show(id) is None, "it is acked")
            broker.kill()
            with working(late):
                broker.restart()
                queues.jobs(f"{queue}.early").add(b"two")
                queues.jobs(f"{queue}.late").add(b"three")
                wait_until(lambda: set(seen[1:]) == {b"two", b"three"}, "they are worked")
