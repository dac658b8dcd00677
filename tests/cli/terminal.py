"""The command line at a terminal: a pseudo-terminal, keys that are typed, a screen that is read.

Called by   the tests beside this file.
Calls       `python -m quinque`, as users do.

Not here: commands that need no terminal (shell.py).
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from types import TracebackType
from typing import Final

from tests.servers.patience import PATIENCE_S

_CONTROLS: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
_ROWS, _COLUMNS = 40, 120
_NOT_THEIRS: Final = ("QUINQUE_", "NO_COLOR", "COLUMNS", "LINES")  # of the developer's shell


class Terminal:
    """`quinque` with these words, at a terminal. `screen` is all that it has written so far,
    without colours and movements."""

    def __init__(
        self, *words: str, python: str = sys.executable, script: str = "", **variables: str
    ) -> None:
        """With a `script`, Python runs that instead."""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
        own = {k: v for k, v in os.environ.items() if not k.startswith(_NOT_THEIRS)}
        self.process = subprocess.Popen(
            [python, *(("-c", script) if script else ("-m", "quinque")), *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**own, "TERM": "xterm", **variables},
            start_new_session=True,
            preexec_fn=_be_its_terminal,
        )
        os.close(theirs)
        self._raw = ""
        self._seen = 0

    @property
    def raw(self) -> str:
        return self._raw

    @property
    def screen(self) -> str:
        return _CONTROLS.sub("", self._raw)

    @property
    def is_echoing(self) -> bool:
        """Whether what is typed is seen, as it is before a program asks for single keys."""
        return bool(termios.tcgetattr(self._ours)[3] & termios.ECHO)

    def keeps_keys(self) -> bool:
        """Whether Ctrl-C leaves what was typed before it."""
        return bool(termios.tcgetattr(self._ours)[3] & termios.NOFLSH)

    def press(self, keys: str) -> None:
        os.write(self._ours, os.fsencode(keys))

    def wait_for(self, text: str) -> None:
        """The text is on the screen, after what was waited for before."""
        end_s = time.monotonic() + PATIENCE_S
        while (at := self.screen.find(text, self._seen)) < 0:
            assert self._read(end_s), f"{text!r} never came: {self.screen[self._seen :]!r}"
        self._seen = at + len(text)

    def end(self) -> int:
        """It ends by itself; the exit code."""
        end_s = time.monotonic() + PATIENCE_S
        while self._read(end_s):
            pass
        return self.process.wait(PATIENCE_S)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def _read(self, end_s: float) -> bool:
        """Whether more came."""
        left_s = end_s - time.monotonic()
        if left_s <= 0 or not select.select([self._ours], [], [], left_s)[0]:
            return False
        try:
            data = os.read(self._ours, 1 << 16)
        except OSError:  # nobody is at the other end any more
            return False
        self._raw += data.decode("utf-8", "replace")
        return bool(data)


def _be_its_terminal() -> None:
    """In the new process: what is its stdin is its terminal, so that Ctrl-C is a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
