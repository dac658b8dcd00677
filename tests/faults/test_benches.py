"""The benches run, all but those on Spark, and give every figure that has a target; those beside a
Tarantool, or the packages of others, only where these are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.__main__ import NAMES, ON_SPARK
from bench.harness import ROOT
from bench.summary import PEERS, SPARKS, TARANTOOLS, TARGETS


def test_a_quick_run_gives_every_figure(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    names = [name for name in NAMES if name not in ON_SPARK]
    command = [sys.executable, "-m", "bench", *names, "--quick", "--python"]
    command += ["--json", str(results)]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    (build,) = json.loads(results.read_text()).values()
    wanted = {target.figure for target in TARGETS}
    elsewhere = (*SPARKS, TARANTOOLS, PEERS)
    found = {figure for figure in build["figures"] if not figure.startswith(elsewhere)}
    assert found == {figure for figure in wanted if not figure.startswith(elsewhere)}


def test_a_bench_that_is_not_there_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "nothing"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "unknown bench nothing; use one of server, jobs, reliable" in done.stderr
