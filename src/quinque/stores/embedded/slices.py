"""Operations that take many ticks: a slice of each at a time, and other clients are served between.

Called by   work_operations.py, work_taking.py and tube_operations.py (begin one), store.py (ticks).
Calls       nothing.

An operation is a generator. It yields after a slice and returns its result. The first slice runs
within the operation itself, so that a small one is over at once; a larger one is answered by a
Pending. Each slice is a change of its own: it is journaled and applied as a whole, and a restart
finds it done, or not begun. The client has no answer before the last slice.

An operation lists its messages when it begins, so it ends, however many come meanwhile. A slice
looks at each message again: it may be gone by then, or be in another state.

Not here: emptied queues, whose messages are gone at once (books.py); claims (claims.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from quinque.errors import DiskFull, NotDone, QuinqueError, StoreUnavailable
from quinque.stores.pending import Pending

# Messages and queues that one slice changes: a queue takes about 10 µs, a message 2. Not Final:
# compiled, a test could not make them small.
SLICE_MOST = 500
SLICE_QUEUES_MOST = 100

# One slice of work after the other, each time with whether any of them changed something; the
# result in the end.
Slices = Generator[bool, None, Any]


T = TypeVar("T")


def in_slices(things: list[T], most: int, work: Callable[[list[T]], int]) -> Slices:
    """Do `work` on the things in their order, `most` at a time; return the sum of its results.

    The list is used up on the way: if it were dropped whole in the end, to free all that is in it
    would take as long as to make it.
    """
    things.reverse()
    done = 0
    while True:
        some = things[-most:]
        del things[-most:]
        some.reverse()
        done += work(some)
        if not things:
            return done
        yield done > 0


class SlicedWork:
    def __init__(self) -> None:
        self._under_way: deque[tuple[Slices, Pending, bool]] = deque()

    @property
    def is_working(self) -> bool:
        return bool(self._under_way)

    def begin(self, slices: Slices) -> Any:
        """The result of the operation if its first slice is all of it; else a Pending of that.
        Raises as the first slice does, which has changed nothing then."""
        try:
            has_changed = next(slices)
        except StopIteration as over:
            return over.value
        answer = Pending()
        self._under_way.append((slices, answer, has_changed))
        return answer

    def do(self, things: list[T], work: Callable[[list[T]], int]) -> int | Pending:
        """The sum of what `work` returns for the things, SLICE_MOST at a time; or a Pending of it.
        Raises as `work` does."""
        done: int | Pending = self.begin(in_slices(things, SLICE_MOST, work))
        return done

    def go_on(self) -> None:
        """Carry out one slice of the operation that has waited longest for its next one."""
        if not self._under_way:
            return
        slices, answer, has_changed = self._under_way.popleft()
        try:
            has_changed = next(slices)
        except StopIteration as over:
            answer.settle(over.value)
        except QuinqueError as error:
            # These say that nothing is done.
            if has_changed and isinstance(error, DiskFull | NotDone):
                error = StoreUnavailable(f"only a part of the request was carried out: {error}")
            answer.fail(error)
        else:
            self._under_way.append((slices, answer, has_changed))

    def finish(self) -> None:
        """Carry out all slices of the operation that was begun last, and of those that its answer
        begins. Those of other clients go on with the ticks."""
        others = self._under_way
        self._under_way = deque([others.pop()] if others else ())
        try:
            while self._under_way:
                self.go_on()
        finally:
            self._under_way.extendleft(reversed(others))
