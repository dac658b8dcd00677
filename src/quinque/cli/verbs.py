"""The verbs of the command line, and those that are the same in all families.

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
from quinque.errors import BadSetting, QuinqueError
from quinque.model.families import Family
from quinque.model.look_ops import BrowsePlaces, DividePlaces
from quinque.model.rows import CHUNK_ROWS_MOST, Row
from quinque.model.states import State

Tell = Callable[[int], None]  # takes the number of further messages that are done

STATES: Final = {state.name.lower(): state for state in State}


@dataclass(frozen=True)
class Shown:
    """A message. A field that is None is unknown, or does not apply."""

    id: str
    body: bytes
    facts: dict[str, Any] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        return {"id": self.id, **self.facts, "body": self.body}


class Verbs:
    """A queue and its verbs. `adding` and `taking` are the options of its family."""

    family: ClassVar[Family]
    has_dead: ClassVar[bool] = False
    adding: ClassVar[frozenset[str]] = frozenset()
    taking: ClassVar[frozenset[str]] = frozenset()
    nacking: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, broker: Broker, queue: bytes) -> None:
        self.broker = broker
        self.queue = queue
        self.is_new = False  # the queue did not exist when it was looked up

    # -- messages --------------------------------------------------------------------------------

    def add(self, bodies: Sequence[bytes], how: dict[str, Any]) -> list[str]:
        """Add messages with these bodies and return their ids. `how` has options of `adding`.

        If there is room for only some, add the first ones and return their ids. A call with the
        others raises the error.
        """
        raise NotImplementedError

    def added_before(self, error: QuinqueError) -> list[str]:
        """Return the ids of the messages that an `add` which raised this error has added."""
        ids: list[bytes] = []
        for reply in error.replies:
            ids += reply if isinstance(reply, list) else [reply] if reply is not None else []
        return [id.decode() for id in ids]

    def take(self, count: int, wait_s: float, is_acked: bool, how: dict[str, Any]) -> list[Shown]:
        """Lease up to `count` messages, or with `is_acked` finish them. `how` has options of
        `taking`."""
        raise NotImplementedError

    def ack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        """Ack taken messages. Return how many were taken, or existed."""
        raise NotImplementedError

    def nack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        """Return taken messages to the queue. Return how many were taken. `how` has options of
        `taking` and `nacking`."""
        raise NotImplementedError

    def delete(self, ids: Sequence[str]) -> int:
        """Remove messages without processing them. Return how many existed."""
        self.refuse(
            "message delete", "take and ack the message, or remove all messages with queue flush"
        )

    def peek(self, state: State, count: int) -> list[Shown]:
        """Return the first messages in that state. Nothing changes."""
        return [shown_row(row) for row, _ in zip(self.rows([state]), range(count), strict=False)]

    def show(self, id: str) -> Shown | None:
        """Return the message, if it exists. Nothing changes. By default, search the whole queue."""
        wanted = id.encode("utf-8", "surrogateescape")
        return next((shown_row(row) for row in self.rows(State) if row.id == wanted), None)

    # -- the queue -------------------------------------------------------------------------------

    def flush(self, tell: Tell) -> int:
        """Remove every message. Return how many existed. `tell` gets the progress."""
        raise NotImplementedError

    def pause(self, is_in: bool, is_out: bool) -> None:
        """Refuse new messages (`is_in`), stop deliveries (`is_out`); with neither, resume both."""
        self.refuse("queue pause", "only queues of jobs can be paused")

    def keep_expired(self, is_kept: bool) -> None:
        """Keep jobs that expire as dead jobs, or delete them."""
        self.refuse("queue set --expired", "only expired jobs can be kept")

    def details(self) -> dict[str, Any]:
        """Return the facts about the queue that only this family has."""
        return {}

    # -- dead messages ---------------------------------------------------------------------------

    def redrive(self, ids: Sequence[str], count: int) -> int:
        """Make dead messages ready again: `ids`, or the first `count` (0 means all). Return how
        many."""
        raise NotImplementedError

    def drop(self, ids: Sequence[str]) -> int:
        """Remove dead messages: `ids`, or all. Return how many."""
        raise NotImplementedError

    # -- for the families ------------------------------------------------------------------------

    def rows(self, states: Sequence[State] | type[State]) -> Iterator[Row]:
        """Yield the messages in these states, page by page."""
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
        """Raise BadSetting: the family does not support the request."""
        name = self.queue.decode("utf-8", "backslashreplace")
        raise BadSetting(
            f"{name} is a queue of the family {self.family.name}, which does not support {what}: "
            f"{instead}"
        )


def shown_row(row: Row) -> Shown:
    """Return a message of a page."""
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
    """Return a timestamp as text, or None for 0, which means unknown."""
    if not at_ms:
        return None
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_ids(ids: Sequence[str]) -> list[bytes]:
    return [id.encode("utf-8", "surrogateescape") for id in ids]


def as_ms(span_s: float) -> int:
    return round(span_s * 1000)
