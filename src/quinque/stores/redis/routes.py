"""The server of each slot: send requests there, and again if it was the wrong one.

Called by   store.py (calls and what comes of them), wakeups.py (where to listen).
Calls       courier.py and replicas.py, one of each for a server; link.py, to ask who holds what.

    one        all slots are at one address
    sentinel   all slots are at the primary that the sentinels name
    cluster    each server says who has which slots (CLUSTER SLOTS), and MOVED what has changed

An errand that was not carried out is tried again, soon and then less often, until its time is over;
then it says that it was not done. Errands for the same slot that are posted meanwhile wait for it,
so that none of them overtakes it.

Not here: what is known of an errand that was sent (courier.py).
"""

from __future__ import annotations

import asyncio
import logging
import re
from asyncio import FIRST_COMPLETED
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from operator import attrgetter
from typing import Any, Final

from hiredis import ReplyError

from quinque.errors import BadSetting, NotDone, StoreRefused, StoreUnavailable
from quinque.stores.redis.calls import NOT_WAITED, Call
from quinque.stores.redis.courier import Courier, Errand, Outcome
from quinque.stores.redis.keys import SLOTS, slot_of_key
from quinque.stores.redis.link import (
    CannotConnect,
    ConnectRefused,
    Link,
    ask,
    open_link,
    pack,
    refused,
)
from quinque.stores.redis.replicas import ReplicaCourier
from quinque.stores.redis.urls import Address, Login, RedisUrl

log = logging.getLogger("quinque.redis")

_ASK_S: Final = 1.0  # for one server to say who holds what
_HEAD_START_S: Final = 0.1  # before the next server is asked beside it
_SOON_S: Final = 0.02  # before the second try; each further one waits twice as long
_LATE_S: Final = 0.5  # and no longer than this
_SENTINELS_EVERY: Final = 5  # seconds
_WARN_EVERY_S: Final = 5.0  # that no primary can be found
_NO_CLUSTER: Final = "ERR This instance has cluster support disabled"  # as Redis says it
_AT_ONCE_MOST: Final = 16  # redirections that are followed without waiting


