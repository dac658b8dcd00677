"""The events of reliable and items queues, and of whole work queues, in the journal.

Called by   the engine (decide and due make them, apply carries them out), the journal.
Calls       nothing.

They are events as those of model/events.py are: tuples whose first field is their kind.

Not here: what all worklists have in common (model/events.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

RECOVERED: Final = 44
RENAMED: Final = 45
NUMBERED: Final = 46
EXPIRY_SET: Final = 47
MOVED_BACK: Final = 48
REPLACED: Final = 49  # a WorkKept: the message has another body, and the rest is as it was


class Recovered(NamedTuple):
    """Leased messages were delivered once more, and are the last of the leased ones. `turn` is that
    of the first."""

    kind: int
    queue: bytes
    at_ms: int
    turn: int
    ids: Sequence[bytes]


class Renamed(NamedTuple):
    """A worklist was renamed, with all that is in it; a worklist that had the name is removed."""

    kind: int
    queue: bytes
    new_name: bytes
    at_ms: int


class Numbered(NamedTuple):
    """The newest id that was made in a family where ids are numbers: `at_ms`-`number`."""

    kind: int
    at_ms: int
    number: int


class ExpirySet(NamedTuple):
    """A worklist goes at `ends_ms`, with all that is in it; None = it stays."""

    kind: int
    queue: bytes
    ends_ms: int | None


class MovedBack(NamedTuple):
    """Leases ended, in a family where messages then go to the back: they are ready, at places that
    follow each other from `place`."""

    kind: int
    queue: bytes
    at_ms: int
    place: int
    ids: Sequence[bytes]


OwnEvent = Recovered | Renamed | ExpirySet | MovedBack

# A record read back, as the event it is. Those with bodies are taken apart as they are.
AS_OWN_EVENT: Final[dict[int, Callable[[Any], OwnEvent]]] = {
    RECOVERED: Recovered._make,
    RENAMED: Renamed._make,
    EXPIRY_SET: ExpirySet._make,
    MOVED_BACK: MovedBack._make,
}
