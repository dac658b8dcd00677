"""Commands that send requests to a broker: their options, the connection and the exit code.

Called by   cli/queue.py, message.py, dead.py, top.py, bench.py, prompt.py.
Calls       client/sync/broker.py, which is imported when a command runs, so that help and usage
            errors are fast.

    @queue.command()
    @click.argument("name")
    @asks
    def info(broker: Broker, out: Output, name: str) -> int:
        …                                        the exit code; errors are printed and have theirs

A command always ends cleanly: the terminal is restored, and the queue of a bench is empty.

Not here: the codes (cli/exit_codes.py), the output (cli/shown.py).
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
from click.shell_completion import CompletionItem

from quinque.cli.broker_options import SAID, URL, broker_options
from quinque.cli.exit_codes import (
    ASKED_WRONGLY,
    INTERRUPTED,
    NOT_HERE,
    NOT_READ,
    NOTHING,
    code_of,
)
from quinque.cli.shown import Output, is_terminal, text_of
from quinque.client.login import PASSWORD_IS_MISSING
from quinque.errors import BadSetting, NoAuth, NotABroker, NotDone, QuinqueError, StoreUnavailable

if TYPE_CHECKING:
    from quinque.client.sync.broker import Broker

# A person waits, so the command retries once and not for long.
_RETRIES: Final = 1
_COMPLETION_S: Final = 2.0


class NothingFound(Exception):
    """A queue, message or subscription does not exist; the text names it."""


def asks(work: Callable[..., int]) -> Callable[..., None]:
    """Make the command `work(broker, out, **options)`, with the options that choose a broker."""

    @broker_options(URL)
    @click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    @click.pass_context
    @wraps(work)
    def command(ctx: click.Context, /, as_json: bool, **options: Any) -> None:
        out = Output(as_json)
        who = {name: options.pop(name) for name in SAID}
        ctx.exit(run(out, lambda: _with_broker(who, lambda broker: work(broker, out, **options))))

    return command


def run(out: Output, work: Callable[[], int]) -> int:
    """Run the work and return its exit code. Errors of Quinque are printed."""
    try:
        with _ended_by_signals():
            return work()
    except QuinqueError as error:
        code = code_of(error)
        text = str(error)
        if isinstance(error, NoAuth):
            text = text.removesuffix(PASSWORD_IS_MISSING)
            text += " Pass --password or set QUINQUE_PASSWORD."
        out.failed(text, code)
        return code
    except NothingFound as nothing:
        out.failed(str(nothing), NOTHING)
        return NOTHING
    except BrokenPipeError:
        # Otherwise Python complains at its end that the rest cannot be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return NOT_READ
    except OSError as error:  # not of the connection: those are errors of Quinque already
        with suppress(OSError):  # stdout may have raised the error
            out.failed(error.strerror or str(error), NOT_HERE)
        return NOT_HERE
    except (KeyboardInterrupt, click.Abort):  # Abort: the user left the confirmation
        click.echo(err=True)
        return INTERRUPTED


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Within this block, SIGTERM and SIGHUP end the command like an error, with the code that
    shells use. A signal that is ignored, as under nohup, stays ignored."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, end)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _with_broker(who: dict[str, Any], work: Callable[[Broker], int]) -> int:
    with open_broker(**who) as broker:
        try:
            return work(broker)
        except (BadSetting, NotDone, StoreUnavailable):
            raise
        except (QuinqueError, NothingFound):
            _refuse_other_servers(broker)
            raise


def _refuse_other_servers(broker: Broker) -> None:
    """Raise NotABroker if another server answers: a plain Redis speaks the same protocol and
    answers some of the commands, for example that a queue does not exist. The client itself notices
    only unknown commands."""
    try:
        [known] = broker.call("COMMAND", "INFO", "QUEUES")
    except QuinqueError:  # the user has no permission for it
        return
    if known is None:
        raise NotABroker(broker.shown) from None


def open_broker(url: str, *, retries: int = _RETRIES, **who: Any) -> Broker:
    """Connect to the broker. Raises BadSetting."""
    from quinque.client.sync.broker import Broker

    return Broker(url, retries=retries, **who)


def confirm(action: str, is_sure: bool) -> None:
    """Return if `is_sure`, or if the user confirms the action, such as "remove 1 message of q".
    Raises BadSetting if stdin is not a terminal, and ends the command if the user declines."""
    if is_sure:
        return
    if not is_terminal(sys.stdin):
        raise BadSetting(
            f"refusing to {action} without confirmation: stdin is not a terminal; pass --yes"
        )
    if not click.confirm(text_of(f"{action[0].upper()}{action[1:]}?"), err=True):
        click.get_current_context().exit(ASKED_WRONGLY)


yes_option: Final = click.option(
    "--yes", "is_sure", is_flag=True, help="Do not ask for confirmation."
)


def complete_queue(
    ctx: click.Context, argument: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names of queues that begin with `incomplete`, with their families. Names that
    cannot be typed are left out. Errors are not shown in a shell."""
    from quinque.cli.queue_counts import read_every

    try:
        # While a shell completes a line, `ctx.params` has only the options that are on it.
        who = {
            option.name: option.consume_value(ctx, ctx.params)[0]
            for option in ctx.command.params
            if option.name in SAID
        }
        with open_broker(**who, retries=0, timeout_s=_COMPLETION_S) as broker:
            begins_so = re.sub(rb"([*?[\]\\])", rb"\\\1", as_bytes(incomplete)) + b"*"
            counts = read_every(broker, begins_so)
    except (QuinqueError, click.ClickException):
        return []
    names = [(found.name.decode("utf-8", "surrogateescape"), found.family.name) for found in counts]
    return [CompletionItem(_for_shell(name), help=family) for name, family in names
            if name and name.isprintable()]  # fmt: skip


def _for_shell(name: str) -> str:
    """Quote a name as on a command line. Only bash leaves this to the program."""
    if not os.environ.get("_QUINQUE_COMPLETE", "").startswith("bash"):
        return name
    # Two backslashes for one: the script of click reads the lines with `read`, which removes one.
    return re.sub(r"([^\w@%+=:,./-])", r"\\\\\1", name)


def queue_argument(**more: Any) -> Callable[[Any], Any]:
    """The argument QUEUE, which a shell can complete."""
    return click.argument("name", metavar="QUEUE", shell_complete=complete_queue, **more)


def as_bytes(text: str) -> bytes:
    """The bytes that were typed, even if they are not UTF-8."""
    return os.fsencode(text)
