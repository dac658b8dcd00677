"""For each family: how its messages are taken, acked, extended, returned and buried.

Called by   desk.py, leases.py and runtime.py.
Calls       the client's Runner, for operations that wait.

             a lease is             after a failure                    failed too often  counts
    jobs     the job's own          given back, delayed                dead, in its queue  broker
    events   the handler's          its lease is as long as the rest   to the dead         broker
    items    the handler's          its lease is as long as the rest   to the dead         worker
    reliable until it is recovered  tried again by the same process    to the dead         both
    tubes    the session's          released, delayed if the kind can  buried              worker

Methods return operations, which the caller sends together with others.

Not here: when they are sent (desk.py), tubes (tube_source.py).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from hashlib import blake2b
from time import monotonic
from typing import Any, Final

from quinque.client.aio.runner import Runner
from quinque.model.families import EVENTS, ITEMS, JOBS, RELIABLE
from quinque.model.limits import NAME_MOST_BYTES, RETRY_DEFAULT_MOST_MS
from quinque.model.ops import Ack, Count, Delivery, FindReady, Op, Release, Reserve
from quinque.model.own_ops import Complete, ExtendLeases, Inspect, Recover, Undeliver
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    Configure,
    Extend,
    Finish,
    LookAt,
    QueueView,
    Requeue,
    Show,
    Take,
    Terms,
    WorkDelivery,
    WorkView,
)
from quinque.worker.board import Left
from quinque.worker.handlers import DELIVERIES, Handler
from quinque.worker.message import Message, reason_of

# A person has a month to look at failed messages.
_DEAD_TERMS: Final = Terms(ttl_ms=30 * 86_400_000, retry_ms=RETRY_DEFAULT_MOST_MS)
_RESULT_TERMS: Final = Terms(ttl_ms=86_400_000, retry_ms=RETRY_DEFAULT_MOST_MS)
_TRACE_MOST_BYTES: Final = 16 << 10
_KEY_BYTES: Final = 20
# The maximum number of jobs for one dead message that is too large for fewer. A body that the
# broker accepted fits into two, in base64. More are needed if a limit was lowered since, or is
# hardly larger than the names.
PARTS: Final = (1, 2, 4, 8, 16, 32, 64)
_ASKED_LEAST: Final = 4  # least number of events to request
# The lease of a job is known when it is extended for the first time. It is at least 1 s, minus up
# to 0.25 s at random, so this is early enough.
_FIRST_EXTEND_S: Final = 0.4
_FIRST_LEASE_S: Final = 0.75
# A message of a dead process that another consumer may get this soon is not changed: the request
# takes time, and the message is delivered again soon anyway. More than the 0.25 s above.
_SURELY_S: Final = 1.0
_ANY_LEASE: Final = 0  # the lease of a delivery that no handler has seen
_STAMP_BYTES: Final = 16  # microseconds since 1970, from 2001 to 2286


class Source:
    """The queue of a handler. `is_counted`: the broker counts deliveries. `is_limited`: the broker
    knows the limit. `extends`: leases can be extended. `retries_here`: this process keeps a failed
    message and tries it again. `returns_at_once`: the messages of a process are ready as soon as it
    dies. `tells_added`: ids contain the time when messages were added. For `first_lease_s` after a
    request for messages, no other consumer gets them."""

    is_counted = False
    is_limited = False
    extends = False
    retries_here = False
    returns_at_once = False
    tells_added = False
    first_extend_s = 0.0
    first_lease_s = float("inf")

    def __init__(self, handler: Handler, runner: Runner) -> None:
        self.handler = handler
        self._run, self._run_all = runner.run, runner.run_all
        self._queue = handler.queue
        self._name = handler.name
        self._lease_ms = max(1, round(handler.lease_s * 1000))

    async def prepare(self) -> None:
        """Prepare the queue as the handler needs it."""

    async def take(self, count: int, wait_ms: int) -> list[Message]:
        """Take up to `count` messages. Return none if none arrives within `wait_ms`."""
        raise NotImplementedError

    def ack(self, messages: Sequence[Message]) -> list[Op]:
        """Ack the messages."""
        raise NotImplementedError

    def give_back(self, messages: Sequence[Message], are_begun: bool = False) -> list[Op]:
        """Return messages that no handler has finished to the queue, as soon as the family can. If
        `are_begun`, handlers may have seen them."""
        return []

    def can_give_back(self, message: Message) -> bool:
        """Return whether the message, which was not started, can be ready at once."""
        return True

    def delay_s(self, wanted_s: float) -> float:
        """Return the retry delay of a failed message, as far as the family supports it."""
        return wanted_s

    def retry(self, message: Message, delay_s: float) -> list[Op]:
        """Return the failed message to its queue, with a delay if the family supports it."""
        return []

    def bury(self, messages: Sequence[Message], parts: int = 1) -> list[Op]:
        """Keep messages that failed too often in another queue, for a person to look at: each in
        as many jobs as `parts`."""
        return [
            Add(JOBS, self.handler.dead, [letter], _DEAD_TERMS, key)
            for message in messages
            for key, letter in _dead_letters(message, self.handler, parts)
        ]

    def forget(self, messages: Sequence[Message]) -> list[Op]:
        """Remove messages that are kept in another queue now."""
        return self.ack(messages)

    def extend(self, messages: Sequence[Message]) -> list[Op]:
        """Extend the leases of the messages."""
        return []

    def lease_s(self, result: Any) -> float:
        """Return how long a lease runs that was extended with this result."""
        return self.handler.lease_s

    def crashed(self, ids: Sequence[bytes], why: str) -> list[Op]:
        """Handle messages whose process died while their handlers ran, maybe because of one of
        them."""
        return self.give_back([Message(self._name, id, b"", 0) for id in ids], are_begun=True)

    async def ours(self, left: Sequence[Left]) -> list[Left]:
        """Return the messages of a dead process that no other consumer can have by now."""
        now_s = monotonic()
        return [it for it in left if it.ours_until_s > now_s + _SURELY_S]

    def added_s(self, id: bytes) -> float | None:
        """Return when the message was added, in seconds since 1970. None if the id does not contain
        it."""
        return None

    def is_last(self, deliveries: int) -> bool:
        """Return whether the broker makes a message dead that failed at this delivery."""
        return False

    async def ready(self) -> int:
        """Return how many messages can be taken."""
        view: QueueView | None = await self._run(LookAt(self.handler.family, self._queue))
        return 0 if view is None or view.is_paused_out else view.ready

    def _taken(self, id: bytes, body: bytes, deliveries: int) -> Message:
        return Message(self._name, id, body, deliveries)


class JobSource(Source):
    is_counted = True
    is_limited = True
    extends = True
    first_extend_s = _FIRST_EXTEND_S
    first_lease_s = _FIRST_LEASE_S
    _limit = 0

    async def prepare(self) -> None:
        """Make sure that the queue has a limit: that of the handler, or the default."""
        wanted = self.handler.max_deliveries
        if wanted is None:
            view: QueueView | None = await self._run(LookAt(JOBS, self._queue))
            if view is not None and view.max_deliveries:
                self._limit = view.max_deliveries
                return
            wanted = DELIVERIES
        self._limit = wanted
        await self._run(Configure(JOBS, self._queue, max_deliveries=wanted))

    async def take(self, count: int, wait_ms: int) -> list[Message]:
        found = await self._run(Take(JOBS, [self._queue], count), wait_ms)
        return [
            self._taken(it.message_id, it.body, it.nacks + it.requeues + 1) for it in found or ()
        ]

    def ack(self, messages: Sequence[Message]) -> list[Op]:
        return [Finish(JOBS, [message.raw_id for message in messages])]

    def give_back(self, messages: Sequence[Message], are_begun: bool = False) -> list[Op]:
        """Return jobs. A job that is delivered at most once is returned only if no handler has
        started it."""
        ids = [message.raw_id for message in messages]
        lease = None if are_begun else _ANY_LEASE
        return [Requeue(JOBS, ids, is_nack=False, lease=lease, is_uncounted=True)]

    def retry(self, message: Message, delay_s: float) -> list[Op]:
        """Return the job with the traceback as the reason, which stays with the job if this was the
        last delivery."""
        assert message.error is not None
        reason = reason_of(message.error, NAME_MOST_BYTES)
        delay_ms = round(delay_s * 1000)
        return [Requeue(JOBS, [message.raw_id], is_nack=True, delay_ms=delay_ms, reason=reason)]

    def bury(self, messages: Sequence[Message], parts: int = 1) -> list[Op]:
        """Make the jobs dead in their queue, with the traceback as the reason."""
        return [
            Requeue(
                JOBS,
                [message.raw_id],
                is_nack=True,
                reason=reason_of(message.error, NAME_MOST_BYTES),
                is_dead=True,
            )
            for message in messages
            if message.error is not None
        ]

    def forget(self, messages: Sequence[Message]) -> list[Op]:
        return []

    def extend(self, messages: Sequence[Message]) -> list[Op]:
        """Extend the jobs. A job stays with its worker until its time to live ends."""
        return [Extend(JOBS, message.raw_id, is_anytime=True) for message in messages]

    def lease_s(self, result: Any) -> float:
        """Return the duration. A job that is delivered at most once has a lease without an end."""
        return result / 1000 if result else float("inf")

    def is_last(self, deliveries: int) -> bool:
        """Compare with the limit that the queue had when the worker started. A job may have its own
        limit."""
        return 0 < self._limit <= deliveries

    async def ours(self, left: Sequence[Left]) -> list[Left]:
        """Ask the broker for the others: a job that was delivered again has other counts, and most
        leases are longer than is certain before they are first extended."""
        surely = await super().ours(left)
        known = {it.id for it in surely}
        others = [it for it in left if it.id not in known]
        views = await self._run_all([Show(JOBS, it.id) for it in others]) if others else []
        pairs = zip(others, views, strict=True)
        return [*surely, *(it for it, view in pairs if view is not None and _is_same(it, view))]

    def crashed(self, ids: Sequence[bytes], why: str) -> list[Op]:
        return [Requeue(JOBS, list(ids), is_nack=True, reason=why.encode()[:NAME_MOST_BYTES])]


class LeasedSource(Source):
    """A family in which the request sets when a lease ends, maybe at once."""

    extends = True

    def __init__(self, handler: Handler, runner: Runner) -> None:
        super().__init__(handler, runner)
        self.first_extend_s = handler.lease_s / 3
        self.first_lease_s = handler.lease_s

    def retry(self, message: Message, delay_s: float) -> list[Op]:
        return [self._lease([message], max(1, round(delay_s * 1000)))]

    def extend(self, messages: Sequence[Message]) -> list[Op]:
        return [self._lease([message], self._lease_ms) for message in messages]

    def lease_s(self, result: Any) -> float:
        return self.handler.lease_s if result[0] else 0.0

    def _lease(self, messages: Sequence[Message], lease_ms: int) -> Op:
        handler, ids = self.handler, [message.raw_id for message in messages]
        return ExtendLeases(handler.family, self._queue, ids, lease_ms, handler.group)


class EventSource(LeasedSource):
    is_counted = True
    tells_added = True
    _asked = _ASKED_LEAST

    async def take(self, count: int, wait_ms: int) -> list[Message]:
        found = await self._reserve(count)
        if not found and wait_ms:
            ready = FindReady(EVENTS, self.handler.group, [self._queue])
            if await self._run(ready, wait_ms):
                found = await self._reserve(count)
        return [self._taken(it.message_id, it.body, it.deliveries) for it in found]

    async def _reserve(self, most: int) -> list[Delivery]:
        """Take at most twice as many as there were the last time, because each takes one
        request."""
        count = min(most, self._asked)
        op = Reserve(EVENTS, self._queue, self.handler.group, self._lease_ms, count)
        found: list[Delivery] = await self._run(op)
        self._asked = max(_ASKED_LEAST, 2 * len(found))
        return found

    def ack(self, messages: Sequence[Message]) -> list[Op]:
        ids = [message.raw_id for message in messages]
        return [Ack(EVENTS, self._queue, self.handler.group, ids)]

    def give_back(self, messages: Sequence[Message], are_begun: bool = False) -> list[Op]:
        ids = [message.raw_id for message in messages]
        return [Release(EVENTS, self._queue, self.handler.group, ids, is_uncounted=True)]

    def crashed(self, ids: Sequence[bytes], why: str) -> list[Op]:
        """Do nothing: the broker has counted the delivery."""
        return [Release(EVENTS, self._queue, self.handler.group, ids)]

    def added_s(self, id: bytes) -> float | None:
        """Read the id: an id that the store made is the time in µs. Most other ids have another
        length."""
        return int(id) / 1e6 if len(id) == _STAMP_BYTES and id.isdigit() else None

    async def ready(self) -> int:
        counted = await self._run(Count(EVENTS, [self._queue], [self.handler.group]))
        return sum(group.available for queue in counted for group in queue.groups)


class ReliableSource(Source):
    """Leases of this family never end. Elements that a worker held when it died are recovered by
    any other worker, when their last delivery is longer ago than the lease of the handler. So that
    lease must be longer than the work."""

    retries_here = True
    tells_added = True

    async def take(self, count: int, wait_ms: int) -> list[Message]:
        left = await self._run(Recover(RELIABLE, self._queue, count, self._lease_ms)) or []
        if left:
            counted = await self._deliveries(len(left))
            return [
                self._taken(it.message_id, it.body, counted.get(it.message_id, 2)) for it in left
            ]
        found = await self._run(Take(RELIABLE, [self._queue], count), wait_ms)
        return [self._taken(it.message_id, it.body, 1) for it in found or ()]

    def ack(self, messages: Sequence[Message]) -> list[Op]:
        ids = [message.raw_id for message in messages]
        return [Complete(RELIABLE, self._queue, ids, is_leased=True)]

    def give_back(self, messages: Sequence[Message], are_begun: bool = False) -> list[Op]:
        untried = [
            WorkDelivery(self._queue, message.raw_id, b"", 0, 0)
            for message in messages
            if not are_begun and self.can_give_back(message)
        ]
        return [Undeliver(RELIABLE, untried)] if untried else []

    def can_give_back(self, message: Message) -> bool:
        """Only at the first delivery: later, the broker cannot tell which consumer has the
        element."""
        return message.deliveries == 1

    def crashed(self, ids: Sequence[bytes], why: str) -> list[Op]:
        """Do nothing: the recovery of the elements counts."""
        return []

    def added_s(self, id: bytes) -> float | None:
        """Read the id, which is <ms>-<number>."""
        at_ms, _, _ = id.partition(b"-")
        return int(at_ms) / 1e3 if at_ms.isdigit() else None

    async def _deliveries(self, count: int) -> dict[bytes, int]:
        """Return the deliveries of the messages that were delivered last."""
        found = await self._run(Inspect(RELIABLE, self._queue, True, -count, count))
        return {it.message_id: it.deliveries for it in found or ()}


class ItemSource(LeasedSource):
    async def take(self, count: int, wait_ms: int) -> list[Message]:
        op = Take(ITEMS, [self._queue], count, lease_ms=self._lease_ms)
        found = await self._run(op, wait_ms)
        return [self._taken(it.message_id, it.body, 1) for it in found or ()]

    def ack(self, messages: Sequence[Message]) -> list[Op]:
        ids = [message.raw_id for message in messages]
        return [Complete(ITEMS, self._queue, ids, is_leased=False)]

    def give_back(self, messages: Sequence[Message], are_begun: bool = False) -> list[Op]:
        return [self._lease(messages, 1)]


def result_ops(messages: Sequence[Message], queue: bytes) -> list[Op]:
    """Make jobs of another queue from the results of handlers."""
    told = [message.told for message in messages if message.told is not None]
    return [Add(JOBS, queue, told, _RESULT_TERMS)] if told else []


def _is_same(left: Left, job: WorkView) -> bool:
    """Return whether the job still has, for a while, the lease of the delivery that the dead
    process got."""
    deliveries = (job.nacks or 0) + (job.requeues or 0) + 1
    is_leased = job.state is State.LEASED and deliveries == left.deliveries
    return is_leased and (job.due_within_ms is None or job.due_within_ms > 1000 * _SURELY_S)


def _letter_key(message: Message, handler: Handler) -> bytes:
    """Return the same key for the same message, so that its dead message exists once, even if this
    process or the next one sends it again. Ids of items may be used again: the body distinguishes
    them."""
    told = b"".join(b"%d:%b" % (len(it), it) for it in (message.raw_id, message.raw))
    return blake2b(told, salt=handler.salt, digest_size=_KEY_BYTES).hexdigest().encode()


def _dead_letters(message: Message, handler: Handler, parts: int) -> list[tuple[bytes, bytes]]:
    """Return the facts about the message, as JSON, and a key for it. The body is text, or base64 if
    it is not text. Several parts have a piece of the body each, and shorter tracebacks."""
    assert message.error is not None
    key = _letter_key(message, handler)
    told: dict[str, Any] = {
        "family": handler.family.name,
        "queue": message.queue,
        "id": message.id,
        "deliveries": message.deliveries,
        "traceback": reason_of(message.error, _TRACE_MOST_BYTES // parts).decode(),
    }
    if parts > 1:
        size = -(-len(message.raw) // parts) or 1
        pieces = [message.raw[at * size : (at + 1) * size] for at in range(parts)]
        return [
            (
                b"%b:%d/%d" % (key, number, parts),
                _json(told, part=number, parts=parts, body_base64=_base64(piece)),
            )
            for number, piece in enumerate(pieces, 1)
        ]
    try:
        return [(key, _json(told, body=message.raw.decode()))]
    except UnicodeDecodeError:
        return [(key, _json(told, body_base64=_base64(message.raw)))]


def _json(told: dict[str, Any], **more: Any) -> bytes:
    return json.dumps(told | more).encode()


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
