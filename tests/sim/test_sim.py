"""A few seeds of the simulator break no promise, and every deliberate bug is found."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.model.effort import EFFORT
from tests.sim.bugs import BUGS

RUNS = 12 * max(1, EFFORT)


def played(*flags: str) -> str:
    """What a run prints. It has no variables of this process that change one."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim", *flags],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-20_000:]
    return done.stdout


def test_no_seed_breaks_a_promise() -> None:
    assert f"{RUNS} runs, 0 failed" in played("--runs", f"{RUNS}", "--seconds", "15")


def test_a_seed_is_one_run() -> None:
    first, second = played("--seed", "3"), played("--seed", "3")

    assert first.splitlines()[0] == second.splitlines()[0]
    assert first.startswith("seed 3: ok, ")


@pytest.mark.parametrize("bug", BUGS)
def test_a_deliberate_bug_is_found(bug: str) -> None:
    said = played("--bug", bug, "--runs", "10", "--seconds", "20")

    assert f"found {bug} with seed " in said
    assert BUGS[bug].found_by in said
