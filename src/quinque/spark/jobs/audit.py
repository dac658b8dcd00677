"""Check that the lifecycle log adds up, and that the broker has its open messages.

Called by   cli/pipeline.py, spark/report/.
Calls       build.py, archive.py, client/.

If a broker is given, it is compared: the log is exported and the messages of the broker are
counted. If the log has not grown meanwhile, both must be equal. If it has, the audit reports that
and draws no conclusion.

Rows that were exported must be in the tables, and files that were archived must still be there.

Not here: the rules (spark/tables/audit.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from quinque.client.sync.broker import Broker
from quinque.errors import BadSetting
from quinque.model.claim_ops import ClaimState, FindClaims
from quinque.model.families import EVENTS, FAMILIES, TUBES, Family
from quinque.model.look_ops import FindRecords
from quinque.model.ops import Count
from quinque.model.tube_ops import LookAtTube
from quinque.model.work_ops import LookAt, ScanQueues
from quinque.spark.jobs.archive import export_record
from quinque.spark.jobs.build import Tell, build_tables, read_table, waiting
from quinque.spark.jobs.lake import Lake
from quinque.spark.jobs.progress import Stopwatch
from quinque.spark.journal_files import Spans
from quinque.spark.tables.audit import VIOLATIONS

NOT_COMPARED: Final = "not compared"
THE_SAME: Final = "the same"
DIFFERENT: Final = "different"
MOVED_ON: Final = "not compared: the state of the broker changed during the audit"


@dataclass
class Verdict:
    """The result of the audit. `queues` has rows of the table audit, `gaps` those of seq_gaps."""

    queues: list[dict[str, Any]]
    gaps: list[dict[str, Any]]
    begins_late: list[dict[str, Any]]
    lost: list[dict[str, Any]] = field(default_factory=list)  # rows that were exported, as gaps
    missing_files: list[str] = field(default_factory=list)  # that were archived
    broker: str = NOT_COMPARED
    differences: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        is_fair = all(queue["is_good"] for queue in self.queues)
        is_whole = not self.gaps and not self.lost and not self.missing_files
        return is_fair and is_whole and self.broker != DIFFERENT

    def total(self, name: str) -> int:
        return sum(int(queue[name]) for queue in self.queues)

    def violations(self) -> dict[str, int]:
        counts = {name: self.total(name) for name in ("missing", *VIOLATIONS)}
        return counts | {
            "missing": sum(abs(queue["missing"]) for queue in self.queues),
            "rows_missing": sum(gap["to"] - gap["from"] + 1 for gap in (*self.gaps, *self.lost)),
            "files_missing": len(self.missing_files),
        }


def audit(
    spark: SparkSession,
    lake: Lake,
    broker: Broker | None = None,
    tell: Tell | None = None,
    *,
    allows_unknown: bool = False,
) -> tuple[Verdict, dict[str, Any]]:
    """Return the verdict on the whole log, and a summary.

    `allows_unknown`: accept messages without an ADDED row, because recording was off for a time.
    Raises BadSetting if the lake has no lifecycle log, FolderLocked if another job writes to it for
    too long.
    """
    watch = Stopwatch()
    counted: dict[tuple[str, str], tuple[int, int]] | None = None
    if broker is not None:
        before = _positions(broker)
        export_record(broker, lake)
        counted = count_messages(broker)
        if _positions(broker) != before:
            counted = None
    exported = lake.exported()  # before the tables are built: an exporter may run meanwhile
    with waiting(lake, tell):
        build_tables(spark, lake, tell)
        verdict = read_verdict(spark, lake, allows_unknown=allows_unknown)
        verdict.lost = lost_rows(exported, archived_spans(lake))
        verdict.missing_files = lake.missing_files()
    if broker is not None:
        verdict.broker = MOVED_ON
        if counted is not None:
            verdict.differences = differences(verdict, counted)
            verdict.broker = DIFFERENT if verdict.differences else THE_SAME
    return verdict, summary_of(verdict, lake, watch.seconds)


def read_verdict(spark: SparkSession, lake: Lake, *, allows_unknown: bool = False) -> Verdict:
    """Return the verdict from the tables of the lake. Raises BadSetting if there are none."""
    if lake.table("audit").opened() is None:
        raise BadSetting(f"no lifecycle log in {lake.url}: name a broker that has one with --url")
    return verdict_of(
        read_table(spark, lake, "audit"),
        read_table(spark, lake, "seq_gaps"),
        allows_unknown=allows_unknown,
    )


def verdict_of(audit: DataFrame, seq_gaps: DataFrame, *, allows_unknown: bool = False) -> Verdict:
    """The verdict that these tables hold."""
    queues = [row.asDict() for row in audit.orderBy("family", "queue").collect()]
    if allows_unknown:
        for queue in queues:
            _allow_unknown(queue)
    gaps = [row.asDict() for row in seq_gaps.orderBy("shard", "from").collect()]
    return Verdict(
        queues,
        [gap for gap in gaps if not gap["is_start"]],
        [gap for gap in gaps if gap["is_start"]],
    )


def archived_spans(lake: Lake) -> Spans:
    """Return for each shard the first row of the tables, and the row after the last."""
    found: Spans = {}
    for shard, first, last in lake.taken():
        found[shard] = (found.get(shard, (first, last))[0], last + 1)
    return found


def lost_rows(exported: Spans, archived: Spans) -> list[dict[str, Any]]:
    """The rows before and after those that are archived, as far as they were exported."""
    lost = []
    for shard, (first, end) in sorted(exported.items()):
        begin, stop = archived.get(shard, (end, end))
        if first < begin:
            lost.append({"shard": shard, "from": first, "to": begin - 1})
        if stop < end:
            lost.append({"shard": shard, "from": stop, "to": end - 1})
    return lost


def count_messages(broker: Broker) -> dict[tuple[str, str], tuple[int, int]]:
    """Count the messages of each queue at the broker, as (open, dead). Messages in open claims are
    included."""
    held: dict[tuple[str, str], tuple[int, int]] = {}
    claimed: dict[tuple[Family, bytes], int] = {}
    for view in broker.run(FindClaims()):
        if view.family.is_worklist:
            key = (view.family, view.queue)
            claimed[key] = claimed.get(key, 0) + sum(
                claim.messages
                for claim in view.claims
                if claim.state in (ClaimState.FILLING, ClaimState.SEALED)
            )
    for family in filter(lambda family: family.is_worklist and family is not TUBES, FAMILIES):
        names = {queue for of, queue in claimed if of is family}
        for queue in {*_worklists(broker, family), *names}:
            found = broker.run(LookAt(family, queue))
            live = found.ready + found.delayed + found.leased if found else 0
            dead = found.dead if found else 0
            held[family.name, _shown(queue)] = (live + claimed.get((family, queue), 0), dead)
    for name in _worklists(broker, TUBES):
        tube = broker.run(LookAtTube(name))
        if tube is not None and (not tube.settings.is_temporary or _logs_temporary(broker)):
            live = tube.ready + tube.delayed + tube.taken
            held[TUBES.name, _shown(tube.queue)] = (live, tube.buried)
    for count in broker.run(Count(EVENTS)):
        held["events", _shown(count.queue)] = (count.total, 0)
    return held


def differences(
    verdict: Verdict, counted: dict[tuple[str, str], tuple[int, int]]
) -> list[dict[str, Any]]:
    """Return the queues in which the broker has more or fewer messages than the log."""
    said = {(row["family"], row["queue"]): (row["open"], row["dead"]) for row in verdict.queues}
    found = []
    for key in sorted(said.keys() | counted.keys()):
        by_record, by_broker = said.get(key, (0, 0)), counted.get(key, (0, 0))
        if by_record != by_broker:
            found.append(
                {
                    "family": key[0],
                    "queue": key[1],
                    "open_by_record": by_record[0],
                    "open_in_broker": by_broker[0],
                    "dead_by_record": by_record[1],
                    "dead_in_broker": by_broker[1],
                }
            )
    return found


def _logs_temporary(broker: Broker) -> bool:
    """Return whether the store logs tasks of temporary tubes: on Redis they are like others."""
    told: bytes = broker.call("INFO", "server")
    return b"quinque_store:embedded\r" not in told


def _worklists(broker: Broker, family: Family) -> set[bytes]:
    names: set[bytes] = set()
    cursor = 0
    while True:
        cursor, some = broker.run(ScanQueues(family, cursor, 1_000))
        names.update(some)
        if not cursor:
            return names


def _positions(broker: Broker) -> dict[int, int]:
    return {record.shard: record.next for record in broker.run(FindRecords())}


def _allow_unknown(queue: dict[str, Any]) -> None:
    queue["unknown_from_before"] += queue["unknown"]
    queue["missing"] += queue["unknown"]
    queue["unbalanced"] -= queue["unknown"]
    queue["unknown"] = 0
    queue["is_good"] = queue["missing"] == 0 and all(queue[name] == 0 for name in VIOLATIONS)


def summary_of(verdict: Verdict, lake: Lake, seconds: float) -> dict[str, Any]:
    sides = ("added", "acked", "expired", "removed", "dead", "open", "acked_by_groups")
    return {
        "job": "audit",
        "lake": lake.url,
        "verdict": "good" if verdict.is_good else "bad",
        **{name: verdict.total(name) for name in sides},
        **verdict.violations(),
        "broker": verdict.broker,
        "differences": verdict.differences,
        "gaps": verdict.gaps,
        "lost": verdict.lost,
        "missing_files": verdict.missing_files,
        "begins_late": verdict.begins_late,
        "seconds": seconds,
    }


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
