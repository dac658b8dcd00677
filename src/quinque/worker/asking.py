"""Run operations at a broker that may be away for a while.

Called by   desk.py.
Calls       a Runner.

Not here: the operations (sources.py).
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

AGAIN: Final = Backoff(first=0.2, most=10.0)  # pause before an operation is retried


class Asking:
    """The requests about one queue. If `is_late`, nothing is retried. `has_failed` is set if a
    message could not be settled. The caller sets it if a refusal is not final."""

    def __init__(self, runner: Runner, queue: str) -> None:
        self._run_all = runner.run_all
        self._queue = queue
        self.is_late = self.has_failed = False

    async def surely(self, ops: Sequence[Op]) -> QuinqueError | None:
        """Carry out the operations, however long it takes, maybe more than once. Return the error
        if the broker refuses them."""
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
        """Carry out the operations as `surely` does. A refusal is final."""
        if await self.surely(ops) is not None:
            self.has_failed = True

    async def once(self, ops: Sequence[Op]) -> QuinqueError | None:
        """Try the operations once. Return the error if that fails; then the leases of their
        messages end."""
        try:
            if ops:
                await self._run_all(ops)
        except QuinqueError as error:
            LOG.warning("cannot return messages of queue %s: %s", self._queue, error)
            self.has_failed = True
            return error
        except asyncio.CancelledError:  # the process ends and does not wait for the broker
            self.has_failed = True
            raise
        return None
