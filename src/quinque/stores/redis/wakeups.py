"""What other brokers' clients brought about: queues that got something, messages that ended.

Called by   served.py.
Calls       redis-py's asyncio client.

Scripts publish the name of each queue that got something to deliver, and the ids of messages that
ended if anybody listens for those. A notice may be lost when the connection breaks, so after that
everyone who waits looks again.

Not here: who waits for what (server/waiters.py), what time brings about (alarms.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import redis.asyncio
from redis.exceptions import RedisError

READY: Final = b"quinque:ready"
ENDED: Final = b"quinque:ended"
_AGAIN_S: Final = 1.0  # how often a broken connection is tried again

log = logging.getLogger("quinque.redis")


class Wakeups:
    def __init__(
        self,
        url: str,
        loop: asyncio.AbstractEventLoop,
        notice: Callable[[bytes], None],
        missed: Callable[[], None],
    ) -> None:
        """`notice` is told each name and id, `missed` that some may have gone unheard."""
        self._client = redis.asyncio.Redis.from_url(url)
        self._notice = notice
        self._missed = missed
        self._channels = [READY]
        self._listening: Any = None
        self._loop = loop
        self._task = loop.create_task(self._listen())

    def listen_for_ends(self) -> None:
        """From here on the ids of messages that end are told as well."""
        if ENDED not in self._channels:
            self._channels.append(ENDED)
            if self._listening is not None:
                self._loop.create_task(self._listening.subscribe(ENDED))

    async def close(self) -> None:
        self._task.cancel()
        try:
            await self._task
        except asyncio.CancelledError:
            pass
        await self._client.aclose()

    async def _listen(self) -> None:
        while True:
            try:
                async with self._client.pubsub() as listening:
                    await listening.subscribe(*self._channels)
                    self._listening = listening
                    async for message in listening.listen():
                        if message["type"] == "message":
                            self._notice(message["data"])
                        else:  # from here on nothing of the channel goes unheard
                            self._missed()
            except (RedisError, OSError) as error:
                log.warning("notices of other brokers are not heard: %s", error)
            self._listening = None
            await asyncio.sleep(_AGAIN_S)
