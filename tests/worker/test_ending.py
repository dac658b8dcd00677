"""How a worker ends: what is in hand is finished, or given back; and what it says meanwhile."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack
from importlib import invalidate_caches
from pathlib import Path

import pytest
from click.testing import CliRunner

import quinque
from quinque.cli.main import main
from quinque.errors import BadSetting
from quinque.model.states import State
from quinque.model.work_ops import QueueView, WorkView
from quinque.worker.health import CONNECTIONS_MOST, Health, HealthPort
from quinque.worker.process import ENDED, FAILED, find_app
from quinque.worker.supervisor import Asked, Supervisor
from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import TIMEOUT_S
from tests.servers.patience import wait_until
from tests.worker.stage import RunningWorker

ONE = ("--threads", "1")
STALLED = "no progress in 1 handler of the process"


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
        worker.heard("stopping: ")
        os.kill(worker.pids()[0], signal.SIGTERM)  # as who ends all processes of a service
        worker.queues.jobs(f"{prefix}gate").add(b"go on")

        assert worker.wait() == 0
        assert worker.result(first)["result"] == {"deliveries": 1}
        assert worker.queues.jobs(f"{prefix}jobs").show(first) is None
        view = _view(worker)
        assert (view.ready, view.leased) == (len(others), 0)


@pytest.mark.parametrize("queue_of", ["jobs", "soon"])
def test_a_signal_for_a_process_that_a_handler_forked_ends_that_process_alone(
    broker: RunningBroker, prefix: str, queue_of: str
) -> None:
    with RunningWorker(broker, prefix, *ONE) as worker:
        ended = worker.result(worker.add({"do": "fork"}, queue_of))

        assert ended["result"] == -signal.SIGTERM
        assert worker.result(worker.add({"do": "double", "of": 4}))["result"] == 8
        assert not any("stopping: " in line for line in worker.log)
        assert worker.stop() == 0


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
        # Nothing failed, and the next worker has it for the first time.
        assert (shown.nacks, shown.requeues, shown.deliveries) == (0, 0, 0)


@pytest.mark.parametrize("is_in_hand", [False, True])
def test_its_exit_code_tells_that_messages_could_not_be_given_back(
    prefix: str, tmp_path: Path, is_in_hand: bool
) -> None:
    with (
        start_broker(tmp_path) as broker,
        RunningWorker(broker, prefix, *ONE, "--deadline", "10ms") as worker,
    ):
        worker.result(worker.add({"do": "double", "of": 1}))
        if is_in_hand:
            worker.add({"do": "hang"}, retry=300)
            _is_working(worker)
        wait_until(lambda: _view(worker).leased == is_in_hand, "all others are acked")
        broker.kill()

        code = worker.stop()

    assert code == is_in_hand
    said = "cannot return all messages to the queue; they become available when their leases end"
    assert any(said in line for line in worker.log) == is_in_hand
    assert any("handlers did not finish" in line for line in worker.log) == is_in_hand


PROGRAM = """
import os, signal, sys, threading
from quinque.worker import App

def of_the_program(number, frame):
    os.write(1, b"heard\\n")
    os._exit(0)

url, queue, has_own = sys.argv[1:]
if has_own == "True":
    signal.signal(signal.SIGTERM, of_the_program)
