"""Claims for programs: read a queue in batches that stay the same when they are read again.

Called by   programs.
Calls       client/aio/broker.py, client/sync/broker.py, model/claim_ops.py.

    with Broker("redis://localhost:4777") as broker:
        view = broker.run(OpenClaims(JOBS, b"orders", b"report", b"", lease_ms=60_000))

docs/claims.md has an example, and what each operation does as a command. AsyncBroker is the same
for asyncio programs.

Not here: stages and pages, which only the connector of Spark uses (spark/).
"""

from __future__ import annotations

from quinque.client.aio.broker import Broker as AsyncBroker
from quinque.client.sync.broker import Broker
from quinque.model.claim_ops import (
    ClaimState,
    ClaimView,
    DropClaims,
    FillClaim,
    FindClaims,
    LookAtClaims,
    MarkClaim,
    OpenClaims,
    Outcome,
    PlayClaim,
    PurgeClaims,
    ReadClaim,
    ReleaseClaims,
    RenewClaims,
    SettleClaims,
    SubscriptionView,
)
from quinque.model.families import EVENTS, ITEMS, JOBS, RELIABLE

__all__ = [
    "EVENTS",
    "ITEMS",
    "JOBS",
    "RELIABLE",
    "AsyncBroker",
    "Broker",
    "ClaimState",
    "ClaimView",
    "DropClaims",
    "FillClaim",
    "FindClaims",
    "LookAtClaims",
    "MarkClaim",
    "OpenClaims",
    "Outcome",
    "PlayClaim",
    "PurgeClaims",
    "ReadClaim",
    "ReleaseClaims",
    "RenewClaims",
    "SettleClaims",
    "SubscriptionView",
]
