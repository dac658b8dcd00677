"""Calls that are done when replicas have them too.

Called by   routes.py.
Calls       courier.py, whose way it goes; WAIT and ROLE.

WAIT holds up its connection, so these calls have one of their own. It is asked again and again, for
a short while each time, as long as somebody's call is not confirmed:

    EVALSHA EVALSHA WAIT ── 2    EVALSHA WAIT ──── 1    WAIT ── 2

What was carried out before a WAIT, and wants no more replicas than it says there are, is done.

Not here: what becomes of a message that got too few (worklists.py:add).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from math import inf
from typing import Any, Final

from quinque.errors import NoReplicas, NotDone, StoreUnavailable
from quinque.stores.redis.calls import NOT_WAITED
from quinque.stores.redis.courier import Back, Connect, Courier, Errand
from quinque.stores.redis.link import Link, pack
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
    ) -> None:
        super().__init__(address, connect, loop, timeout_s, back)
        # Carried out here: the errand, its reply, and when it is too late for it.
        self._unconfirmed: list[tuple[Errand, Any, float]] = []
        self._confirmed = 0  # replicas, as the last WAIT said
        self._connected = 0  # replicas, as the last ROLE said
        self._is_primary = False  # as that said too
        self._counted_s = -inf  # when that was

    @property
    def is_idle(self) -> bool:
        return not self._unconfirmed and super().is_idle

    def _send_batch(self, link: Link, errands: list[Errand]) -> None:
        """Those for which there are too few replicas are not sent at all; how many there are is
        asked first, unless that was done a moment ago."""
        now_s = self._loop.time()
        if now_s - self._counted_s > _COUNT_EVERY_S:
            self._counted_s = now_s
            self._posted[:0] = errands
            self._send_all(link, [pack("ROLE")], [self._count])
            return
        sent = []
        for errand in errands:
            if not self._is_primary:
                self._back(errand, "READONLY", f"{self.address} is a replica")
            elif errand.call.replicas > self._connected:
                self._refuse(errand)
            else:
                sent.append(errand)
        if sent:
            super()._send_batch(link, sent)
            self._wait(link, sent)

    def _refuse(self, errand: Errand) -> None:
        """There are too few replicas, and it was not sent."""
        copies = errand.call.replicas + 1
        if errand.call.script == "add":
            errand.tell(NoReplicas())
        else:
            errand.tell(NotDone(f"the request needs {copies} copies, and there are fewer servers"))

    def _doubt(self, errand: Errand) -> None:
        """It was carried out, and might be lost with this server."""
        said = f"{errand.call.replicas} replicas did not confirm the change in time"
        if errand.call.script == "add":
            errand.tell(NoReplicas(said))
        else:
            errand.tell(StoreUnavailable(f"{said}; the effect is unknown"))

    def _count(self, role: Any) -> None:
        """How many replicas there are is known."""
        self._is_primary = isinstance(role, list) and role[0] == b"master"
        self._connected = len(role[2]) if self._is_primary else 0
        self._counted_s = self._loop.time()

    def _wait(self, link: Link, errands: Iterable[Errand]) -> None:
        waited = [errand.call.replicas for errand in errands if errand.call.within_ms >= 0]
        if waited:
            commands = [pack("WAIT", max(waited), _WAIT_MS), pack("ROLE")]
            self._send_all(link, commands, [self._waited, self._has_role])

    def _done(self, errand: Errand, reply: Any) -> None:
        within_ms = errand.call.within_ms
        if within_ms == NOT_WAITED:
            errand.tell(reply)
            return
        late_s = self._loop.time() + within_ms / 1000 if within_ms else inf
        self._unconfirmed.append((errand, reply, late_s))

    def _waited(self, confirmed: Any) -> None:
        self._confirmed = confirmed if isinstance(confirmed, int) else 0

    def _has_role(self, role: Any) -> None:
        """What WAIT said is known, and how many replicas there are: those who are served, or cannot
        be, are told."""
        self._count(role)
        now_s = self._loop.time()
        unconfirmed, self._unconfirmed = self._unconfirmed, []
        for errand, reply, late_s in unconfirmed:
            wanted = errand.call.replicas
            if wanted <= self._confirmed:
                errand.tell(reply)
            elif self._connected < wanted or now_s >= late_s:
                self._doubt(errand)
            else:
                self._unconfirmed.append((errand, reply, late_s))
        if self._unconfirmed and self._link is not None and not self._batches:
            self._wait(self._link, [errand for errand, _, _ in self._unconfirmed])

    def _end(self, why: str) -> None:
        self._counted_s = -inf
        unconfirmed, self._unconfirmed = self._unconfirmed, []
        for errand, _, _ in unconfirmed:
            self._give_up(errand, why)
        super()._end(why)
