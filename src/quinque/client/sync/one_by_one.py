"""Messages of a queue, one after the other: what `for` goes through.

Called by   jobs.py, events.py, tubes.py.
Calls       a queue that messages are taken from.

A message is taken only when the program asks for one. A consumer that is slow, or stops, therefore
holds no message that others could work on.

Not here: several at a time (`take_many` of each queue).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final, Protocol, TypeVar

from quinque.errors import NotDone, OutcomeUnknown

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

_PAUSE_S: Final = 0.5


class Source(Protocol[T_co]):
    def take(self, timeout: None) -> T_co:
        """Wait for the next message and return it."""


def one_by_one(queue: Source[T]) -> Iterator[T]:
    """The messages, without an end. Brokers that do not answer are asked repeatedly. A
    message that one of them may have handed out comes back when its lease has ended."""
    while True:
        try:
            message = queue.take(None)
        except (NotDone, OutcomeUnknown):
            from quinque.client.sync.edge import sleep  # which only those need who ask a broker

            sleep(random.uniform(_PAUSE_S / 2, _PAUSE_S))
        else:
            yield message
