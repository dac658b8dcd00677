"""The operations on worklists, and the result of each.

Called by   dialects (make operations, read results), stores (carry them out).
Calls       nothing.

Not here: the operations on feeds (model/ops.py), what an operation does (engine/work/decide.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from quinque.model.families import Family
from quinque.model.limits import (
    NEVER_MS,
    NODE_DOUBTED_MS,
    NODE_FAILED_MS,
    RETRY_DEFAULT_MOST_MS,
    WORK_TTL_MS,
)
from quinque.model.ops import Op
from quinque.model.states import State


@dataclass
class Terms:
    """The options of a message of a work queue, as its producer requested them.

    `ttl_ms` is its time to live; 0: until it is done. `retry_ms` is the duration of a lease; 0: the
    lease never ends. `max_deliveries` 0: the limit of the queue applies.
    """

    ttl_ms: int
    delay_ms: int = 0
    retry_ms: int = 0
    max_deliveries: int = 0
    replicas: int = 1

    def as_record(self) -> tuple[int, int, int, int, int]:
        """Return the options as the journal stores them."""
        return (self.ttl_ms, self.delay_ms, self.retry_ms, self.max_deliveries, self.replicas)


def default_retry_ms(ttl_ms: int) -> int:
    """The default duration of a lease: a tenth of the message's time to live, in whole seconds, 5
    minutes at most and a second at least."""
    return min(max(ttl_ms // 10_000, 1) * 1000, RETRY_DEFAULT_MOST_MS)


# The terms of a job without options.
PLAIN_TERMS: Final = Terms(WORK_TTL_MS, retry_ms=default_retry_ms(WORK_TTL_MS))


@dataclass
class WorkDelivery:
    """One message delivered to one consumer, with how often it was returned (nacks), and how often
    it was queued again for another reason.

    `lease` distinguishes this delivery from a later one of the same message: it is when the lease
    ends, or a number that grows with the deliveries if it does not end. 0: only the store knows."""

    queue: bytes
    message_id: bytes
    body: bytes
    nacks: int
    requeues: int
    lease: int = field(default=0, compare=False)


@dataclass
class WorkView:
    """The current state of a message. `due_within_ms` is None if nothing is due, `body` if it was
    not requested. `reason` is the reason of the last nack, or why the message is dead. Other fields
    are None if the broker did not send them: `peek` of a client gets fewer fields than `show`."""

    queue: bytes
    message_id: bytes
    body: bytes | None
    state: State
    place: int | None
    terms: Terms | None
    ttl_left_ms: int | None
    due_within_ms: int | None
    nacks: int | None
    requeues: int | None
    deliveries: int | None
    max_deliveries: int | None  # its own, or its queue's
    reason: bytes
    key: bytes | None

    @property
    def id(self) -> str:
        """The id of the message."""
        return self.message_id.decode("utf-8", "surrogateescape")


@dataclass
class QueueView:
    """The current state of a work queue. `came` and `went` count how often messages were queued and
    delivered, since the queue was created. They and the times are None if the broker did not send
    them, as for reliable queues and items."""

    queue: bytes
    ready: int
    delayed: int
    leased: int
    dead: int
    age_ms: int | None
    idle_ms: int | None
    came: int | None
    went: int | None
    is_paused_in: bool
    is_paused_out: bool
    max_deliveries: int  # 0 = no limit
    rate_count: int  # 0 = no limit
    rate_ms: int
    partitions: int = 1
    keeps_expired: bool = False  # expired messages are dead; else they are deleted


@dataclass
class NodeView:
    """A broker as others know it: 40 hexadecimal digits, whether clients should avoid it, where
    clients reach it, and how long ago it was last seen.

    An empty `host` was not announced: the client already knows how to reach it.
    """

    node_id: bytes
    is_leaving: bool
    host: bytes = b""
    port: int = 0
    unheard_ms: int = 0
    is_self: bool = True

    @property
    def is_doubted(self) -> bool:
        """Return whether its heartbeat is late."""
        return self.unheard_ms >= NODE_DOUBTED_MS

    @property
    def is_failed(self) -> bool:
        """Return whether it counts as failed: clients should not rely on it."""
        return self.unheard_ms >= NODE_FAILED_MS


@dataclass
class Add(Op):
    """Store messages, ready or delayed; the result is their ids.

    With `key` there is one message; while one with that key lives in the queue, the result is that
    one's id and nothing is stored. QueueFull is raised when `max_length` messages are ready (0 = no
    limit). NoReplicas is raised unless as many replicas as the terms ask for have the message
    within `confirm_ms`; None does not wait for them.
    """

    family: Family
    queue: bytes
    bodies: Sequence[bytes]
    terms: Terms
    key: bytes | None = None
    max_length: int = 0
    confirm_ms: int | None = NEVER_MS


@dataclass
class Take(Op):
    """Lease up to `count` messages: one from each queue in turn, again and again. Fewer come when
    there are no more, or when they are large or very many; none only when there is none.

    With `patterns` the queues are those whose names match one. With `is_waiting`, Leaving is raised
    where there is nothing and the node is leaving: clients should not wait for it.

    With `is_drained` all of the first queue come before those of the second; a name of another
    family is refused only where nothing came before it, and later ones are passed over. With
    `lease_ms` the leases run for that time, whatever the messages' terms are.

    In a family whose queues last, a queue that does not exist is not made.
    """

    family: Family
    queues: Sequence[bytes]
    count: int = 1
    patterns: Sequence[bytes] = ()
    is_waiting: bool = False
    is_drained: bool = False
    lease_ms: int = 0


@dataclass
class Finish(Op):
    """Remove the messages in any state. The result says for each whether it existed. They are
    finished, or with `is_ack` False deleted without being finished."""

    family: Family
    message_ids: Sequence[bytes]
    is_ack: bool = True


@dataclass
class Requeue(Op):
    """Make leased and delayed messages ready, or delay them by `delay_ms`; the result says for each
    whether it changed. A nack is counted, and may be the last: then the message is dead.

    Messages that are worked at most once stay leased, unless the delivery did not reach its
    consumer. A `lease`, as WorkDelivery has it, says that: messages that were delivered again
    since are not changed; 0 is any delivery. With `is_uncounted`, and without a nack, the last
    delivery does not count: neither towards the limit of deliveries, nor as a requeue. With
    `is_dead`, a nack makes the messages dead, whatever their limit is."""

    family: Family
    message_ids: Sequence[bytes]
    is_nack: bool
    delay_ms: int = 0
    reason: bytes = b""
    lease: int | None = None
    is_uncounted: bool = False
    is_dead: bool = False


@dataclass
class Hold(Op):
    """Lease ready messages without a consumer; the result says for each whether it was leased."""

    family: Family
    message_ids: Sequence[bytes]


@dataclass
class Extend(Op):
    """Restart the message's lease; the result is how long it runs. A ready message gets leased.

    Raises NoMessage, and TooLate when half of its time to live is over, unless `is_anytime`.
    """

    family: Family
    message_id: bytes
    is_anytime: bool = False


@dataclass
class Show(Op):
    """Return the message, or None. If ids are unique only in one queue, `queue` names it."""

    family: Family
    message_id: bytes
    queue: bytes = b""


@dataclass
class Browse(Op):
    """The first `count` messages of that state in the queue, or with a negative count the last
    ones, last first; fewer when they are large or very many. Only ready, delayed and dead ones are
    kept in an order; of leased ones those are found whose leases end."""

    family: Family
    queue: bytes
    state: State
    count: int


@dataclass
class LookAt(Op):
    """The queue's QueueView, or None."""

    family: Family
    queue: bytes


