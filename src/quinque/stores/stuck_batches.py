"""Decided batches that cannot be published, because another family uses the name of their queue.

Called by   embedded/stages.py, redis/stages.py, when the store itself goes on with a batch.
Calls       the log.

Not here: publishing (embedded/stages.py, redis/stages.py).
"""

from __future__ import annotations

import logging
from typing import Final

from quinque.errors import WrongType, many, printable

_TOLD_MOST: Final = 1_000  # on Redis another broker may end a batch, which stays among them here

Name = tuple[bytes, bytes, bytes, int]  # queue, sink, run, number


class StuckBatches:
    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._told: set[Name] = set()

    def tell(self, name: Name, messages: int, why: WrongType) -> None:
        """Log that the messages wait, once for each batch."""
        if name in self._told:
            return
        if len(self._told) == _TOLD_MOST:
            self._told.clear()
        self._told.add(name)
        queue, sink, run, number = name
        words = " ".join(printable(word) for word in (queue, sink, run))
        self._log.warning(
            "%s of batch %d of run '%s' of sink '%s' cannot be published: %s. The broker publishes "
            "them when the name is free again. To delete them, use STAGE.DROP %s %d",
            many(messages, "message"),
            number,
            printable(run),
            printable(sink),
            why,
            words,
            number,
        )

    def ended(self, name: Name) -> None:
        """The batch goes on."""
        self._told.discard(name)
