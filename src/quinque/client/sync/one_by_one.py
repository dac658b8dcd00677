"""Iterate over the messages of a queue with `for`.

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
    """Yield messages forever. Ask brokers that do not answer again. If one of them has delivered a
    message, it is delivered again when its lease ends."""
    while True:
        try:
            message = queue.take(None)
        except (NotDone, OutcomeUnknown):
            from quinque.client.sync.edge import sleep  # only clients of a broker need it

            sleep(random.uniform(_PAUSE_S / 2, _PAUSE_S))
        else:
            yield message
