"""The format of the ids that a store makes for messages of work queues.

Called by   dialects/disque_args.py, client/checks.py.
Calls       nothing.

    D-dcb833cf-rEh6ASt9I3oyJ301XFS1XOa+-05a1

Not here: how ids are made (stores/id_slots.py).
"""

from __future__ import annotations

from typing import Final

_ID_BYTES: Final = 40
_DASH: Final = ord("-")


def is_id(text: bytes) -> bool:
    """Return whether this may be an id: only the first and last bytes are checked."""
    return len(text) == _ID_BYTES and text[:2] == b"D-" and text[10] == _DASH and text[35] == _DASH
