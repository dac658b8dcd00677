"""The result type of `run` for each operation, for type checkers.

Called by   broker.py, whose Broker is one of these.
Calls       nothing.

The methods are those of a store (stores/base.py), so that code can run operations on either.

Not here: what an operation does (model/claim_ops.py and its neighbours).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, overload

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
from quinque.model.ops import Ack, Count, Delivery, FindReady, Op, Put, QueueCount, Release, Reserve
from quinque.model.own_ops import (
    AddItems,
    Complete,
    ExtendLeases,
    Inspect,
    Inspected,
    Recover,
    Undeliver,
)
from quinque.model.queue_ops import DeleteQueues, FindFamilies
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
    KickTasks,
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
    AwaitEnd,
    Browse,
    Extend,
    FindKey,
    Finish,
    Hold,
    LookAt,
    Purge,
    QueueView,
    Redrive,
    Requeue,
    ScanQueues,
    Show,
    Take,
    WorkDelivery,
    WorkView,
)


class TypedRun(ABC):
    @overload
    async def run(self, op: OpenClaims) -> SubscriptionView: ...
    @overload
    async def run(self, op: LookAtClaims) -> SubscriptionView | None: ...
    @overload
    async def run(self, op: FindClaims) -> list[SubscriptionView]: ...
    @overload
    async def run(self, op: FillClaim, wait_ms: int = 0) -> ClaimView | None: ...
    @overload
    async def run(self, op: PlayClaim) -> ClaimView: ...
    @overload
    async def run(self, op: ReadClaim | ReadRecord) -> list[bytes]: ...
    @overload
    async def run(
        self, op: MarkClaim | SettleClaims | PurgeClaims | ReleaseClaims | RenewClaims | DropStage
    ) -> int: ...
    @overload
    async def run(self, op: DropClaims) -> int | None: ...
    @overload
    async def run(self, op: Stage) -> Staged: ...
    @overload
    async def run(self, op: Publish) -> Published: ...
    @overload
    async def run(self, op: FindStages) -> list[StageView]: ...
    @overload
    async def run(self, op: BrowsePlaces) -> Page: ...
    @overload
    async def run(self, op: DividePlaces) -> Places: ...
    @overload
    async def run(self, op: FindRecords) -> list[Record]: ...
    @overload
    async def run(self, op: Add | Put) -> list[bytes]: ...
    @overload
    async def run(self, op: Take, wait_ms: int = 0) -> list[WorkDelivery]: ...
    @overload
    async def run(self, op: Reserve, wait_ms: int = 0) -> list[Delivery]: ...
    @overload
    async def run(self, op: FindReady, wait_ms: int = 0) -> bytes | None: ...
    @overload
    async def run(
        self, op: Finish | Ack | Release | AddItems | ExtendLeases | Requeue | Hold
    ) -> list[bool]: ...
    @overload
    async def run(self, op: AwaitEnd, wait_ms: int = 0) -> int | None: ...
    @overload
    async def run(self, op: FindKey) -> bytes | None: ...
    @overload
    async def run(self, op: Show) -> WorkView | None: ...
    @overload
    async def run(self, op: Browse) -> list[WorkView]: ...
    @overload
    async def run(self, op: PutTasks | TakeTasks, wait_ms: int = 0) -> list[TaskView]: ...
    @overload
    async def run(self, op: BrowseTasks) -> list[TaskView]: ...
    @overload
    async def run(
        self, op: AckTasks | ReleaseTasks | TouchTasks | PeekTasks | BuryTasks | DeleteTasks
    ) -> list[TaskView | None]: ...
    @overload
    async def run(self, op: MakeTube | DropTube) -> bool: ...
    @overload
    async def run(self, op: LookAtTube) -> TubeView | None: ...
    @overload
    async def run(self, op: FindTubes) -> list[TubeView]: ...
    @overload
    async def run(self, op: Complete) -> list[bool] | None: ...
    @overload
    async def run(self, op: Recover) -> list[WorkDelivery] | None: ...
    @overload
    async def run(self, op: Undeliver) -> int: ...
    @overload
    async def run(self, op: Inspect) -> list[Inspected] | None: ...
    @overload
    async def run(self, op: FindFamilies) -> list[Family | None]: ...
    @overload
    async def run(
        self, op: Redrive | DeleteQueues | Purge | Extend | KickTasks | ReturnTasks | TruncateTube
    ) -> int: ...
    @overload
    async def run(self, op: LookAt) -> QueueView | None: ...
    @overload
    async def run(self, op: ScanQueues) -> tuple[int, list[bytes]]: ...
    @overload
    async def run(self, op: Count) -> list[QueueCount]: ...
    @overload
    async def run(self, op: Op, wait_ms: int = 0) -> Any: ...
    async def run(self, op: Op, wait_ms: int = 0) -> Any:
        """Run the operation and return its result, or raise its error.

        `wait_ms` is how long to wait for messages if there are none.
        """
        return await self._carry_out(op, wait_ms)

    @abstractmethod
    async def _carry_out(self, op: Op, wait_ms: int) -> Any:
        """Carry out the operation, as `run` describes."""
