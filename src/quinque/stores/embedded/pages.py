"""A queue in the order of places, page by page: BrowsePlaces and DividePlaces.

Called by   store.py.
Calls       worklists.py and feed_operations.py (find, settle), landmarks.py (places in feeds),
            engine/claims/rows.py (messages as rows).

Leased messages of a worklist are in no order, so that a page with them goes through all of them.

Not here: looks that a family has a word for (work_looks.py, feed_operations.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import nsmallest
from itertools import chain
from typing import Any, Final

from quinque.engine.claims.rows import feed_rows, pack, work_rows
from quinque.engine.feed.feed import Feed
from quinque.engine.work.decide import is_over
from quinque.engine.work.message import WorkMessage
from quinque.engine.work.order import Order
from quinque.engine.work.worklist import DEAD, DELAYED, LEASED, READY, Worklist
from quinque.errors import BadArgument
from quinque.model.limits import FILL_MOST_BYTES, RESERVE_MOST, SETTLE_MOST_COUNTING
from quinque.model.look_ops import BrowsePlaces, DividePlaces, Page, Places
from quinque.model.message import FeedMessage, Message
from quinque.model.states import State
from quinque.stores.embedded.feed_operations import FeedOperations
from quinque.stores.embedded.landmarks import STRIDE, Landmarks
from quinque.stores.embedded.worklists import Worklists
from quinque.stores.no_tubes import refuse_tubes

_FEEDS_MOST: Final = 64  # whose landmarks are remembered

Sample = tuple[int, int]  # a place, and how many messages there are up to it


class Pages:
    def __init__(self, lists: Worklists, feeds: FeedOperations) -> None:
        self._books = lists.books
        self._lists = lists
        self._feeds = feeds
        self._landmarks: dict[bytes, Landmarks] = {}
        self.runners: dict[type, Callable[[Any], Any]] = {
            BrowsePlaces: self._browse,
            DividePlaces: self._divide,
        }

    def _browse(self, op: BrowsePlaces) -> Page:
        queue = self._queue(op)
        most = max(1, min(op.count, RESERVE_MOST))
        if isinstance(queue, Worklist):
            work = _work_after(queue, op, most + 1)
            return self._work_page(work, op, most)
        if isinstance(queue, Feed):
            return self._feed_page(queue, op, most)
        return Page(pack([]), 0, op.after, True)

    def _divide(self, op: DividePlaces) -> Places:
        queue = self._queue(op)
        if isinstance(queue, Worklist):
            orders = _orders(queue, op.states)
            samples = list(chain.from_iterable(_samples(order) for order in orders))
            messages = sum(order.size for order in orders)
            if State.LEASED in op.states:
                samples += _leased_samples(queue)
                messages += queue.leased
            return Places(messages, 1, _bounds(sorted(samples), op.parts))
        if isinstance(queue, Feed):
            samples = self._feed_samples(queue)
            return Places(len(queue.messages), 1, _bounds(samples, op.parts))
        return Places(0, 1, [])

    def _queue(self, op: BrowsePlaces | DividePlaces) -> Worklist | Feed | None:
        """The queue as it is now. Raises WrongType, BadArgument, and BadRequest for a tube."""
        refuse_tubes(op.family)
        if op.shard:
            raise BadArgument(f"no shard {op.shard}: the number of shards is 1")
        self._books.at_ms = now_ms = self._books.clock.now_us() // 1000
        if op.family.is_worklist:
            return self._lists.settled(op.family, op.queue, now_ms, SETTLE_MOST_COUNTING)
        return self._feeds.find(op.family, op.queue)

    def _work_page(self, found: list[WorkMessage], op: BrowsePlaces, most: int) -> Page:
        is_last = len(found) <= most
        found = found[:most]
        now_ms = self._books.at_ms
        living = [message for message in found if not is_over(message, now_ms)]
        bodies = self._read(living)
        rows = work_rows(living[: len(bodies)], bodies, 0)
        return _page(rows, found, living, op.after, is_last)

    def _feed_page(self, queue: Feed, op: BrowsePlaces, most: int) -> Page:
        now_ms = self._books.at_ms
        found: list[FeedMessage] = []
        step = self._marks(queue).first_after(op.after)
        while step is not None and len(found) <= most and (not op.until or step.place <= op.until):
            found.append(step)
            step = step.after
        is_last = len(found) <= most
        found = found[:most]
        living = [it for it in found if not 0 < it.expires_ms <= now_ms]
        bodies = self._read(living)
        rows = feed_rows(living[: len(bodies)], bodies, [0] * len(bodies))
        return _page(rows, found, living, op.after, is_last)

    def _feed_samples(self, queue: Feed) -> list[Sample]:
        if len(queue.messages) > 16 * STRIDE:
            return self._marks(queue).samples()
        samples: list[Sample] = []
        step = queue.head
        while step is not None:
            samples.append((step.place, 1))
            step = step.after
        return samples

    def _marks(self, queue: Feed) -> Landmarks:
        marks = self._landmarks.pop(queue.name, None)
        if marks is None or marks.feed is not queue:
            marks = Landmarks(queue)
            if len(self._landmarks) >= _FEEDS_MOST:
                del self._landmarks[next(iter(self._landmarks))]
        self._landmarks[queue.name] = marks  # the last one asked for is the last to go
        return marks

    def _read(self, messages: Sequence[Message]) -> list[bytes]:
        """The bodies of the first messages, as many as fit."""
        bodies = [it.body for it in messages if it.body is not None]
        if len(bodies) == len(messages) and sum(map(len, bodies)) <= FILL_MOST_BYTES:
            return bodies
        return self._books.read(messages, FILL_MOST_BYTES)


def _work_after(queue: Worklist, op: BrowsePlaces, most: int) -> list[WorkMessage]:
    """The messages that come next, at most `most`."""
    lots = [order.after(op.after, most) for order in _orders(queue, op.states)]
    if State.LEASED in op.states and queue.leased:
        leased = [it for it in queue.all() if it.state == LEASED and it.place > op.after]
        lots.append(nsmallest(most, leased, key=_place))
    found = lots[0] if len(lots) == 1 else sorted(chain.from_iterable(lots), key=_place)[:most]
    if op.until and found and found[-1].place > op.until:
        found = [message for message in found if message.place <= op.until]
    return found


def _orders(queue: Worklist, states: Sequence[State]) -> list[Order]:
    by_state = {READY: queue.ready, DELAYED: queue.delayed, DEAD: queue.dead}
    return [by_state[int(state)] for state in dict.fromkeys(states) if state != State.LEASED]


def _samples(order: Order) -> list[Sample]:
    if order.size > 16 * STRIDE:
        return order.samples()
    return [(message.place, 1) for message in order.first(order.size)]


def _leased_samples(queue: Worklist) -> list[Sample]:
    places = sorted(message.place for message in queue.all() if message.state == LEASED)
    step = max(1, len(places) // (16 * STRIDE))
    samples = [(place, step) for place in places[step - 1 :: step]]
    if places and samples[-1][0] != places[-1]:
        samples.append((places[-1], len(places) % step))
    return samples


def _bounds(samples: Sequence[Sample], parts: int) -> list[int]:
    """Places with about as many messages from one to the next, the last of all at the end."""
    whole = sum(count for _, count in samples)
    bounds: list[int] = []
    before = 0
    for place, count in samples:
        before += count
        if before * parts >= whole * (len(bounds) + 1):
            bounds.append(place)
            if len(bounds) == parts:
                break
    if samples and bounds[-1] != samples[-1][0]:
        bounds[-1] = samples[-1][0]
    return bounds


def _page(
    rows: list[list[Any]],
    found: Sequence[Message],
    living: Sequence[Message],
    after: int,
    is_last: bool,
) -> Page:
    """The page of these rows: of all that was found, unless not all the bodies fit."""
    if len(rows) < len(living):
        return Page(pack(rows), len(rows), living[len(rows) - 1].place, False)
    return Page(pack(rows), len(rows), found[-1].place if found else after, is_last)


def _place(message: WorkMessage) -> int:
    return message.place
