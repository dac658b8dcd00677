"""A reader follows the README from top to bottom and sees what it shows.

There is one shell, one broker and one working directory, with a virtual environment into which the
package is really installed. Two things differ from a reader's machine: the broker listens on a free
port, and Spark is not installed again but taken from the environment of the tests.

Ids, process ids, ages and times differ from run to run. An id that the README shows twice must be
the same both times.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests.cli.terminal import Terminal
from tests.facts.repository import ROOT
from tests.servers.patience import PATIENCE_S, wait_until
from tests.servers.ports import ReservedPort
from tests.transcripts.redis_cli import PROMPT

README: Final = ROOT / "README.md"

# What a reader does: a block of code, or a step that a sentence tells.
STEP: Final = re.compile(
    r"^```(?P<kind>\w+)\n(?P<block>.*?)^```$"
    r"|`(?P<run>[^`]+)` prints\s`(?P<out>[^`]+)`"
    r"|[Ss]ave (?:this|it) as `(?P<new>[\w.]+)`"
    r"|Fix the handler in `(?P<fixed>[\w.]+)`"
    r"|(?P<restart>Stop the worker with Ctrl-C and start it again)"
    r"|The worker prints `(?P<printed>[^`]+)`"
    r"|(?P<spark>`pip install ~/quinque'\[spark\]'`)",
    re.MULTILINE | re.DOTALL,
)
RUNS_ON: Final = ("quinque serve", "quinque work ")  # in a terminal of its own
TOOK: Final = re.compile(r"^\([0-9.]+s\)$", re.MULTILINE)
VARYING: Final = re.compile(
    r"(?P<id>D-[0-9a-f]{8}-[\w+/]{24}-05a1|\b[0-9]{16}\b)"
    r"|(?P<pid>\bpid [0-9]+)"
    r"|(?P<age>\b[0-9.]+s\b)"
    r"|(?P<any>…)"
)


def test_following_the_readme_shows_what_it_says(reader: Reader) -> None:
    reader.follow(README.read_text(encoding="utf-8"))

    assert reader.done.count("quinque work emails:app") == 2
    assert {"quinque serve", "quinque dead redrive emails", "python first.py", "lake.py"} <= set(
        reader.done
    )


def test_the_readme_is_short_and_has_two_tables() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()

    assert len(lines) <= 200
    assert sum(line.startswith("|---") for line in lines) == 2


class Reader:
    def __init__(self, folder: Path) -> None:
        self.done: list[str] = []
        self._folder = folder
        self._port = ReservedPort()
        self._ids: dict[str, str] = {}  # of the README: those of this run
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._saved_as = ""
        (folder / "home").mkdir()
        (folder / "home" / "quinque").symlink_to(ROOT)
        self._here = folder / "here"
        self._here.mkdir()
        own = {k: v for k, v in os.environ.items() if not k.startswith(("QUINQUE_", "PYTHON"))}
        address = f"127.0.0.1:{self._port.number}"
        self._variables = own | {
            "HOME": str(folder / "home"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "QUINQUE_LISTEN": address,
            "QUINQUE_URL": f"redis://{address}",
        }
        with (folder / "errors").open("wb") as errors:
            self._shell = subprocess.Popen(
                ["bash"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
                cwd=self._here,
                env=self._variables,
            )

    def follow(self, text: str) -> None:
        """Do all that the text says, in its order."""
        for step in STEP.finditer(text):
            if step["new"] or step["fixed"]:
                self._saved_as = step["new"] or step["fixed"]
            elif step["restart"]:
                self._restart_worker()
            elif step["printed"]:
                self._wait_for_line("quinque work emails:app", step["printed"])
            elif step["run"]:
                self._type_all(f"$ {step['run']}\n{step['out']}\n")
            elif step["spark"]:
                self._add_spark()
            elif step["kind"] == "python":
                self._save(step["block"])
            else:
                self._type_all(step["block"])

    def leave(self) -> None:
        for process in self._running.values():
            process.send_signal(signal.SIGINT)
        codes = [process.wait(PATIENCE_S) for process in self._running.values()]
        self._shell.communicate()
        self._port.close()
        assert set(codes) <= {0}

    def _save(self, block: str) -> None:
        """A new file; or the function of that name in the file is this one."""
        file = self._here / self._saved_as
        before = file.read_text() if file.exists() else ""
        kept = before.partition(block.splitlines()[0])[0]
        file.write_text(kept + self._mine(block))
        self.done.append(file.name)

    def _type_all(self, block: str) -> None:
        if block.startswith(PROMPT):
            self._at_the_prompt(block)
            return
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            if command.startswith(RUNS_ON):
                self._start(command)
                for line in shown.splitlines():
                    self._wait_for_line(command, line)
            elif command.startswith("quinque dead ls"):
                # The README does not say for how long the reader looks at the worker's errors.
                wait_until(lambda: self._matches(shown, self._run(command)), f"{shown} as shown")  # noqa: B023
            else:
                answer = self._run(command)
                assert self._matches(shown, answer), f"{command} printed {answer}, not {shown}"
            self.done.append(command)

    def _run(self, command: str) -> str:
        """What the command prints in the reader's shell."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{self._mine(command)}\ncode=$?; echo; echo end $code\n")
        lines: list[str] = []
        while not re.fullmatch(r"end \d+\n", line := self._shell.stdout.readline()):
            lines.append(line)
        assert line == "end 0\n", f"{command}: {(self._folder / 'errors').read_text()}"
        return "".join(lines)

    def _start(self, command: str) -> None:
        """The command runs in another terminal of the reader's."""
        log = (self._here / f".{command.split()[1]}.log").open("ab")
        self._running[command] = subprocess.Popen(
            ["bash", "-c", f". venv/bin/activate; exec {command}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=self._here,
            env=self._variables,
        )
        log.close()

    def _wait_for_line(self, command: str, shown: str) -> None:
        log = self._here / f".{command.split()[1]}.log"
        pattern = re.compile(self._pattern(shown))
        wait_until(
            lambda: any(pattern.search(line) for line in _lines(log)), f"{shown!r} from {command}"
        )

    def _restart_worker(self) -> None:
        command = "quinque work emails:app"
        worker = self._running.pop(command)
        worker.send_signal(signal.SIGINT)
        assert worker.wait(PATIENCE_S) == 0
        self._start(command)
        self.done.append(command)

    def _at_the_prompt(self, block: str) -> None:
        python = str(self._here / "venv" / "bin" / "python")
        with Terminal("cli", python=python, **self._variables) as terminal:
            prompt = self._mine(PROMPT)
            terminal.wait_for(prompt)
            for part in block.split(PROMPT)[1:]:
                typed, _, shown = part.partition("\n")
                before = len(terminal.screen)
                terminal.press(self._mine(typed) + "\r")
                terminal.wait_for(prompt)
                # The screen has what was typed, the reply, and the next prompt.
                answer = terminal.screen[before:].partition("\n")[2].rpartition(prompt)[0]
                assert self._matches(shown, answer), f"{typed} printed {answer}, not {shown}"
                self.done.append(typed)

    def _add_spark(self) -> None:
        """What that command would bring, from where it is installed already."""
        folder = self._here / "venv" / "lib" / f"python{sysconfig.get_python_version()}"
        [installed] = _folders("pyspark")
        (folder / "site-packages" / "spark.pth").write_text(f"{Path(installed).parent}\n")

    def _mine(self, typed: str) -> str:
        """As this reader has to type it."""
        for shown, mine in self._ids.items():
            typed = typed.replace(shown, mine)
        return typed.replace("4777", str(self._port.number))

    def _matches(self, shown: str, answer: str) -> bool:
        """Whether it is as shown; ids that are shown for the first time are those from now on."""
        # On a busy machine any command may take so long that the prompt says how long.
        shown, answer = TOOK.sub("", shown), TOOK.sub("", answer)
        found = re.fullmatch(self._pattern(shown), " ".join(answer.split()))
        if found is None:
            return False
        ids = dict.fromkeys(match["id"] for match in VARYING.finditer(shown) if match["id"])
        new = [each for each in ids if each not in self._ids]
        self._ids |= {each: found[f"id{number}"] for number, each in enumerate(new)}
        return True

    def _pattern(self, shown: str) -> str:
        pattern, at = "", 0
        new: list[str] = []
        shown = " ".join(self._mine(shown).split())
        for match in VARYING.finditer(shown):
            pattern += re.escape(shown[at : match.start()])
            at = match.end()
            if match["any"]:
                pattern += ".*"
            elif not match["id"]:
                pattern += re.escape(re.sub(r"[0-9.]+", "0", match[0])).replace("0", "[0-9.]+")
            elif match[0] in self._ids.values():
                pattern += re.escape(match[0])
            elif match[0] in new:
                pattern += f"(?P=id{new.index(match[0])})"
            else:
                pattern += f'(?P<id{len(new)}>[^ "]+)'
                new.append(match[0])
        return pattern + re.escape(shown[at:])


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    try:
        yield reader
    finally:
        reader.leave()


def _lines(log: Path) -> list[str]:
    return [" ".join(line.split()) for line in log.read_text(errors="replace").splitlines()]


def _folders(package: str) -> list[str]:
    found = find_spec(package)
    assert found is not None
    return list(found.submodule_search_locations or ())
