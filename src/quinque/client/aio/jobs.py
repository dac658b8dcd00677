"""Jobs: each is delivered to one consumer, and delivered again until it is acked.

Called by   programs, through Queues.jobs.
Calls       a Runner.

    emails = queues.jobs("emails", codec="json")
    await emails.add({"to": "a@example.com"}, delay=5)
    async for job in emails:
        async with job:              # acked at the end, returned to the queue if it raises
            send(job.body)

Not here: what the commands are called on the wire (client/work_calls.py).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from datetime import datetime
from time import monotonic
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar, overload

from quinque.client.aio.one_by_one import one_by_one
from quinque.client.aio.runner import Runner
from quinque.client.checks import (
    EXACT_MOST,
    as_bodies,
    as_many,
    as_name,
    as_reason,
    as_state,
    as_whole,
    as_work_id,
    id_of,
    only,
    reason_of,
)
from quinque.client.codecs import Codec, Name, body_of, codec_of
from quinque.client.kept_body import UNHEARD, KeptBody
from quinque.client.parts import parts
from quinque.client.spans import Seconds, as_delay_ms, as_wait_ms, as_whole_ms
from quinque.errors import BadArgument, printable
from quinque.model.families import JOBS
from quinque.model.limits import REDRIVE_MOST, WORK_TTL_MS
from quinque.model.states import State
from quinque.model.work_ops import (
    PLAIN_TERMS,
    Add,
    AwaitEnd,
    Browse,
    Configure,
    Extend,
    FindKey,
    Finish,
    LookAt,
    Purge,
    QueueView,
    Redrive,
    Requeue,
    Show,
    Take,
    Terms,
    WorkDelivery,
    WorkView,
    default_retry_ms,
)

T = TypeVar("T")

# A job, a view of a job, or the id of a job.
OneJob: TypeAlias = "Job[Any] | WorkView | str"


class Job(KeptBody[T]):
    """A job that this program has taken. As a context manager, it is acked at the end. If an
    exception is raised, the job returns to the queue with the exception as the reason."""

    __slots__ = ("_queue", "id", "nacks", "requeues")

    def __init__(self, queue: Jobs[T], delivery: WorkDelivery, codec: Codec[T]) -> None:
        super().__init__(delivery.body, codec)
        self._queue = queue
        self.id = delivery.message_id.decode()
        self.nacks = delivery.nacks  # how often a consumer returned it
        self.requeues = delivery.requeues  # how often it was queued again for another reason

    async def ack(self) -> bool:
        """Ack the job. Return False if it no longer exists."""
        return await self._queue.ack([self]) == 1

    async def nack(
        self, *, delay: Seconds = 0, eta: datetime | None = None, reason: str = ""
    ) -> bool:
        """Return the job to the queue, ready at once, after `delay` or at the time `eta`. Counts as
        a nack."""
        return await self._queue.nack([self], delay=delay, eta=eta, reason=reason) == 1

    async def extend(self) -> float:
        """Restart the lease of the job. Return its duration in seconds.

        Raises NoMessage, and TooLate when more than half of the job's time to live is over.
        """
        return await self._queue.extend(self)

    async def __aenter__(self) -> Job[T]:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.ack()
        else:
            with suppress(UNHEARD):
                await self.nack(reason=reason_of(error))

    def __repr__(self) -> str:
        return f"Job({self.id!r})"


class Jobs(Generic[T]):
    """A job queue. Times are numbers of seconds or timedeltas."""

    def __init__(
        self,
        runner: Runner,
        name: str | bytes,
        codec: Name | Codec[T] = "bytes",
        *,
        ttl: Seconds | None = None,
        retry: Seconds | None = None,
        max_deliveries: int = 0,
    ) -> None:
        """`ttl`, `retry` (the duration of a lease) and `max_deliveries` are the defaults of added
        jobs."""
        self._run = runner.run
        self.name = as_name("queue", name, may_be_empty=True)
        self._codec: Codec[T] = codec_of(codec)
        self._ttl, self._retry, self._max_deliveries = ttl, retry, max_deliveries
        self._usual = PLAIN_TERMS
        if ttl is not None or retry is not None or max_deliveries:
            self._usual = self._terms(0, None, None, 0)

    # -- producing -------------------------------------------------------------------------------

    async def add(
        self,
        body: T | str,
        *,
        delay: Seconds = 0,
        eta: datetime | None = None,
        ttl: Seconds | None = None,
        retry: Seconds | None = None,
        max_deliveries: int = 0,
        key: str | None = None,
        max_length: int = 0,
    ) -> str:
        """Add a job and return its id. It is ready at once, after `delay` (seconds or a timedelta),
        or at the time `eta` (an aware datetime). If an unfinished job has the same unique `key`,
        nothing is added and the id of that job is returned.

        Raises QueueFull when `max_length` jobs are ready, and QueuePaused.
        """
        terms = self._usual
        if delay != 0 or eta is not None or ttl is not None or retry is not None or max_deliveries:
            terms = self._terms(as_delay_ms(delay, eta), ttl, retry, max_deliveries)
        known_by = None if key is None else as_name("key", key)
        max_length = as_whole("max_length", max_length)
        op = Add(JOBS, self.name, [body_of(self._codec, body)], terms, known_by, max_length)
        [id] = await self._run(op)
        return str(id, "ascii")

    async def add_many(
        self,
        bodies: Iterable[T | str],
        *,
        delay: Seconds = 0,
        eta: datetime | None = None,
        ttl: Seconds | None = None,
        retry: Seconds | None = None,
        max_deliveries: int = 0,
    ) -> list[str]:
        """Add jobs in one round trip and return their ids in order."""
        encoded = [body_of(self._codec, body) for body in as_bodies(bodies)]
        if not encoded:
            return []
        terms = self._usual
        if delay != 0 or eta is not None or ttl is not None or retry is not None or max_deliveries:
            terms = self._terms(as_delay_ms(delay, eta), ttl, retry, max_deliveries)
        ids = await self._run(Add(JOBS, self.name, encoded, terms))
        return [str(id, "ascii") for id in ids]

    # -- consuming -------------------------------------------------------------------------------

    @overload
    async def take(self, timeout: None) -> Job[T]: ...
    @overload
    async def take(self, timeout: Seconds | None = 0) -> Job[T] | None: ...
    async def take(self, timeout: Seconds | None = 0) -> Job[T] | None:
        """Take a job. Return None if no job arrives within `timeout` seconds. A `timeout` of None
        blocks forever."""
        found = await self.take_many(1, timeout)
        return found[0] if found else None

    async def take_many(self, count: int, timeout: Seconds | None = 0) -> list[Job[T]]:
        """Take up to `count` jobs in one round trip. Return an empty list if no job arrives within
        `timeout` seconds."""
        take = Take(JOBS, [self.name], as_whole("count", count, least=1))
        found = await self._run(take, as_wait_ms(timeout))
        return [Job(self, delivery, self._codec) for delivery in found]

    def __aiter__(self) -> AsyncIterator[Job[T]]:
        """Take jobs one by one, forever. Ack each of them."""
        return one_by_one(self)

    async def ack(self, jobs: OneJob | Iterable[OneJob]) -> int:
        """Ack the jobs in one round trip. Return how many of them existed."""
        ids = _ids(jobs)
        return sum(await self._run(Finish(JOBS, ids))) if ids else 0

    async def nack(
        self,
        jobs: OneJob | Iterable[OneJob],
        *,
        delay: Seconds = 0,
        eta: datetime | None = None,
        reason: str = "",
    ) -> int:
        """Return the jobs to the queue in one round trip. Return how many of them were taken."""
        ids, delay_ms = _ids(jobs), as_delay_ms(delay, eta)
        back = Requeue(JOBS, ids, is_nack=True, delay_ms=delay_ms, reason=as_reason(reason))
        return sum(await self._run(back)) if ids else 0

    async def wait(
        self, jobs: OneJob | Iterable[OneJob], timeout: Seconds | None = None
    ) -> int | None:
        """Wait until each job is removed (acked, deleted or expired) or dead. Return how many are
        removed, or None after `timeout` seconds. A `timeout` of None blocks forever."""
        ids, wait_ms = list(dict.fromkeys(_ids(jobs))), as_wait_ms(timeout)
        gone, until_s = 0, monotonic() + wait_ms / 1000
        for some in parts(ids):
            found: int | None = await self._run(AwaitEnd(JOBS, some), wait_ms)
            if found is None:
                return None
            gone += found
            if timeout is not None:
                wait_ms = max(0, int(1000 * (until_s - monotonic())))
        return gone

    async def extend(self, job: OneJob) -> float:
        """Restart the lease of the job. Return its duration in seconds."""
        lease_ms: int = await self._run(Extend(JOBS, only(_ids(job))))
        return lease_ms / 1000

    # -- looking and setting -----------------------------------------------------------------------

    async def delete(self, jobs: OneJob | Iterable[OneJob]) -> int:
        """Remove the jobs in any state, without processing them. Return how many existed."""
        ids = _ids(jobs)
        return sum(await self._run(Finish(JOBS, ids, is_ack=False))) if ids else 0

    async def show(self, id: OneJob) -> WorkView | None:
        """Return all fields of a job."""
        view: WorkView | None = await self._run(Show(JOBS, only(_ids(id))))
        return view

    async def find(self, key: str) -> str | None:
        """Return the id of the unfinished job with this unique key."""
        id: bytes | None = await self._run(FindKey(JOBS, self.name, as_name("key", key)))
        return None if id is None else str(id, "ascii")

    async def peek(self, count: int = 10, state: State = State.READY) -> list[WorkView]:
        """Return the first ready, delayed or dead jobs, or the last if `count` is negative."""
        # Leased jobs have no order.
        as_state(state, (State.READY, State.DELAYED, State.DEAD))
        count = as_whole("count", count, least=-EXACT_MOST)
        found: list[WorkView] = await self._run(Browse(JOBS, self.name, state, count))
        return found

    async def info(self) -> QueueView | None:
        """Return the number of ready, delayed, leased and dead jobs, and the queue's settings."""
        view: QueueView | None = await self._run(LookAt(JOBS, self.name))
        return view

    async def pause(self, *, adding: bool = True, taking: bool = True) -> None:
        """Refuse new jobs, or stop deliveries, until the queue is resumed."""
        await self._run(Configure(JOBS, self.name, adding, taking))

    async def resume(self) -> None:
        """Accept and deliver jobs again."""
        await self._run(Configure(JOBS, self.name, is_paused_in=False, is_paused_out=False))

    async def keep_expired(self, is_kept: bool = True) -> None:
        """Keep jobs that expire, as dead jobs with the reason `expired`. With False, delete them
        again, which is the default."""
        await self._run(Configure(JOBS, self.name, keeps_expired=is_kept))

    async def redrive(self, count: int = 0, *, ids: OneJob | Iterable[OneJob] | None = None) -> int:
        """Make dead jobs ready again, as if they were new: `ids`, or the first `count` (0 means
        all). Return how many."""
        redriven: int
        if ids is not None:
            named = _ids(ids)
            redriven = await self._run(Redrive(JOBS, named)) if named else 0
            return redriven
        left = as_whole("count", count) or EXACT_MOST
        redriven = 0
        while left > 0:
            most = min(left, REDRIVE_MOST)
            found: int = await self._run(Redrive(JOBS, queue=self.name, count=most))
            redriven += found
            left -= found
            if found < most:
                break
        return redriven

    async def purge(self, *states: State) -> int:
        """Remove all jobs of the queue, or those in `states`. Return how many."""
        for state in states:
            as_state(state)
        purged: int = await self._run(Purge(JOBS, self.name, states))
        return purged

    def __repr__(self) -> str:
        return f"Jobs({printable(self.name)!r})"

    def _terms(
        self, delay_ms: int, ttl: Seconds | None, retry: Seconds | None, max_deliveries: int
    ) -> Terms:
        ttl = self._ttl if ttl is None else ttl
        retry = self._retry if retry is None else retry
        ttl_ms = WORK_TTL_MS if ttl is None else as_whole_ms("ttl", ttl)
        if not ttl_ms:
            raise BadArgument("ttl 0 must be 1 or more")
        if delay_ms >= ttl_ms:
            said = f"delay {delay_ms / 1000:.15g} must be less than ttl {ttl_ms / 1000:.15g}"
            raise BadArgument(f"{said}: set a longer ttl")
        retry_ms = default_retry_ms(ttl_ms) if retry is None else as_whole_ms("retry", retry)
        most = as_whole("max_deliveries", max_deliveries or self._max_deliveries)
        return Terms(ttl_ms, delay_ms, retry_ms, most)


def _ids(jobs: OneJob | Iterable[OneJob]) -> list[bytes]:
    return [as_work_id(id_of(job)) for job in as_many(jobs)]