@dataclass
class ScanQueues(Op):
    """Names of queues with `least` to `most` ready messages, about `count` of them, and the cursor
    to go on with, 0 at the end. Queues that exist during the whole scan are seen; others may be.
    With `skips_idle`, queues in which nothing is ready and nothing has happened for long are left
    out, unless they are set, claimed or waited on, or have dead messages."""

    family: Family
    cursor: int
    count: int
    least: int = 0
    most: int = 1 << 62
    skips_idle: bool = False


@dataclass
class ScanMessages(Op):
    """Messages, about `count` of them, and the cursor to go on with, 0 at the end. No `states`
    are all states."""

    family: Family
    cursor: int
    count: int
    queue: bytes | None = None
    states: Sequence[State] = ()
    with_bodies: bool = False


@dataclass
class Configure(Op):
    """Set what is not None for the queue; if something is set, a queue that does not exist is made.
    The result is its QueueView."""

    family: Family
    queue: bytes
    is_paused_in: bool | None = None
    is_paused_out: bool | None = None
    max_deliveries: int | None = None
    rate: tuple[int, int] | None = None  # (messages, milliseconds); (0, 0) = no limit
    partitions: int | None = None  # that new messages go to, in a store of many servers
    keeps_expired: bool | None = None  # messages that expire are dead, and not deleted


@dataclass
class Redrive(Op):
    """Make dead messages ready, as if they were new: `ids`, or the first `count` of the queue. One
    operation redrives at most REDRIVE_MOST of a queue, also if `count` is 0 or larger. The result
    is how many."""

    family: Family
    message_ids: Sequence[bytes] = ()
    queue: bytes | None = None
    count: int = 0


@dataclass
class Purge(Op):
    """Remove messages of the queue: all, or those in these states. The result is how many. With
    `forgets`, also remove the queue and its settings; if it has claimed messages, only the
    settings."""

    family: Family
    queue: bytes
    states: Sequence[State] = ()
    forgets: bool = False


@dataclass
class PurgeAll(Op):
    """Remove every queue of the family, and its settings; the result is how many messages were
    removed."""

    family: Family


@dataclass
class FindKey(Op):
    """The id of the message that lives in the queue under that key, or None."""

    family: Family
    queue: bytes
    key: bytes


@dataclass
class AwaitEnd(Op):
    """Return how many of the messages are removed, or None while one of them is unfinished.

    A store may keep in `left` which of them that are, for the next time that it runs the same
    operation: a client may wait for thousands, and it runs again whenever one of them ends.
    """

    family: Family
    message_ids: Sequence[bytes]
    left: list[bytes] = field(default_factory=list, compare=False)


@dataclass
class FindQueues(Op):
    """Find the queue of each message; None if the message does not exist."""

    family: Family
    message_ids: Sequence[bytes]


@dataclass
class LookAtNode(Op):
    """The NodeView."""


@dataclass
class SetNode(Op):
    """The node leaves or does not (None = as before), and gets another id if `is_renamed`; the
    result is the NodeView."""

    is_leaving: bool | None = None
    is_renamed: bool = False


@dataclass
class Announce(Op):
    """Tell other nodes that clients reach this node there; the result is its NodeView."""

    host: bytes
    port: int


@dataclass
class FindNodes(Op):
    """The NodeViews of all nodes that share the store and have announced themselves, this one
    first in any case."""


@dataclass
class ForgetNode(Op):
    """Do not list another node until its next heartbeat; the result is None."""

    node_id: bytes
