"""INFO: facts about the broker, in sections of lines.

Called by   dispatch.py, through COMMANDS.
Calls       broker.py and the store for the facts, memory.py.

    # Server
    redis_version:7.0.0
    ...

The names of Redis and Disque are kept, because tools look for them. If the object of a value does
not exist here, the value is 0. Values that only this broker has are in the section Quinque. There
is an empty line between sections: disqueue-node removes one from the end of each.

Not here: counting (each module counts what it does).
"""

from __future__ import annotations

import os
import platform
import re
import resource
import select
import sys
import sysconfig
from collections.abc import Callable
from functools import partial
from secrets import token_hex
from time import time, time_ns
from typing import Any, Final

from quinque.dialects.command import Command, no_queues
from quinque.server.commands.cluster import own_port
from quinque.server.commands.memory import client_bytes, process_bytes, system_bytes
from quinque.server.commands.session import REDIS_VERSION
from quinque.server.commands.subcommands import with_subcommands
from quinque.server.connection import Connection
from quinque.stores.pending import after
from quinque.version import __version__
from quinque.wire.resp import Value, Verbatim

Facts = dict[str, object]

# The Disque whose commands these are, as REDIS_VERSION is the Redis.
DISQUE_VERSION: Final = "1.0-rc1"

_RUN_ID: Final = token_hex(20)  # Redis has a new one at each start too


def run_info(connection: Connection, argv: list[bytes]) -> Any:
    """INFO [section ...]

    Return facts about the broker: the default sections, the given sections, or everything.
    """
    wanted = {name.lower().decode("latin-1") for name in argv[1:]} or {"default"}
    if wanted & {"all", "everything"}:
        wanted |= set(_SECTIONS)
    if "default" in wanted:
        wanted |= set(_SECTIONS) - _ON_REQUEST
    if wanted & _KEPT:
        return after(connection.broker.store.info(), partial(_tell, connection, wanted))
    return _tell(connection, wanted, {})


def _tell(connection: Connection, wanted: set[str], kept: Facts) -> Value:
    """Return these sections. `kept` has the facts of the store."""
    sections = [
        _section(name, facts(connection, kept))
        for name, facts in _SECTIONS.items()
        if name in wanted
    ]
    return Verbatim("\r\n".join(sections).encode())


def _section(name: str, facts: Facts) -> str:
    lines = [f"# {_TITLES.get(name, name.capitalize())}"]
    lines += [f"{field}:{value}" for field, value in facts.items()]
    return "".join(line + "\r\n" for line in lines)


def _server(connection: Connection, kept: Facts) -> Facts:
    broker = connection.broker
    uptime_s = int(time() - broker.started_s)
    return {
        "redis_version": REDIS_VERSION,
        "disque_version": DISQUE_VERSION,
        "disque_git_sha1": "00000000",
        "disque_git_dirty": 0,
        "disque_build_id": 0,
        "quinque_version": __version__,
        "quinque_store": broker.config.store.partition(":")[0],
        "redis_mode": "standalone",
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "arch_bits": 64 if sys.maxsize > 1 << 32 else 32,
        "multiplexing_api": next((name for name in _POLLS if hasattr(select, name)), "select"),
        "gcc_version": _compiler_version(),
        "python_version": platform.python_version(),
        "process_id": os.getpid(),
        "run_id": _RUN_ID,
        "tcp_port": own_port(connection),
        "server_time_usec": time_ns() // 1000,
        "uptime_in_seconds": uptime_s,
        "uptime_in_days": uptime_s // 86_400,
        "hz": 0,  # there is no periodic work: work is done when it is due
        "executable": sys.executable,
        "config_file": broker.config.config,
    }


def _clients(connection: Connection, kept: Facts) -> Facts:
    broker = connection.broker
    clients = broker.clients.values()
    input_bytes = max((c.buffered_bytes for c in clients), default=0)
    return {
        "connected_clients": len(clients),
        "maxclients": broker.config.max_clients,
        "client_recent_max_input_buffer": input_bytes,
        "client_recent_max_output_buffer": max((c.unsent_bytes for c in clients), default=0),
        "client_longest_output_list": max((len(c.out) for c in clients), default=0),
        "client_biggest_input_buf": input_bytes,
        "blocked_clients": broker.waiters.count,
        "monitors": len(broker.monitors),
        "paused": broker.pause_mode.lower() or "no",
    }


def _memory(connection: Connection, kept: Facts) -> Facts:
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
        "mem_fragmentation_ratio": "1.00",  # used memory is the memory of the process
        "mem_allocator": "pymalloc" if sysconfig.get_config_var("WITH_PYMALLOC") else "libc",
    }


def _jobs(connection: Connection, kept: Facts) -> Facts:
    return {"registered_jobs": kept.get("jobs", 0)}


def _queues(connection: Connection, kept: Facts) -> Facts:
    return {"registered_queues": kept.get("job_queues", 0)}


