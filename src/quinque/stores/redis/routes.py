"""Which server holds a slot: errands go there, and once more if it was the wrong one.

Called by   store.py (calls and what comes of them), wakeups.py (where to listen).
Calls       courier.py and replicas.py, one of each for a server; link.py, to ask who holds what.

    one        all slots are at one address
    sentinel   all slots are at the primary that the sentinels name
    cluster    each server says who has which slots (CLUSTER SLOTS), and MOVED what has changed

An errand that was not carried out is tried again, soon and then less often, until its time is over;
then it says that it was not done.

Not here: what is known of an errand that was sent (courier.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from hiredis import ReplyError

from quinque.errors import NotDone, StoreUnavailable
from quinque.stores.redis.calls import Call
from quinque.stores.redis.courier import Courier, Errand, Outcome
from quinque.stores.redis.keys import SLOTS, slot_of_key
from quinque.stores.redis.link import CannotConnect, Link, ask, open_link, pack
from quinque.stores.redis.replicas import ReplicaCourier
from quinque.stores.redis.urls import Address, Login, RedisUrl

log = logging.getLogger("quinque.redis")

_ASK_S: Final = 1.0  # for one server to say who holds what
_SOON_S: Final = 0.02  # before the second try; each further one waits twice as long
_LATE_S: Final = 0.5  # and no longer than this
_SENTINELS_EVERY: Final = 5  # seconds
_AT_ONCE_MOST: Final = 16  # redirections that are followed without waiting


class Routes:
    def __init__(
        self, url: RedisUrl, loop: asyncio.AbstractEventLoop, timeout_s: float, replicas: int = 0
    ) -> None:
        """Every call that changes something is confirmed by so many `replicas`, or more if it asks
        for them."""
        self._url = url
        self._loop = loop
        self._timeout_s = timeout_s
        self._replicas = replicas
        self._holders: list[Address | None] = [None] * SLOTS
        self._couriers: dict[tuple[Address, bool], Courier] = {}
        self._asking: asyncio.Task[None] | None = None
        self._waiting = 0  # errands that are tried again later
        self._is_closed = False
        self._seconds = 0
        self.is_counting = False  # calls say how much they put on record

    async def open(self) -> None:
        """It is known who holds what. Raises StoreUnavailable."""
        if self._url.kind == "one":
            self._holders = [self._url.addresses[0]] * SLOTS
            return
        why = await self._find_holders()
        if why:
            raise StoreUnavailable(f"Redis: {why}")

    @property
    def is_cluster(self) -> bool:
        return self._url.kind == "cluster"

    @property
    def is_idle(self) -> bool:
        return not self._waiting and all(courier.is_idle for courier in self._couriers.values())

    @property
    def addresses(self) -> Sequence[Address]:
        """Servers that hold something, where one can listen for what is published."""
        return list(dict.fromkeys(address for address in self._holders if address is not None))

    @property
    def own_address(self) -> str:
        """The address by which this machine reaches Redis, if one is known."""
        found = (courier.own_address for courier in self._couriers.values())
        return next(filter(None, found), "")

    def post(self, calls: Sequence[Call], then: Callable[[list[Outcome]], None]) -> None:
        """The calls are made; `then` is told what came of each."""
        outcomes: list[Outcome] = [None] * len(calls)
        left = len(calls)

        def tell(at: int, outcome: Outcome) -> None:
            nonlocal left
            outcomes[at] = outcome
            left -= 1
            if not left:
                then(outcomes)

        deadline_s = self._loop.time() + self._timeout_s
        for at, call in enumerate(calls):
            if self._replicas > call.replicas and not call.is_safe:
                limit_ms = round(self._timeout_s * 1000)
                call = call._replace(replicas=self._replicas, within_ms=limit_ms)
            slot = slot_of_key(call.keys[0])
            self._go(Errand(call, slot, deadline_s, partial(tell, at), self.is_counting))

    async def close(self) -> None:
        """What was posted has been carried out or given up, and the connections are closed."""
        while not self.is_idle:
            await asyncio.sleep(_SOON_S)
        self.abort()

    def abort(self) -> None:
        """The connections are closed, and whatever was under way is given up."""
        self._is_closed = True
        if self._asking is not None:
            self._asking.cancel()
        for courier in self._couriers.values():
            courier.close()

    # -- errands ---------------------------------------------------------------------------------

    def _go(self, errand: Errand) -> None:
        address = self._holders[errand.slot]
        if self._is_closed:
            self._back(errand, "CLOSED", "the store is closed")
        elif address is None:
            self._back(errand, "CLUSTERDOWN", f"no server has slot {errand.slot}")
        else:
            self._courier(address, errand.call.replicas > 0).post(errand)

    def _courier(self, address: Address, is_replicated: bool) -> Courier:
        courier = self._couriers.get((address, is_replicated))
        if courier is None:
            kind = ReplicaCourier if is_replicated else Courier
            courier = kind(address, self.connect, self._loop, self._timeout_s, self._back)
            self._couriers[address, is_replicated] = courier
        return courier

    def _back(self, errand: Errand, code: str, text: str) -> None:
        """The errand was not carried out; it is tried again if there is time."""
        errand.is_asking = False
        errand.tries += 1
        now_s = self._loop.time()
        if now_s >= errand.deadline_s or self._is_closed:
            errand.tell(
                StoreUnavailable(f"Redis: {text}; the effect is unknown")
                if errand.is_unheard
                else NotDone(f"Redis: {text}; nothing was changed")
            )
            return
        if code in ("MOVED", "ASK") and errand.tries < _AT_ONCE_MOST:
            address = _redirected(text, self._holders[errand.slot])
            if code == "MOVED":
                self._holders[errand.slot] = address
            errand.is_asking = code == "ASK"
            self._courier(address, errand.call.replicas > 0).post(errand)
        else:
            wait_s = min(_SOON_S * 2 ** (errand.tries - 1), _LATE_S, errand.deadline_s - now_s)
            self._go_later(errand, wait_s)
        if code != "ASK" and code != "TRYAGAIN":
            self.look_again()

    def _go_later(self, errand: Errand, wait_s: float) -> None:
        self._waiting += 1
        self._loop.call_later(wait_s, self._go_again, errand)

    def _go_again(self, errand: Errand) -> None:
        self._waiting -= 1
        self._go(errand)

    # -- who holds what --------------------------------------------------------------------------

    async def connect(self, address: Address) -> Link:
        """A connection to that server. Raises CannotConnect.

        A primary that was replaced, and comes back, takes itself for one until the sentinels tell
        it: so those are asked before it is believed.
        """
        link = await open_link(address, self._url.login, self._timeout_s)
        try:
            if self._url.kind == "sentinel":
                await self._be_sure(address, link)
        except BaseException:
            link.close()
            raise
        return link

    async def _be_sure(self, address: Address, link: Link) -> None:
        """Raises CannotConnect when this is not the primary, by its own word or the sentinels'."""
        try:
            async with asyncio.timeout(self._timeout_s):
                (role,) = await ask(link, pack("ROLE"))
                why = await self._find_holders()
        except TimeoutError as error:
            raise CannotConnect(f"{address} does not answer") from error
        if why:
            raise CannotConnect(why)
        if not isinstance(role, list) or role[0] != b"master" or self._holders[0] != address:
            raise CannotConnect(f"{address} is not the primary")

    def each_second(self) -> None:
        """A server that does not answer may have lost its slots to another; and one that does, if
        nobody told it."""
        self._seconds += 1
        if any(courier.waits_s > _ASK_S for courier in self._couriers.values()) or (
            self._url.kind == "sentinel" and self._seconds % _SENTINELS_EVERY == 0
        ):
            self.look_again()

    def look_again(self) -> None:
        """Who holds what is asked anew, unless that is being done."""
        if self._asking is None and self._url.kind != "one" and not self._is_closed:
            self._asking = self._loop.create_task(self._ask_again())

    async def _ask_again(self) -> None:
        try:
            why = await self._find_holders()
            if why:
                log.warning("cannot find the Redis primaries: %s", why)
                await asyncio.sleep(_SOON_S)
        finally:
            self._asking = None

    async def _find_holders(self) -> str:
        """Ask one server after the other, until one knows; why none did."""
        cluster = self._url.kind == "cluster"
        known = self.addresses if cluster else ()
        whys = []
        for address in dict.fromkeys((*known, *self._url.addresses)):
            try:
                holders = await (self._ask_cluster if cluster else self._ask_sentinel)(address)
            except (CannotConnect, TimeoutError) as error:
                whys.append(str(error) or f"{address} does not answer")
                continue
            self._change_holders(holders)
            return ""
        return "; ".join(whys)

    async def _ask_cluster(self, asked: Address) -> list[Address | None]:
        rows = await _reply(asked, self._url.login, "CLUSTER", "SLOTS")
        holders: list[Address | None] = [None] * SLOTS
        for first, last, primary, *_ in rows:
            host = primary[0].decode() if primary[0] else asked.host
            holders[first : last + 1] = [Address(host, primary[1])] * (last + 1 - first)
        if not any(holders):
            raise CannotConnect(f"{asked} reports no primary for any slot; check the cluster")
        return holders

    async def _ask_sentinel(self, asked: Address) -> list[Address | None]:
        words = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._url.service)
        found = await _reply(asked, self._url.sentinel_login, *words)
        if found is None:
            raise CannotConnect(f"sentinel {asked} does not know the service {self._url.service!r}")
        return [Address(found[0].decode(), int(found[1]))] * SLOTS

    def _change_holders(self, holders: list[Address | None]) -> None:
        """What was not sent to a server that holds nothing any more goes to who does."""
        self._holders = holders
        still = set(holders)
        for (address, is_replicated), courier in list(self._couriers.items()):
            if address not in still:
                for errand in courier.take_back():
                    self._go(errand)
                if courier.is_idle:
                    del self._couriers[address, is_replicated]
                    courier.close()


async def _reply(address: Address, login: Login, *words: str) -> Any:
    """What the server says. Raises CannotConnect, also when it refuses, and TimeoutError."""
    async with asyncio.timeout(_ASK_S):
        link = await open_link(address, login._replace(db=0), _ASK_S)
        try:
            (reply,) = await ask(link, pack(*words))
        finally:
            link.close()
    if isinstance(reply, ReplyError):
        raise CannotConnect(f"{address}: {reply}")
    return reply


def _redirected(text: str, asked: Address | None) -> Address:
    """Where "MOVED 3999 host:port" leads to; no host is the one that said so."""
    host, _, port = text.split()[2].rpartition(":")
    return Address(host or (asked.host if asked is not None else ""), int(port))
