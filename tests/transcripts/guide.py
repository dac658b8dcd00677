"""A reader follows a guide from top to bottom, on one broker, and sees what the guide shows.

Called by   test_guides.py, tests/spark/cluster_page.py.
Calls       a shell, and `python` for the code of the page.

A block of Python is saved if the text says so, and otherwise run here: `f()  # 1` must return 1.
Commands are run in a shell, and those in RUNS_ON in a terminal of their own until the end.

Not here: sessions at the prompt (test_pages.py).
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.servers.patience import PATIENCE_S, wait_until
from tests.transcripts.redis_cli import PROMPT

STEP: Final = re.compile(
    r"^```(?P<kind>\w+)\n(?P<block>.*?)^```$|[Ss]ave (?:this|it) as `(?P<new>[\w.]+)`",
    re.MULTILINE | re.DOTALL,
)
RUNS_ON: Final = ("quinque work ", "quinque spark spark-class ")
SAID: Final = re.compile(r"  # (.+)$", re.MULTILINE)
VARYING: Final = re.compile(r"D-[0-9a-f]{8}-[\w+/]{24}-05a1|\b\d[\d.,]*s?\b")


class Guide:
    """`here` are words of the page and what they are in this test; commands in `done` are not run:
    the test has done what they do."""

    def __init__(
        self, folder: Path, url: str, here: Mapping[str, str], done: tuple[str, ...] = ()
    ) -> None:
        self.seen = 0
        self._folder = folder
        self._here = here
        self._done = done
        self._names: dict[str, Any] = {}
        self._saved_as = ""
        self._running: list[subprocess.Popen[bytes]] = []
        own = {k: v for k, v in os.environ.items() if not k.startswith(("QUINQUE_", "PYTEST_"))}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._variables = own | {"PATH": path, "QUINQUE_URL": url, "COLUMNS": "80"}

    def follow(self, text: str) -> None:
        for step in STEP.finditer(text):
            if step["new"]:
                self._saved_as = step["new"]
            elif step["kind"] == "python" and self._saved_as:
                (self._folder / self._saved_as).write_text(self._mine(step["block"]))
                self._saved_as = ""
            elif step["kind"] == "python":
                self._run_code(self._mine(step["block"]))
            elif not step["block"].startswith(PROMPT):
                for part in re.split(r"^\$ ", step["block"], flags=re.MULTILINE)[1:]:
                    self._type(*part.split("\n", 1))

    def leave(self) -> None:
        for process in reversed(self._running):
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)
        if "queues" in self._names:
            self._names["queues"].close()

    def _run_code(self, text: str) -> None:
        for statement in ast.parse(text).body:
            source = ast.unparse(statement)
            lines = text.splitlines()[statement.lineno - 1 : statement.end_lineno]
            said = SAID.search("\n".join(lines))
            printed = io.StringIO()
            if isinstance(statement, ast.Expr) and said:
                assert repr(eval(source, self._names)) == said[1], source
            else:
                with contextlib.redirect_stdout(printed):
                    exec(compile(source, "guide", "exec"), self._names)
                assert printed.getvalue() == (f"{said[1]}\n" if said else ""), source
            self.seen += said is not None

    def _type(self, command: str, shown: str) -> None:
        if command.startswith(self._done):
            return
        words = ["bash", "-c", f"exec {self._mine(command)}"]
        log = self._folder / f"log{self.seen}"
        with log.open("wb") as to:
            process = (
                subprocess.Popen(
                    words,
                    cwd=self._folder,
                    env=self._variables,
                    stdout=to,
                    stderr=subprocess.STDOUT,
                )
                if command.startswith(RUNS_ON)
                else None
            )
        if process:
            self._running.append(process)
            for line in shown.splitlines():
                wait_until(lambda: self._matches(f"…{line}…", log.read_text()), line)  # noqa: B023
        else:
            ended = subprocess.run(
                words, cwd=self._folder, env=self._variables, capture_output=True, text=True
            )
            assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
            assert self._matches(shown, ended.stdout), f"{command} printed {ended.stdout}"
        self.seen += 1

    def _mine(self, text: str) -> str:
        for shown, mine in self._here.items():
            text = text.replace(shown, mine)
        return text

    def _matches(self, shown: str, printed: str) -> bool:
        pattern = ".*".join(re.escape(part) for part in _shape(shown).split("…"))
        return re.fullmatch(pattern, _shape(printed), re.DOTALL) is not None


@contextlib.contextmanager
def reader(
    folder: Path, port: int, here: Mapping[str, str] | None = None, done: tuple[str, ...] = ()
) -> Iterator[Guide]:
    """A reader with the broker at this port, who stops all that runs when the guide is read."""
    address = f"127.0.0.1:{port}"
    guide = Guide(folder, f"redis://{address}", {"localhost:4777": address, **(here or {})}, done)
    try:
        yield guide
    finally:
        guide.leave()


def _shape(text: str) -> str:
    """Without ids, figures and the width of columns."""
    return " ".join(VARYING.sub("0", text).split())
