"""Extend the leases of held messages while they wait or their handlers run, and never afterwards.

Called by   runtime.py, one for each handler whose family has leases that can be extended.
Calls       sources.py for the operations, a Runner.

A lease is extended after a third of its time, so two requests may be lost. Requests to extend a
lease and to return the message never run at the same time: if the first came last, it would take a
message that no handler works on off the queue.

Not here: families without leases (sources.py), handlers that exceed their timeout (desk.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic
from typing import Final

from quinque.client.aio.runner import Runner
from quinque.errors import NotDone, QuinqueError, StoreUnavailable
from quinque.worker.desk import Desk
from quinque.worker.message import Message

LOG = logging.getLogger("quinque.worker")

_LOOK_S: Final = 0.1  # a quarter of the time after which the shortest lease is extended
_SHARE: Final = 3


async def keep_leases(desk: Desk, runner: Runner) -> None:
    """Extend the leases of held messages, until this is cancelled."""
    while True:
        await asyncio.sleep(_LOOK_S)
        now_s = monotonic()
        if not any(message.extend_s <= now_s for message in desk.held):
            continue
        async with desk.order:
            now_s = monotonic()
            due = [message for message in desk.held if _is_due(desk, message, now_s)]
            if due:
                await _extend(desk, runner, due, now_s)


def _is_due(desk: Desk, message: Message, now_s: float) -> bool:
    return message.extend_s <= now_s and not message.is_lost and not desk.is_done(message)


async def _extend(desk: Desk, runner: Runner, due: Sequence[Message], now_s: float) -> None:
    try:
        results = await runner.run_all(desk.source.extend(due))
    except (NotDone, StoreUnavailable) as error:
        LOG.warning("cannot extend the leases of queue %s: %s", desk.handler.name, error)
        return
    except QuinqueError:
        if len(due) == 1:
            _lost(due[0])
            return
        for message in due:  # at least one of them is not held any more: extend each alone
            await _extend(desk, runner, [message], now_s)
        return
    for message, result in zip(due, results, strict=True):
        lease_s = desk.source.lease_s(result)
        message.extend_s = now_s + lease_s / _SHARE
        desk.extended(message, now_s + lease_s)
        if not lease_s:
            _lost(message)


def _lost(message: Message) -> None:
    message.is_lost = True
    LOG.warning("cannot extend the lease of %s: another consumer may get the message", message)
