"""One process of a worker: find the app and run its handlers until a stop is requested.

Called by   supervisor.py, as `python -m quinque.worker.process`.
Calls       runtime.py.

    0  it stopped cleanly
    1  it failed, or could not return all messages
    2 wrong usage: the app does not exist

Not here: its replacement (supervisor.py).
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Final, TextIO

from quinque.errors import BadSetting
from quinque.worker.app import App
from quinque.worker.board import Board
from quinque.worker.failures import Failures
from quinque.worker.figures import Figures
from quinque.worker.lives import Lives
from quinque.worker.runtime import run_until_signal
from quinque.worker.shared import Shared

ENDED, FAILED, ASKED_WRONGLY = 0, 1, 2
MODULE: Final = "quinque.worker.process"
_LINE: Final = f"%(asctime)s [{os.getpid()}] %(levelname)s %(name)s: %(message)s"


@dataclass(frozen=True)
class Orders:
    """The settings of a process, as JSON in its only argument. `left_by` has the salts of the
    handlers of the previous process."""

    spec: str
    seat: int
    seats: int
    board_fd: int
    failures_fd: int
    figures_fd: int
    lives_fd: int
    parent_fd: int
    left_by: list[str]
    threads: int
    deadline_s: float
    stalled_s: float

    def as_text(self) -> str:
        return json.dumps(asdict(self))


def find_app(spec: str) -> App:
    """Return the app of that name, `module:name`. Modules in the working directory are found too.

    Raises BadSetting, with the error of the module as its cause, if there is one.
    """
    module, _, name = spec.partition(":")
    if not all(part.isidentifier() for part in module.split(".")):
        raise BadSetting(f"'{spec}' does not name an app: use MODULE:APP, for example emails:app")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            bare = module.removesuffix(".py")
            hint = "" if bare == module else f"; write {bare}:{name or 'app'}, without .py"
            raise BadSetting(f"cannot find module {module} from {os.getcwd()}{hint}") from None
        why = f"{type(error).__name__}: {error}"
        raise BadSetting(f"cannot import module {module}: {why}") from error
    app = getattr(found, name or "app", None)
    if not isinstance(app, App):
        raise BadSetting(f"module {module} has no App named '{name or 'app'}'")
    return app


def main(orders: Orders) -> int:
    try:
        app = find_app(orders.spec)
        logging.basicConfig(level=logging.INFO, format=_LINE, stream=_own_stderr())
        shared = Shared(
            Board(orders.board_fd),
            Failures(orders.failures_fd),
            Figures(orders.figures_fd),
            Lives(orders.seats, orders.lives_fd),
        )
        shared.lives.begin(orders.seat)
        is_settled = run_until_signal(
            app,
            shared,
            threads=orders.threads,
            deadline_s=orders.deadline_s,
            stalled_s=orders.stalled_s,
            left_by=[bytes.fromhex(salt) for salt in orders.left_by],
            parent_fd=orders.parent_fd,
        )
    except BadSetting as error:
        if error.__cause__ is not None:
            _print_trace(error.__cause__)
        sys.stderr.write(f"quinque: {error}\n")
        return ASKED_WRONGLY
    return ENDED if is_settled else FAILED


def _own_stderr() -> TextIO:
    """Return a copy of standard error for the log, which stays open if a handler closes the
    original."""
    try:
        return os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    except OSError:  # standard error was closed before this process started
        return sys.stderr


def _print_trace(error: BaseException) -> None:
    """Print the traceback as Python does, without the frames of the worker."""
    trace = error.__traceback__
    while trace is not None and (
        trace.tb_frame.f_code.co_filename == __file__ or "importlib" in str(trace.tb_frame.f_code)
    ):
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


if __name__ == "__main__":
    code = main(Orders(**json.loads(sys.argv[1])))
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError, OSError):  # a handler may have closed it
            stream.flush()
    # Not by sys.exit, which would wait for threads whose handlers still run.
    os._exit(code)
