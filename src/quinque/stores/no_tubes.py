"""Refuse operations that tubes do not support: claims, stages, and pages in the order of positions.

Called by   stores, where an operation on a queue of any family begins.
Calls       nothing.

A task belongs to a session, not to a claim, and its tube says when it may be taken: a claim or a
published batch would go past both.

Not here: operations on tubes (model/tube_ops.py).
"""

from __future__ import annotations

from quinque.errors import BadRequest
from quinque.model.families import TUBES, Family


def refuse_tubes(family: Family) -> None:
    """Raises BadRequest when the operation is on a tube."""
    if family is TUBES:
        raise BadRequest(
            "tubes do not support claims, staged batches and pages: take and put tasks instead"
        )
