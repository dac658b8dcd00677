"""The command `quinque top`: queues as they are, again and again.

Called by   cli/main.py.
Calls       cli/queue_counts.py, twice for a rate; rich, which draws.

What messages became is counted by the broker that is asked, and so are the rates: of several
brokers on one store, each tells its own.

Not here: the same for Prometheus (server/metrics.py).
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from quinque.cli.asking import asks
from quinque.cli.exit_codes import DONE, NOT_REACHED
from quinque.cli.options import span_s
from quinque.cli.queue import COLUMNS, SORTS, fields_of, sorted_by
from quinque.cli.queue_counts import Counts, QueueCounts, read_counts
from quinque.cli.shown import Output, span_text, text_of
from quinque.errors import NotDone, StoreUnavailable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from quinque.client.sync.broker import Broker

_RATES: Final = {"in_rate": "added", "out_rate": "delivered", "done_rate": "acked"}
_COLUMNS: Final = COLUMNS | {"in_rate": "in/s", "out_rate": "out/s", "done_rate": "done/s"}
_SUMMED: Final = ("ready", "leased", "delayed", "dead")
_OTHER_LINES: Final = 5  # of the screen, which are not queues


@dataclass(frozen=True)
class Look:
    """What was seen at one moment. Rates are None the first time."""

    at: datetime
    rows: list[dict[str, Any]]
    left_out: int

    def sums(self) -> dict[str, int]:
        return {name: sum(row[name] for row in self.rows) for name in _SUMMED}

    def as_json(self) -> dict[str, Any]:
        at = self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"at": at, **self.sums(), "left_out": self.left_out, "queues": self.rows}


class Watch:
    """Looks, one after the other."""

    def __init__(
        self, read: Callable[[], Counts], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._clock_s = clock_s
        self._before: dict[bytes, QueueCounts] | None = None
        self._before_s = 0.0

    def look(self, sort: str) -> Look:
        """How it is now, and what happened since the look before."""
        counts, now_s = self._read(), self._clock_s()
        rows = []
        for found in sorted_by(sort, counts.queues):
            row = fields_of(found)
            for rate, counter in _RATES.items():
                row[rate] = self._rate(found, counter, now_s)
            rows.append(row)
        self._before = {found.name: found for found in counts.queues}
        self._before_s = now_s
        return Look(datetime.now(UTC), rows, counts.left_out)

    def _rate(self, found: QueueCounts, counter: str, now_s: float) -> float | None:
        if self._before is None or now_s <= self._before_s:
            return None
        before = self._before.get(found.name)
        more: int = getattr(found, counter) - (getattr(before, counter) if before else 0)
        # Less than before: the broker was started anew.
        return round(max(0, more) / (now_s - self._before_s), 1)


@click.command()
@click.option("--every", callback=span_s, default="2s", show_default=True, metavar="TIME")
@click.option("--sort", type=click.Choice(SORTS), default="ready", show_default=True)
@click.option("--once", "is_once", is_flag=True, help="Look for --every, print, and end.")
@asks
def top(broker: Broker, out: Output, every: float, sort: str, is_once: bool) -> int:
    """Watch all queues: how much is in them, the age of the oldest, leases, dead, rates.

    At a terminal, q ends it and s sorts by the next column. With --json, a line for each look.
    """
    watch = Watch(lambda: read_counts(broker))
    if is_once or not (out.as_json or sys.stdout.isatty()):
        watch.look(sort)
        time.sleep(every)
        look = watch.look(sort)
        if out.as_json:
            out.done("", look.as_json())
        else:
            out.rows(look.rows, _COLUMNS)
        return DONE
    try:
        if not out.as_json:
            return _show(watch, _shown_url(), every, sort)
        while True:
            out.done("", watch.look(sort).as_json())
            time.sleep(every)
    except KeyboardInterrupt:  # the usual way to end it
        return DONE


def _show(watch: Watch, of: str, every: float, sort: str) -> int:
    from rich.console import Console
    from rich.live import Live

    look: Look | None = None
    with (
        _keys() as key_within,
        Live(console=Console(), screen=True, auto_refresh=False) as live,
    ):
        while True:
            try:
                look, trouble = watch.look(sort), ""
            except (NotDone, StoreUnavailable) as error:
                if look is None:
                    live.stop()
                    click.secho(f"quinque: {error}", fg="red", err=True)
                    return NOT_REACHED
                trouble = str(error)
            live.update(_drawn(look, of, sort, trouble, live.console.height), refresh=True)
            match key_within(every):
                case "q":
                    return DONE
                case "s":
                    sort = SORTS[(SORTS.index(sort) + 1) % len(SORTS)]


def _shown_url() -> str:
    """The broker that was asked for, without who asks."""
    from quinque.client.addresses import parse_broker_url

    return parse_broker_url(click.get_current_context().params["url"]).shown


def _drawn(look: Look, of: str, sort: str, trouble: str, height: int) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    sums = ", ".join(f"{number:,} {name}" for name, number in look.sums().items())
    title = Text(f"{of}  {look.at:%H:%M:%S}  {len(look.rows):,} queues: {sums}", style="bold")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, head in _COLUMNS.items():
        style = "bold underline" if head == sort or name == sort else ""
        is_text = name in ("name", "family")
        table.add_column(
            Text(head, style=style), justify="left" if is_text else "right", no_wrap=True
        )
    shown = look.rows[: max(1, height - _OTHER_LINES)]
    for row in shown:
        table.add_row(*(_cell(name, row[name]) for name in _COLUMNS))
    hidden = len(look.rows) - len(shown) + look.left_out
    below = f"{hidden:,} more queues; " if hidden else ""
    last = Text(trouble, style="red") if trouble else Text(f"{below}q ends, s sorts", style="dim")
    return Group(title, "", table, "", last)


def _cell(name: str, value: Any) -> Any:
    from rich.text import Text

    if value is None:
        return Text("–", style="dim")
    if isinstance(value, bytes | str):
        return Text(text_of(value))
    if name == "oldest_s":
        return Text(span_text(value))
    text = f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
    return Text(text, style="red" if name == "dead" and value else "" if value else "dim")


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """What tells of a key within so many seconds, without Enter; none where nobody types."""
    if not sys.stdin.isatty():
        yield _no_key
        return
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    try:
        yield (
            lambda span_s: (
                os.read(keyboard, 1).decode("latin-1")
                if select.select([keyboard], [], [], span_s)[0]
                else ""
            )
        )
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _no_key(span_s: float) -> str:
    time.sleep(span_s)
    return ""
