"""The command `quinque top`: watch the counts of queues.

Called by   cli/main.py.
Calls       cli/queue_counts.py, twice for a rate; rich, which draws the table.

The broker that is asked reports its own rates: several brokers on one store have different ones.

Not here: the same for Prometheus (server/metrics.py).
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

import click

from quinque.cli.asking import asks
from quinque.cli.exit_codes import DONE
from quinque.cli.queue import COLUMNS, SORTS, fields_of, sorted_by
from quinque.cli.queue_counts import Counts, QueueCounts, read_counts
from quinque.cli.shown import Output, cut, is_terminal, span_text, text_of, width_of
from quinque.cli.spans import span_s
from quinque.errors import BadSetting, NotDone, StoreUnavailable, many

if TYPE_CHECKING:
    from rich.console import ConsoleDimensions, RenderableType

    from quinque.client.sync.broker import Broker

_RATES: Final = {"in_rate": "added", "out_rate": "delivered", "done_rate": "acked"}
_COLUMNS: Final = COLUMNS | {"in_rate": "in/s", "out_rate": "out/s", "done_rate": "done/s"}
_SUMMED: Final = ("ready", "leased", "delayed", "dead")
_OTHER_LINES: Final = 5  # of the screen, besides the queues
_BLINK_S: Final = 0.05  # how late a key or a reply may be noticed
_SILENT_S: Final = 3.0  # after this time `top` says that the broker does not answer
_LEAST_NAME: Final = 16  # columns of a terminal
# The columns that a narrow terminal does not show, in the order in which they are dropped.
_SPARED: Final = (
    "delayed",
    "family",
    "out_rate",
    "in_rate",
    "oldest_s",
    "dead",
    "done_rate",
    "leased",
)


@dataclass(frozen=True)
class Look:
    """The counts at one moment. Rates are None the first time."""

    at: datetime
    rows: list[dict[str, Any]]
    left_out: int

    def sums(self) -> dict[str, int]:
        return {name: sum(row[name] for row in self.rows) for name in _SUMMED}

    def as_json(self) -> dict[str, Any]:
        at = self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"at": at, **self.sums(), "left_out": self.left_out, "queues": self.rows}


class Watch:
    """Reads the counts repeatedly."""

    def __init__(
        self, read: Callable[[], Counts], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._clock_s = clock_s
        self._before: dict[bytes, QueueCounts] | None = None
        self._before_s = 0.0

    def look(self, sort: str) -> Look:
        """Return the counts now, and the rates since the last call."""
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
        # Less than before: the broker was restarted.
        return round(max(0, more) / (now_s - self._before_s), 1)


@click.command()
@click.option("--every", callback=span_s, default="2s", show_default=True, metavar="TIME",
              help="Time between updates.")  # fmt: skip
@click.option("--sort", type=click.Choice(SORTS), default="ready", show_default=True,
              help="Sort by name, or by the largest number.")  # fmt: skip
@click.option(
    "--once", "is_once", is_flag=True, help="Measure for the time of --every, print once and exit."
)
@asks
def top(broker: Broker, out: Output, every: float, sort: str, is_once: bool) -> int:
    """Watch all queues: messages, age of the oldest message, leases, dead messages and rates.

    At a terminal, press q to quit and s to sort by the next column. With --json, print one line
    for each update. Without a terminal and without --json, --once is implied.
    """
    if not every and not is_once:
        raise BadSetting("--every is 0 but must be greater than 0")
    watch = Watch(lambda: read_counts(broker))
    can_draw = is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"
    if is_once or not (out.as_json or can_draw):
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
    answer: SimpleQueue[Look | BaseException] | None = None
    next_s = time.monotonic()
    with (
        _keys() as key_within,
        Live(console=Console(), screen=True, auto_refresh=False) as live,
    ):
        while True:
            now_s = time.monotonic()
            trouble = None
            if answer is None and now_s >= next_s:
                answer, asked_s, next_s = _asked(watch, sort), now_s, now_s + every
            elif answer is not None and not answer.empty():
                seen, answer = answer.get(), None
                trouble = "" if isinstance(seen, Look) else text_of(str(seen))
                if isinstance(seen, Look):
                    look = seen
                elif look is None or not isinstance(seen, NotDone | StoreUnavailable):
                    raise seen
            elif answer is not None and now_s - asked_s > _SILENT_S:
                trouble = f"no answer for {now_s - asked_s:.0f} s"
            if look is not None and trouble is not None:
                live.update(_drawn(look, of, sort, trouble, live.console.size), refresh=True)
            match key_within(_BLINK_S if answer is not None else next_s - time.monotonic()):
                case "q":
                    return DONE
                case "s":
                    sort = SORTS[(SORTS.index(sort) + 1) % len(SORTS)]
                    next_s = now_s


def _asked(watch: Watch, sort: str) -> SimpleQueue[Look | BaseException]:
    """Request counts in a thread, so that keys work meanwhile. The returned queue gets the counts
    or the error."""
    answer: SimpleQueue[Look | BaseException] = SimpleQueue()

    def ask() -> None:
        try:
            answer.put(watch.look(sort))
        except BaseException as error:  # raised again in the main thread
            answer.put(error)

    Thread(target=ask, name="look", daemon=True).start()
    return answer


def _shown_url() -> str:
    """Return the URL of the broker without user and password."""
    from quinque.client.addresses import parse_broker_url

    return parse_broker_url(click.get_current_context().params["url"]).shown


def _drawn(look: Look, of: str, sort: str, trouble: str, size: ConsoleDimensions) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    sums = ", ".join(f"{number:,} {name}" for name, number in look.sums().items())
    title = f"{of}  {look.at:%H:%M:%S}  {many(len(look.rows), 'queue')}: {sums}"
    shown = look.rows[: max(1, size.height - _OTHER_LINES)]
    cells = {
        name: [head, *(_cell(name, row[name]) for row in shown)] for name, head in _COLUMNS.items()
    }
    table = Table(box=None, pad_edge=False, header_style="bold")
    widths = fitted(cells, size.width, "oldest_s" if sort == "oldest" else sort)
    for name, width in widths.items():
        head, *_ = cells[name]
        style = "underline" if sort in (head, name) else ""
        is_text = name in ("name", "family")
        table.add_column(Text(head, style), justify="left" if is_text else "right", width=width)
    for at, row in enumerate(shown, 1):
        table.add_row(
            *(Text(cut(cells[name][at], width), _style(name, row[name]))
              for name, width in widths.items())
        )  # fmt: skip
    hidden = len(look.rows) - len(shown) + look.left_out
    below = f"{many(hidden, 'more queue')}; " if hidden else ""
    last = Text(trouble, "red") if trouble else Text(f"{below}q: quit, s: sort", "dim")
    lines = Text(title, "bold"), last
    for line in lines:
        line.truncate(size.width, overflow="ellipsis")
    return Group(lines[0], "", table, "", lines[1])


def fitted(cells: Mapping[str, Sequence[str]], width: int, sort: str) -> dict[str, int]:
    """Return the columns that fit, and their widths. Names may be cut. Numbers may not: columns are
    dropped instead, but not the one that is sorted by."""
    widths = {name: max(map(width_of, column)) for name, column in cells.items()}
    wanted = min(widths["name"], _LEAST_NAME)
    spared = [name for name in _SPARED if name != sort]
    while (room := width - sum(own + 2 for own in widths.values()) + widths["name"] + 2) < wanted:
        if not spared:
            break
        widths.pop(spared.pop(0), None)
    widths["name"] = max(1, min(widths["name"], room))
    return widths


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bytes | str):
        return text_of(value)
    if name == "oldest_s":
        return span_text(value)
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def _style(name: str, value: Any) -> str:
    if name == "dead" and value:
        return "red"
    return "" if value or isinstance(value, bytes) else "dim"


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that returns a key pressed within the given seconds, without Enter. It returns no
    key when stdin is not a terminal."""
    if not is_terminal(sys.stdin):
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
                if select.select([keyboard], [], [], max(0, span_s))[0]
                else ""
            )
        )
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _no_key(span_s: float) -> str:
    time.sleep(max(0, span_s))
    return ""