class Routes:
    def __init__(
        self,
        url: RedisUrl,
        loop: asyncio.AbstractEventLoop,
        timeout_s: float,
        replicas: int = 0,
        may_evict: bool = False,
        takes_fewer: bool = False,
    ) -> None:
        """Every call that changes something has to be confirmed by `replicas`, or by more if the
        call asks for them. With `takes_fewer`, a call that asks for more than there are gets as
        many as there are."""
        self._url = url
        self._loop = loop
        self._timeout_s = timeout_s
        self._replicas = replicas
        self._may_evict = may_evict  # a server that deletes keys to make room is accepted
        self._takes_fewer = takes_fewer
        self._holders: list[Address | None] = [None] * SLOTS
        self._couriers: dict[tuple[Address, bool], Courier] = {}
        self._asking: asyncio.Task[None] | None = None
        self._is_refused = False  # by every server that was last asked who holds what
        self._late: dict[int, list[Errand]] = {}  # that are sent later, by the key of _queue_of
        self._is_closed = False
        self._warned_s = -inf  # when it was last said that no primary can be found
        self._seconds = 0
        self.is_counting = False  # calls say how much they put on record

    async def open(self) -> None:
        """Find out which server has which slot. Raises StoreUnavailable, and BadSetting when
        the servers do not form a cluster."""
        if self._url.kind == "one":
            self._holders = [self._url.addresses[0]] * SLOTS
            return
        why = await self._find_holders()
        if why:
            raise (StoreRefused if self._is_refused else StoreUnavailable)(f"Redis: {why}")

    @property
    def is_cluster(self) -> bool:
        return self._url.kind == "cluster"

    @property
    def is_idle(self) -> bool:
        return not self._late and all(courier.is_idle for courier in self._couriers.values())

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
        """Make the calls; `then` gets the outcome of each."""
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
            slot = slot_of_key(call.keys[0])
            errand = Errand(call, slot, deadline_s, partial(tell, at), self.is_counting)
            # ASYNC is about what the client asked for, and not about the setting.
            is_less = self._replicas > call.replicas or call.within_ms == NOT_WAITED
            if self._replicas and is_less and not call.is_look:
                errand.within_ms = round(self._timeout_s * 1000)
                errand.replicas = self._replicas
            self._go(errand)

    async def close(self, late_s: float = 0.0) -> None:
        """Wait until all that was posted is carried out or given up, but not longer than until that
        time of the loop, and close the connections."""
        while not self.is_idle and self._loop.time() < late_s:
            await asyncio.sleep(_SOON_S)
        connecting = self.abort()
        if connecting:
            await asyncio.wait(connecting)
            await asyncio.sleep(0)  # their sockets are closed in this iteration of the loop

    def abort(self) -> list[asyncio.Task[None]]:
        """Close the connections, and give up all errands under way. Return the tasks of connections
        that were being made."""
        self._is_closed = True
        if self._asking is not None:
            self._asking.cancel()
        closed = [courier.close() for courier in self._couriers.values()]
        return [task for task in closed if task is not None]

    # -- errands ---------------------------------------------------------------------------------

    def _go(self, errand: Errand) -> None:
        address = self._holders[errand.slot]
        if self._is_closed:
            self._back(errand, "CLOSED", "the store is closed")
        elif (late := self._late.get(self._queue_of(errand))) is not None:
            late.append(errand)
        elif address is None:
            self._back(errand, "CLUSTERDOWN", f"no server has slot {errand.slot}")
        else:
            self._courier(address, errand.replicas > 0).post(errand)

    def _courier(self, address: Address, is_replicated: bool) -> Courier:
        courier = self._couriers.get((address, is_replicated))
        if courier is None:
            begin = (address, self.connect, self._loop, self._timeout_s, self._back)
            if is_replicated:
                courier = ReplicaCourier(*begin, self._replicas, self._takes_fewer)
            else:
                courier = Courier(*begin)
            self._couriers[address, is_replicated] = courier
        return courier

    def _back(self, errand: Errand, code: str, text: str) -> None:
        """The errand was not carried out; it is tried again if there is time."""
        errand.is_asking = False
        errand.tries += 1
        now_s = self._loop.time()
        if now_s >= errand.deadline_s or self._is_closed or code == ConnectRefused.code:
            kind = StoreRefused if code == ConnectRefused.code else NotDone
            errand.tell(
                StoreUnavailable(f"Redis: {text}; the effect is unknown")
                if errand.is_unheard
                else kind(f"Redis: {text}; nothing was changed")
            )
            return
        wait_s = min(_SOON_S * 2 ** (errand.tries - 1), _LATE_S, errand.deadline_s - now_s)
        if code in ("MOVED", "ASK") and errand.tries < _AT_ONCE_MOST:
            address = _redirected(text, self._holders[errand.slot])
            if code == "MOVED":
                self._holders[errand.slot] = address
            if self._queue_of(errand) in self._late:
                self._go_later(errand, wait_s)
            else:
                errand.is_asking = code == "ASK"
                self._courier(address, errand.replicas > 0).post(errand)
        else:
            self._go_later(errand, wait_s)
        if code != "ASK" and code != "TRYAGAIN":
            self.look_again()

    def _queue_of(self, errand: Errand) -> int:
        """Errands with the same number here are sent in the order in which they were posted."""
        return errand.slot if self.is_cluster else 0

    def _go_later(self, errand: Errand, wait_s: float) -> None:
        queue = self._queue_of(errand)
        if queue in self._late:
            self._late[queue].append(errand)
        else:
            self._late[queue] = [errand]
            self._loop.call_later(wait_s, self._go_again, queue)

    def _go_again(self, queue: int) -> None:
        for errand in sorted(self._late.pop(queue), key=attrgetter("number")):
            self._go(errand)

    # -- who holds what --------------------------------------------------------------------------

    async def connect(self, address: Address) -> Link:
        """A connection to that server. Raises CannotConnect.

        A primary that was replaced, and comes back, takes itself for one until the sentinels tell
        it: so those are asked before it is believed.
        """
        link = await open_link(address, self._url.login, self._timeout_s)
        try:
            if not self._may_evict:
                await self._refuse_to_be_evicted(address, link)
            if self._url.kind == "sentinel":
                await self._be_sure(address, link)
        except BaseException:
            link.close()
            raise
        return link

    async def _refuse_to_be_evicted(self, address: Address, link: Link) -> None:
        """Raises CannotConnect when that server may delete messages to make room."""
        try:
            async with asyncio.timeout(self._timeout_s):
                (memory,) = await ask(link, pack("INFO", "memory"))
        except TimeoutError as error:
            raise CannotConnect(f"{address} does not answer") from error
        # A user of Redis who may not ask has an administrator who answers for it.
        found = re.search(rb"maxmemory_policy:([\w-]+)", memory if type(memory) is bytes else b"")
        if found is not None and found[1] != b"noeviction":
            raise ConnectRefused(
                f"{address} has maxmemory-policy {found[1].decode()} and may delete messages to "
                "make room; run CONFIG SET maxmemory-policy noeviction there and write it into "
                "its redis.conf, or set store-may-evict"
            )

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
        if isinstance(role, ReplyError):
            raise refused(role)
        if not isinstance(role, list) or role[0] != b"master" or self._holders[0] != address:
            raise CannotConnect(f"{address} is not the primary")

    def each_second(self) -> None:
        """Ask for the primaries if that seems needed. A server that does not answer may have lost
        its slots to another. So may one that answers, if it has not learned of it."""
        self._seconds += 1
        if any(courier.waits_s > _ASK_S for courier in self._couriers.values()) or (
            self._url.kind == "sentinel" and self._seconds % _SENTINELS_EVERY == 0
        ):
            self.look_again()

    def look_again(self) -> None:
        """Ask again which server has which slot, unless a request is under way."""
        if self._asking is None and self._url.kind != "one" and not self._is_closed:
            self._asking = self._loop.create_task(self._ask_again())

    async def _ask_again(self) -> None:
        try:
            try:
                why = await self._find_holders()
            except BadSetting as error:
                why = str(error)
            if why:
                if self._loop.time() >= self._warned_s + _WARN_EVERY_S:
                    self._warned_s = self._loop.time()
                    log.warning("cannot find the Redis primaries: %s", why)
                await asyncio.sleep(_SOON_S)
        finally:
            self._asking = None

    async def _find_holders(self) -> str:
        """Ask the servers, each a moment after the one before, until one knows; why none did. So a
        server that hangs costs a moment, and not all the time that there is. Raises BadSetting when
        each of them says that it does not belong to a cluster."""
        cluster = self._url.kind == "cluster"
        known = self.addresses if cluster else ()
        ask_one = self._ask_cluster if cluster else self._ask_sentinel
        left = list(dict.fromkeys((*known, *self._url.addresses)))
        asked: dict[asyncio.Task[list[Address | None]], Address] = {}
        whys = []
        are_alone = True
        self._is_refused = True
        try:
            while left or asked:
                if left:
                    address = left.pop(0)
                    asked[self._loop.create_task(ask_one(address))] = address
                done, _ = await asyncio.wait(
                    asked, timeout=_HEAD_START_S if left else None, return_when=FIRST_COMPLETED
                )
                for task in done:
                    address = asked.pop(task)
                    error = task.exception()
                    if error is None:
                        self._change_holders(task.result())
                        return ""
                    if not isinstance(error, CannotConnect | TimeoutError):
                        raise error
                    whys.append(str(error) or f"{address} does not answer")
                    self._is_refused &= isinstance(error, ConnectRefused)
                    are_alone = are_alone and _NO_CLUSTER in whys[-1]
        finally:
            for task in asked:
                task.cancel()
        if are_alone:
            raise BadSetting(
                f"store: {'; '.join(whys)}; use redis:// instead of redis+cluster://, or remove "
                "redis-cluster"
            )
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
        """Send errands that wait for a server without slots to the server that has the slot now."""
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
    """Return the reply of the server. Raises CannotConnect, also for an error reply, and
    TimeoutError."""
    async with asyncio.timeout(_ASK_S):
        link = await open_link(address, login._replace(db=0), _ASK_S)
        try:
            (reply,) = await ask(link, pack(*words))
        finally:
            link.close()
    if isinstance(reply, ReplyError):
        error = refused(reply)
        raise type(error)(f"{address}: {error}")
    return reply


def _redirected(text: str, asked: Address | None) -> Address:
    """Where "MOVED 3999 host:port" leads to; no host is the one that said so."""
    host, _, port = text.split()[2].rpartition(":")
    return Address(host or (asked.host if asked is not None else ""), int(port))
