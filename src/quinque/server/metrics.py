"""The metrics of a broker: one table, from which everything that names a metric is made or checked.

Called by   cli/http_port.py (what is told to Prometheus); docs/metrics.md, the dashboard and the
            alerts are checked against it (tests/facts/test_docs_metrics.py).
Calls       metric_reads.py.

A row says what a metric is called, what it means, on which stores there is one, and how it is read.

How long messages waited and ran is not here. It would take a time for each message and state, and
the record has it already: `quinque pipeline report` (docs/pipeline.md).

Not here: the format (console/exposition.py), the facts of INFO (commands/info.py).
"""

from __future__ import annotations

from typing import Final

from quinque.model.lifecycle import Kind
from quinque.server import metric_reads as reads
from quinque.server.commands.memory import process_bytes
from quinque.server.metric_reads import Read
from quinque.stats.metric import Metric

EMBEDDED: Final = "embedded"
REDIS: Final = "Redis"

_QUEUE: Final = ("family", "queue")


def _counter(
    name: str, help: str, read: Read, labels: tuple[str, ...] = (), where: str = "all"
) -> Metric:
    return Metric(f"quinque_{name}_total", "counter", labels, help, read, where)


def _gauge(
    name: str, help: str, read: Read, labels: tuple[str, ...] = (), where: str = "all"
) -> Metric:
    return Metric(f"quinque_{name}", "gauge", labels, help, read, where)


