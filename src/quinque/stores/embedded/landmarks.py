"""Where in a feed a place is: one in STRIDE messages is remembered.

Called by   pages.py.
Calls       nothing.

A feed is a chain, and has no index by place: nothing else needs one. The first look goes through it
once; later ones begin at the last landmark before what is wanted. A look that meets a landmark
whose message is gone forgets it.

Not here: the pages (pages.py).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from quinque.engine.feed.feed import Feed
from quinque.model.message import FeedMessage

STRIDE: Final = 1_000  # messages from one landmark to the next: a tenth of a millisecond


class Landmarks:
    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self._places: list[int] = []
        self._messages: list[FeedMessage] = []

    def first_after(self, place: int) -> FeedMessage | None:
        """The first message of a larger place."""
        feed = self.feed
        known = feed.messages.get(b"%d" % place)  # as nearly always, if a page went before
        if known is not None and known.place == place:
            return known.after
        at = bisect_right(self._places, place)
        while at and not self._is_there(self._messages[at - 1]):
            at -= 1
            del self._places[at], self._messages[at]
        step = self._messages[at - 1] if at else feed.head
        is_new = at == len(self._places)
        passed = 0
        while step is not None and step.place <= place:
            passed += 1
            if is_new and passed > STRIDE:
                self._add(step)
                passed = 0
            step = step.after
        return step

    def samples(self) -> list[tuple[int, int]]:
        """Places in their order, each with about how many there are up to it, from the one before
        on; the last is the feed's last."""
        tail = self.feed.tail
        if tail is None:
            return []
        while self._messages and not self._is_there(self._messages[-1]):
            del self._places[-1], self._messages[-1]
        self._reach_the_end()
        places = [it.place for it in self._messages if self._is_there(it)]
        return [*((place, STRIDE) for place in places if place < tail.place), (tail.place, STRIDE)]

    def _reach_the_end(self) -> None:
        step = self._messages[-1] if self._messages else self.feed.head
        passed = 0
        while step is not None:
            passed += 1
            if passed > STRIDE:
                self._add(step)
                passed = 0
            step = step.after

    def _add(self, message: FeedMessage) -> None:
        self._places.append(message.place)
        self._messages.append(message)

    def _is_there(self, message: FeedMessage) -> bool:
        return self.feed.messages.get(message.id) is message
