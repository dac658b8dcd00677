"""Find items that clients of Redis Work Queue add to queues with blocked readers.

Called by   items.py (a queue that was empty), served.py (begins and ends it).
Calls       what it is handed: the look (items.py) and the function that wakes readers.

Brokers notify each other of what they add. Those clients only push to a list. So a broker looks at
the lists on which its readers wait, all together, many times a second. Without readers that wait,
it does not look.

Not here: who waits (server/waiters.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Final

from quinque.stores.pending import Pending

_LOOK_S: Final = 0.1  # between two looks, and so about how late a reader wakes up


class Foreign:
    def __init__(self) -> None:
        self._names: set[bytes] = set()  # where nothing was found, and a reader may wait
        self._look: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(
        self,
        loop: asyncio.AbstractEventLoop,
        watched: Callable[[], Collection[bytes]],
        find: Callable[[list[bytes]], Pending],
        tell: Callable[[bytes], None],
    ) -> None:
        """Start to look: `find` says which of some queues have something, and `tell` is called with
        each of those on which a reader waits."""
        self._loop = loop
        self._look = partial(self._look_once, watched, find, tell)

    def end(self) -> None:
        self._look = None
        if self._timer is not None:
            self._timer.cancel()

    def note(self, names: Iterable[bytes]) -> None:
        """A reader found nothing there, and may be about to wait."""
        self._names.update(names)
        self._look_later()

    def _look_later(self) -> None:
        if self._timer is None and self._look is not None and self._loop is not None:
            self._timer = self._loop.call_later(_LOOK_S, self._look)

    def _look_once(
        self,
        watched: Callable[[], Collection[bytes]],
        find: Callable[[list[bytes]], Pending],
        tell: Callable[[bytes], None],
    ) -> None:
        now_watched = watched()
        self._names = {name for name in self._names if name in now_watched}
        if not self._names:
            self._timer = None
            return

        def go_on(found: Any = None) -> None:
            self._timer = None
            self._look_later()

        def found(names: list[bytes]) -> None:
            go_on()
            for name in names:
                tell(name)

        find(sorted(self._names)).then(found, go_on)
