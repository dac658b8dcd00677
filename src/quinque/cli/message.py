"""The commands `quinque message …`: add, take, show and remove single messages.

Called by   cli/main.py.
Calls       cli/asking.py (the broker), verbs_of.py (the commands of each family).

Not here: dead messages (cli/dead.py), many messages from files (cli/pipeline.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, cast

import click

from quinque.cli.asking import (
    NothingFound,
    as_bytes,
    asks,
    confirm,
    queue_argument,
    yes_option,
)
from quinque.cli.bars import telling
from quinque.cli.exit_codes import DONE, NOTHING
from quinque.cli.shown import Output, is_terminal, text_of
from quinque.cli.spans import span_s
from quinque.errors import BadSetting, QuinqueError, many
from quinque.model.families import BY_NAME, JOBS

if TYPE_CHECKING:
    from io import BufferedReader

    from quinque.client.sync.broker import Broker

_READ_BYTES: Final = 1 << 16  # of lines that are added together
_COLUMNS: Final = {"id": "id", "body": "body"}
_PEEKED: Final = {
    "id": "id",
    "state": "state",
    "added": "added",
    "deliveries": "deliveries",
    "body": "body",
}


def _span(name: str, help: str) -> Callable[[Any], Any]:
    return click.option(f"--{name}", callback=span_s, metavar="TIME", default=None, help=help)


_ADDING: Final = (
    click.option("--family", type=click.Choice(tuple(BY_NAME)), default=None,
                 help="Family of the queue, if it does not exist yet.  [default: jobs]"),
    _span("delay", "Time until the message is ready (jobs, tubes)."),
    _span("ttl", "Time to live of the message (jobs, events, tubes). Default for jobs and events: "
          "a day, then the broker deletes the message."),
    _span("retry", "Duration of a lease (jobs)."),
    click.option("--max-deliveries", type=click.IntRange(min=1), default=None,
                 help="Maximum number of deliveries before the job is dead (jobs)."),
    click.option("--unique", "message_key", metavar="KEY", default=None,
                 help="Unique key: add nothing if an unfinished job has it (jobs)."),
    click.option("--id", "message_id", default=None, help="Id of the message (items)."),
    click.option("--pri", type=int, default=None, help="Priority of the message (tubes)."),
    click.option("--lane", default=None, help="Lane of the message (tubes)."),
)  # fmt: skip
_TAKER: Final = (
    click.option("--group", default=None, help="Consumer group (events)."),
    click.option("--session", default=None, help="Session that takes and acks the task (tubes)."),
)


def _with(options: tuple[Callable[[Any], Any], ...]) -> Callable[[Any], Any]:
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


@click.group()
def message() -> None:
    """Add, take, ack, show and delete messages in queues of any family."""


@message.command()
@queue_argument()
@click.argument("bodies", nargs=-1, metavar="[BODY]...")
@click.option("--lines", "has_lines", is_flag=True, help="Add one message for each line of stdin.")
@click.option("--empty", "may_be_empty", is_flag=True, help="Accept an empty body from stdin.")
@_with(_ADDING)
@asks
def add(broker: Broker, out: Output, /, name: str, bodies: tuple[str, ...], has_lines: bool,
        may_be_empty: bool, family: str | None, **options: Any) -> int:  # fmt: skip
    """Add messages to QUEUE: one for each BODY, or from stdin.

    \b
    quinque message add emails hello
    quinque message add emails --delay 5m < letter.json
    quinque message add emails --lines < addresses.txt
    """
    from quinque.cli.verbs_of import given, refuse_other_family, verbs_of

    verbs = verbs_of(broker, as_bytes(name), BY_NAME[family] if family else JOBS)
    refuse_other_family(verbs, family)
    options["key"], options["id"] = options.pop("message_key"), options.pop("message_id")
    how = given(verbs, verbs.adding, options)
    if has_lines and ("key" in how or "id" in how):
        raise BadSetting("--lines adds several messages, and --unique and --id are for one")
    ids: list[str] = []
    count = 0
    try:
        with telling("added", len(bodies) or None) as tell:
            for some in _batches(bodies, has_lines, may_be_empty):
                while some and (added := verbs.add(some, how)):
                    some = some[len(added) :]
                    count += len(added)
                    tell(len(added))
                    if out.as_json or not has_lines:
                        ids += added
    except QuinqueError as error:
        added = verbs.added_before(error)
        count += len(added)
        if out.as_json or not has_lines:
            ids += added
        if count:
            _show_ids(out, ids)
            click.echo(f"quinque: {many(count, 'message')} added before the error:", err=True)
        raise
    if out.as_json:
        out.rows([{"id": id} for id in ids], {})
    elif has_lines:
        out.done(f"added {many(count, 'message')} to {name}", {})
    else:
        _show_ids(out, ids)
    if not count and not has_lines:
        out.nothing(f"{name} already has a message with this id; nothing was added")
    return DONE if ids or has_lines else NOTHING


@message.command()
@queue_argument()
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True,
              help="Maximum number of messages to take.")  # fmt: skip
@_span("wait", "Time to wait for the first message.")
@_span("lease", "Duration of the lease (events, items).  [default: 30s]")
@click.option("--ack", "is_acked", is_flag=True, help="Ack the messages as soon as they are taken.")
@_with(_TAKER)
@asks
def take(broker: Broker, out: Output, /, name: str, count: int, wait: float | None,
         is_acked: bool, **options: Any) -> int:  # fmt: skip
    """Take and lease messages from QUEUE. How a lease ends depends on the family.

    \b
    quinque message take emails --ack
    quinque message take emails --count 10
    quinque message take clicks --group billing --wait 30s --json
    """
    from quinque.cli.verbs_of import given, verbs_of

    verbs = verbs_of(broker, as_bytes(name))
    how = given(verbs, verbs.taking, options)
    taken = verbs.take(count, wait or 0.0, is_acked, how)
    if taken or out.as_json:
        out.rows([each.fields() for each in taken], _COLUMNS)
    else:
        out.nothing(f"no messages to take from {name}")
    return DONE if taken else NOTHING


@message.command()
@queue_argument()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@_with(_TAKER)
@asks
def ack(broker: Broker, out: Output, /, name: str, ids: tuple[str, ...], **options: Any) -> int:
    """Ack messages that were taken from QUEUE."""
    from quinque.cli.verbs_of import given, verbs_of

    verbs = verbs_of(broker, as_bytes(name))
    acked = verbs.ack(ids, given(verbs, verbs.taking, options))
    out.done(f"acked {many(acked, 'message')}", {"acked": acked})
    return DONE if acked else NOTHING


@message.command()
@queue_argument()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@_span("delay", "Time until they are ready again (jobs, tubes).")
@click.option("--reason", default=None, help="Reason to store with the message (jobs).")
@_with(_TAKER)
@asks
def nack(broker: Broker, out: Output, /, name: str, ids: tuple[str, ...], **options: Any) -> int:
    """Return messages that were taken from QUEUE, so that they are delivered again."""
    from quinque.cli.verbs_of import given, verbs_of

    verbs = verbs_of(broker, as_bytes(name))
    returned = verbs.nack(ids, given(verbs, verbs.taking | verbs.nacking, options))
    out.done(f"returned {many(returned, 'message')} to {name}", {"returned": returned})
    return DONE if returned else NOTHING


@message.command()
@queue_argument()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@yes_option
@asks
def delete(broker: Broker, out: Output, name: str, ids: tuple[str, ...],
           is_sure: bool) -> int:  # fmt: skip
    """Remove messages from QUEUE in any state, without processing them."""
    from quinque.cli.verbs_of import verbs_of

    verbs = verbs_of(broker, as_bytes(name))
    confirm(f"remove {many(len(ids), 'message')} of {name}", is_sure)
    deleted = verbs.delete(ids)
    out.done(f"deleted {many(deleted, 'message')}", {"deleted": deleted})
    return DONE if deleted else NOTHING


@message.command()
@queue_argument()
@click.argument("id", metavar="ID")
@asks
def show(broker: Broker, out: Output, name: str, id: str) -> int:
    """Show one message of QUEUE with all its fields. Nothing changes."""
    from quinque.cli.verbs_of import verbs_of

    found = verbs_of(broker, as_bytes(name)).show(id)
    if found is None:
        raise NothingFound(f"no message {id} in {name}")
    out.one(found.fields())
    return DONE


@message.command()
@queue_argument()
@click.option("--count", type=click.IntRange(min=1), default=10, show_default=True,
              help="Maximum number of messages to show.")  # fmt: skip
@click.option("--state", type=click.Choice(("ready", "delayed", "leased", "dead")),
              default="ready", show_default=True, help="State of the messages.")  # fmt: skip
@asks
def peek(broker: Broker, out: Output, name: str, count: int, state: str) -> int:
    """Show the first messages of QUEUE. Nothing changes."""
    from quinque.cli.verbs import STATES
    from quinque.cli.verbs_of import verbs_of

    found = verbs_of(broker, as_bytes(name)).peek(STATES[state], count)
    if found or out.as_json:
        out.rows([each.fields() for each in found], _PEEKED)
    else:
        out.nothing(f"{name} has no {state} messages")
    return DONE


def _show_ids(out: Output, ids: list[str]) -> None:
    """Print each id on its own line. With --json they are part of the final document."""
    out.so_far["added"] = ids
    for id in () if out.as_json else ids:
        click.echo(text_of(id))


def _batches(bodies: tuple[str, ...], has_lines: bool, may_be_empty: bool) -> Iterator[list[bytes]]:
    """Yield the bodies of the command line, or of stdin: as a whole or one for each line."""
    if bodies and has_lines:
        raise BadSetting("--lines reads bodies from stdin: pass either --lines or a BODY")
    if bodies:
        yield [as_bytes(body) for body in bodies]
        return
    if sys.stdin is None:
        raise BadSetting("no body: pass a BODY or open stdin")
    if is_terminal(sys.stdin):
        what = "Type one message on each line" if has_lines else "Type the message"
        click.echo(f"{what}, then Ctrl-D:", err=True)
    if not has_lines:
        body = sys.stdin.buffer.read()
        if not body and not may_be_empty:
            raise BadSetting("the body is empty: pass a BODY, or --empty for a message without one")
        yield [body]
        return
    stdin = cast("BufferedReader", sys.stdin.buffer)
    begun: list[bytes] = []
    # Read the available bytes, and not a number of lines, so that each line is added when it
    # arrives.
    while data := stdin.read1(_READ_BYTES):
        *whole, last = data.split(b"\n")
        if whole:
            whole[0] = b"".join([*begun, whole[0]])
            begun.clear()
            yield [line.removesuffix(b"\r") for line in whole]
        begun.append(last)
    if any(begun):
        yield [b"".join(begun).removesuffix(b"\r")]
