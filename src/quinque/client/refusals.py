"""The error of an error reply of a broker, and whether the request may be repeated.

Called by   aio/broker.py.
Calls       nothing.

Not here: the error of a code (errors/).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from quinque.client.link import Reply
from quinque.errors import (
    Leaving,
    NotDone,
    OutcomeUnknown,
    QuinqueError,
    StoreUnavailable,
    error_told,
)

# The request was not carried out. This includes the error of a Redis that is loading its data.
_NOT_DONE: Final = frozenset({NotDone.code, Leaving.code, "LOADING"})
# The request may have been carried out.
_UNKNOWN: Final = frozenset({StoreUnavailable.code})


def forgive(absent: Sequence[type[QuinqueError] | None], replies: list[Any]) -> None:
    """Replace an error reply that means "absent" by None."""
    for at, kind in enumerate(absent):
        reply = replies[at]
        if kind is not None and isinstance(reply, Reply) and is_of_code(reply, kind):
            replies[at] = None


def is_of_code(reply: Reply, kind: type[QuinqueError]) -> bool:
    return str(reply).partition(" ")[0] == kind.code


def error_of(refusals: Sequence[str], replies: Sequence[Any]) -> QuinqueError:
    """Make the error of the first error reply. If other requests were carried out, it has their
    replies, and is OutcomeUnknown instead of NotDone."""
    error = error_told(refusals[0])
    is_all = len(refusals) == len(replies)
    if isinstance(error, StoreUnavailable):
        error = OutcomeUnknown(str(error))
    elif isinstance(error, NotDone) and not is_all:
        error = OutcomeUnknown(f"the request was carried out only in part: {error}")
    if not is_all:
        error.replies = [None if type(reply) is Reply else reply for reply in replies]
    return error


def are_repeated(refusals: Sequence[str], *, is_safe: bool, is_all: bool) -> bool:
    """Return whether to send the requests again: each error reply allows it, and no request was
    carried out that cannot be repeated."""
    codes = {refusal.partition(" ")[0] for refusal in refusals}
    return codes <= (_NOT_DONE | _UNKNOWN if is_safe else _NOT_DONE) and (is_safe or is_all)
