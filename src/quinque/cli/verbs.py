"""What the command line can do to a queue, whatever its family: the verbs, and how most are done.

Called by   cli/queue.py, message.py, dead.py, bench.py, through verbs_of.py.
Calls       a Broker.

Each family maps a verb to its commands (job_verbs.py and its neighbours). A verb that a family does
not have is refused, with an alternative, and nothing is sent.

Not here: options and printing (cli/message.py and its neighbours).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, NoReturn

import msgpack

from quinque.client.sync.broker import Broker
from quinque.errors import BadSetting
from quinque.model.families import Family
from quinque.model.look_ops import BrowsePlaces, DividePlaces
from quinque.model.rows import CHUNK_ROWS_MOST, Row
from quinque.model.states import State

Tell = Callable[[int], None]  # takes the number of messages that are newly done

STATES: Final = {state.name.lower(): state for state in State}


@dataclass(frozen=True)
class Shown:
    """A message. A fact that is None is unknown, or does not apply."""

    id: str
    body: bytes
    facts: dict[str, Any] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        return {"id": self.id, **self.facts, "body": self.body}


class Verbs:
    """A queue and what can be done to it. `adding` and `taking` are the options of its family."""

    family: ClassVar[Family]
    has_dead: ClassVar[bool] = False
    adding: ClassVar[frozenset[str]] = frozenset()
    taking: ClassVar[frozenset[str]] = frozenset()
    nacking: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, broker: Broker, queue: bytes) -> None:
        self.broker = broker
        self.queue = queue
        self.is_new = False  # it did not exist when it was looked up

    # -- messages --------------------------------------------------------------------------------

    def add(self, bodies: Sequence[bytes], how: dict[str, Any]) -> list[str]:
        """Messages of these bodies are in the queue; their ids. `how` has options of `adding`.

        Of the first ones only where there is room for no more; then the others may be tried again,
        and what is wrong is raised.
        """
        raise NotImplementedError

    def take(self, count: int, wait_s: float, is_acked: bool, how: dict[str, Any]) -> list[Shown]:
        """Lease up to `count` messages, or with `is_acked` finish them. `how` has options of
        `taking`."""
        raise NotImplementedError

    def ack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        """Messages that were taken are done; how many were taken, or there."""
        raise NotImplementedError

    def nack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        """Return messages that were taken to the queue; how many were taken. `how` has options of
        `taking` and `nacking`."""
        raise NotImplementedError

    def delete(self, ids: Sequence[str]) -> int:
        """Messages are gone, undone; how many there were."""
        self.refuse(
            "message delete", "take and ack the message, or remove all messages with queue flush"
        )

    def peek(self, state: State, count: int) -> list[Shown]:
        """The first messages in that state. Nothing changes."""
        return [shown_row(row) for row, _ in zip(self.rows([state]), range(count), strict=False)]

    def show(self, id: str) -> Shown | None:
        """The message, if it is there. Nothing changes. The queue is gone through."""
        wanted = id.encode("utf-8", "surrogateescape")
        return next((shown_row(row) for row in self.rows(State) if row.id == wanted), None)

    # -- the queue -------------------------------------------------------------------------------

    def flush(self, tell: Tell) -> int:
        """Remove every message, and return how many there were. `tell` gets the progress."""
        raise NotImplementedError

    def pause(self, is_in: bool, is_out: bool) -> None:
        """Refuse new messages (`is_in`), stop deliveries (`is_out`); with neither, resume both."""
        self.refuse("queue pause", "only queues of jobs can be paused")

    def keep_expired(self, is_kept: bool) -> None:
        """Messages that expire are dead, or deleted."""
        self.refuse("queue set --expired", "only expired jobs can be kept")

    def details(self) -> dict[str, Any]:
        """The facts about the queue that only this family has."""
        return {}

    # -- dead messages ---------------------------------------------------------------------------

    def redrive(self, ids: Sequence[str], count: int) -> int:
        """Dead messages are ready again: these, or the first `count` (0 = all); how many."""
        raise NotImplementedError

    def drop(self, ids: Sequence[str]) -> int:
        """Dead messages are gone: these, or all; how many."""
        raise NotImplementedError

    # -- for the families ------------------------------------------------------------------------

    def rows(self, states: Sequence[State] | type[State]) -> Iterator[Row]:
        """The messages in these states, page by page."""
        chosen = list(states)
        shards = self.broker.run(DividePlaces(self.family, self.queue, 1, chosen)).shards
        for shard in range(shards):
            after = 0
            while True:
                op = BrowsePlaces(self.family, self.queue, after, 0, CHUNK_ROWS_MOST, chosen, shard)
                page = self.broker.run(op)
                for fields in msgpack.unpackb(page.rows, raw=True):
                    yield Row(*fields)
                if page.is_last:
                    break
                after = page.place

    def refuse(self, what: str, instead: str) -> NoReturn:
        """Raises BadSetting: the family does not have what was asked for."""
        name = self.queue.decode("utf-8", "backslashreplace")
        raise BadSetting(
            f"{name} is a queue of the family {self.family.name}, which does not support {what}: "
            f"{instead}"
        )


def shown_row(row: Row) -> Shown:
    """A message of a page."""
    facts: dict[str, Any] = {
        "state": State(row.state).name.lower(),
        "added": instant(row.place // 1000),
        "due": instant(row.due_ms),
        "expires": instant(row.expires_ms),
        "deliveries": row.attempt or None,
        "nacks": row.nacks or None,
        "requeues": row.requeues or None,
        "reason": row.reason or None,
        "key": row.key,
    }
    return Shown(row.id.decode("utf-8", "surrogateescape"), row.body, facts)


def instant(at_ms: int) -> str | None:
    """A timestamp as text; None for 0, which means that there is none."""
    if not at_ms:
        return None
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_ids(ids: Sequence[str]) -> list[bytes]:
    return [id.encode("utf-8", "surrogateescape") for id in ids]


def as_ms(span_s: float) -> int:
    return round(span_s * 1000)
