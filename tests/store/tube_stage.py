"""Tubes on a stage: five tasks in as many states, and short words to look at them.

Called by   the tests beside this file whose names begin with test_tube.
Calls       the store it is handed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quinque.model.tube_ops import (
    BuryTasks,
    PeekTasks,
    PutTasks,
    ReleaseTasks,
    TakeTasks,
    TaskTerms,
    TouchTasks,
)
from quinque.stores.embedded.store import EmbeddedStore
from tests.conformance.tube_words import (
    ANN,
    BEN,
    TUBE,
    begin,
    take_views,
)
from tests.store.stage import Stage

HOUR_MS = 3_600_000


def taken(store: EmbeddedStore, count: int = 9, session: bytes = ANN) -> list[bytes]:
    """The ids of what is taken now."""
    return [view.message_id for view in take_views(store, count, session)]


def body(store: EmbeddedStore, id: bytes) -> bytes | None:
    (view,) = store.run(PeekTasks(TUBE, [id]))
    return None if view is None else view.body


def spread(stage: Stage, kind: bytes = b"fifottl") -> None:
    """Five tasks in as many states, and each record in a segment of its own: 0 is buried, 1 and 4
    are taken, 2 is delayed, 3 was released with other data and comes first."""
    store = stage.store
    begin(store, kind)
    stage.turn()
    for number in range(5):
        terms = TaskTerms(ttl_ms=HOUR_MS, ttr_ms=60_000, pri=number, lane=b"%d" % number)
        store.run(PutTasks(TUBE, [b"body %d" % number], terms))
        stage.turn()
    steps: Sequence[Any] = (
        BuryTasks(TUBE, [b"0"]),
        TakeTasks(TUBE, ANN, 3),
        ReleaseTasks(TUBE, ANN, [b"2"], delay_ms=5_000),
        ReleaseTasks(TUBE, ANN, [b"3"], pri=0, ttl_ms=7_000, body=b"other"),
        TakeTasks(TUBE, BEN, 2),
        ReleaseTasks(TUBE, BEN, [b"3"]),
        TouchTasks(TUBE, ANN, [b"1"], 3_000),
    )
    for op in steps:
        store.run(op)
        stage.turn()