def _persistence(connection: Connection, kept: Facts) -> Facts:
    return {
        "loading": 0,
        "rdb_bgsave_in_progress": 0,
        "aof_enabled": 1,
        "aof_state": "on",
        "aof_rewrite_in_progress": kept.get("compacting", 0),
        "aof_rewrite_scheduled": 0,
        "aof_last_rewrite_time_sec": -1,
        "aof_current_rewrite_time_sec": -1,
        "aof_last_bgrewrite_status": "ok",
        "aof_last_write_status": "ok" if kept.get("journal_status", "ok") == "ok" else "err",
        "aof_current_size": kept.get("journal_bytes", 0),
        "aof_base_size": 0,
        "aof_pending_rewrite": 0,
        "aof_buffer_length": 0,
        "aof_rewrite_buffer_length": 0,
        "aof_pending_bio_fsync": 0,
        "aof_delayed_fsync": 0,
    }


def _stats(connection: Connection, kept: Facts) -> Facts:
    broker = connection.broker
    rates = broker.rates
    return {
        "total_connections_received": broker.stats.connections,
        "total_commands_processed": broker.commands_run(),
        "instantaneous_ops_per_sec": round(rates.commands),
        "total_net_input_bytes": broker.stats.input_bytes,
        "total_net_output_bytes": broker.stats.output_bytes,
        "instantaneous_input_kbps": f"{rates.input_bytes / 1024:.2f}",
        "instantaneous_output_kbps": f"{rates.output_bytes / 1024:.2f}",
        "rejected_connections": broker.stats.refused_connections,
        "total_error_replies": broker.stats.errors.total(),
        "latest_fork_usec": 0,
    }


def _replication(connection: Connection, kept: Facts) -> Facts:
    return {"role": "master", "connected_slaves": 0}


def _cpu(connection: Connection, kept: Facts) -> Facts:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "used_cpu_sys": f"{own.ru_stime:.6f}",
        "used_cpu_user": f"{own.ru_utime:.6f}",
        "used_cpu_sys_children": f"{children.ru_stime:.6f}",
        "used_cpu_user_children": f"{children.ru_utime:.6f}",
    }


def _commandstats(connection: Connection, kept: Facts) -> Facts:
    facts: Facts = {}
    for row in with_subcommands(connection.broker.dispatch.commands.values()):
        if row.calls:
            spent_us = row.spent_ns // 1000
            facts[f"cmdstat_{row.name.lower()}"] = (
                f"calls={row.calls},usec={spent_us},usec_per_call={spent_us / row.calls:.2f}"
                f",rejected_calls=0,failed_calls={row.failed_calls}"
            )
    return facts


def _errorstats(connection: Connection, kept: Facts) -> Facts:
    errors = connection.broker.stats.errors
    # A name ends where its line has the first colon.
    return {
        f"errorstat_{code.replace(':', '_')}": f"count={errors[code]}" for code in sorted(errors)
    }


def _cluster(connection: Connection, kept: Facts) -> Facts:
    return {"cluster_enabled": 0}  # of Redis Cluster; Disque's nodes are in CLUSTER INFO


def _keyspace(connection: Connection, kept: Facts) -> Facts:
    queues = kept.get("queues", 0)
    return {"db0": f"keys={queues},expires=0,avg_ttl=0"} if queues else {}


def _quinque(connection: Connection, kept: Facts) -> Facts:
    broker = connection.broker
    return {
        "quinque_version": __version__,
        "store": broker.config.store.partition(":")[0],
        **kept,
        **broker.facts,
        "waiting_readers": broker.waiters.count,
        "background_additions": broker.turn.later_count,
        "failed_background_additions": broker.turn.failed_later,
    }


def _compiler_version() -> str:
    found = re.match(r"GCC ([0-9.]+)", platform.python_compiler())
    return found[1] if found else "0.0.0"


def _human(size_bytes: float) -> str:
    """Return a size as Redis writes it: 1.09M."""
    if size_bytes < 1024:
        return f"{size_bytes}B"
    power = min(4, (int(size_bytes).bit_length() - 1) // 10)
    return f"{size_bytes / 1024**power:.2f}{'BKMGT'[power]}"


_SECTIONS: Final[dict[str, Callable[[Connection, Facts], Facts]]] = {
    "server": _server,
    "clients": _clients,
    "memory": _memory,
    "jobs": _jobs,
    "queues": _queues,
    "persistence": _persistence,
    "stats": _stats,
    "replication": _replication,
    "cpu": _cpu,
    "commandstats": _commandstats,
    "errorstats": _errorstats,
    "cluster": _cluster,
    "keyspace": _keyspace,
    "quinque": _quinque,
}
_POLLS: Final = ("epoll", "kqueue", "poll")
_TITLES: Final = {"cpu": "CPU"}
_ON_REQUEST: Final = {"commandstats"}
_KEPT: Final = {
    "jobs",
    "queues",
    "persistence",
    "keyspace",
    "quinque",
}  # the sections that need the store

COMMANDS: Final = [Command("INFO", "", "read", -1, run=run_info, queues=no_queues)]
