"""Every command there is.

Called by   cli/serve.py, docs and tests.
Calls       each dialect's COMMANDS.

Not here: what a row holds (dialects/command.py).
"""

from __future__ import annotations

from quinque.dialects import (
    bananaq,
    claims,
    disque,
    disque_jobs,
    disque_ours,
    disque_queues,
    event_leases,
    keys,
    lifecycle,
    messages,
    okq,
    redisrq,
    stages,
    tube_catalog,
    tubes,
    workqueue,
)
from quinque.dialects.command import Command
from quinque.server.commands import (
    admin,
    catalog,
    client,
    cluster,
    info,
    latency,
    memory,
    queues,
    session,
    settings,
    transactions,
)

_TABLES = (
    bananaq.COMMANDS,
    okq.COMMANDS,
    event_leases.COMMANDS,
    disque.COMMANDS,
    disque_jobs.COMMANDS,
    disque_queues.COMMANDS,
    disque_ours.COMMANDS,
    redisrq.COMMANDS,
    workqueue.COMMANDS,
    tubes.COMMANDS,
    tube_catalog.COMMANDS,
    keys.COMMANDS,
    queues.COMMANDS,
    claims.COMMANDS,
    stages.COMMANDS,
    messages.COMMANDS,
    lifecycle.COMMANDS,
    session.COMMANDS,
    transactions.COMMANDS,
    client.COMMANDS,
    catalog.COMMANDS,
    info.COMMANDS,
    settings.COMMANDS,
    memory.COMMANDS,
    cluster.COMMANDS,
    latency.COMMANDS,
    admin.COMMANDS,
)


def all_commands() -> list[Command]:
    """Return new rows, which count the calls of one broker."""
    return [command.fresh() for table in _TABLES for command in table]
