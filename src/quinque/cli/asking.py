"""A command that asks a broker: its options, the broker, and with which code it ends.

Called by   cli/queue.py, message.py, dead.py, top.py, bench.py, prompt.py.
Calls       client/sync/broker.py, which is imported when a command runs: help and errors are there
            at once.

    @queue.command()
    @click.argument("name")
    @asks
    def info(broker: Broker, out: Output, name: str) -> int:
        …                                        the exit code; errors are told and have theirs

Not here: the codes (cli/exit_codes.py), what is printed (cli/shown.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from quinque.cli.broker_options import URL, broker_options
from quinque.cli.exit_codes import ASKED_WRONGLY, INTERRUPTED, NOTHING, code_of
from quinque.cli.shown import Output, text_of
from quinque.errors import BadSetting, QuinqueError

if TYPE_CHECKING:
    from quinque.client.sync.broker import Broker

# A person waits, so that a broker which is gone is asked once more and not for long.
_RETRIES: Final = 1
_COMPLETION_S: Final = 2.0
_OF_BROKER: Final = ("url", "username", "password", "ca", "certificate", "key")


class NothingFound(Exception):
    """There is no such thing; the text says what."""


def asks(work: Callable[..., int]) -> Callable[..., None]:
    """The command `work(broker, out, **options)`, with the options that say which broker."""

    @broker_options(URL)
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @click.pass_context
    @wraps(work)
    def command(ctx: click.Context, /, as_json: bool, **options: Any) -> None:
        out = Output(as_json)
        who = {name: options.pop(name) for name in _OF_BROKER}
        ctx.exit(run(out, lambda: _with_broker(who, lambda broker: work(broker, out, **options))))

    return command


def run(out: Output, work: Callable[[], int]) -> int:
    """The exit code of the work; what it raises on purpose is told."""
    try:
        return work()
    except QuinqueError as error:
        code = code_of(error)
        out.failed(str(error), code)
        return code
    except NothingFound as nothing:
        out.failed(str(nothing), NOTHING)
        return NOTHING
    except KeyboardInterrupt:
        click.echo(err=True)
        return INTERRUPTED


def _with_broker(who: dict[str, Any], work: Callable[[Broker], int]) -> int:
    with open_broker(**who) as broker:
        return work(broker)


def open_broker(url: str, *, retries: int = _RETRIES, **who: Any) -> Broker:
    """Raises BadSetting."""
    from quinque.client.sync.broker import Broker

    return Broker(url, retries=retries, **who)


def confirm(question: str, is_sure: bool) -> None:
    """Goes on if `is_sure`, or if somebody says so. Raises BadSetting where nobody can be asked,
    and ends the command when the answer is no."""
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise BadSetting("nobody can be asked whether that is meant: say --yes")
    if not click.confirm(text_of(question), err=True):
        click.get_current_context().exit(ASKED_WRONGLY)


yes_option: Final = click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")


def complete_queue(
    ctx: click.Context, argument: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The names of queues that begin so, each with its family. A shell is told no errors."""
    from quinque.cli.queue_counts import read_counts

    try:
        who: dict[str, Any] = {name: ctx.params.get(name) for name in _OF_BROKER}
        who["url"] = who["url"] or os.environ.get("QUINQUE_URL") or URL
        who["password"] = who["password"] or os.environ.get("QUINQUE_PASSWORD")
        with open_broker(**who, retries=0, timeout_s=_COMPLETION_S) as broker:
            counts = read_counts(broker).queues
    except QuinqueError:
        return []
    names = [(text_of(found.name), found.family.name) for found in counts]
    return [CompletionItem(name, help=family) for name, family in names
            if name.startswith(incomplete)]  # fmt: skip


def queue_argument(**more: Any) -> Callable[[Any], Any]:
    """The argument QUEUE, which a shell can complete."""
    return click.argument("name", metavar="QUEUE", shell_complete=complete_queue, **more)


def as_bytes(text: str) -> bytes:
    """What was typed, whatever bytes it is."""
    return os.fsencode(text)
