"""Handlers that have ended are counted, with how long they took and how long their messages waited.

Called by   desk.py, a batch at a time.
Calls       figures.py; sources.py, which know when a message was added.

Not here: what becomes of what failed (desk.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic, time

from quinque.worker.figures import Count, Tally
from quinque.worker.message import Message
from quinque.worker.sources import Source


def count_ended(tally: Tally, source: Source, ended: Sequence[Message], count: Count) -> None:
    """Their handlers, one at least, have ended so."""
    tally.add(count, len(ended))
    tally.ran([message.ended_s - message.started_s for message in ended])
    if source.tells_added:
        ahead_s = time() - monotonic()  # of the clock of the day before that of the spans
        waited = [
            max(0.0, message.started_s + ahead_s - added_s)
            for message in ended
            if message.deliveries == 1 and (added_s := source.added_s(message.raw_id)) is not None
        ]
        if waited:
            tally.waited(waited)
