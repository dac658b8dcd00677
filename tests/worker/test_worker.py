"""A worker as users run it: messages that are worked, that fail, and that kill."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from quinque.model.states import State
from tests.server.broker import RunningBroker
from tests.server.resp import TIMEOUT_S
from tests.servers import stores
from tests.servers.patience import wait_until
from tests.worker.stage import RunningWorker

DIED = (
    "NeverFinished: delivered 2 times without a result: the worker processes died or lost the"
    " message"
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    kinds = [kind for kind in stores.ALL if kind != "cluster"]
    metafunc.parametrize("broker", kinds, indirect=True, scope="module")


@pytest.fixture(scope="module")
def worker(broker: RunningBroker) -> Iterator[RunningWorker]:
    with RunningWorker(broker, "w.", "--http-listen", "127.0.0.1:0") as running:
        yield running


@pytest.mark.parametrize("queue", ["jobs", "soon"])
def test_what_a_handler_returns_is_a_job_of_the_results(worker: RunningWorker, queue: str) -> None:
    id = worker.add({"do": "double", "of": 21}, queue)

    assert worker.result(id) == {"id": id, "queue": f"w.{queue}", "result": 42}
    wait_until(lambda: worker.queues.jobs(f"w.{queue}").show(id) is None, "it is acked")


@pytest.mark.parametrize("queue", ["jobs", "soon"])
def test_a_job_that_fails_too_often_is_dead_with_its_traceback(
    worker: RunningWorker, queue: str
) -> None:
    jobs = worker.queues.jobs(f"w.{queue}")
    id = worker.add({"do": "raise"}, queue)

    wait_until(lambda: [it.message_id for it in jobs.peek(state=State.DEAD)] == [id.encode()], id)

    [dead] = jobs.peek(state=State.DEAD)
    first, where, *_ = dead.reason.decode().splitlines()
    assert first == "ValueError: as it was told"
    assert "worked_app.py" in where
    assert "in obey: raise ValueError" in where
    assert dead.nacks == 2
    jobs.purge()


def test_a_job_whose_process_is_killed_is_worked_again_and_counted(worker: RunningWorker) -> None:
    # Its lease would run for minutes: the next process knows what the last one worked on.
    id = worker.add({"do": "die once"}, retry=300)

    assert worker.result(id) == {"id": id, "queue": "w.jobs", "result": {"deliveries": 2}}
    worker.heard("ended with SIGKILL")


def test_a_job_that_kills_every_process_is_dead(worker: RunningWorker) -> None:
    jobs = worker.queues.jobs("w.soon")
    id = worker.add({"do": "die"}, "soon", retry=300)

    wait_until(lambda: [it.message_id for it in jobs.peek(state=State.DEAD)] == [id.encode()], id)

    [dead] = jobs.peek(state=State.DEAD)
    assert dead.reason == b"the worker process died while it handled this message"
    jobs.purge()


def test_an_event_that_kills_every_process_is_put_aside(worker: RunningWorker) -> None:
    id = worker.queues.events("w.events", codec="json").add({"do": "die"})

    told = worker.dead_letter("events", id)

    assert (told["deliveries"], told["traceback"]) == (2, DIED)


def test_items_are_completed_or_put_aside_with_their_traceback(worker: RunningWorker) -> None:
    items = worker.queues.items("w.items", codec="json")

    items.add("good", {"do": "double", "of": 1})
    assert worker.result("good") == {"id": "good", "queue": "w.items", "result": 2}
    items.add("bad", {"do": "raise"})
    told = worker.dead_letter("items", "bad")

    assert (told["id"], told["family"], told["deliveries"]) == ("bad", "items", 2)
    assert json.loads(told["body"]) == {"do": "raise"}
    assert told["traceback"].startswith("ValueError: as it was told\n")
    wait_until(lambda: (view := items.info()) is None or not view.leased, "nothing is left")


def test_events_are_acked_or_put_aside(worker: RunningWorker) -> None:
    events = worker.queues.events("w.events", codec="json")

    good = events.add({"do": "double", "of": 2})
    assert worker.result(good) == {"id": good, "queue": "w.events", "result": 4}
    bad = events.add({"do": "raise"})

    assert worker.dead_letter("events", bad)["family"] == "events"


def test_elements_are_acked_or_put_aside(worker: RunningWorker) -> None:
    elements = worker.queues.reliable("w.reliable", codec="json")

    good = elements.push({"do": "double", "of": 3})
    assert worker.result(good) == {"id": good, "queue": "w.reliable", "result": 6}
    bad = elements.push({"do": "raise"})

    assert worker.dead_letter("reliable", bad)["family"] == "reliable"
    wait_until(lambda: (it := elements.info()) is not None and it.leased == 0, "all are acked")


def test_tasks_are_acked_or_buried(worker: RunningWorker) -> None:
    tube = worker.queues.tube("w.tube", codec="json")
    tube.make("fifottl")

    good = tube.put({"do": "double", "of": 4})
    assert worker.result(str(good)) == {"id": str(good), "queue": "w.tube", "result": 8}
    tube.put({"do": "raise"})
    wait_until(lambda: (view := tube.info()) is not None and view.buried == 1, "it is buried")

    view = tube.info()
    assert view is not None
    assert (view.ready, view.taken) == (0, 0)


def test_a_body_that_cannot_be_read_is_a_failure(worker: RunningWorker) -> None:
    jobs = worker.queues.jobs("w.jobs")
    id = jobs.add(b"{no json")

    wait_until(lambda: [it.message_id for it in jobs.peek(state=State.DEAD)] == [id.encode()], id)

    assert jobs.peek(state=State.DEAD)[0].reason.startswith(
        b"BadArgument: the body is not valid JSON"
    )
    jobs.purge()


def test_the_health_check_tells_of_each_process(worker: RunningWorker) -> None:
    url = worker.heard("serving health and metrics on ")

    def told() -> dict[str, Any]:
        with urllib.request.urlopen(f"{url}/healthz", timeout=TIMEOUT_S) as reply:
            found: dict[str, Any] = json.load(reply)
            return found

    # A process that has just begun is told of before, or after, the log has its number.
    wait_until(lambda: told()["processes"][0]["pid"] == worker.pids()[-1], "it is the last one")
    assert told()["healthy"] is True
    assert told()["processes"][0]["trouble"] == ""

    def asked(path: str) -> dict[str, Any]:
        with urllib.request.urlopen(url + path, timeout=TIMEOUT_S) as reply:
            found: dict[str, Any] = json.load(reply)
            return found

    assert asked("/livez") == {"alive": True}
    assert asked("/readyz") == {"ready": True}
    paths = asked("/")["paths"]
    assert sorted(paths) == ["/healthz", "/livez", "/metrics", "/readyz"]
