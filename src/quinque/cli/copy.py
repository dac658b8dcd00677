"""Copy one store into another, and show the progress.

Called by   cli/main.py.
Calls       stores/copying.py (does it), the reader and the writer of each kind of store.

    0  copied, and identical       1  failed: the same command continues the copy
    2  refused                     3  copied, and different

Not here: what is copied (stores/portable.py).
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from quinque.errors import BadSetting, CopyDiffers, CopyRefused, QuinqueError, many
from quinque.stores.copying import Tally, Tell, carry, compare
from quinque.stores.embedded.copy_in import FolderWriter
from quinque.stores.embedded.copy_out import open_folder
from quinque.stores.portable import Reader, Writer

COPIED, FAILED, REFUSED, DIFFERENT = 0, 1, 2, 3

_FOLDER: Final = "embedded:"
_SCHEME: Final = re.compile(r"(redis|rediss|unix)(\+\w+)?:")
_STEPS: Final = 10  # lines of progress, without a terminal


def run(source: str, target: str, *, is_live: bool, as_json: bool) -> int:
    """Copy, print the result or the error, and return the exit code."""
    try:
        done = _copy(source, target, is_live, as_json)
    except (QuinqueError, OSError, KeyboardInterrupt) as exc:
        why, code = _failure(exc)
        if as_json:
            click.echo(json.dumps({"error": why, "exit_code": code}))
        for line in why.splitlines():
            click.secho(f"quinque: {line}", fg="red", err=True)
        return code
    if as_json:
        click.echo(json.dumps(done))
    else:
        click.echo(_in_words(done))
    return COPIED


def _copy(source: str, target: str, is_live: bool, as_json: bool) -> dict[str, Any]:
    if _place_of(source) == _place_of(target):
        raise BadSetting(f"the source and the target are the same store: {source}")
    with ExitStack() as opened:
        reader = opened.enter_context(closing(_open_source(source, is_live)))
        writer = opened.enter_context(closing(_open_target(target, is_live)))
        total = sum(reader.queues().values())
        with _telling("copied", total, as_json) as tell:
            is_resumed = carry(reader, writer, tell)
        with (
            closing(writer.reader()) as written,
            _telling("compared", 2 * total, as_json) as tell,
        ):
            tallies = compare(reader, written, tell)
            writer.finish()
        return _summary(reader, writer, tallies, is_resumed)


def _place_of(url: str) -> str:
    """Return the store in one canonical form of its URL."""
    path = _folder_of(url)
    return str(path.resolve()) if path is not None else url


def _folder_of(url: str) -> Path | None:
    """Return the directory if the URL names one, else None. Raises BadSetting if it names no
    store."""
    if url.startswith(_FOLDER):
        return Path(url.removeprefix(_FOLDER))
    if "://" in url:
        return None
    if _SCHEME.match(url):
        raise BadSetting(f"{url} is neither a directory nor the URL of a store")
    return Path(url)


def _open_source(url: str, is_live: bool) -> Reader:
    folder = _folder_of(url)
    if folder is not None:
        return open_folder(folder)
    from quinque.stores.redis.copy_out import open_redis

    return open_redis(url, is_live=is_live)


def _open_target(url: str, is_live: bool) -> Writer:
    folder = _folder_of(url)
    if folder is not None:
        return FolderWriter(folder)
    from quinque.stores.redis.copy_in import RedisWriter

    return RedisWriter(url, is_live=is_live)


def _failure(exc: BaseException) -> tuple[str, int]:
    """Return the error text and the exit code."""
    if isinstance(exc, KeyboardInterrupt):
        return "interrupted; run the same command again to continue", FAILED
    if isinstance(exc, OSError):
        return f"{exc.filename or 'a file'}: {exc.strerror or exc}", FAILED
    if isinstance(exc, BadSetting | CopyRefused):
        return str(exc), REFUSED
    return str(exc), DIFFERENT if isinstance(exc, CopyDiffers) else FAILED


@contextmanager
def _telling(verb: str, total: int, as_json: bool) -> Iterator[Tell]:
    """Yield a function that shows the progress: a bar at a terminal, otherwise some lines; nothing
    with --json."""
    if as_json:
        yield _say_nothing
    elif sys.stdout.isatty():
        columns = (
            TextColumn("{task.description:>8}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(file=sys.stdout)) as progress:
            bar = progress.add_task(verb, total=total)
            yield lambda some: progress.advance(bar, some)
    else:
        yield _Lines(verb, total)


class _Lines:
    """Prints a line for each tenth of the work."""

    def __init__(self, verb: str, total: int) -> None:
        self._verb = verb
        self._total = total
        self._done = 0
        self._said = 0

    def __call__(self, some: int) -> None:
        self._done += some
        step = self._done * _STEPS // max(1, self._total)
        if step > self._said:
            self._said = step
            click.echo(f"{self._verb} {self._done:,} of {self._total:,} messages")


def _say_nothing(some: int) -> None:
    """Show no progress."""


def _summary(
    reader: Reader, writer: Writer, tallies: dict[bytes, Tally], is_resumed: bool
) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    for tally in tallies.values():
        counts += tally.counts
    return {
        "from": reader.identity,
        "to": writer.identity,
        "queues": len(tallies),
        "messages": sum(reader.queues().values()),
        "counts": dict(sorted(counts.items())),
        "checksum": f"{sum(tally.sum for tally in tallies.values()) % (1 << 128):032x}",
        "resumed": is_resumed,
    }


def _in_words(done: dict[str, Any]) -> str:
    counts = ", ".join(f"{number:,} {kind}" for kind, number in done["counts"].items())
    return (
        f"copied {many(done['queues'], 'queue')} with {many(done['messages'], 'message')}"
        f" to {done['to']}"
        + (f" ({counts})" if counts else "")
        + f"\nthe source and the target are identical: checksum {done['checksum']}"
    )
