"""How far long work is, for people: a bar on stderr, at a terminal.

Called by   cli/queue.py, cli/message.py, cli/bench.py.
Calls       rich.

Not here: what is printed at the end (cli/shown.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def telling(verb: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """What is told that so many more are done; of `total`, if that is known."""
    if not sys.stderr.isatty():
        yield lambda some: None
        return
    # Not at the top: most commands are over before it would be imported.
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
