"""Calls of scripts on their way to Redis and back: all of a turn together, in the order they came.

Called by   served.py.
Calls       redis-py's asyncio client, scripts.py.

One batch is under way at a time. What is posted meanwhile is the next one, so the busier the broker
is, the more travels together.

    posted [c d e]   ── a pipeline of EVALSHAs ──▶   Redis
    under way [a b]  ◀── one reply for each ────────

When the connection breaks, nobody knows which calls of the batch took effect, and all of them say
so. Nothing is sent a second time, but for scripts that Redis did not know: those did nothing.

Not here: what a reply means (store.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.retry import Retry

from quinque.errors import QuinqueError, StoreUnavailable
from quinque.stores.redis.calls import Call
from quinque.stores.redis.scripts import SCRIPTS, error_of

Outcome = Any  # a reply, or the QuinqueError that it is
Then = Callable[[list[Outcome]], None]


class Courier:
    def __init__(self, url: str, loop: asyncio.AbstractEventLoop) -> None:
        # Never repeated by itself: an addition would be stored twice.
        self._client = redis.asyncio.Redis.from_url(url, retry=Retry(NoBackoff(), 0))
        self._loop = loop
        self._posted: list[tuple[Sequence[Call], Then]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return self._task is None

    def post(self, calls: Sequence[Call], then: Then) -> None:
        """The calls are made; `then` is told what came of each."""
        self._posted.append((calls, then))
        if self._task is None:
            self._task = self._loop.create_task(self._work())

    async def close(self) -> None:
        """What was posted has been carried out, and the connection is closed."""
        while self._task is not None:
            await self._task
        await self._client.aclose()

    async def _work(self) -> None:
        while self._posted:
            posted, self._posted = self._posted, []
            outcomes = await self._carry([call for calls, _ in posted for call in calls])
            at = 0
            for calls, then in posted:
                then(outcomes[at : at + len(calls)])
                at += len(calls)
        self._task = None

    async def _carry(self, calls: Sequence[Call]) -> list[Outcome]:
        try:
            outcomes = await self._send(calls)
            unknown = [at for at, found in enumerate(outcomes) if isinstance(found, NoScriptError)]
            if unknown:
                # Redis was started again, or told to forget; these calls have done nothing.
                await self._load({calls[at].script for at in unknown})
                again = await self._send([calls[at] for at in unknown])
                for at, outcome in zip(unknown, again, strict=True):
                    outcomes[at] = outcome
        except RedisError as error:
            lost = StoreUnavailable(f"Redis: {error}")
            return [lost] * len(calls)
        return [_outcome(found) for found in outcomes]

    async def _send(self, calls: Sequence[Call]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for call in calls:
            sha = SCRIPTS[call.script].sha
            pipeline.execute_command("EVALSHA", sha, len(call.keys), *call.keys, *call.argv)
        found: list[Any] = await pipeline.execute(raise_on_error=False)
        return found

    async def _load(self, names: set[str]) -> None:
        for name in sorted(names):
            await self._client.execute_command("SCRIPT LOAD", SCRIPTS[name].text)


def _outcome(found: Any) -> Outcome:
    if isinstance(found, ResponseError):
        return error_of(str(found))
    if isinstance(found, RedisError):
        return StoreUnavailable(f"Redis: {found}")
    assert not isinstance(found, QuinqueError)
    return found