app = App(url)
app.add(queue, lambda body: os.kill(os.getpid(), signal.SIGTERM))
print(app.run(), flush=True)
os.kill(os.getpid(), signal.SIGTERM)
threading.Event().wait(60)
"""


@pytest.mark.parametrize("has_own", [False, True])
def test_when_run_has_returned_signals_do_what_they_did_before(
    broker: RunningBroker, queue: str, has_own: bool
) -> None:
    url = f"redis://127.0.0.1:{broker.port}"
    with quinque.connect(url) as queues:
        queues.jobs(queue).add(b"end")
    words = [sys.executable, "-c", PROGRAM, url, queue, str(has_own)]

    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    ended = ("True\nheard\n", 0) if has_own else ("True\n", -signal.SIGTERM)
    assert (ran.stdout, ran.returncode) == ended, ran.stderr


def test_on_a_second_signal_it_ends_at_once(broker: RunningBroker, prefix: str) -> None:
    with RunningWorker(broker, prefix, *ONE, "--deadline", "1h") as worker:
        _wait(worker)
        _is_working(worker)

        worker.process.send_signal(signal.SIGINT)
        worker.heard("stopping: ")

        assert worker.stop() == 1
        assert _view(worker).leased == 1


def test_what_kills_processes_is_put_aside_where_the_worker_counts(
    broker: RunningBroker, prefix: str
) -> None:
    die = {"do": "die"}
    id = "long" * 100  # it has no room on the board, and is counted all the same
    with RunningWorker(broker, prefix, *ONE, "--processes", "2", lease_s=1) as worker:
        tube = worker.queues.tube(f"{prefix}tube", codec="json")
        tube.make("fifottl")
        tube.put(die)
        wait_until(lambda: (it := tube.info()) is not None and it.buried, "it is buried")
        # Once for each of its two deliveries, though it is ready in the moment that one has died.
        wait_until(
            lambda: sum("ended with SIGKILL" in line for line in worker.log) == 2, "two have died"
        )
        worker.queues.items(f"{prefix}items", codec="json").add(id, die)
        item = worker.dead_letter("items", id)
        pushed = worker.queues.reliable(f"{prefix}reliable", codec="json").push(die)
        element = worker.dead_letter("reliable", pushed)

    assert item["traceback"] == (
        "NeverFinished: delivered 2 times without a result: the worker processes died or lost the"
        " message"
    )
    assert element["traceback"].startswith("NeverFinished: ")


def test_who_has_work_and_finishes_none_is_unhealthy(
    broker: RunningBroker, prefix: str, tmp_path: Path
) -> None:
    file = tmp_path / "alive"
    flags = ("--stalled-after", "100ms", "--http-listen", "127.0.0.1:0", "--alive-file", str(file))
    with RunningWorker(broker, prefix, *ONE, *flags) as worker:
        url = worker.heard("serving health and metrics on ")
        wait_until(lambda: _health(url)[0] == 200 and file.exists(), "it is healthy")

        # One is worked, for as long as it takes, and another waits.
        ids = [_wait(worker), _wait(worker)]
        wait_until(
            lambda: _health(url)[1]["processes"][0]["trouble"] == STALLED, "it is not healthy"
        )
        assert _health(url)[0] == 503
        for _ in ids:
            worker.queues.jobs(f"{prefix}gate").add(b"go on")

        assert [worker.result(id)["result"] for id in ids] == [{"deliveries": 1}] * 2
        wait_until(lambda: _health(url)[0] == 200, "it is healthy again")
        assert worker.stop() == 0
        assert not file.exists()


def test_its_processes_end_when_the_supervisor_is_killed(
    broker: RunningBroker, prefix: str
) -> None:
    with RunningWorker(broker, prefix) as worker:
        worker.result(worker.add({"do": "double", "of": 1}))
        pid = int(worker.heard("started worker process 0 (pid ").rstrip(")"))

        worker.stop(signal.SIGKILL)

        wait_until(lambda: not _runs(pid), "the process has ended")


def test_an_app_that_is_not_there_is_said_at_once(broker: RunningBroker, prefix: str) -> None:
    with RunningWorker(broker, prefix, app="tests.worker.no_such_module:app") as worker:
        assert worker.wait() == 2
        worker.heard("quinque: cannot find module tests.worker.no_such_module")


@pytest.mark.parametrize(
    ("text", "spec", "said"),
    [
        ("", "apps:other", "module apps has no App named 'other'"),
        ("", "apps.py", "; write apps:app, without .py"),
        ("", "apps.py:other", "; write apps:other, without .py"),
        ("", "./apps.py:app", "'./apps.py:app' does not name an app"),
        ("1 +", "apps:app", "cannot import module apps: SyntaxError: "),
        ("import no_such", "apps:app", "apps: ModuleNotFoundError: No module named"),
        (
            "raise SystemExit('no')",
            "apps:app",
            "cannot import module apps: SystemExit: no",
        ),
    ],
)
def test_what_is_wrong_with_an_app_is_named(
    text: str, spec: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "apps.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.delitem(sys.modules, "apps", raising=False)
    invalidate_caches()

    with pytest.raises(BadSetting, match=re.escape(said)):
        find_app(spec)


@pytest.mark.parametrize("address", ["nowhere", "unix:/tmp/x", "256.0.0.1:1"])
def test_an_address_that_cannot_be_had_is_said_at_once(address: str) -> None:
    ran = CliRunner().invoke(main, ["work", "some:app", "--http-listen", address])

    assert (ran.exit_code, ran.output.startswith("quinque: ")) == (2, True)


def test_a_process_that_cannot_be_started_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    too_long = "x" * 200_000  # for an argument of a process
    asked = Asked(too_long, 1, 1, 0.0, 300.0, None, None, None)
    supervisor = Supervisor(asked, None)

    try:
        assert supervisor.look_after() == ENDED
        assert "cannot start worker process 0: " in caplog.text
        assert supervisor.measure().processes == 0
    finally:
        supervisor.close()


def test_a_process_is_started_when_there_are_files_again(caplog: pytest.LogCaptureFixture) -> None:
    supervisor = Supervisor(Asked("no_such", 1, 1, 0.0, 300.0, None, None, None), None)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            assert supervisor.look_after() == ENDED
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert "cannot start worker process 0: [Errno 24]" in caplog.text
        assert supervisor.measure().processes == 0
    finally:
        supervisor.close()


def test_its_exit_code_tells_that_a_process_died_and_none_took_its_place(
    broker: RunningBroker,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = f"redis://127.0.0.1:{broker.port}"
    for name, value in (("BROKER", url), ("PREFIX", prefix), ("LEASE", "300")):
        monkeypatch.setenv(name, value)
    supervisor = Supervisor(
        Asked("tests.worker.worked_app:app", 1, 1, 0.0, 300.0, None, None, None), None
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    try:
        with quinque.connect(url) as queues:
            jobs = queues.jobs(f"{prefix}jobs", codec="json")
            id = jobs.add({"do": "hang"}, retry=300)
            supervisor.look_after()
            wait_until(lambda: supervisor.tell()[0][2].held, "it is worked")
            [(pid, _, _)] = supervisor.tell()
            os.kill(pid, signal.SIGKILL)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:

                def is_dead() -> bool:
                    return supervisor.look_after() == ENDED and not supervisor.tell()[0][0]

                wait_until(is_dead, "the process is dead, and none takes its place")
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            code = supervisor._end()
            state = _state(jobs.show(id))
    finally:
        supervisor.close()

    assert (code, state) == (FAILED, State.LEASED)
    assert "cannot return 1 message of processes that died to the queue" in caplog.text


def test_a_probe_is_answered_however_many_connections_are_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("quinque.worker.health._ASKING_S", 600.0)
    port = HealthPort(Health(list, 300.0, None), None, ("127.0.0.1", 0))
    host, number = port.url.removeprefix("http://").split(":")
    threads = threading.active_count()

    with ExitStack() as silent:
        silent.callback(port.close)
        first, *_ = (
            silent.enter_context(socket.create_connection((host, int(number)), TIMEOUT_S))
            for _ in range(CONNECTIONS_MOST + 1)
        )
        assert first.recv(1) == b""  # its place was needed
        assert _health(port.url)[0] == 200
        wait_until(lambda: threading.active_count() <= threads + CONNECTIONS_MOST, "threads ended")


def _wait(worker: RunningWorker) -> str:
    return worker.add({"do": "wait", "for": f"{worker.prefix}gate"}, retry=300)


def _view(worker: RunningWorker) -> QueueView:
    view = worker.queues.jobs(f"{worker.prefix}jobs").info()
    assert view is not None
    return view


def _state(job: WorkView | None) -> State | None:
    return None if job is None else job.state


def _is_working(worker: RunningWorker) -> None:
    wait_until(lambda: _view(worker).leased == 1, "one is worked")


def _health(url: str) -> tuple[int, dict[str, list[dict[str, object]]]]:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=30) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, json.load(refusal)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # Nobody waits for an orphan in a container: it has ended though it is listed.
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
