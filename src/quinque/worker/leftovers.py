"""What a process that died had in hand is settled, by the one that takes its place.

Called by   desk.py, for each handler.
Calls       sources.py for the operations, asking.py.

Not here: where that stands (board.py), that it counts as a failure (supervisor.py).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from quinque.model.ops import Op
from quinque.worker.asking import Asking
from quinque.worker.board import Hand, Left
from quinque.worker.message import Message
from quinque.worker.sources import Source

LOG = logging.getLogger("quinque.worker")

DIED: Final = "the worker process died while it handled this message"


async def settle_left(left: Sequence[Left], source: Source, asking: Asking) -> None:
    """As far as the family can: what was done is acked, what had not begun is given back, and what
    was worked is given back as a failure, since one of it may be why the process died."""
    by_state: dict[Hand, list[Message]] = {}
    for it in left:
        by_state.setdefault(it.state, []).append(Message(source.handler.name, it.id, b"", 0))
    crashed = by_state.get(Hand.CRASHED, [])
    for message in crashed:
        LOG.error("worker process died while it handled %s", message)
    if Hand.DONE in by_state:
        await asking.for_good(source.ack(by_state[Hand.DONE]))
    ops: list[Op] = []
    if Hand.HELD in by_state:
        ops += source.give_back(by_state[Hand.HELD])
    if crashed:
        ops += source.crashed([message.raw_id for message in crashed], DIED)
    await asking.once(ops)
