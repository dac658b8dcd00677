"""Calls that are done when replicas have them too.

Called by   routes.py.
Calls       courier.py, whose way it goes; WAIT and ROLE.

WAIT holds up its connection, so these calls have one of their own. It is sent again and again, for
a short while each time, as long as a call is not confirmed:

    EVALSHA EVALSHA WAIT ── 2    EVALSHA WAIT ──── 1    WAIT ── 2

A call is done when a later WAIT reports at least as many replicas as the call wants.

Not here: what becomes of a message that got too few (worklists.py:add).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from math import inf
from typing import Any, Final

from hiredis import ReplyError

from quinque.errors import NoReplicas, NotDone, StoreRefused, StoreUnavailable, many
from quinque.stores.redis.calls import NOT_WAITED
from quinque.stores.redis.courier import Back, Connect, Courier, Errand
from quinque.stores.redis.link import Link, pack
from quinque.stores.redis.rights import what_is_missing
from quinque.stores.redis.urls import Address

_COUNT_EVERY_S: Final = 1.0
_WAIT_MS: Final = 100  # for one WAIT; a call that comes meanwhile waits as long at most


class ReplicaCourier(Courier):
    def __init__(
        self,
        address: Address,
        connect: Connect,
        loop: asyncio.AbstractEventLoop,
        timeout_s: float,
        back: Back,
        least: int = 0,
        takes_fewer: bool = False,
    ) -> None:
        """A call that asks for more replicas than there are is refused, or with `takes_fewer` needs
        all there are, and `least` in any case."""
        super().__init__(address, connect, loop, timeout_s, back)
        self._least = least
        self._takes_fewer = takes_fewer
        # Carried out here: the errand, its reply, and when it is too late for it.
        self._unconfirmed: list[tuple[Errand, Any, float]] = []
        self._waits = 0  # WAITs that are under way
        self._confirmed = 0  # replicas, as the last WAIT said
        self._connected = 0  # replicas, as the last ROLE said
        self._is_primary = False  # as that said too
        self._lacks = ""  # the right that WAIT or ROLE needs
        self._counted_s = -inf  # when that was
        self._is_counting = False  # ROLE is under way, and errands wait for its answer

    @property
    def is_idle(self) -> bool:
        return not self._unconfirmed and super().is_idle

    def _send_batch(self, link: Link, errands: list[Errand]) -> None:
        """Send the errands, except those for which there are too few replicas. Ask first how many
        replicas there are, unless that was done a moment ago."""
        if self._is_counting:
            self._posted[:0] = errands
            return
        if self._loop.time() - self._counted_s > _COUNT_EVERY_S:
            self._is_counting = True
            self._posted[:0] = errands
            # WAIT of no replica answers at once: it shows that the user may run it.
            commands = [pack("WAIT", 0, 0), pack("ROLE")]
            self._send_all(link, commands, [self._waited, self._count])
            return
        sent = []
        for errand in errands:
            if self._lacks:
                errand.tell(StoreRefused(f"{self._lacks}; nothing was changed"))
            elif not self._is_primary:
                self._back(errand, "READONLY", f"{self.address} is a replica")
            elif self._needed(errand) > self._connected:
                self._refuse(errand)
            else:
                sent.append(errand)
        if sent:
            super()._send_batch(link, sent)
            self._wait(link, sent)

    def _needed(self, errand: Errand) -> int:
        """Return how many replicas must be connected before the request is sent."""
        if self._takes_fewer:
            return self._wanted(errand)
        return max(errand.replicas, errand.call.replicas)

    def _wanted(self, errand: Errand) -> int:
        """Return how many replicas have to confirm the request."""
        if self._takes_fewer and errand.replicas == errand.call.replicas:  # as the client asked
            return max(self._least, min(errand.replicas, self._connected))
        return errand.replicas

    def _refuse(self, errand: Errand) -> None:
        """There are too few replicas, and it was not sent."""
        if errand.call.replicas > self._connected and not self._takes_fewer:  # as the client asked
            errand.tell(NoReplicas.of_redis(errand.call.replicas + 1, self._connected))
            return
        errand.tell(
            NotDone(
                f"store-replicas is {self._least}, and {self.address} has "
                f"{many(self._connected, 'replica')}; nothing was changed"
            )
        )

    def _doubt(self, errand: Errand) -> None:
        """It was carried out, and might be lost with this server."""
        said = self._lacks or (
            f"{many(self._wanted(errand), 'replica')} did not confirm the change in time"
        )
        if errand.call.replicas > self._confirmed and errand.call.within_ms != NOT_WAITED:
            error = NoReplicas(said)  # as the client asked
            error.is_stored = True
            errand.tell(error)
        else:
            errand.tell(StoreUnavailable(f"{said}; the effect is unknown"))

    def _count(self, role: Any) -> None:
        """Record the number of replicas."""
        self._is_primary = isinstance(role, list) and role[0] == b"master"
        self._connected = len(role[2]) if self._is_primary else 0
        self._lacks = self._lacks or _lacking(role)
        self._counted_s = self._loop.time()
        self._is_counting = False

    def _wait(self, link: Link, errands: Iterable[Errand]) -> None:
        waited = [self._wanted(errand) for errand in errands if errand.within_ms >= 0]
        if waited:
            self._waits += 1
            commands = [pack("WAIT", max(waited), _WAIT_MS), pack("ROLE")]
            self._send_all(link, commands, [self._waited, self._has_role])

    def _done(self, errand: Errand, reply: Any) -> None:
        within_ms = errand.within_ms
        if within_ms == NOT_WAITED:
            errand.tell(reply)
            return
        late_s = self._loop.time() + within_ms / 1000 if within_ms else inf
        self._unconfirmed.append((errand, reply, late_s))

    def _waited(self, confirmed: Any) -> None:
        self._confirmed = confirmed if isinstance(confirmed, int) else 0
        self._lacks = _lacking(confirmed)

    def _has_role(self, role: Any) -> None:
        """Answer the errands that enough replicas have confirmed, and those that they cannot or did
        not in time."""
        self._waits -= 1
        self._count(role)
        now_s = self._loop.time()
        unconfirmed, self._unconfirmed = self._unconfirmed, []
        for errand, reply, late_s in unconfirmed:
            wanted = self._wanted(errand)
            if wanted <= self._confirmed:
                errand.tell(reply)
            elif self._lacks or self._connected < wanted or now_s >= late_s:
                self._doubt(errand)
            else:
                self._unconfirmed.append((errand, reply, late_s))
        # A request in progress may have no WAIT behind it.
        if self._unconfirmed and self._link is not None and not self._waits:
            self._wait(self._link, [errand for errand, _, _ in self._unconfirmed])

    def _end(self, why: str) -> None:
        self._counted_s = -inf
        self._is_counting = False
        self._waits = 0
        unconfirmed, self._unconfirmed = self._unconfirmed, []
        for errand, _, _ in unconfirmed:
            self._give_up(errand, why)
        super()._end(why)


def _lacking(reply: Any) -> str:
    """The right that is missing if the reply is an error that says so."""
    return what_is_missing(str(reply)) if isinstance(reply, ReplyError) else ""
