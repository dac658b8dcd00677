"""Wake-up notifications of other brokers: queues that got messages, messages that ended.

Called by   store.py.
Calls       link.py, at any server of the cluster: what is published is heard at all of them.

Scripts publish the name of each queue that got something to deliver, the ids of messages that ended
where a client waits for one, that something began in an empty slot, and that a queue was spread. A
notice may be lost when a connection breaks, so after that all clients that wait look again. A
server that has left the cluster may go on answering, and hears nothing: so the broker listens only
at one that has slots.

Not here: who waits for what (server/waiters.py), what time brings about (alarms.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from hiredis import ReplyError

from quinque.stores.redis.keys import slot_of_key
from quinque.stores.redis.link import CannotConnect, Link, pack, refused
from quinque.stores.redis.routes import Routes
from quinque.stores.redis.urls import Address

READY: Final = b"quinque:ready"
ENDED: Final = b"quinque:ended"
BEGUN: Final = b"quinque:begun"
SPREAD: Final = b"quinque:partitions"
_AGAIN_S: Final = 1.0  # how often a broken connection is tried again

log = logging.getLogger("quinque.redis")


class Wakeups:
    def __init__(
        self,
        routes: Routes,
        loop: asyncio.AbstractEventLoop,
        timeout_s: float,
        *,
        got: Callable[[bytes, int], None],
        ended: Callable[[bytes], None],
        begun: Callable[[int], None],
        spread: Callable[[], None],
        missed: Callable[[], None],
    ) -> None:
        """`got` gets each queue and its slot, `ended` each id, `begun` each slot that was empty;
        `spread` is called when a queue was spread, and `missed` when notices may have been lost."""
        self._routes = routes
        self._timeout_s = timeout_s
        self._got = got
        self._ended = ended
        self._begun = begun
        self._spread = spread
        self._missed = missed
        self._is_heard = False  # something came since the server was last asked whether it is there
        self._turn = 0  # the server to listen at
        self._task = loop.create_task(self._listen())

    async def close(self) -> None:
        self._task.cancel()
        try:
            await self._task
        except asyncio.CancelledError:
            pass

    async def _listen(self) -> None:
        while True:
            addresses = self._routes.addresses
            address = addresses[self._turn % len(addresses)]
            try:
                link = await self._routes.connect(address)
                try:
                    await self._hear(link, address)
                finally:
                    link.close()
            except CannotConnect as error:
                log.warning(
                    "cannot receive wake-up notifications of other brokers: %s; retrying", error
                )
            self._turn += 1
            self._routes.look_again()
            await asyncio.sleep(_AGAIN_S)

    async def _hear(self, link: Link, address: Address) -> None:
        """Listen until the connection is lost, or silent when it should not be, or the server has
        no slots any more."""
        lost = asyncio.Event()
        refusals: list[ReplyError] = []

        def came(message: Any) -> None:
            if isinstance(message, ReplyError):
                refusals.append(message)
                lost.set()
            else:
                self._came(message)

        link.on_reply, link.on_lost = came, lost.set
        link.send([pack("SUBSCRIBE", READY, ENDED, BEGUN, SPREAD)])
        while not lost.is_set():
            self._is_heard = False
            try:
                async with asyncio.timeout(self._timeout_s):
                    await lost.wait()
            except TimeoutError:
                if not self._is_heard:
                    raise CannotConnect("the server does not respond") from None
                if address not in self._routes.addresses:
                    return
                link.send([pack("PING")])
        if refusals:
            raise refused(refusals[0])

    def _came(self, message: Any) -> None:
        self._is_heard = True
        if not isinstance(message, list) or len(message) != 3:  # the answer to a PING
            return
        kind, channel, said = message
        if kind == b"subscribe":
            self._missed()  # from here on nothing goes unheard
        elif kind != b"message":
            return
        elif channel == READY:
            prefix, _, name = said.partition(b"}:")
            self._got(name, slot_of_key(prefix + b"}"))
        elif channel == ENDED:
            for id in said.split():
                self._ended(id)
        elif channel == BEGUN:
            self._begun(slot_of_key(said))
        else:
            self._spread()
