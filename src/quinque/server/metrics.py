"""The metrics of a broker: one table, from which all other lists of them are made or checked.

Called by   cli/http_port.py (the metrics page); docs/metrics.md, the dashboard and the
            alerts are checked against it (tests/facts/test_docs_metrics.py).
Calls       metric_reads.py.

A row has the name of a metric, its meaning, the stores that have it, and the function that reads
it.

There is no metric for how long messages waited and ran. It would need a time for each message and
state, and the lifecycle log has it already: `quinque pipeline report` (docs/pipeline.md).

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
        "Messages in the queue now, by state: ready, leased, delayed, dead, claimed. In events "
        "queues: ready is the largest backlog of any group, leased counts the leases of all "
        "groups, kept counts all events.",
        reads.states,
        (*_QUEUE, "state"),
    ),
    _gauge(
        "queue_oldest_ready_seconds",
        "Time that the next ready message has waited at its position in the queue. 0 means that "
        "no message is ready. Not reported for items on Redis, nor for a tube whose ready tasks "
        "all wait for busy lanes.",
        reads.oldest,
        _QUEUE,
    ),
    _gauge(
        "group_messages",
        "Events of the group now, by state: ready (the group can take them), leased (its "
        "consumers hold them).",
        reads.groups,
        (*_QUEUE, "group", "state"),
    ),
    _counter("messages_added", "Messages added to the queue.", reads.changes(Kind.ADDED), _QUEUE),
    _counter(
        "messages_delivered",
        "Deliveries of messages. In events queues, one for each group.",
        reads.changes(Kind.DELIVERED),
        _QUEUE,
    ),
    _counter(
        "messages_acked",
        "Messages acked. In events queues, one for each group.",
        reads.changes(Kind.ACKED),
        _QUEUE,
    ),
    _counter(
        "messages_returned",
        "Messages that became available again, now or after a delay, by cause: lapsed (the lease "
        "ended), nacked, asked (a client requested it), redriven, session_over (the tube session "
        "ended), claim_released, claim_forfeited (the reader did not renew the claim), "
        "claim_shrunk.",
        reads.causes(Kind.RETURNED, Kind.DELAYED),
        (*_QUEUE, "cause"),
    ),
    _counter(
        "messages_dead",
        "Messages that became dead, by cause: lapsed (the last lease ended), nacked, asked (a "
        "client requested it), ttl_over (the time to live ended, and the queue keeps such jobs).",
        reads.causes(Kind.DEAD),
        (*_QUEUE, "cause"),
    ),
    _counter(
        "messages_expired",
        "Messages deleted because their time to live ended.",
        reads.changes(Kind.EXPIRED),
        _QUEUE,
    ),
    _counter(
        "messages_removed",
        "Messages removed before they were finished, by cause: deleted, purged.",
        reads.causes(Kind.REMOVED),
        (*_QUEUE, "cause"),
    ),
    _gauge(
        "queues", "Queues that exist now.", reads.by_family(lambda it: it.queues_of), ("family",)
    ),
    _gauge(
        "leases",
        "Messages that consumers hold, in all queues.",
        reads.by_family(lambda it: it.leases_of),
        ("family",),
    ),
    _gauge(
        "queues_left_out",
        "Queues that are not on this page, because other queues have more messages.",
        reads.of_all(lambda it: it.queues_left_out),
    ),
    _gauge(
        "groups_left_out",
        "Groups that are not on this page though their queue is, because other groups have a "
        "larger backlog.",
        reads.of_all(lambda it: it.groups_left_out),
    ),
    _gauge(
        "clients",
        "Connections now, by kind: resp2, resp3, iproto (Tarantool's protocol), monitor.",
        reads.clients,
        ("kind",),
    ),
    _gauge(
        "blocked_clients",
        "Clients blocked in a command now.",
        reads.one(lambda it: it.broker.waiters.count),
    ),
    _counter(
        "connections", "Connections accepted.", reads.one(lambda it: it.broker.stats.connections)
    ),
    _counter(
        "connections_refused",
        "Connections refused because of max-clients.",
        reads.one(lambda it: it.broker.stats.refused_connections),
    ),
    _counter(
        "received_bytes",
        "Bytes received from clients.",
        reads.one(lambda it: it.broker.stats.input_bytes),
    ),
    _counter(
        "sent_bytes", "Bytes sent to clients.", reads.one(lambda it: it.broker.stats.output_bytes)
    ),
    _counter("commands", "Requests, by command.", reads.commands("calls"), ("command",)),
    _counter(
        "command_seconds",
        "Seconds spent on requests, by command.",
        reads.commands("spent_ns", 1e9),
        ("command",),
    ),
    _counter(
        "command_failures",
        "Requests that returned an error, by command.",
        reads.commands("failed_calls"),
        ("command",),
    ),
    _counter("errors", "Error replies, by error code (the first word).", reads.errors, ("code",)),
    _gauge(
        "background_additions",
        "Additions with NOBLOCK that are not carried out yet.",
        reads.one(lambda it: it.broker.turn.later_count),
    ),
    _counter(
        "background_additions_lost",
        "Additions with NOBLOCK that failed after their reply was sent.",
        reads.one(lambda it: it.broker.turn.failed_later),
    ),
    _gauge(
        "store_up",
        "1 if the store works (the journal can be written, or Redis answers), else 0.",
        reads.one(lambda it: 0 if it.store.trouble else 1),
    ),
    Metric(
        "quinque_journal_sync_seconds",
        "histogram",
        (),
        "Duration of syncs of the journal.",
        reads.spread("journal_syncs", 1_000_000),
        EMBEDDED,
    ),
    Metric(
        "quinque_journal_batch_records",
        "histogram",
        (),
        "Records written in one commit.",
        reads.spread("journal_batches"),
        EMBEDDED,
    ),
    _gauge(
        "journal_bytes",
        "Size of the journal in bytes.",
        reads.figure("journal_bytes"),
        where=EMBEDDED,
    ),
    _gauge(
        "journal_segments",
        "Files of the journal now.",
        reads.figure("journal_segments"),
        where=EMBEDDED,
    ),
    _gauge(
        "body_bytes",
        "Bytes of message bodies in memory.",
        reads.figure("body_bytes_in_memory"),
        where=EMBEDDED,
    ),
    _gauge(
        "bodies_on_disk",
        "Messages whose bodies are only on disk.",
        reads.figure("bodies_on_disk"),
        where=EMBEDDED,
    ),
    _counter(
        "lifecycle_lost_rows",
        "State changes of messages that are not in the lifecycle log, because there was no room.",
        reads.figure("lifecycle_lost_rows"),
        where=EMBEDDED,
    ),
    _gauge(
        "store_silent_seconds",
        "Seconds since the last answer of Redis.",
        reads.figure("silent_s"),
        where=REDIS,
    ),
    _counter(
        "store_failures",
        "Calls to Redis that failed, or whose outcome is unknown.",
        reads.figure("failures"),
        where=REDIS,
    ),
    _gauge(
        "lifecycle_export_lag_rows",
        "State changes that the lifecycle exporter has not written to files yet, if an exporter "
        "runs.",
        reads.export_lag,
    ),
    _gauge(
        "memory_bytes",
        "Resident memory of the process in bytes.",
        reads.one(lambda it: process_bytes()[0]),
    ),
    _counter(
        "cpu_seconds", "Processor time of the process in seconds.", reads.processor, ("mode",)
    ),
    _gauge(
        "start_time_seconds",
        "Start time of the broker, in seconds since 1970.",
        reads.one(lambda it: it.broker.started_s),
    ),
    _gauge(
        "build_info",
        "Always 1. The labels are the versions and the store in use.",
        reads.build,
        ("version", "python", "store"),
    ),
)
