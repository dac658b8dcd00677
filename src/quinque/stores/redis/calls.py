"""One call of a script, and an operation as steps of such calls.

Called by   feeds.py, worklists.py and looks.py (make them), store.py (carries them out).
Calls       nothing.

The steps of an operation are a generator: it yields the calls that can be made at the same time, is
sent what each answered, and returns the result. What a call refuses is raised inside it. So the
steps know nothing of sockets, and how calls travel is decided in one place.

Not here: what the scripts do (scripts/).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

from quinque.stores.redis.edge import Edge

Arg = bytes | int


class Call(NamedTuple):
    """A script, its KEYS (those of the slots it is about, from keys.slot_key) and its ARGV. One
    that `makes` may make a queue where there was none."""

    script: str
    keys: Sequence[bytes]
    argv: Sequence[Arg]
    makes: bool = False


Steps = Generator[Sequence[Call], list[Any], Any]
Runner = Callable[[Any, Edge], Steps]


def one_call(make: Callable[[Any, Edge], Call], read: Callable[[Any, Any], Any]) -> Runner:
    """Steps of one call: `make(op, edge)` is the call, `read(op, reply)` the result."""

    def run(op: Any, edge: Edge) -> Steps:
        (reply,) = yield [make(op, edge)]
        return read(op, reply)

    return run
