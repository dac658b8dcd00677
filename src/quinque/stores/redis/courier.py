"""Calls of scripts on their way to one Redis server and back: all of a turn together, in order.

Called by   routes.py.
Calls       link.py, scripts.py.

A script is sent as text the first time that a connection needs it, and by its name from then on.

Few batches are under way at a time. Errands that are posted meanwhile form the next batch, so the
busier the broker is, the more travels together.

    posted [c d e]   ── EVALSHA EVALSHA EVALSHA ──▶   Redis
    under way [a b]  ◀── one reply for each ────────

An errand has one of three outcomes:

    it was carried out        its reply, or the error that the script answered with
    it was not                refused, redirected, or never sent: it goes back to routes.py
    it is unknown             the connection broke, or no answer came in time: StoreUnavailable

An errand with an unknown outcome goes back as well, if a repeat does no harm.

Not here: which server an errand goes to, and when it is tried again (routes.py); how many copies
there must be (replicas.py); what a reply means (store.py).
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Final

from hiredis import ReplyError

from quinque.errors import StoreUnavailable
from quinque.stores.redis.calls import Call
from quinque.stores.redis.keys import guarded_keys
from quinque.stores.redis.link import CannotConnect, Link, pack
from quinque.stores.redis.scripts import SCRIPTS, error_of
from quinque.stores.redis.urls import Address

Outcome = Any  # a reply, or the QuinqueError that it is
_BATCHES_MOST: Final = 2  # under way: one is carried out while the next one travels
_READ_S: Final = 0.05  # to read what has come, after the time for an answer is over
_ASKING: Final = pack("ASKING")
_NUMBERS: Final = itertools.count()

# With these Redis says that it has not begun. MOVED and ASK say besides who might.
_NOT_DONE: Final = frozenset(
    {"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "READONLY", "MASTERDOWN", "BUSY"}
)


class Errand:
    """A call until it has an outcome: then `tell` is called with that, once."""

    __slots__ = (
        "call",
        "deadline_s",
        "has_text",
        "is_asking",
        "is_counted",
        "is_unheard",
        "number",
        "replicas",
        "slot",
        "tell",
        "tries",
        "within_ms",
    )

    def __init__(
        self,
        call: Call,
        slot: int,
        deadline_s: float,
        tell: Callable[[Outcome], None],
        is_counted: bool = False,
    ) -> None:
        self.number = next(_NUMBERS)  # those that were posted later have larger ones
        self.call = call
        self.slot = slot
        self.deadline_s = deadline_s  # on the loop's clock
        self.tell = tell
        self.is_counted = is_counted  # it says how much it put on record
        self.replicas, self.within_ms = call.replicas, call.within_ms  # the setting may raise them
        self.is_asking = False  # it goes to a server that is about to get its slot
        self.has_text = False  # its script is sent along
        self.is_unheard = False  # it was sent once, and its outcome is unknown
        self.tries = 0

    def packed(self) -> bytes:
        """The command as it is sent."""
        call = self.call
        script = SCRIPTS[call.script]
        keys = [
            it for key in call.keys for it in guarded_keys(key, call.is_recorded, self.is_counted)
        ]
        if self.has_text:
            return pack("EVAL", script.text, len(keys), *keys, *call.argv)
        return pack("EVALSHA", script.sha, len(keys), *keys, *call.argv)


Connect = Callable[[Address], Awaitable[Link]]  # raises CannotConnect
Back = Callable[[Errand, str, str], None]  # not carried out: the code and the text that say why


class Courier:
    def __init__(
        self,
        address: Address,
        connect: Connect,
        loop: asyncio.AbstractEventLoop,
        timeout_s: float,
        back: Back,
    ) -> None:
        self.address = address
        self._open = connect
        self._loop = loop
        self._timeout_s = timeout_s
        self._back = back
        self._link: Link | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._posted: list[Errand] = []
        self._known: set[str] = set()  # scripts that were sent over this link, and Redis has
        self._missed: list[Errand] = []  # of scripts that Redis has forgotten; they go first
        self._under_way: deque[Errand | Callable[[Any], None]] = deque()  # who gets each reply
        self._batches: deque[int] = deque()  # how many of those each batch has
        self._is_called = False
        self._sent_s = 0.0  # when the oldest batch under way was sent, or the last reply came
        self._late_s = -inf  # the same, of a batch that was found to be late
        self._timer: asyncio.TimerHandle | None = None
        self._overdue: asyncio.TimerHandle | None = None  # of errands that wait for a connection
        self._overdue_s = inf  # when that is

    @property
    def is_idle(self) -> bool:
        return not self._posted and not self._missed and not self._under_way

    @property
    def waits_s(self) -> float:
        """Return how long the server has not answered a request."""
        return self._loop.time() - self._sent_s if self._under_way else 0.0

    @property
    def own_address(self) -> str:
        return self._link.own_address if self._link is not None else ""

    def post(self, errand: Errand) -> None:
        """The errand is run with all others of this turn."""
        self._posted.append(errand)
        if self._connecting is not None:
            self._watch(errand.deadline_s)
        self._send_soon()

    def take_back(self) -> list[Errand]:
        """Remove and return the errands that have not been sent, or must be sent again."""
        if self._missed:
            self._posted[:0] = self._missed
            self._missed = []
        posted, self._posted = self._posted, []
        return posted

    def close(self) -> asyncio.Task[None] | None:
        """End all errands under way; their callers learn that the outcome is unknown. Return the
        task of a connection that was being made, which has yet to end."""
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue, self._overdue_s = None, inf
        self._end("the store is closed")
        return connecting

    # -- sending ---------------------------------------------------------------------------------

    def _send_soon(self) -> None:
        """After the other replies that came with this one: those have consequences too."""
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._is_called = False
        if not self._posted and not self._missed:
            return
        if self._link is None:
            if self._connecting is None:
                self._connecting = self._loop.create_task(self._connect())
                self._watch(min(errand.deadline_s for errand in self._posted))
            return
        if len(self._batches) >= _BATCHES_MOST:
            return
        # A request in progress may come back because Redis has forgotten its script, and no request
        # may overtake it. So a request that is sent with its text waits for that, and begins a
        # batch.
        is_new = bool(self._missed) or self._posted[0].call.script not in self._known
        if is_new and any(isinstance(it, Errand) for it in self._under_way):
            return
        errands = self.take_back()
        new = [at for at, it in enumerate(errands) if it.call.script not in self._known]
        count = next((at for at in new if at > 0), len(errands))
        self._posted = errands[count:]
        self._send_batch(self._link, errands[:count])
        if 0 < len(self._posted) == len(errands) - count:  # else the batch was put back
            self._send_soon()

    def _send_batch(self, link: Link, errands: list[Errand]) -> None:
        packed: list[bytes] = []
        who: list[Errand | Callable[[Any], None]] = []
        for errand in errands:
            if errand.is_asking:
                packed.append(_ASKING)
                who.append(_ignore)
            errand.has_text = errand.call.script not in self._known
            self._known.add(errand.call.script)
            packed.append(errand.packed())
            who.append(errand)
        self._send_all(link, packed, who)

    def _send_all(
        self, link: Link, packed: list[bytes], who: list[Errand | Callable[[Any], None]]
    ) -> None:
        """Send these commands as one batch. `who` has the receiver of each reply."""
        if not self._batches:
            self._sent_s = self._loop.time()
        self._under_way += who
        self._batches.append(len(who))
        link.send(packed)
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout_s, self._look_at_time)

    def _watch(self, deadline_s: float) -> None:
        """Errands whose time is over before there is a connection go back then."""
        if deadline_s < self._overdue_s:
            if self._overdue is not None:
                self._overdue.cancel()
            self._overdue_s = deadline_s
            self._overdue = self._loop.call_at(deadline_s, self._give_back)

    def _give_back(self) -> None:
        self._overdue, self._overdue_s = None, inf
        if self._connecting is None:
            return
        now_s = self._loop.time()
        late = [errand for errand in self._posted if errand.deadline_s <= now_s]
        self._posted = [errand for errand in self._posted if errand.deadline_s > now_s]
        if self._posted:
            self._watch(min(errand.deadline_s for errand in self._posted))
        for errand in late:
            self._back(errand, "UNREACHED", f"{self.address} does not answer")

    async def _connect(self) -> None:
        try:
            link = await self._open(self.address)
        except CannotConnect as error:
            self._connecting = None
            for errand in self.take_back():
                self._back(errand, error.code, str(error))
            return
        self._connecting = None
        link.on_reply, link.on_lost = self._came, self._lost
        self._link = link
        self._known.clear()
        self._send()

    # -- what comes back -------------------------------------------------------------------------

    def _came(self, reply: Any) -> None:
        if not self._under_way:
            self._end("the server sent an unexpected reply")
            return
        errand = self._under_way.popleft()
        self._sent_s = self._loop.time()
        self._batches[0] -= 1
        if not self._batches[0]:
            self._batches.popleft()
            if self._posted or self._missed:
                self._send_soon()
        if not isinstance(errand, Errand):
            errand(reply)
            return
        if not isinstance(reply, ReplyError):
            self._done(errand, reply)
            return
        text = str(reply)
        code = text.partition(" ")[0]
        if code == "NOSCRIPT":
            # Redis was told to forget. With its text the script is known again.
            self._known.discard(errand.call.script)
            self._missed.append(errand)
            self._send_soon()
        elif code in _NOT_DONE:
            if errand.has_text:  # it was not read
                self._known.discard(errand.call.script)
            self._back(errand, code, text)
        else:
            errand.tell(error_of(text, errand.call))

    def _done(self, errand: Errand, reply: Any) -> None:
        """It was carried out."""
        errand.tell(reply)

    def _lost(self) -> None:
        self._link = None
        self._end("the connection was lost")

    def _look_at_time(self) -> None:
        self._timer = None
        if not self._under_way:
            return
        left_s = self._sent_s + self._timeout_s - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._look_at_time)
        elif self._late_s != self._sent_s:
            # After the broker stood still, the answer may be there: uvloop reads after its timers.
            self._late_s = self._sent_s
            self._timer = self._loop.call_later(_READ_S, self._look_at_time)
        else:
            self._end(f"no answer within {self._timeout_s:g} s")

    def _end(self, why: str) -> None:
        """Close the connection; the outcome of errands under way is unknown."""
        if self._link is not None:
            self._link.close()
            self._link = None
        under_way, self._under_way = self._under_way, deque()
        self._batches.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for errand in under_way:
            if isinstance(errand, Errand):
                self._give_up(errand, why)
        for errand in self.take_back():
            self._back(errand, "UNREACHED", f"{self.address}: {why}")

    def _give_up(self, errand: Errand, why: str) -> None:
        """End an errand of which it is unknown whether it was carried out."""
        if errand.call.is_safe:
            errand.is_unheard = True
            self._back(errand, "UNREACHED", f"{self.address}: {why}")
        else:
            errand.tell(StoreUnavailable(f"Redis at {self.address}: {why}; the effect is unknown"))


def _ignore(reply: Any) -> None:
    """Drop the reply to ASKING: the reply to the next command says more."""
