"""An answer that comes later, from a store that has to ask elsewhere.

Called by   stores that answer so (they settle it), the server (which goes on when it is settled).
Calls       nothing.

It is not an asyncio.Future: it is settled on the event loop's own thread, by code that has just
read the answer, and calls the waiting code at once. No task, no turn of the loop in between.

Not here: what the server does until then (server/connection.py holds the client).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from quinque.errors import QuinqueError


class Pending:
    """Settled once, with a result or an error; calls the function that waits for it."""

    __slots__ = ("_answer", "_error", "_refuse", "_result", "is_settled")

    def __init__(self) -> None:
        self.is_settled = False
        self._result: Any = None
        self._error: QuinqueError | None = None
        self._answer: Callable[[Any], None] | None = None
        self._refuse: Callable[[QuinqueError], None] | None = None

    def then(self, answer: Callable[[Any], None], refuse: Callable[[QuinqueError], None]) -> None:
        """Call `answer` with the result or `refuse` with the error: now, or when it comes."""
        assert self._answer is None, "an answer is waited for once"
        self._answer, self._refuse = answer, refuse
        if self.is_settled:
            self._tell()

    def settle(self, result: Any) -> None:
        """Set the result."""
        assert not self.is_settled, "an answer comes once"
        self.is_settled = True
        self._result = result
        if self._answer is not None:
            self._tell()

    def fail(self, error: QuinqueError) -> None:
        """There is no answer, for this reason."""
        assert not self.is_settled, "an answer comes once"
        self.is_settled = True
        self._error = _without_frames(error)
        if self._answer is not None:
            self._tell()

    def value(self) -> Any:
        """The answer, which is there; or its error is raised."""
        assert self.is_settled, "an answer is there when it is settled"
        error, self._error = self._error, None
        if error is None:
            return self._result
        try:
            raise error
        finally:
            del error  # or its traceback would hold this frame, and this frame the error

    def _tell(self) -> None:
        answer, refuse = self._answer, self._refuse
        assert answer is not None
        assert refuse is not None
        # Not kept: what they refer to may refer to this one.
        self._answer = self._refuse = _told
        if self._error is not None:
            refuse(self._error)
        else:
            answer(self._result)


def _told(_: Any) -> None:
    raise AssertionError("an answer comes once")


def _without_frames(error: QuinqueError) -> QuinqueError:
    """The same error. Frames in its tracebacks hold the error itself, and such circles stay in
    memory while the collector is off."""
    seen: set[int] = set()  # an error may be its own cause
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error


def after(result: Any, change: Callable[[Any], Any]) -> Any:
    """The result, changed; now, or when it comes. `change` may return a Pending too."""
    if not isinstance(result, Pending):
        return change(result)
    changed = Pending()

    result.then(partial(_change, changed, change), changed.fail)
    return changed


def _change(changed: Pending, change: Callable[[Any], Any], found: Any) -> None:
    try:
        value = change(found)
    except QuinqueError as error:
        changed.fail(error)
        return
    if isinstance(value, Pending):
        value.then(changed.settle, changed.fail)
    else:
        changed.settle(value)
