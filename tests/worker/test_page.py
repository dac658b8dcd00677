"""docs/worker.md: its worker survives a kill, its programs run, its tables match the code."""

from __future__ import annotations

import inspect
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from quinque.cli.work import work
from quinque.worker import App
from quinque.worker.handlers import Settings
from tests.facts.pages import table_rows, text_of
from tests.facts.repository import ROOT
from tests.server.broker import RunningBroker
from tests.servers.patience import wait_until

PAGE = text_of(ROOT / "docs" / "worker.md")
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# It works for as long as it takes to kill it, and no longer.
SLEEP = 'time.sleep(email["seconds"])'
UNTIL_KILLED = """import os
    while email["seconds"] and not os.path.exists("killed"):
        time.sleep(0.01)"""
KILLED = PAGE.partition("\n## A worker that survives a kill\n")[2].partition("\n## ")[0]


def test_from_nothing_to_a_worker_that_survives_a_kill(
    broker: RunningBroker, tmp_path: Path
) -> None:
    app, program = (_here(block, broker) for block in PYTHON.findall(KILLED))
    assert SLEEP in app
    (tmp_path / "emails.py").write_text(app.replace(SLEEP, UNTIL_KILLED))
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-m", "quinque", "work", "emails:app"]
        worker = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
    try:
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
        _hear(tmp_path, "sent to ann@example.com")
        _hear(tmp_path, "sending to bob@example.com")
        os.kill(
            int(_hear(tmp_path, "started worker process 0 (pid ").split(")")[0]), signal.SIGKILL
        )
        _hear(tmp_path, "ended with SIGKILL")
        (tmp_path / "killed").touch()
        _hear(tmp_path, "sent to bob@example.com")
        worker.send_signal(signal.SIGINT)
        assert worker.wait(60) == 0
    finally:
        worker.kill()
        worker.wait()

    text = (tmp_path / "log").read_text()
    assert text.count("sending to bob@example.com") == 2
    assert text.count("sent to bob@example.com") == 1
    assert text.count("sent to ann@example.com") == 1


def test_the_programs_of_the_page_run(broker: RunningBroker) -> None:
    for block in PYTHON.findall(PAGE):
        exec(compile(_here(block, broker), "docs/worker.md", "exec"), {"__name__": "page"})


def test_the_table_has_every_setting_of_a_handler() -> None:
    told = [row[0] for row in table_rows(PAGE, "| Setting |")]
    named = list(inspect.signature(App.add).parameters)

    settings = [name for name in named if name not in ("self", "queue", "function")]

    assert told == [f"`{name}`" for name in settings]
    assert list(Settings.__annotations__) == settings


def test_the_table_has_every_flag_of_the_command() -> None:
    told = [row[0] for row in table_rows(PAGE, "| Flag |")]

    assert told == [f"`{it.opts[0]}`" for it in work.params if it.opts[0].startswith("--")]


def _here(block: str, broker: RunningBroker) -> str:
    """With this test's broker."""
    return block.replace("redis://localhost:4777", f"redis://127.0.0.1:{broker.port}")


def _hear(folder: Path, text: str) -> str:
    """What follows the text in the log, which comes sooner or later."""
    log = folder / "log"
    wait_until(lambda: text in log.read_text(), f"{text!r} in the log")
    return log.read_text().partition(text)[2]
