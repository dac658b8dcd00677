"""Refuse options of tasks that a tube type does not have, if the operation is strict.

Called by   stores, for an operation that is_strict, when they know the tube's kind.
Calls       nothing.

Tarantool ignores options that a tube type does not have, and its clients rely on that. In commands
of RESP, a delay without an effect would be a trap.

Not here: the effect of the options (engine/tubes/).
"""

from __future__ import annotations

from collections.abc import Iterator

from quinque.errors import NoTerm
from quinque.model.tube_ops import KINDS, NO_LANE, PutTasks, ReleaseTasks, TakeTasks


def refuse_unknown_terms(op: PutTasks | TakeTasks | ReleaseTasks, kind_name: bytes) -> None:
    """Check that the operation has only options that tubes of this type have. A driver may have
    any.

    Raises NoTerm.
    """
    kind = KINDS.get(kind_name)
    if kind is None:
        return
    for term in _timed(op):
        if not kind.has_times:
            raise NoTerm(kind_name, term)
    if not kind.has_lanes and _has_lane(op):
        raise NoTerm(kind_name, "lanes")


def settings_unused(kind_name: bytes) -> Iterator[str]:
    """The settings that tubes of the kind do not use; those of a driver may use any."""
    kind = KINDS.get(kind_name)
    if kind is None:
        return
    if not kind.has_times:
        yield from ("ttl", "ttr", "pri")
    if not kind.is_bounded:
        yield "capacity"
    if not kind.has_lanes:
        yield "width"


def _timed(op: PutTasks | TakeTasks | ReleaseTasks) -> Iterator[str]:
    """The arguments of the operation that only tasks with times have."""
    if isinstance(op, TakeTasks):
        return
    terms = op.terms if isinstance(op, PutTasks) else op
    if terms.delay_ms:
        yield "delay"
    if terms.pri is not None:
        yield "pri"
    if terms.ttl_ms is not None:
        yield "ttl"
    if isinstance(op, PutTasks) and op.terms.ttr_ms is not None:
        yield "ttr"


def _has_lane(op: PutTasks | TakeTasks | ReleaseTasks) -> bool:
    if isinstance(op, PutTasks):
        return op.terms.lane != NO_LANE
    return isinstance(op, TakeTasks) and op.lane is not None
