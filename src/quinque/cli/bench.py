"""The command `quinque bench`: a short load on a broker, and a table of its times.

Called by   cli/main.py.
Calls       cli/verbs_of.py, which has the commands of each family.

There is one client, which waits for each reply: the result is the speed of one program, and not the
limit of the broker.

Not here: the bench of this project, compared to other servers (bench/ in the repository).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

from quinque.cli.asking import asks
from quinque.cli.bars import telling
from quinque.cli.exit_codes import DONE
from quinque.cli.shown import Output
from quinque.errors import QuinqueError
from quinque.model.families import BY_NAME, JOBS, TUBES

if TYPE_CHECKING:
    from quinque.cli.verbs import Verbs
    from quinque.client.sync.broker import Broker

_COLUMNS: Final = {
    "what": "what",
    "messages": "messages",
    "seconds": "seconds",
    "per_second": "messages/s",
    "median_ms": "median ms",
    "p99_ms": "p99 ms",
}
_ALONE: Final = 10  # one of this many messages is sent alone
_GROUP: Final = "bench"
_NAME: Final = "quinque-bench-"


@click.command()
@click.option("--count", type=click.IntRange(min=10), default=10_000, show_default=True,
              help="Number of messages.")  # fmt: skip
@click.option("--size", "size_bytes", type=click.IntRange(min=0), default=100, show_default=True,
              help="Size of each message in bytes.")  # fmt: skip
@click.option("--batch", type=click.IntRange(min=1), default=100, show_default=True,
              help="Messages sent in one round trip.")  # fmt: skip
@click.option("--family", type=click.Choice(tuple(BY_NAME)), default="jobs", show_default=True,
              help="Family of the queue.")  # fmt: skip
@asks
def bench(broker: Broker, out: Output, count: int, size_bytes: int, batch: int, family: str) -> int:
    """Measure the speed of a broker: one client adds, takes and acks messages.

    The command uses a new queue and removes it at the end.
    """
    from quinque.cli.verbs_of import VERBS

    name = f"{_NAME}{secrets.token_hex(8)}".encode()
    verbs = VERBS[BY_NAME[family]](broker, name)
    if verbs.family is TUBES:
        broker.call("TUBE.CREATE", name, "fifo")
    body = b"x" * size_bytes
    alone = max(1, count // _ALONE)
    how = {"group": _GROUP} if "group" in verbs.taking else {}
    try:
        if how:
            verbs.take(1, 0.0, True, how)  # create the group before the first message
        rows = [
            _measured("add, one at a time", alone, 1, lambda some: _add(verbs, body, some)),
            _measured(
                f"add, {batch:,} at a time", count, batch, lambda some: _add(verbs, body, some)
            ),
            _measured(
                f"take and ack, {batch:,} at a time",
                alone + count,
                batch,
                lambda some: len(verbs.take(some, 0.0, True, how)),
            ),
        ]
    except BaseException:
        with suppress(QuinqueError):  # the first error is the one to report
            _remove(broker, verbs)
        raise
    _remove(broker, verbs)
    out.rows(rows, _COLUMNS)
    return DONE


def _measured(what: str, messages: int, batch: int, work: Callable[[int], int]) -> dict[str, Any]:
    """Run `work` for `messages` messages, `batch` at a time, or until no messages are left, and
    measure the time."""
    spent_ms: list[float] = []
    done = 0
    began_s = time.perf_counter()
    with telling(what, messages) as tell:
        while done < messages:
            asked_s = time.perf_counter()
            some = work(min(batch, messages - done))
            spent_ms.append(1000 * (time.perf_counter() - asked_s))
            if not some:
                break
            done += some
            tell(some)
    seconds = time.perf_counter() - began_s
    spent_ms.sort()
    return {
        "what": what,
        "messages": done,
        "seconds": round(seconds, 3),
        "per_second": round(done / seconds),
        "median_ms": round(spent_ms[len(spent_ms) // 2], 3),
        "p99_ms": round(spent_ms[min(len(spent_ms) - 1, len(spent_ms) * 99 // 100)], 3),
    }


def _add(verbs: Verbs, body: bytes, count: int) -> int:
    return len(verbs.add([body] * count, {}))


def _remove(broker: Broker, verbs: Verbs) -> None:
    if verbs.family is TUBES:
        broker.call("TUBE.TRUNCATE", verbs.queue)
        broker.call("TUBE.DROP", verbs.queue)
    elif verbs.family is JOBS:
        broker.call("QPURGE", verbs.queue, "FORGET")
    else:
        verbs.flush(lambda some: None)
