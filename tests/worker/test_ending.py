"""How a worker ends: what is in hand is finished, or given back; and what it says meanwhile."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from quinque.cli.main import main
from quinque.model.work_ops import QueueView
from tests.server.broker import RunningBroker
from tests.servers.patience import wait_until
from tests.worker.stage import RunningWorker

ONE = ("--threads", "1")


@pytest.fixture
def prefix(queue: str) -> str:
    return f"{queue}."


def test_on_sigterm_what_runs_is_finished_and_the_rest_is_left(
    broker: RunningBroker, prefix: str
) -> None:
    with RunningWorker(broker, prefix, *ONE) as worker:
        first = _wait(worker)
        others = [_wait(worker), _wait(worker)]
        _is_working(worker)

        worker.process.send_signal(signal.SIGTERM)
        worker.heard("ending: ")
        worker.queues.jobs(f"{prefix}gate").add(b"go on")

        assert worker.wait() == 0
        assert worker.result(first)["result"] == {"deliveries": 1}
        assert worker.queues.jobs(f"{prefix}jobs").show(first) is None
        view = _view(worker)
        assert (view.ready, view.leased) == (len(others), 0)


def test_when_the_deadline_is_over_what_runs_is_given_back(
    broker: RunningBroker, prefix: str
) -> None:
    with RunningWorker(broker, prefix, *ONE, "--deadline", "10ms") as worker:
        id = _wait(worker)
        _is_working(worker)

        assert worker.stop() == 0

        view = _view(worker)
        assert (view.ready, view.leased) == (1, 0)
        shown = worker.queues.jobs(f"{prefix}jobs").show(id)
        assert shown is not None
        assert shown.nacks == 0  # nothing failed


def test_on_a_second_signal_it_ends_at_once(broker: RunningBroker, prefix: str) -> None:
    with RunningWorker(broker, prefix, *ONE, "--deadline", "1h") as worker:
        _wait(worker)
        _is_working(worker)

        worker.process.send_signal(signal.SIGINT)
        worker.heard("ending: ")

        assert worker.stop() == 1
        assert _view(worker).leased == 1


def test_who_has_work_and_finishes_none_is_unhealthy(
    broker: RunningBroker, prefix: str, tmp_path: Path
) -> None:
    file = tmp_path / "alive"
    flags = ("--stalled-after", "100ms", "--http-listen", "127.0.0.1:0", "--alive-file", str(file))
    with RunningWorker(broker, prefix, *ONE, *flags) as worker:
        url = worker.heard("health is told at ")
        wait_until(lambda: _health(url)[0] == 200 and file.exists(), "it is healthy")

        # One is worked, for as long as it takes, and another waits.
        ids = [_wait(worker), _wait(worker)]
        wait_until(lambda: _health(url)[0] == 503, "it is not healthy")
        _, told = _health(url)
        for _ in ids:
            worker.queues.jobs(f"{prefix}gate").add(b"go on")

        assert told["processes"][0]["trouble"] == "1 handlers have work and finish none"
        assert [worker.result(id)["result"] for id in ids] == [{"deliveries": 1}] * 2
        wait_until(lambda: _health(url)[0] == 200, "it is healthy again")
        assert worker.stop() == 0
        assert not file.exists()


def test_an_app_that_is_not_there_is_said_at_once(broker: RunningBroker, prefix: str) -> None:
    with RunningWorker(broker, prefix, app="tests.worker.no_such_module:app") as worker:
        assert worker.wait() == 2
        worker.heard("quinque: there is no module tests.worker.no_such_module")
    with RunningWorker(broker, prefix, app="tests.worker.stage:app") as worker:
        assert worker.wait() == 2
        worker.heard("quinque: tests.worker.stage has no app 'app'")


@pytest.mark.parametrize("address", ["nowhere", "unix:/tmp/x", "256.0.0.1:1"])
def test_an_address_that_cannot_be_had_is_said_at_once(address: str) -> None:
    ran = CliRunner().invoke(main, ["work", "some:app", "--http-listen", address])

    assert (ran.exit_code, ran.output.startswith("quinque: ")) == (2, True)


def _wait(worker: RunningWorker) -> str:
    return worker.add({"do": "wait", "for": f"{worker.prefix}gate"}, retry=300)


def _view(worker: RunningWorker) -> QueueView:
    view = worker.queues.jobs(f"{worker.prefix}jobs").info()
    assert view is not None
    return view


def _is_working(worker: RunningWorker) -> None:
    wait_until(lambda: _view(worker).leased == 1, "one is worked")


def _health(url: str) -> tuple[int, dict[str, list[dict[str, object]]]]:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=30) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, json.load(refusal)
