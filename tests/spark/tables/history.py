"""A queue system that does things by chance, records them, and knows what became of each message.

It is a model: what it expects of the tables it notes while things happen, and never reads in the
record. Rows have the columns of the exporter's files.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from quinque.model.families import EVENTS, JOBS, Family
from quinque.model.lifecycle import Kind, Reason

START_MS = 1_790_000_000_000
GROUPS = ("mailer", "indexer")
QUEUES = (("orders", JOBS), ("sms", JOBS), ("news", EVENTS))

SCHEMA = pa.schema(
    [
        ("shard", pa.int32()),
        ("seq", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("family", pa.int8()),
        ("queue", pa.string()),
        ("message_id", pa.string()),
        ("kind", pa.int8()),
        ("reason", pa.int8()),
        ("consumer_group", pa.string()),
        ("claim", pa.int64()),
        ("size", pa.int32()),
    ]
)


@dataclass
class Life:
    """What is true of a message, or of a group's dealings with it."""

    family: str
    state: str = "open"
    is_held: bool = False
    added_ms: int | None = None
    first_ms: int | None = None
    ended_ms: int | None = None
    died_ms: int | None = None  # the last time
    revived_ms: int | None = None  # since then
    deliveries: int = 0
    lapses: int = 0
    nacks: int = 0
    deaths: int = 0
    size: int | None = None
    is_single: bool = False  # a feed's message that the first ack ends for everyone

    def is_live_at(self, at_ms: int) -> bool:
        """Whether it was there and not dead; of its deaths the last one counts."""
        first_end, end = self.died_ms or self.ended_ms, self.ended_ms
        is_first = self.added_ms is not None and self.added_ms < at_ms
        is_again = self.revived_ms is not None and self.revived_ms < at_ms
        return (is_first and (first_end is None or first_end >= at_ms)) or (
            is_again and (end is None or end >= at_ms)
        )


@dataclass
class History:
    """One shard: its rows so far, and the life of everything in it."""

    seed: int
    shard: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    lives: dict[tuple[str, str, str], Life] = field(default_factory=dict)
    flow: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    newest_ms: dict[str, int] = field(default_factory=dict)  # of each queue

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._now_ms = START_MS
        self._made = 0

    def run(self, steps: int) -> History:
        for _ in range(steps):
            # Half of the time nothing passes: many things happen in one millisecond.
            self._now_ms += self._chance.choice((0, 0, 0, 7, 400, 60_000))
            self._step()
        return self

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.rows, SCHEMA)

    def _step(self) -> None:
        queue, family = self._chance.choice(QUEUES)
        if self._chance.random() < 0.3:
            self._add(queue, family)
        elif family.is_worklist:
            self._work(queue)
        else:
            self._read(queue)

    def _add(self, queue: str, family: Family) -> None:
        self._made += 1
        size = self._chance.randrange(1, 5000)
        id = f"m{self.shard}-{self._made}"
        is_single = not family.is_worklist and self._chance.random() < 0.3
        self.lives[queue, id, ""] = Life(
            family.name, added_ms=self._now_ms, size=size, is_single=is_single
        )
        self._record(queue, id, Kind.ADDED, size=size)
        if family.is_worklist and self._chance.random() < 0.1:
            self._record(queue, id, Kind.DELAYED)

    def _work(self, queue: str) -> None:
        live = [
            (id, life)
            for (name, id, _), life in self.lives.items()
            if name == queue and life.state in ("open", "dead")
        ]
        if not live:
            return
        id, life = self._chance.choice(live)
        if life.state == "dead":
            self._come_back(queue, id, life)
        elif not life.is_held:
            if self._chance.random() < 0.05:
                self._end(queue, id, life, self._chance.choice(("expired", "removed")))
            else:
                self._deliver(queue, id, life)
        else:
            self._decide(queue, id, life)

    def _come_back(self, queue: str, id: str, life: Life) -> None:
        life.state, life.revived_ms = "open", self._now_ms
        self._record(queue, id, Kind.RETURNED, Reason.REDRIVEN)

    def _deliver(self, queue: str, id: str, life: Life, group: str = "") -> None:
        life.is_held = True
        life.deliveries += 1
        life.first_ms = life.first_ms or self._now_ms
        # A claim's subscription is named as a group, also in a worklist.
        claims = not group and self._chance.random() < 0.3
        self._record(
            queue,
            id,
            Kind.DELIVERED,
            Reason.CLAIMED if claims else Reason.NONE,
            group or ("spark" if claims else ""),
        )

    def _decide(self, queue: str, id: str, life: Life, group: str = "") -> None:
        fate = self._chance.random()
        life.is_held = False
        if fate < 0.6:
            life.state, life.ended_ms = "acked", self._now_ms
            self._record(queue, id, Kind.ACKED, group=group or self._chance.choice(("", "spark")))
        elif fate < 0.75:
            life.lapses += 1
            self._record(queue, id, Kind.RETURNED, Reason.LAPSED, group)
        elif fate < 0.9 or group:
            life.nacks += 1
            self._record(queue, id, Kind.RETURNED, Reason.NACKED, group)
        else:
            life.state, life.died_ms, life.revived_ms = "dead", self._now_ms, None
            life.deaths += 1
            life.nacks += 1
            self._record(queue, id, Kind.DEAD, Reason.NACKED)

    def _end(self, queue: str, id: str, life: Life, state: str) -> None:
        life.state, life.ended_ms = state, self._now_ms
        self._record(queue, id, Kind.EXPIRED if state == "expired" else Kind.REMOVED)

    def _read(self, queue: str) -> None:
        live = [
            (id, life)
            for (name, id, group), life in self.lives.items()
            if name == queue and not group and life.state == "open"
        ]
        if not live:
            return
        id, life = self._chance.choice(live)
        if self._chance.random() < 0.05:
            self._end(queue, id, life, "expired")
            return
        group = self._chance.choice(GROUPS)
        own = self.lives.setdefault((queue, id, group), Life(EVENTS.name))
        if own.is_held:
            self._decide(queue, id, own, group)
            if life.is_single and own.state == "acked":
                life.state, life.ended_ms = "acked", self._now_ms
                self._record(queue, id, Kind.ACKED, is_counted=False)
        elif own.state == "open":
            self._deliver(queue, id, own, group)

    def _record(
        self,
        queue: str,
        id: str,
        kind: Kind,
        reason: Reason = Reason.NONE,
        group: str = "",
        size: int | None = None,
        is_counted: bool = True,
    ) -> None:
        self.flow[queue, kind.value] += is_counted
        self.newest_ms[queue] = self._now_ms
        self.rows.append(
            {
                "shard": self.shard,
                "seq": len(self.rows) + 1,
                "ts": datetime.fromtimestamp(self._now_ms / 1000, UTC),
                "family": dict(QUEUES)[queue].code,
                "queue": queue,
                "message_id": id,
                "kind": kind.value,
                "reason": reason.value,
                "consumer_group": group,
                "claim": 0,
                "size": size,
            }
        )


def write_rows(folder: Path, rows: pa.Table, name: str | None = None) -> Path:
    """The rows lie in the lake as a file of the exporter; without a name, by their own numbers."""
    numbers = rows["seq"].to_pylist()
    at = rows["ts"][0].as_py()
    name = name or f"{rows['shard'][0]}-{min(numbers)}-{max(numbers)}.parquet"
    target = folder / "journal_raw" / f"dt={at:%Y-%m-%d}" / f"hour={at:%H}"
    target.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, target / name, compression="zstd")
    return target / name
