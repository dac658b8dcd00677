"""Run one job of the data pipeline: a Spark session for it, its progress, its summary.

Called by   cli/pipeline.py.
Calls       spark/session.py, client/sync/broker.py.

The output of Spark and Java goes into a file, which is kept if the job fails. The command shows the
progress and the summary. It reports wrong options before it starts Spark, which takes seconds.

Not here: the options (cli/pipeline.py).
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from quinque.cli.interrupts import interrupted_by_signals
from quinque.cli.shown import text_of
from quinque.errors import BadSetting, QuinqueError
from quinque.errors.extras import package_missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quinque.client.sync.broker import Broker
    from quinque.spark.jobs.build import Tell

DONE, FAILED, ASKED_WRONGLY = 0, 1, 2

_TABLE_WIDTH: Final = 140
_OUR_ERROR: Final = re.compile(r"\bquinque\.(?:\w+\.)*(\w+: .+)")
_QUERY_ENDED: Final = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")
_STEPS: Final = 10  # lines of progress, without a terminal

Work = Callable[["SparkSession", "Tell"], dict[str, Any]]


@dataclass
class Asked:
    """The options of all jobs: Spark's master, the broker, and the format of the result."""

    master: str
    memory: str
    settings: dict[str, str]
    as_json: bool
    url: str | None
    username: str | None
    password: str | None
    ca: str | None
    certificate: str | None
    key: str | None

    @classmethod
    def of(cls, options: dict[str, Any]) -> Asked:
        return cls(**{name: options[name] for name in cls.__dataclass_fields__})

    def broker(self) -> Broker | None:
        """Return the broker, if an option names one. Raises BadSetting."""
        if self.url is None:
            return None
        from quinque.client.sync.broker import Broker

        return Broker(
            self.url,
            username=self.username,
            password=self.password,
            ca=self.ca,
            certificate=self.certificate,
            key=self.key,
        )

    def connector(self) -> dict[str, str]:
        """Return the same as options of the format `quinque`."""
        told = {
            "url": self.url,
            "username": self.username,
            "password": self.password,
            "tlsCa": self.ca,
            "tlsCertificate": self.certificate,
            "tlsKey": self.key,
        }
        return {name: value for name, value in told.items() if value is not None}

    def spark_settings(self) -> dict[str, str]:
        return {
            "spark.ui.enabled": "false",
            "spark.driver.memory": self.memory,
            **self.settings,
        }


def run_job(asked: Asked, work: Work) -> int:
    """Run the job, print the summary or the error, and return the exit code."""
    try:
        summary = _run(asked, work)
    except (QuinqueError, KeyboardInterrupt) as exc:
        is_wrong = isinstance(exc, BadSetting)
        why = "interrupted" if isinstance(exc, KeyboardInterrupt) else str(exc)
        return _fail(asked, why, ASKED_WRONGLY if is_wrong else FAILED)
    if asked.as_json:
        click.echo(json.dumps(summary, default=str))
    else:
        show_summary(summary)
    return FAILED if summary.get("verdict") == "bad" and summary["job"] == "audit" else DONE


def _run(asked: Asked, work: Work) -> dict[str, Any]:
    _check_packages()
    settings = asked.spark_settings()
    broker = asked.broker()
    if broker is not None:
        with broker:
            broker.call("PING")
    from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]

    from quinque.spark.options import BadOption
    from quinque.spark.session import NoJava, build_session

    with _spark_log() as log:
        try:
            spark = build_session(
                "quinque", None if asked.master == "none" else asked.master, settings, "ERROR"
            )
        except NoJava as exc:
            raise BadSetting(str(exc)) from exc
        except Exception as exc:
            raise JobFailed(f"cannot start Spark: {_last_words(exc)}", log) from exc
        try:
            with interrupted_by_signals(), _telling(asked) as tell:
                return work(spark, tell)
        except QuinqueError:
            raise
        except BadOption as exc:
            raise BadSetting(str(exc)) from exc
        except (OSError, Py4JNetworkError) as exc:
            if not _has_ended(spark):
                raise JobFailed(_last_words(exc), log) from exc
            raise JobFailed("the Java process of Spark has ended", log) from exc
        except Exception as exc:
            refused = _refusal(exc)
            if refused is not None:
                raise BadSetting(refused) from exc
            raise JobFailed(_last_words(exc), log) from exc
        finally:
            with suppress(OSError, Py4JError):  # if Java has ended, nothing is left to stop
                spark.stop()


def _has_ended(spark: SparkSession) -> bool:
    """Return whether the Java process of Spark no longer runs."""
    from py4j.protocol import Py4JNetworkError

    try:
        spark.sparkContext.applicationId  # noqa: B018  # Java answers
    except (OSError, Py4JNetworkError):
        return True
    return False


