"""Count handlers that have ended, with their run times and the ages of their messages.

Called by   desk.py, a batch at a time.
Calls       figures.py; sources.py, which find out when a message was added.

Not here: the retry of failed messages (desk.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic, time

from quinque.worker.figures import Count, Tally
from quinque.worker.message import Message
from quinque.worker.sources import Source


def count_ended(tally: Tally, source: Source, ended: Sequence[Message], count: Count) -> None:
    """Count messages, at least one, whose handlers have ended with this result."""
    tally.add(count, len(ended))
    tally.ran([message.ended_s - message.started_s for message in ended])
    if source.tells_added:
        ahead_s = time() - monotonic()  # the wall clock minus the clock of the run times
        waited = [
            max(0.0, message.started_s + ahead_s - added_s)
            for message in ended
            if message.deliveries == 1 and (added_s := source.added_s(message.raw_id)) is not None
        ]
        if waited:
            tally.waited(waited)
