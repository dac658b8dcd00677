"""What a worker tells Prometheus, whichever of its processes counted it, and what outlives it."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from quinque.model.states import State
from quinque.worker.figures import BOUNDS_S, RAN, WAITED, Count, Figures
from tests.console.scrapes import Scrape
from tests.server.broker import RunningBroker
from tests.server.resp import TIMEOUT_S
from tests.servers.patience import wait_until
from tests.worker.inside import CountingApp
from tests.worker.stage import RunningWorker

WORDS = ("finished", "failed", "retried", "dead")


@pytest.fixture(scope="module")
def worker(broker: RunningBroker) -> Iterator[RunningWorker]:
    flags = ("--http-listen", "127.0.0.1:0", "--processes", "2")
    with RunningWorker(broker, "metrics.", *flags) as running:
        yield running


def test_what_became_of_messages_is_counted(worker: RunningWorker) -> None:
    grown = _since(worker, "jobs", "obey")
    jobs = worker.queues.jobs("metrics.jobs")
    # Their leases do not end early, on a machine that is busy.
    good, bad = (worker.add(it, retry=300) for it in ({"do": "double", "of": 1}, {"do": "raise"}))
    worker.result(good)
    wait_until(lambda: [it.message_id for it in jobs.peek(state=State.DEAD)] == [bad.encode()], bad)

    wait_until(lambda: [grown(f"messages_{it}_total") for it in WORDS] == [1, 2, 1, 1], "counted")
    wait_until(lambda: grown("handler_seconds_count") == 3, "each delivery is measured")
    assert 0 < grown("handler_seconds_sum") < TIMEOUT_S
    assert grown("wait_seconds_count") == 0  # an id of a job does not tell


def test_what_a_process_counted_is_not_lost_when_it_dies(worker: RunningWorker) -> None:
    first, second = _since(worker, "jobs", "obey"), _since(worker, "soon", "obey_soon")
    died_before = _scrape(worker).value("quinque_worker_process_deaths_total")
    worker.result(worker.add({"do": "double", "of": 1}, retry=300))
    wait_until(lambda: first("messages_finished_total") == 1, "counted")
    worker.result(worker.add({"do": "die once"}, "soon", retry=300))

    wait_until(
        lambda: [second(f"messages_{it}_total") for it in WORDS] == [1, 1, 1, 0],
        "what it died of has failed, and the next has done it",
    )
    assert first("messages_finished_total") == 1
    wait_until(
        lambda: (
            _scrape(worker).value("quinque_worker_process_deaths_total") == (died_before or 0) + 1
        ),
        "one has died",
    )
    wait_until(lambda: _scrape(worker).value("quinque_worker_processes") == 2, "both run")


@pytest.mark.parametrize("family", ["events", "reliable"])
def test_how_long_messages_waited_is_told_where_their_ids_tell(
    worker: RunningWorker, family: str
) -> None:
    queues = worker.queues
    grown = _since(worker, family, "obey", group="g" if family == "events" else "")
    order = {"do": "double", "of": 1}
    if family == "events":
        worker.result(queues.events("metrics.events", codec="json").add(order))
    else:
        worker.result(queues.reliable("metrics.reliable", codec="json").push(order))

    wait_until(lambda: grown("wait_seconds_count") == 1, "counted")
    assert 0 <= grown("wait_seconds_sum") < TIMEOUT_S


def test_what_is_in_hand_is_told_by_state(worker: RunningWorker) -> None:
    id = worker.add({"do": "wait", "for": "metrics.gate"}, retry=300)

    def in_hand() -> list[float | None]:
        page, who = _scrape(worker), _who("jobs", "obey")
        states = ("waiting", "running", "done")
        return [page.value("quinque_worker_messages", **who, state=state) for state in states]

    wait_until(lambda: in_hand() == [0, 1, 0], "it runs")
    worker.queues.jobs("metrics.gate").add(b"go on")
    worker.result(id)

    wait_until(lambda: in_hand() == [0, 0, 0], "nothing is in hand")


def test_failures_that_a_worker_counts_in_a_file_are_known_to_the_next(
    broker: RunningBroker, queue: str, tmp_path: Path
) -> None:
    prefix, flags = f"{queue}.", ("--failures-file", str(tmp_path / "failures"))
    with RunningWorker(broker, prefix, *flags, "--deadline", "10ms") as worker:
        tube = worker.queues.tube(f"{prefix}tube", codec="json")
        tube.make("fifottl")
        tube.put({"do": "raise once", "for": f"{prefix}gate"})
        # Once it has failed, and is worked again: this time it is given back, and has not failed.
        worker.heard("at delivery 1")
        wait_until(lambda: (view := tube.info()) is not None and view.taken, "it is worked again")
        assert worker.stop() == 0

    with RunningWorker(broker, prefix, *flags) as worker:
        worker.queues.jobs(f"{prefix}gate").add(b"go on")
        job = worker.queues.jobs(f"{prefix}results", codec="json").take(timeout=TIMEOUT_S)

    assert job is not None
    assert job.body["result"] == {"deliveries": 2}


def test_numbers_are_read_by_who_has_the_descriptor(app: CountingApp) -> None:
    app.add("q", print)
    app.add("\u00fc", print, family="events", group="g")
    figures = Figures()
    try:
        assert figures.read() == []  # of a process that has not begun
        _, other = figures.begin(app.handlers)
        other.add(Count.FAILED, 2)
        other.ran([0.0001, 0.0002])
        other.waited([0.0001, 0.02, 1e6])

        (first, none), (second, numbers) = figures.read()
    finally:
        figures.close()

    assert first[:4] == ("jobs", "q", "", "print")
    assert second[:4] == ("events", "\u00fc", "g", "print")
    assert not any(none)
    assert (numbers[Count.FAILED], numbers[RAN]) == (2, 2)
    waited = numbers[WAITED : WAITED + len(BOUNDS_S) + 1]
    at = BOUNDS_S.index(0.025)
    assert (waited[0], waited[at], waited[-1], sum(waited)) == (1, 1, 1, 3)
    assert [it.salt.hex() for it in app.handlers] == [first.salt, second.salt]


def _since(
    worker: RunningWorker, queue: str, handler: str, group: str = ""
) -> Callable[[str], float]:
    """What is told of a handler, beyond what was when this was asked."""
    who = _who(queue, handler, group)
    before = _scrape(worker)

    def grown(name: str) -> float:
        pages = (_scrape(worker), before)
        now, then = (page.value(f"quinque_worker_{name}", **who) for page in pages)
        return (now or 0) - (then or 0)

    return grown


def _who(queue: str, handler: str, group: str = "") -> dict[str, str]:
    family = "jobs" if queue == "soon" else queue
    return {"family": family, "queue": f"metrics.{queue}", "group": group, "handler": handler}


def _scrape(worker: RunningWorker) -> Scrape:
    url = worker.heard("serving health and metrics on ")
    with urllib.request.urlopen(f"{url}/metrics", timeout=TIMEOUT_S) as reply:
        return Scrape(text_string_to_metric_families(reply.read().decode()))
