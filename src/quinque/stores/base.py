"""The promises of a store, with numbers. tests/conformance checks each of them.

Called by   server/ (everything a client asks for), cli/serve.py (opens and closes one).
Calls       nothing.

A turn is what the server does between two waits for the network. A store gathers what the
operations of a turn changed, and `commit` makes all of it durable at once.

Not here: waiting for messages (server/waiters.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal, Protocol, overload

from quinque.model.claim_ops import (
    ClaimView,
    DropClaims,
    FillClaim,
    FindClaims,
    LookAtClaims,
    MarkClaim,
    OpenClaims,
    PlayClaim,
    PurgeClaims,
    ReadClaim,
    ReleaseClaims,
    RenewClaims,
    SettleClaims,
    SubscriptionView,
)
from quinque.model.families import Family
from quinque.model.look_ops import (
    BrowsePlaces,
    DividePlaces,
    FindRecords,
    Page,
    Places,
    ReadRecord,
    Record,
)
from quinque.model.ops import (
    Ack,
    Count,
    Delivery,
    FindReady,
    Flush,
    Op,
    Peek,
    Put,
    QueueCount,
    Release,
    Reserve,
)
from quinque.model.own_ops import (
    AddItems,
    Cleaned,
    CleanItems,
    Complete,
    ExtendLeases,
    Inspect,
    Inspected,
    Recover,
    Undeliver,
)
from quinque.model.queue_ops import (
    DeleteQueues,
    FindFamilies,
    LookAtExpiry,
    RenameQueue,
    SetExpiry,
)
from quinque.model.stage_ops import (
    DropStage,
    FindStages,
    Publish,
    Published,
    Stage,
    Staged,
    StageView,
)
from quinque.model.tube_ops import (
    AckTasks,
    BrowseTasks,
    BuryTasks,
    DeleteTasks,
    DropTube,
    FindTubes,
    JoinSession,
    KickTasks,
    LeaveSession,
    LeaveSessions,
    LookAtTube,
    MakeTube,
    PeekTasks,
    PutTasks,
    ReleaseTasks,
    ReturnTasks,
    TakeTasks,
    TaskView,
    TouchTasks,
    TruncateTube,
    TubeView,
)
from quinque.model.work_ops import (
    Add,
    Announce,
    AwaitEnd,
    Browse,
    Configure,
    Extend,
    FindKey,
    FindNodes,
    FindQueues,
    Finish,
    ForgetNode,
    Hold,
    LookAt,
    LookAtNode,
    NodeView,
    Purge,
    PurgeAll,
    QueueView,
    Redrive,
    Requeue,
    ScanMessages,
    ScanQueues,
    SetNode,
    Show,
    Take,
    WorkDelivery,
    WorkView,
)
from quinque.stats.expirations import Expirations
from quinque.stores.consumers import Consumers
from quinque.stores.pending import Pending

Fsync = Literal["always", "everysec", "no"]
HasTakers = Callable[[bytes, bytes | None], bool]


def no_takers(queue: bytes, lane: bytes | None) -> bool:
    """No client blocks."""
    return False


class Store(Protocol):
    answers_at_once: bool
    """Whether no operation gives a Pending, so that several can run with nothing in between."""

    ready: set[bytes]
    """Queues that got something to deliver since the caller last emptied this set, and watched ids
    whose messages are gone or dead."""

    ready_lanes: dict[bytes, set[bytes]]
    """The lanes that got something, for each queue in `ready` where only lanes did. It may have
    other queues too. The caller empties it with `ready`."""

    @property
    def expired(self) -> Expirations:
        """Jobs that expired unfinished and are gone, until the caller takes these counts."""

    on_ready: Callable[[], None]
    """Called when `ready` got something that no operation of the caller brought about."""

    on_doubt: Callable[[], None]
    """Called when a queue may have got something unnoticed: clients blocked on patterns retry."""

    @property
    def consumers(self) -> Consumers:
        """Consumers of events queues. The caller tells its own, and finds those of others that
        share the store after each Count."""

    watched: Collection[bytes]
    """Ids whose end clients wait for, and queues that clients wait on. The caller owns it."""

    has_takers: HasTakers
    """Whether clients block until they can take from the queue, or from a lane of the tube. A store
    that answers at once leaves to them what is due when another client takes."""

    @overload
    def run(self, op: Put) -> list[bytes]: ...
    @overload
    def run(self, op: Reserve) -> list[Delivery]: ...
    @overload
    def run(self, op: Ack | Release) -> list[bool]: ...
    @overload
    def run(self, op: Flush) -> None: ...
    @overload
    def run(self, op: Peek) -> Delivery | None: ...
    @overload
    def run(self, op: FindReady) -> bytes | None: ...
    @overload
    def run(self, op: Count) -> list[QueueCount]: ...
    @overload
    def run(self, op: Add) -> list[bytes]: ...
    @overload
    def run(self, op: Take) -> list[WorkDelivery]: ...
    @overload
    def run(self, op: Finish | Requeue | Hold) -> list[bool]: ...
    @overload
    def run(self, op: Extend | Redrive | Purge | PurgeAll) -> int: ...
    @overload
    def run(self, op: Show) -> WorkView | None: ...
    @overload
    def run(self, op: Browse) -> list[WorkView]: ...
    @overload
    def run(self, op: LookAt) -> QueueView | None: ...
    @overload
    def run(self, op: Configure) -> QueueView: ...
    @overload
    def run(self, op: ScanQueues) -> tuple[int, list[bytes]]: ...
    @overload
    def run(self, op: ScanMessages) -> tuple[int, list[WorkView]]: ...
    @overload
    def run(self, op: FindKey) -> bytes | None: ...
    @overload
    def run(self, op: FindQueues) -> list[bytes | None]: ...
    @overload
    def run(self, op: AwaitEnd) -> int | None: ...
    @overload
    def run(self, op: LookAtNode | SetNode | Announce) -> NodeView: ...
    @overload
    def run(self, op: FindNodes) -> list[NodeView]: ...
    @overload
    def run(self, op: ForgetNode) -> None: ...
    @overload
    def run(self, op: OpenClaims) -> SubscriptionView: ...
    @overload
    def run(self, op: LookAtClaims) -> SubscriptionView | None: ...
    @overload
    def run(self, op: FindClaims) -> list[SubscriptionView]: ...
    @overload
    def run(self, op: FillClaim) -> ClaimView | None: ...
    @overload
    def run(self, op: PlayClaim) -> ClaimView: ...
    @overload
    def run(self, op: ReadClaim) -> list[bytes]: ...
    @overload
    def run(
        self, op: MarkClaim | SettleClaims | PurgeClaims | ReleaseClaims | RenewClaims | DropStage
    ) -> int: ...
    @overload
    def run(self, op: DropClaims) -> int | None: ...
    @overload
    def run(self, op: Stage) -> Staged: ...
    @overload
    def run(self, op: Publish) -> Published: ...
    @overload
    def run(self, op: FindStages) -> list[StageView]: ...
    @overload
    def run(self, op: BrowsePlaces) -> Page: ...
    @overload
    def run(self, op: DividePlaces) -> Places: ...
    @overload
    def run(self, op: FindRecords) -> list[Record]: ...
    @overload
    def run(self, op: ReadRecord) -> list[bytes]: ...
    @overload
    def run(self, op: Complete) -> list[bool] | None: ...
    @overload
    def run(self, op: Recover) -> list[WorkDelivery] | None: ...
    @overload
    def run(self, op: Undeliver) -> int: ...
    @overload
    def run(self, op: Inspect) -> list[Inspected] | None: ...
    @overload
    def run(self, op: AddItems | ExtendLeases) -> list[bool]: ...
    @overload
    def run(self, op: CleanItems) -> Cleaned: ...
    @overload
    def run(self, op: FindFamilies) -> list[Family | None]: ...
    @overload
    def run(self, op: DeleteQueues) -> int: ...
    @overload
    def run(self, op: RenameQueue | SetExpiry) -> bool: ...
    @overload
    def run(self, op: LookAtExpiry) -> int | None: ...
    @overload
    def run(self, op: PutTasks | TakeTasks | BrowseTasks) -> list[TaskView]: ...
    @overload
    def run(
        self,
        op: AckTasks | ReleaseTasks | TouchTasks | PeekTasks | BuryTasks | DeleteTasks,
    ) -> list[TaskView | None]: ...
    @overload
    def run(self, op: KickTasks | ReturnTasks | TruncateTube | LeaveSessions) -> int: ...
    @overload
    def run(self, op: MakeTube | DropTube) -> bool: ...
    @overload
    def run(self, op: FindTubes) -> list[TubeView]: ...
    @overload
    def run(self, op: LookAtTube) -> TubeView | None: ...
    @overload
    def run(self, op: JoinSession | LeaveSession) -> None: ...
    @overload
    def run(self, op: Op) -> Any: ...
    def run(self, op: Op) -> Any:
        """Carry out one operation, entirely or not at all. The result, or a Pending of it.

        1. The effect is seen by every later operation at once, and survives whatever `durability`
           promises when the next `commit` has returned.
        2. When this raises a QuinqueError other than StoreUnavailable, nothing changed.
        3. When it raises StoreUnavailable, the effect is unknown: the caller may repeat the same
           operation, and a repeat of one that took effect does no harm.
        4. Operations take effect in the order they were started.
        5. A message is leased to one consumer of a group at a time, until acked, released or
           its deadline has passed; an acked message is not given to that group again.
        6. Every operation from that millisecond on sees a change that time made due.
        7. Ids the store makes are never made twice, and places grow strictly, across restarts and
           clock changes; in feeds the ids grow with them.
        12. A sealed claim gives the same rows whenever it is read, across restarts, until it is
            settled; only the holder of its subscription's newest epoch fills, settles or releases.
        13. A batch is published once, however often it is staged and published.
        14. Every change of a message's state is on record, once, if recording is on.
        """

    def commit(self) -> None:
        """8. Make all changes of the turn durable before this returns.

        Raises StoreUnavailable when it is not: then nothing of the turn may be acknowledged.
        """

    def tick(self) -> None:
        """9. Carry out a slice of what time has made due, a millisecond's work or so."""

    def next_due_ms(self) -> int:
        """When tick() next has something to do; NEVER_MS if never."""

    def is_awaited(self) -> bool:
        """Whether a client waits for something that only further ticks do."""

    def finish_slices(self) -> None:
        """Carry out the operation that was begun last at once, if ticks carry it out in slices.
        Claims that are being closed are left to the ticks."""

    def now_ms(self) -> int:
        """The store's clock."""

    def info(self) -> dict[str, int | str] | Pending:
        """Facts for INFO, by field name, or a Pending of them."""

    def configure(self, fsync: Fsync, maxmemory: int) -> None:
        """11. From here on these settings hold; under `always`, for earlier commits as well.

        Raises StoreUnavailable when those cannot be made durable.
        """

    def compact(self) -> bool:
        """Start to write live messages again and to drop the rest, if the store has a journal.
        Return False if an earlier request is still in progress."""

    def close(self) -> None:
        """10. Everything committed stays; the store may be opened again at once."""
