"""Show a progress bar on stderr, at a terminal.

Called by   cli/queue.py, cli/message.py, cli/bench.py.
Calls       rich.

Not here: the output of the command (cli/shown.py).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from quinque.cli.shown import is_terminal

# Shorter work has no bar, and rich, which draws it, is not imported.
_LONG_S: Final = 0.5


@contextmanager
def telling(verb: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of further steps done, of `total` if that is known."""
    if not is_terminal(sys.stderr):
        yield lambda some: None
        return
    began_s, done = time.monotonic(), 0
    advance: Callable[[int], None] | None = None
    with ExitStack() as drawn:

        def tell(some: int) -> None:
            nonlocal advance, done
            done += some
            if advance is not None:
                advance(some)
            elif time.monotonic() - began_s > _LONG_S:
                advance = drawn.enter_context(_bar(verb, total))
                advance(done)

        yield tell


@contextmanager
def _bar(verb: str, total: int | None) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(verb, total=total)
        yield lambda some: bars.advance(bar, some)