METRICS: Final = (
    _gauge(
        "messages",
        "Messages in a queue by state: ready, leased, delayed, dead, claimed; in a feed ready (for"
        " the group that has most before it), leased (to any group) and kept (all there are).",
        reads.states,
        (*_QUEUE, "state"),
    ),
    _gauge(
        "queue_oldest_ready_seconds",
        "How long the message that is next in the queue has been in its place; 0 when none is"
        " ready. Not told of items on Redis, nor of a tube whose ready tasks wait for busy lanes.",
        reads.oldest,
        _QUEUE,
    ),
    _gauge(
        "group_messages",
        "Messages of a feed by group and state: ready (it can have them) and leased (it has them).",
        reads.groups,
        (*_QUEUE, "group", "state"),
    ),
    _counter("messages_added", "Messages that came.", reads.changes(Kind.ADDED), _QUEUE),
    _counter(
        "messages_delivered",
        "Messages handed out, each time; in a feed to each group.",
        reads.changes(Kind.DELIVERED),
        _QUEUE,
    ),
    _counter(
        "messages_acked",
        "Messages finished; in a feed by each group.",
        reads.changes(Kind.ACKED),
        _QUEUE,
    ),
    _counter(
        "messages_returned",
        "Messages that can be had again, now or after a delay, by cause: lapsed, nacked, asked,"
        " redriven, session_over, claim_released, claim_forfeited, claim_shrunk.",
        reads.causes(Kind.RETURNED, Kind.DELAYED),
        (*_QUEUE, "cause"),
    ),
    _counter(
        "messages_dead",
        "Messages that are not delivered any more, by cause: lapsed, nacked, asked.",
        reads.causes(Kind.DEAD),
        (*_QUEUE, "cause"),
    ),
    _counter("messages_expired", "Messages whose life ended.", reads.changes(Kind.EXPIRED), _QUEUE),
    _counter(
        "messages_removed",
        "Messages that went unfinished, by cause: deleted, purged.",
        reads.causes(Kind.REMOVED),
        (*_QUEUE, "cause"),
    ),
    _gauge("queues", "Queues there are.", reads.by_family(lambda it: it.queues_of), ("family",)),
    _gauge(
        "leases",
        "Messages in somebody's hands, in all queues.",
        reads.by_family(lambda it: it.leases_of),
        ("family",),
    ),
    _gauge(
        "queues_left_out",
        "Queues that are not on this page, because others have more messages.",
        reads.of_all(lambda it: it.queues_left_out),
    ),
    _gauge(
        "groups_left_out",
        "Groups of queues on this page that are not on it, because others have more before them.",
        reads.of_all(lambda it: it.groups_left_out),
    ),
    _gauge(
        "clients",
        "Connections by kind: resp2, resp3, iproto (Tarantool's protocol), monitor.",
        reads.clients,
        ("kind",),
    ),
    _gauge(
        "blocked_clients",
        "Clients that wait in a blocking command.",
        reads.one(lambda it: it.broker.waiters.count),
    ),
    _counter("connections", "Connections made.", reads.one(lambda it: it.broker.stats.connections)),
    _counter(
        "connections_refused",
        "Connections sent away because of max-clients.",
        reads.one(lambda it: it.broker.stats.refused_connections),
    ),
    _counter(
        "received_bytes", "Bytes from clients.", reads.one(lambda it: it.broker.stats.input_bytes)
    ),
    _counter("sent_bytes", "Bytes to clients.", reads.one(lambda it: it.broker.stats.output_bytes)),
    _counter("commands", "Requests by command.", reads.commands("calls"), ("command",)),
    _counter(
        "command_seconds",
        "Time spent on requests, by command.",
        reads.commands("spent_ns", 1e9),
        ("command",),
    ),
    _counter(
        "command_failures",
        "Requests answered with an error, by command.",
        reads.commands("failed_calls"),
        ("command",),
    ),
    _counter("errors", "Errors answered, by their first word.", reads.errors, ("code",)),
    _gauge(
        "background_additions",
        "Additions with NOBLOCK that are still to be made.",
        reads.one(lambda it: len(it.broker.turn.later)),
    ),
    _counter(
        "background_additions_lost",
        "Additions with NOBLOCK that failed, though they were answered.",
        reads.one(lambda it: it.broker.turn.failed_later),
    ),
    _gauge(
        "store_up",
        "1 if the store can be worked with: the journal is written, or Redis answers.",
        reads.one(lambda it: 0 if it.store.trouble else 1),
    ),
    Metric(
        "quinque_journal_sync_seconds",
        "histogram",
        (),
        "How long syncs of the journal took.",
        reads.spread("journal_syncs", 1_000_000),
        EMBEDDED,
    ),
    Metric(
        "quinque_journal_batch_records",
        "histogram",
        (),
        "Records written together, by one commit.",
        reads.spread("journal_batches"),
        EMBEDDED,
    ),
    _gauge("journal_bytes", "Size of the journal.", reads.figure("journal_bytes"), where=EMBEDDED),
    _gauge(
        "journal_segments",
        "Files of the journal.",
        reads.figure("journal_segments"),
        where=EMBEDDED,
    ),
    _gauge(
        "body_bytes",
        "Bodies of messages in memory.",
        reads.figure("body_bytes_in_memory"),
        where=EMBEDDED,
    ),
    _gauge(
        "bodies_on_disk",
        "Messages whose bodies are only on the disk.",
        reads.figure("bodies_on_disk"),
        where=EMBEDDED,
    ),
    _counter(
        "lifecycle_lost_rows",
        "Changes of messages' states that found no room on record.",
        reads.figure("lifecycle_lost_rows"),
        where=EMBEDDED,
    ),
    _gauge(
        "store_silent_seconds",
        "How long ago Redis last answered.",
        reads.figure("silent_s"),
        where=REDIS,
    ),
    _counter(
        "store_failures",
        "Calls to Redis that were not carried out, or of which nobody knows.",
        reads.figure("failures"),
        where=REDIS,
    ),
    _gauge(
        "lifecycle_export_lag_rows",
        "Changes on record that the exporter has not written to files yet, if one runs.",
        reads.export_lag,
    ),
    _gauge(
        "memory_bytes",
        "Memory the process has (resident).",
        reads.one(lambda it: process_bytes()[0]),
    ),
    _counter("cpu_seconds", "Processor time of the process.", reads.processor, ("mode",)),
    _gauge(
        "start_time_seconds",
        "When the broker started, in seconds since 1970.",
        reads.one(lambda it: it.broker.started_s),
    ),
    _gauge(
        "build_info", "1; the labels say what runs.", reads.build, ("version", "python", "store")
    ),
)
