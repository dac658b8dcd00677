"""The pipeline says that Java has ended, and keeps its log.

Only the session is a stand-in: to start Spark takes ten seconds.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from quinque.cli.pipeline_run import Asked, run_job


class _Ended:
    """A session whose Java process no longer runs, as pyspark behaves then."""

    @property
    def sparkContext(self) -> Any:  # noqa: N802
        raise ConnectionRefusedError(111, "Connection refused")

    def stop(self) -> None:
        raise ConnectionRefusedError(111, "Connection refused")


def _fail(spark: Any, tell: Any) -> dict[str, Any]:
    return {"id": spark.sparkContext.applicationId}


def _interrupt(spark: Any, tell: Any) -> dict[str, Any]:
    raise KeyboardInterrupt


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.setattr("quinque.spark.session.build_session", lambda *said: _Ended())
    return Asked(
        master="local[1]",
        memory="1g",
        settings={},
        as_json=False,
        url=None,
        username=None,
        password=None,
        ca=None,
        certificate=None,
        key=None,
    )


def test_a_job_whose_java_has_ended_says_so(
    asked: Asked, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_job(asked, _fail) == 1

    said = capfd.readouterr().err
    assert said.startswith("quinque: the Java process of Spark has ended\n")
    log = re.search(r"the log of Spark is in (\S+)", said)
    assert log is not None
    Path(log[1]).unlink()


def test_an_interruption_that_also_ends_java_is_one_line(
    asked: Asked, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_job(asked, _interrupt) == 1

    assert capfd.readouterr().err == "quinque: interrupted\n"
