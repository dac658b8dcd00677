"""Settle the messages that a process held when it died, in the process that takes its place.

Called by   desk.py, for each handler.
Calls       sources.py for the operations, asking.py.

Not here: the record of those messages (board.py), the count of the failure (supervisor.py).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from quinque.errors import QuinqueError
from quinque.model.ops import Op
from quinque.worker.asking import Asking
from quinque.worker.board import Hand, Left
from quinque.worker.message import Message
from quinque.worker.sources import Source

LOG = logging.getLogger("quinque.worker")

DIED: Final = "the worker process died while it handled this message"


async def settle_left(left: Sequence[Left], source: Source, asking: Asking) -> None:
    """Settle the messages, as far as the family can. Ack those that were done, and return those
    that had not started. Return those whose handlers ran as failures, because one of them may have
    killed the process. Leave messages that another consumer may hold by now to that consumer."""
    for it in left:
        if it.state is Hand.CRASHED:
            LOG.error("worker process died while it handled %s", _message(it, source))
    done = [it for it in left if it.state is Hand.DONE]
    if source.handler.family.has_chosen_ids:  # another item may have the id by now
        done = await source.ours(done)
    if done:
        await asking.for_good(source.ack([_message(it, source) for it in done]))
    try:
        ours = await source.ours([it for it in left if it.state is not Hand.DONE])
    except QuinqueError as error:
        LOG.warning("cannot return messages of queue %s: %s", source.handler.name, error)
        return
    held = [_message(it, source) for it in ours if it.state is Hand.HELD]
    crashed = [it.id for it in ours if it.state is Hand.CRASHED]
    ops: list[Op] = []
    if held:
        ops += source.give_back(held)
    if crashed:
        ops += source.crashed(crashed, DIED)
    await asking.once(ops)


def _message(left: Left, source: Source) -> Message:
    return Message(source.handler.name, left.id, b"", left.deliveries)
