"""INFO: facts about the broker, in sections of lines.

Called by   dispatch.py, through COMMANDS.
Calls       broker.py and the store for the facts, memory.py.

    # Server
    redis_version:7.0.0
    ...

The names that Redis has are kept where they mean something here, because tools look for them. What
only this broker has is in the section Quinque.

Not here: counting (whoever does the thing counts it).
"""

from __future__ import annotations

import os
import platform
import resource
import sys
from collections.abc import Callable
from secrets import token_hex
from time import time, time_ns
from typing import Final

from quinque import __version__
from quinque.dialects.command import Command, no_queues
from quinque.server.commands.memory import client_bytes, process_bytes, system_bytes
from quinque.server.commands.session import REDIS_VERSION
from quinque.server.commands.subcommands import with_subcommands
from quinque.server.connection import Connection
from quinque.wire.resp import Value, Verbatim

Facts = dict[str, object]

_RUN_ID: Final = token_hex(20)  # Redis has a new one at each start too


def run_info(connection: Connection, argv: list[bytes]) -> Value:
    """INFO [section ...]

    Facts about the broker: the usual sections, or these, or everything.
    """
    wanted = {name.lower().decode("latin-1") for name in argv[1:]} or {"default"}
    if wanted & {"all", "everything"}:
        wanted |= set(_SECTIONS)
    if "default" in wanted:
        wanted |= set(_SECTIONS) - _ON_REQUEST
    sections = [
        _section(name, facts(connection)) for name, facts in _SECTIONS.items() if name in wanted
    ]
    return Verbatim("\r\n".join(sections).encode())


def _section(name: str, facts: Facts) -> str:
    lines = [f"# {_TITLES.get(name, name.capitalize())}"]
    lines += [f"{field}:{value}" for field, value in facts.items()]
    return "".join(line + "\r\n" for line in lines)


def _server(connection: Connection) -> Facts:
    broker = connection.broker
    uptime_s = int(time() - broker.started_s)
    port = connection.local_address.rpartition(":")[2]
    return {
        "redis_version": REDIS_VERSION,
        "quinque_version": __version__,
        "redis_mode": "standalone",
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "arch_bits": 64 if sys.maxsize > 1 << 32 else 32,
        "python_version": platform.python_version(),
        "process_id": os.getpid(),
        "run_id": _RUN_ID,
        "tcp_port": port,
        "server_time_usec": time_ns() // 1000,
        "uptime_in_seconds": uptime_s,
        "uptime_in_days": uptime_s // 86_400,
        "executable": sys.executable,
        "config_file": broker.config.config,
    }


def _clients(connection: Connection) -> Facts:
    broker = connection.broker
    clients = broker.clients.values()
    return {
        "connected_clients": len(clients),
        "maxclients": broker.config.max_clients,
        "client_recent_max_input_buffer": max((c.buffered_bytes for c in clients), default=0),
        "client_recent_max_output_buffer": max((c.unsent_bytes for c in clients), default=0),
        "blocked_clients": broker.waiters.count,
        "monitors": len(broker.monitors),
        "paused": broker.pause_mode.lower() or "no",
    }


def _memory(connection: Connection) -> Facts:
    (used, peak), system = process_bytes(), system_bytes()
    maxmemory = connection.broker.config.maxmemory
    return {
        "used_memory": used,
        "used_memory_human": _human(used),
        "used_memory_rss": used,
        "used_memory_rss_human": _human(used),
        "used_memory_peak": peak,
        "used_memory_peak_human": _human(peak),
        "used_memory_peak_perc": f"{100 * used / peak:.2f}%",
        "total_system_memory": system,
        "total_system_memory_human": _human(system),
        "maxmemory": maxmemory,
        "maxmemory_human": _human(maxmemory),
        "maxmemory_policy": "noeviction",
        "mem_clients_normal": client_bytes(connection.broker),
    }


def _persistence(connection: Connection) -> Facts:
    facts = connection.broker.store.info()
    return {
        "loading": 0,
        "rdb_bgsave_in_progress": 0,
        "aof_enabled": 1,
        "aof_rewrite_in_progress": 0,
        "aof_last_write_status": "ok" if facts.get("journal_status", "ok") == "ok" else "err",
        "aof_current_size": facts.get("journal_bytes", 0),
    }


def _stats(connection: Connection) -> Facts:
    broker = connection.broker
    rows = with_subcommands(broker.dispatch.commands.values())
    return {
        "total_connections_received": broker.stats.connections,
        "total_commands_processed": sum(row.calls for row in rows),
        "total_net_input_bytes": broker.stats.input_bytes,
        "total_net_output_bytes": broker.stats.output_bytes,
        "rejected_connections": broker.stats.refused_connections,
        "total_error_replies": broker.stats.errors.total(),
    }


def _replication(connection: Connection) -> Facts:
    return {"role": "master", "connected_slaves": 0}


def _cpu(connection: Connection) -> Facts:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"used_cpu_sys": f"{used.ru_stime:.6f}", "used_cpu_user": f"{used.ru_utime:.6f}"}


def _commandstats(connection: Connection) -> Facts:
    facts: Facts = {}
    for row in with_subcommands(connection.broker.dispatch.commands.values()):
        if row.calls:
            spent_us = row.spent_ns // 1000
            facts[f"cmdstat_{row.name.lower()}"] = (
                f"calls={row.calls},usec={spent_us},usec_per_call={spent_us / row.calls:.2f}"
                f",rejected_calls=0,failed_calls={row.failed_calls}"
            )
    return facts


def _errorstats(connection: Connection) -> Facts:
    errors = connection.broker.stats.errors
    return {f"errorstat_{code}": f"count={errors[code]}" for code in sorted(errors)}


def _keyspace(connection: Connection) -> Facts:
    queues = connection.broker.store.info().get("queues", 0)
    return {"db0": f"keys={queues},expires=0,avg_ttl=0"} if queues else {}


def _quinque(connection: Connection) -> Facts:
    broker = connection.broker
    return {
        "quinque_version": __version__,
        "store": broker.config.store,
        **broker.store.info(),
        "waiting_readers": broker.waiters.count,
        "background_additions": len(broker.turn.later),
        "failed_background_additions": broker.turn.failed_later,
    }


def _human(size_bytes: float) -> str:
    """As Redis writes sizes: 1.09M."""
    if size_bytes < 1024:
        return f"{size_bytes}B"
    power = min(4, (int(size_bytes).bit_length() - 1) // 10)
    return f"{size_bytes / 1024**power:.2f}{'BKMGT'[power]}"


_SECTIONS: Final[dict[str, Callable[[Connection], Facts]]] = {
    "server": _server,
    "clients": _clients,
    "memory": _memory,
    "persistence": _persistence,
    "stats": _stats,
    "replication": _replication,
    "cpu": _cpu,
    "commandstats": _commandstats,
    "errorstats": _errorstats,
    "keyspace": _keyspace,
    "quinque": _quinque,
}
_TITLES: Final = {"cpu": "CPU"}
_ON_REQUEST: Final = {"commandstats"}

COMMANDS: Final = [Command("INFO", "", "read", -1, run=run_info, queues=no_queues)]