class JobFailed(QuinqueError):
    """Spark failed."""

    def __init__(self, why: str, log: Path) -> None:
        super().__init__(f"{why}\nthe log of Spark is in {log}")


def show_summary(summary: dict[str, Any]) -> None:
    """Print the summary as lines with a name and a value."""
    shown = {name: value for name, value in summary.items() if _is_shown(value)}
    width = max(len(name) for name in shown)
    for name, value in shown.items():
        text = _shown(value)
        colour = {"good": "green", "bad": "red"}.get(text) if name == "verdict" else None
        click.echo(f"{name.replace('_', ' '):<{width}}  {click.style(text, fg=colour)}")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}"
    return text_of(", ".join(map(str, value)) if isinstance(value, list) else str(value))


def show_queues(queues: Sequence[dict[str, Any]]) -> None:
    """Print the rows of the audit as a table."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    names = ("added", "acked", "expired", "removed", "dead", "open", "missing")
    signs = ("unbalanced", "acked_twice", "after_ack", "unknown")
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("queue")
    for name in (*names, *signs):
        table.add_column(name.replace("_", " "), justify="right")
    for queue in queues:
        style = None if queue["is_good"] else "red"
        cells = [f"{queue[name]:,}" for name in (*names, *signs)]
        table.add_row(Text(text_of(queue["queue"])), *cells, style=style)
    console = Console(file=sys.stdout)
    # A number must not be cut, so lines wrap in a narrow window.
    console.width = max(console.width, _TABLE_WIDTH)
    console.print(table)


def _is_shown(value: object) -> bool:
    return value is not None and value != [] and not _is_table(value)


def _is_table(value: object) -> bool:
    """Return whether show_queues() has printed the rows."""
    return isinstance(value, list) and bool(value) and "added" in value[0]


def _fail(asked: Asked, why: str, code: int) -> int:
    if asked.as_json:
        click.echo(json.dumps({"error": why, "exit_code": code}))
    for line in why.splitlines():
        click.secho(f"quinque: {text_of(line)}", fg="red", err=True)
    return code


def _check_packages() -> None:
    for package in ("pyspark", "pyarrow", "redis"):
        try:
            __import__(package)
        except ModuleNotFoundError as exc:
            raise package_missing(exc.name, "spark") from exc


@contextmanager
def _spark_log() -> Iterator[Path]:
    """Within this block, errors of Java go into a file, which is kept if the job fails."""
    handle, name = tempfile.mkstemp(prefix="quinque-spark-", suffix=".log")
    sys.stderr.flush()
    terminal = os.dup(2)
    os.dup2(handle, 2)
    os.close(handle)
    # The errors of this process still go to stderr: only processes that start from here on use the
    # file.
    ours, sys.stderr = sys.stderr, os.fdopen(terminal, "w", buffering=1)
    is_wanted = False
    try:
        yield Path(name)
    except JobFailed:
        is_wanted = True
        raise
    finally:
        _give_back(ours)
        if not is_wanted:
            Path(name).unlink(missing_ok=True)


def _give_back(ours: Any) -> None:
    mine, sys.stderr = sys.stderr, ours
    mine.flush()
    os.dup2(mine.fileno(), 2)
    mine.close()


@contextmanager
def _telling(asked: Asked) -> Iterator[Tell]:
    """Yield a function that shows the progress: a bar at a terminal, otherwise some lines; nothing
    with --json."""
    if asked.as_json:
        yield lambda what, done, total: None
    elif sys.stderr.isatty():
        with _bars() as tell:
            yield tell
    else:
        yield _Lines()


@contextmanager
def _bars() -> Iterator[Tell]:
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description:>8}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(file=sys.stderr)) as progress:
        bars: dict[str, rich.TaskID] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what)
            progress.update(bars[what], completed=done, total=total or None)

        yield tell


class _Lines:
    """Prints a line for each tenth of the work, or whenever it has grown if the total is
    unknown."""

    def __init__(self) -> None:
        self._said: dict[str, int] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        step = done * _STEPS // total if total else done
        if step > self._said.get(what, 0):
            self._said[what] = step
            of = f" of {total:,}" if total else ""
            click.echo(f"{what}: {done:,}{of}", err=True)


def _refusal(exc: Exception) -> str | None:
    """Return the error of the connector, if it caused the failure."""
    for line in str(exc).splitlines():
        name, colon, said = line.strip().partition(": ")
        if colon and name.endswith(("BadOption", "BadSetting")):
            return said
    return None


def _last_words(exc: Exception) -> str:
    """Return the sentence in Spark's error that says what happened."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    for line in reversed(lines):
        found = _OUR_ERROR.search(line)
        if found:
            return found[1]
    for line in reversed(lines):
        if "Exception: " in line or "Error: " in line:
            return line
    return _QUERY_ENDED.sub("", lines[0]) if lines else type(exc).__name__
