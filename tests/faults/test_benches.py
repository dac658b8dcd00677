"""The benches run, all of them, and give every figure that has a target."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.harness import ROOT
from bench.summary import TARGETS


def test_a_quick_run_gives_every_figure(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    command = [sys.executable, "-m", "bench", "--quick", "--python", "--json", str(results)]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    (build,) = json.loads(results.read_text()).values()
    assert set(build["figures"]) == {target.figure for target in TARGETS}


def test_a_bench_that_is_not_there_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "nothing"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "there is no bench nothing; there are server, jobs, redis_store" in done.stderr
