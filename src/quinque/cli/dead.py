"""The commands `quinque dead …`: messages that reached their maximum number of deliveries, or were
buried.

Called by   cli/main.py.
Calls       cli/asking.py (the broker), cli/queue_counts.py (counts), verbs_of.py (the commands of
            each family).

Not here: redriving by a condition (cli/pipeline.py).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from quinque.cli.asking import (
    NothingFound,
    as_bytes,
    asks,
    complete_queue,
    confirm,
    queue_argument,
    yes_option,
)
from quinque.cli.exit_codes import DONE, NOTHING
from quinque.cli.queue_counts import read_every
from quinque.cli.shown import Output
from quinque.errors import BadSetting, many
from quinque.model.states import State

if TYPE_CHECKING:
    from quinque.cli.verbs import Verbs
    from quinque.client.sync.broker import Broker

_QUEUES: Final = {"name": "queue", "family": "family", "dead": "dead"}
_MESSAGES: Final = {"id": "id", "age_s": "age", "deliveries": "deliveries", "error": "error"}


@click.group()
def dead() -> None:
    """List, show, redrive and drop dead messages."""


@dead.command("ls")
@click.argument(
    "name", metavar="[QUEUE]", required=False, default=None, shell_complete=complete_queue
)
@click.option("--count", type=click.IntRange(min=1), default=10, show_default=True,
              help="Maximum number of messages to list.")  # fmt: skip
@click.option("--full", "is_full", is_flag=True,
              help="Show every field, with the whole error and the body.")  # fmt: skip
@asks
def list_dead(broker: Broker, out: Output, name: str | None, count: int, is_full: bool) -> int:
    """List the queues that have dead messages, or the dead messages of QUEUE, one line each."""
    if name is None:
        rows = [
            {"name": found.name, "family": found.family.name, "dead": found.dead}
            for found in read_every(broker)
            if found.dead
        ]
    else:
        found = _verbs(broker, name).peek(State.DEAD, count)
        rows = [message.fields() for message in found]
    if not rows:
        out.nothing("no dead messages" + (f" in {name}" if name is not None else ""))
    if out.as_json or (rows and name is None):
        out.rows(rows, _QUEUES)
    elif rows and is_full:
        for number, row in enumerate(rows):
            if number:
                click.echo()
            out.one(_with_lines(row))
    elif rows:
        out.rows([_in_a_line(row) for row in rows], _MESSAGES)
    return DONE


@dead.command()
@queue_argument()
@click.argument("id", metavar="ID")
@asks
def show(broker: Broker, out: Output, name: str, id: str) -> int:
    """Show a dead message of QUEUE, and why it is dead."""
    found = _verbs(broker, name).show(id)
    if found is None or found.facts.get("state") != "dead":
        raise NothingFound(f"no dead message {id} in {name}")
    out.one(found.fields() if out.as_json else _with_lines(found.fields()))
    return DONE


@dead.command()
@queue_argument()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "--count",
    type=click.IntRange(min=1),
    default=None,
    help="Maximum number of messages to redrive.",
)
@asks
def redrive(broker: Broker, out: Output, name: str, ids: tuple[str, ...], count: int | None) -> int:
    """Make dead messages of QUEUE ready again: all of them, or those with an ID.

    A redriven message can be delivered as often as a new one.
    """
    if ids and count is not None:
        raise BadSetting("pass either ids or --count, not both")
    redriven = _verbs(broker, name).redrive(ids, count or 0)
    out.done(f"redrove {many(redriven, 'message')} of {name}", {"redriven": redriven})
    return DONE if redriven else NOTHING


@dead.command()
@queue_argument()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@yes_option
@asks
def drop(broker: Broker, out: Output, name: str, ids: tuple[str, ...],
         is_sure: bool) -> int:  # fmt: skip
    """Remove dead messages of QUEUE: all of them, or those with an ID."""
    verbs = _verbs(broker, name)
    which = many(len(ids), "dead message") if ids else "all dead messages"
    confirm(f"remove {which} of {name}", is_sure)
    dropped = verbs.drop(ids)
    out.done(f"dropped {many(dropped, 'dead message')} of {name}", {"dropped": dropped})
    return DONE if dropped else NOTHING


def _with_lines(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a message, with the lines of its error below each other."""
    lines = _error_lines(fields)
    return fields | {"reason": lines} if lines else fields


def _error_lines(fields: dict[str, Any]) -> list[str]:
    reason = fields.get("reason") or ""
    text = reason.decode("utf-8", "backslashreplace") if isinstance(reason, bytes) else reason
    return text.splitlines()


def _in_a_line(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a dead message for one line. The worker writes the exception first, and
    then the place that raised it."""
    error = next(iter(_error_lines(fields)), None)
    added = fields.get("added")  # a task of a tube has neither a time nor an error
    if added is None:
        return fields | {"error": error}
    age_s = (datetime.now(UTC) - datetime.fromisoformat(added)).total_seconds()
    return fields | {"age_s": max(0, round(age_s)), "error": error}


def _verbs(broker: Broker, name: str) -> Verbs:
    """Return the commands of the queue. Raises NothingFound, and BadSetting if its messages cannot
    be dead."""
    from quinque.cli.verbs_of import refuse_without_dead, verbs_of

    verbs = verbs_of(broker, as_bytes(name))
    refuse_without_dead(verbs)
    return verbs
