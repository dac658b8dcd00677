"""The demo, as `make demo` runs it."""

from __future__ import annotations

import subprocess
import sys

from tests.transcripts.notation import ROOT

DEMO = ROOT / "demo" / "demo.py"


def test_every_check_of_the_demo_holds() -> None:
    done = subprocess.run([sys.executable, DEMO], capture_output=True, text=True, timeout=600)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "No stored event was lost, and no acked event was delivered again." in done.stdout
