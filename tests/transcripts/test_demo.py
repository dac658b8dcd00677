"""The programs that are shown: the demo as `make demo` runs it, and the README's few lines."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from demo.demo import Broker
from tests.transcripts.notation import ROOT

DEMO = ROOT / "demo" / "demo.py"
README = ROOT / "README.md"


def test_every_check_of_the_demo_holds() -> None:
    done = subprocess.run([sys.executable, DEMO], capture_output=True, text=True, timeout=600)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing stored was lost, nothing acked came back." in done.stdout


def test_the_python_of_the_readme_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown, *_ = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    broker = Broker(tmp_path)
    try:
        # Waiting for nothing at the end would take half a minute.
        run = shown.replace("4777", str(broker.port)).replace(" 30,", " 0.01,")

        exec(compile(run, README, "exec"), {})
    finally:
        broker.stop()

    assert capsys.readouterr().out == "b'two books'\n"
