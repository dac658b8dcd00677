"""Asking a broker for what has to be done, though it may be away for a while.

Called by   desk.py.
Calls       a Runner.

Not here: what is asked for (sources.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from quinque.client.aio.runner import Runner
from quinque.errors import NotDone, QuinqueError, StoreUnavailable
from quinque.model.ops import Op
from quinque.worker.backoff import Backoff

LOG = logging.getLogger("quinque.worker")

AGAIN: Final = Backoff(first=0.2, most=10.0)  # after a broker did not do what it was asked


class Asking:
    """About one queue. When `is_late`, nothing is asked again. `has_failed` is set when something
    could not be settled, by the caller where a refusal is not the end of it."""

    def __init__(self, runner: Runner, queue: str) -> None:
        self._run_all = runner.run_all
        self._queue = queue
        self.is_late = self.has_failed = False

    async def surely(self, ops: Sequence[Op]) -> QuinqueError | None:
        """The operations are carried out, however long it takes, maybe more than once; or why they
        are not."""
        tries = 0
        while ops:
            try:
                await self._run_all(ops)
                if tries:
                    LOG.info("reconnected: acked or returned messages of queue %s", self._queue)
                return None
            except (NotDone, StoreUnavailable) as error:
                tries += 1
                LOG.warning("cannot ack or return messages of queue %s: %s", self._queue, error)
                if self.is_late:
                    self.has_failed = True
                    return error
                await asyncio.sleep(AGAIN.delay_s(tries))
            except QuinqueError as error:
                LOG.error(
                    "the broker refused to ack or return messages of queue %s: %s",
                    self._queue,
                    error,
                )
                return error
        return None

    async def for_good(self, ops: Sequence[Op]) -> None:
        """Carry out the operations as `surely` does; a refusal is the end of it."""
        if await self.surely(ops) is not None:
            self.has_failed = True

    async def once(self, ops: Sequence[Op]) -> QuinqueError | None:
        """The operations are carried out; or why they are not. Then the leases of what they are
        about run out."""
        try:
            if ops:
                await self._run_all(ops)
        except QuinqueError as error:
            LOG.warning("cannot return messages of queue %s: %s", self._queue, error)
            self.has_failed = True
            return error
        return None
