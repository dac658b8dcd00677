"""An operation as a sequence of requests to Redis, for both sync and asyncio.

Called by   working.py, lists.py and cleaning.py make steps; sync.py and aio.py carry them out.
Calls       scripts.py.

    steps ──── a request ────▶ sync.py or aio.py ────▶ Redis
          ◀─── its answer ────

So the rules of the queue are written once, and waiting is written twice.

Not here: the rules.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from quinque.workqueue.counts import Progress
from quinque.workqueue.scripts import SCRIPTS, Script

Word = bytes | str | int | float


class Command(NamedTuple):
    """A command with a key, which finds its way in a cluster; its answer is never decoded."""

    words: tuple[Word, ...]


class Call(NamedTuple):
    """A script, by its hash; its text is sent when the server does not know it."""

    script: Script
    prefix: bytes  # of the keys of a queue; scripts know the names
    args: Sequence[Word]
    is_once: bool = False  # a second run would do harm: it is not sent again when a reply is lost

    def by_hash(self, in_cluster: bool) -> tuple[Word, ...]:
        return ("EVALSHA", self.script.sha, *self._keys(in_cluster), *self.args)

    def by_text(self, in_cluster: bool) -> tuple[Word, ...]:
        return ("EVAL", self.script.text, *self._keys(in_cluster), *self.args)

    def _keys(self, in_cluster: bool) -> tuple[Word, ...]:
        # While a slot is moved, its keys are at two servers, and a script would see half of them.
        # Asked for two keys that are never there, neither begins: it is tried again, or fails.
        return (2, self.prefix, self.prefix + b"-") if in_cluster else (1, self.prefix)


class Scan(NamedTuple):
    """One slice of the keys of the server that has `key`. The answer has the name of the server,
    the next cursor (0 at the end), and keys."""

    key: bytes
    cursor: int
    pattern: bytes
    most: int  # keys looked at, about


class Size(NamedTuple):
    """The number of keys of the server that has `key`."""

    key: bytes


class Pause(NamedTuple):
    """Time passes."""

    seconds: float


Request = Command | Call | Scan | Size | Pause | Progress
R = TypeVar("R")
Steps = Generator[Request, Any, R]


def call(name: str, prefix: bytes, *args: Word) -> Call:
    return Call(SCRIPTS[name], prefix, args)


def call_once(name: str, prefix: bytes, *args: Word) -> Call:
    return Call(SCRIPTS[name], prefix, args, is_once=True)
