"""The commands `quinque queue …`: list queues, and act on a whole queue.

Called by   cli/main.py.
Calls       cli/asking.py (the broker), cli/queue_counts.py (counts), verbs_of.py (the commands of
            each family).

Not here: the messages in it (cli/message.py, cli/dead.py).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

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
from quinque.cli.exit_codes import DONE
from quinque.cli.queue_counts import Counts, QueueCounts, read_counts, read_every
from quinque.cli.shown import Output
from quinque.errors import many
from quinque.model.families import BY_NAME, JOBS

if TYPE_CHECKING:
    from quinque.cli.verbs import Verbs
    from quinque.client.sync.broker import Broker

COLUMNS: Final = {
    "name": "queue",
    "family": "family",
    "ready": "ready",
    "leased": "leased",
    "claimed": "claimed",
    "delayed": "delayed",
    "dead": "dead",
    "oldest_s": "oldest",
}
SORTS: Final = ("name", "ready", "leased", "delayed", "dead", "oldest")


@click.group()
def queue() -> None:
    """List, show, set, pause and flush queues."""


@queue.command("ls")
@click.argument("pattern", default="*")
@click.option(
    "--family",
    type=click.Choice(tuple(BY_NAME)),
    default=None,
    help="List only queues of this family.",
)
@click.option("--sort", type=click.Choice(SORTS), default="name", show_default=True,
              help="Sort by name, or by the largest number.")  # fmt: skip
@asks
def list_queues(broker: Broker, out: Output, pattern: str, family: str | None, sort: str) -> int:
    """List the queues that match PATTERN, with the number of messages in each.

    Without PATTERN, list all queues. In PATTERN, * matches any text, ? one character and [ab] one
    of the characters.

    \b
    quinque queue ls
    quinque queue ls 'mail.*' --sort ready
    """
    is_all = pattern == "*" and family is None
    counts = read_counts(broker) if is_all else Counts(read_every(broker, as_bytes(pattern)), 0)
    found = [each for each in counts.queues if family is None or each.family.name == family]
    rows = [fields_of(each) for each in sorted_by(sort, found)]
    if rows or out.as_json:
        out.rows(rows, COLUMNS)
    else:
        out.nothing("no queues yet" if is_all else "no queue matches")
    if counts.left_out:
        queues = many(counts.left_out, "queue")
        click.echo(f"quinque: not shown: {queues} with fewer messages", err=True)
    return DONE


@queue.command()
@queue_argument()
@asks
def info(broker: Broker, out: Output, name: str) -> int:
    """Show the state and the settings of QUEUE."""
    from quinque.cli.verbs_of import verbs_of

    found = read_counts(broker, as_bytes(name)).queues
    if not found:
        raise NothingFound(f"no queue {name}")
    details = verbs_of(broker, found[0].name, found[0].family).details()
    out.one(fields_of(found[0]) | details)
    return DONE


@queue.command()
@queue_argument()
@click.option("--in", "is_in", is_flag=True, help="Refuse new messages.")
@click.option("--out", "is_out", is_flag=True, help="Stop deliveries.")
@asks
def pause(broker: Broker, out: Output, name: str, is_in: bool, is_out: bool) -> int:
    """Pause QUEUE: refuse new messages, or stop deliveries (jobs).

    Without --in and --out, the command does both. A queue that does not exist is created, as a
    queue of jobs.
    """
    from quinque.cli.verbs_of import verbs_of

    both = is_in == is_out
    verbs = verbs_of(broker, as_bytes(name), JOBS)
    verbs.pause(is_in or both, is_out or both)
    fields = {"name": name, "paused_in": is_in or both, "paused_out": is_out or both}
    what = "in and out" if both else "in" if is_in else "out"
    out.done(f"{_named(name, verbs)} is paused ({what})", fields | {"created": verbs.is_new})
    return DONE


@queue.command()
@queue_argument()
@asks
def resume(broker: Broker, out: Output, name: str) -> int:
    """Resume a paused QUEUE (jobs)."""
    from quinque.cli.verbs_of import verbs_of

    verbs_of(broker, as_bytes(name)).pause(is_in=False, is_out=False)
    out.done(f"{name} is not paused", {"name": name, "paused_in": False, "paused_out": False})
    return DONE


@queue.command("set")
@queue_argument()
@click.option("--expired", type=click.Choice(("delete", "dead")), required=True,
              help="Delete jobs that expire, or keep them as dead jobs.")  # fmt: skip
@asks
def set_options(broker: Broker, out: Output, name: str, expired: str) -> int:
    """Change a setting of QUEUE (jobs).

    With --expired dead, a job whose time to live ends is dead, and `quinque dead` lists it. By
    default it is deleted. A queue that does not exist is created, as a queue of jobs.
    """
    from quinque.cli.verbs_of import verbs_of

    is_kept = expired == "dead"
    verbs = verbs_of(broker, as_bytes(name), JOBS)
    verbs.keep_expired(is_kept)
    what = "are kept as dead jobs" if is_kept else "are deleted"
    fields = {"name": name, "keeps_expired": is_kept, "created": verbs.is_new}
    out.done(f"{_named(name, verbs)}: jobs that expire {what}", fields)
    return DONE


@queue.command()
@queue_argument()
@yes_option
@asks
def flush(broker: Broker, out: Output, name: str, is_sure: bool) -> int:
    """Remove all messages of QUEUE, in any state."""
    from quinque.cli.verbs_of import verbs_of

    verbs = verbs_of(broker, as_bytes(name))
    kept = sum(found.kept for found in read_counts(broker, verbs.queue).queues)
    confirm(f"remove {many(kept, 'message')} of {name}", is_sure)
    with telling("removed", kept) as tell:
        removed = verbs.flush(tell)
    left = sum(found.kept for found in read_counts(broker, verbs.queue).queues)
    out.done(
        f"removed {many(removed, 'message')} of {name}"
        + (f", {many(left, 'message')} left that other clients hold or have added" if left else ""),
        {"name": name, "removed": removed, "left": left},
    )
    return DONE


def _named(name: str, verbs: Verbs) -> str:
    """Return the name of the queue with a note that it is new, because the name may be a typing
    error."""
    return f"{name} (created)" if verbs.is_new else name


def fields_of(found: QueueCounts) -> dict[str, Any]:
    """Return the fields of a queue to print."""
    fields = asdict(found) | {"family": found.family.name}
    if found.family.is_worklist:
        del fields["groups"]
    return fields


def sorted_by(sort: str, found: list[QueueCounts]) -> list[QueueCounts]:
    """Sort by name, or by a number with the largest first."""
    if sort == "name":
        return sorted(found, key=lambda each: each.name)
    field = "oldest_s" if sort == "oldest" else sort
    return sorted(found, key=lambda each: (-(getattr(each, field) or 0), each.name))
