"""Make sure that no press of Ctrl-C is lost while readline uses the terminal.

Called by   cli/prompt.py, around the prompt.
Calls       nothing.

input() sees a signal only if it comes while it waits for a key. Two moments are left:

    while a key is handled     the signal is not seen until the next line is complete
    just before a key is read  the terminal drops the key, because of Ctrl-C, and readline waits for
                               another one with signals put off

So the terminal drops nothing (NOFLSH) until the press is handled, and a thread that sees every
press sends another signal until the press is handled.

Not here: the effect of a press (cli/line.py, cli/prompt.py).
"""

from __future__ import annotations

import signal
import socket
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

_NUDGE: Final = signal.SIGUSR1
_NUDGES_MOST: Final = 100  # several presses may have been handled as one
_NUDGE_S: Final = 0.02


class _Presses:
    """Counts the presses that the main thread has handled."""

    def __init__(self) -> None:
        self._main_thread = threading.get_ident()
        self._handled = 0
        self._pause = threading.Event()  # never set

    def handle(self, number: int, frame: FrameType | None) -> NoReturn:
        self._handled += 1
        raise KeyboardInterrupt

    def listen(self, signals: socket.socket) -> None:
        """After each press, wake the main thread until it has handled the press. Ends when the
        socket is closed."""
        seen = 0
        while data := signals.recv(1024):
            seen += data.count(signal.SIGINT)
            for _ in range(_NUDGES_MOST):
                if self._handled >= seen:
                    break
                signal.pthread_kill(self._main_thread, _NUDGE)
                self._pause.wait(_NUDGE_S)
            seen = self._handled


@contextmanager
def presses_heard(terminal: int) -> Iterator[None]:
    """Within this block, each press of Ctrl-C raises KeyboardInterrupt, whatever input() does.
    `terminal` is the file that input() reads. Only for the main thread."""
    presses = _Presses()
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    listener = threading.Thread(target=presses.listen, args=(ours,), daemon=True)
    settings = termios.tcgetattr(terminal)
    keeping = [*settings[:3], settings[3] | termios.NOFLSH, *settings[4:]]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, _NUDGE)}
    earlier = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    signal.signal(_NUDGE, _nothing)
    signal.signal(signal.SIGINT, presses.handle)
    listener.start()
    termios.tcsetattr(terminal, termios.TCSANOW, keeping)
    try:
        yield
    finally:
        signal.set_wakeup_fd(earlier)
        theirs.close()
        listener.join()
        ours.close()
        for number, handler in handlers.items():
            signal.signal(number, handler)
        termios.tcsetattr(terminal, termios.TCSANOW, settings)


def drop_typed(terminal: int) -> None:
    """Drop the input that was typed before a press, as the terminal would do."""
    termios.tcflush(terminal, termios.TCIFLUSH)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Ignore the signal. It has interrupted the wait."""
