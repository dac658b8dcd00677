"""The demo, as `make demo` runs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.transcripts.notation import ROOT

SENTENCES = {
    "demo.families": "All five families work, over both protocols.",
    "demo.demo": "No stored event was lost, and no acked event was delivered again.",
}


@pytest.mark.parametrize("module", SENTENCES)
def test_every_check_of_the_demo_holds(module: str) -> None:
    words = [sys.executable, "-m", module]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, cwd=ROOT)

    assert done.returncode == 0, done.stdout + done.stderr
    assert SENTENCES[module] in done.stdout
