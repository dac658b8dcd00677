"""The number of messages in each queue, from one request to the broker.

Called by   cli/queue.py, cli/dead.py, cli/top.py, cli/asking.py (names of queues, for shells).
Calls the commands QUEUES and, if there are more queues than it lists, SCAN.

Not here: how the broker counts (server/commands/queues.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from quinque.model.families import BY_NAME, Family
from quinque.model.glob import compile_glob

if TYPE_CHECKING:
    from quinque.client.sync.broker import Broker

_AT_ONCE: Final = 500  # queues in one request: fewer than QUEUES lists


@dataclass(frozen=True)
class QueueCounts:
    """The counts of a queue. `oldest_s` is None if no message is ready, or its age is unknown."""

    name: bytes
    family: Family
    ready: int
    leased: int
    delayed: int
    dead: int
    claimed: int
    kept: int
    oldest_s: float | None
    added: int
    delivered: int
    acked: int
    returned: int
    died: int
    expired: int
    removed: int
    groups: list[dict[str, Any]]


@dataclass(frozen=True)
class Counts:
    """The counts of the listed queues, and the number of queues that are not listed."""

    queues: list[QueueCounts]
    left_out: int


def read_counts(broker: Broker, *names: bytes) -> Counts:
    """Return the counts of all queues, or of the named ones that exist."""
    left_out, queues = broker.call("QUEUES", *names)
    return Counts([_counts(_map(told)) for told in queues], left_out)


def read_every(broker: Broker, pattern: bytes = b"*") -> list[QueueCounts]:
    """Return the counts of the queues that match, without a limit."""
    counts = read_counts(broker)
    if not counts.left_out:
        matches = compile_glob(pattern).fullmatch
        return [found for found in counts.queues if matches(found.name)]
    names = list(dict.fromkeys(_scanned(broker, pattern)))
    return [
        found
        for at in range(0, len(names), _AT_ONCE)
        for found in read_counts(broker, *names[at : at + _AT_ONCE]).queues
    ]


def _scanned(broker: Broker, pattern: bytes) -> Iterator[bytes]:
    """Return the names that match. Some may appear twice."""
    cursor = b"0"
    while True:
        cursor, names = broker.call("SCAN", cursor, "MATCH", pattern, "COUNT", _AT_ONCE)
        yield from names
        if cursor == b"0":
            return


def _counts(told: dict[str, Any]) -> QueueCounts:
    told["family"] = BY_NAME[told["family"].decode()]
    oldest_ms = told.pop("oldest-ms")
    told["groups"] = [_map(group) for group in told["groups"]]
    known = {name: told[name] for name in QueueCounts.__dataclass_fields__ if name in told}
    return QueueCounts(**known, oldest_s=None if oldest_ms is None else oldest_ms / 1000)


def _map(reply: list[Any]) -> dict[str, Any]:
    return dict(zip((name.decode() for name in reply[::2]), reply[1::2], strict=True))
