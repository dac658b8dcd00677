"""The settings of a broker: one table, from which everything that names a setting is made.

Called by   config_sources.py (reads values), config_text.py (the example file),
            config_names.py (other systems' names), config_commands.py (CONFIG GET, SET and
            REWRITE), cli/options.py (the flags of `quinque serve`), and all modules that use a
            setting: `config.max_clients`.
Calls       setting_kinds.py, list_kinds.py, address_kinds.py.

A setting is a field of Config. Its name elsewhere follows from the field:

    max_clients      here               max-clients           config file, CONFIG GET and SET
    --max-clients    command line       QUINQUE_MAX_CLIENTS   environment

A live setting may change while the broker runs (CONFIG SET), so code that uses one reads it from
the Config each time and keeps no copy.

Not here: how a value is written (setting_kinds.py), users and their rights (users.py).
"""

# ruff: noqa: RUF009  (setting() makes a dataclass field, not a shared value)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar

from quinque.server.address_kinds import Addresses, Reachable
from quinque.server.list_kinds import DriverNames
from quinque.server.setting_kinds import (
    SIZE_UNITS,
    Choice,
    Count,
    Flag,
    Kind,
    Microseconds,
    Milliseconds,
    Path,
    Seconds,
    Secret,
    Size,
    StoreUrl,
)

Fsync = Literal["always", "everysec", "no"]
Replicate = Literal["exact", "available"]
LogLevel = Literal["debug", "info", "warning", "error"]

KB, MB, GB = SIZE_UNITS["kb"], SIZE_UNITS["mb"], SIZE_UNITS["gb"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """The description of a setting: everything except its value."""

    name: str
    kind: Kind[Any]
    default: Any
    meaning: str
    is_live: bool

    @property
    def attribute(self) -> str:
        return self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        return "QUINQUE_" + self.attribute.upper()

    @property
    def flag(self) -> str:
        return "--" + self.name


def setting(default: T, kind: Kind[T], meaning: str, *, is_live: bool = False) -> T:
    """A field of Config with its row of the table."""
    metadata = {"kind": kind, "default": default, "meaning": meaning, "is_live": is_live}
    shown = not kind.is_secret
    if isinstance(default, list):
        made: Any = field(default_factory=default.copy, metadata=metadata, repr=shown)
    else:
        made = field(default=default, metadata=metadata, repr=shown)
    answer: T = made
    return answer


@dataclass(slots=True)
class Config:
    """The values of all settings, and the source of each."""

    listen: list[str] = setting(
        ["127.0.0.1:4777"],
        Addresses(),
        "Addresses where clients connect: host:port, or unix:path for a Unix socket. An empty "
        "host means every address of this machine. Port 0 means any free port.",
    )
    tarantool_listen: list[str] = setting(
        [],
        Addresses(),
        "Addresses where Tarantool queue clients connect with the IPROTO protocol: host:port, or "
        "unix:path.",
    )
    http_listen: list[str] = setting(
        [],
        Addresses(allows_unix=False),
        "Address for metrics and probes over HTTP: host:port. Anyone who can connect sees all "
        "queue names. Empty: disabled. Needs the extra http, see docs/install.md.",
    )
    dir: str = setting(
        "quinque-data",
        Path(),
        "Data directory. The broker creates it if it does not exist. Only one broker can use it "
        "at a time.",
    )
    store: str = setting(
        "embedded",
        StoreUrl(),
        "Where messages are stored. embedded: a journal in the data directory. A URL: a Redis, "
        "which several brokers can share.",
    )
    announce: str = setting(
        "",
        Reachable(),
        "Address at which clients reach this broker. The other brokers on its store give it to "
        "their clients. Empty: the first address of listen. If that is every address, such as "
        ":4777: the address of this machine in the network of the store, or, if the store is on "
        "this machine, in the network of other machines.",
    )
    store_timeout: float = setting(
        5.0,
        Seconds(),
        "Time limit for a request to a store on Redis. After this time the reply is NOTDONE if "
        "nothing changed, and UNAVAILABLE if that is unknown.",
    )
    store_replicas: int = setting(
        0,
        Count(most=16),
        "Number of replicas that must have a change before the broker replies, in a store on "
        "Redis. 0 means that the broker does not wait for replicas.",
    )
    store_replicate: Replicate = setting(
        "exact",
        Choice(("exact", "available")),
        "How REPLICATE of ADDJOB is met in a store on Redis. exact: a job is refused with NOREPL "
        "if the primary has too few replicas. available: such a job is stored on the primary and "
        "on all replicas that are connected to it, maybe none.",
    )
    store_may_evict: bool = setting(
        False,
        Flag(),
        "Accept a Redis whose maxmemory-policy is not noeviction. Such a Redis deletes messages "
        "when its memory is full, without any error.",
    )
    fsync: Fsync = setting(
        "always",
        Choice(("always", "everysec", "no")),
        "When the journal is synced to disk. always: before the reply to each change. everysec: "
        "once a second; a failure of the machine can lose the last second. no: the operating "
        "system decides.",
        is_live=True,
    )
    segment_size: int = setting(
        64 * MB,
        Size(least=64 * KB, most=4 * GB),
        "Size at which the journal starts a new file.",
    )
    maxmemory: int = setting(
        0,
        Size(),
        "Memory for message bodies. Beyond this limit, bodies are only on disk and are read "
        "again on delivery. 0 means no limit.",
        is_live=True,
    )
    lifecycle: bool = setting(
        True,
        Flag(),
        "Record every state change of every message in the lifecycle log, for LIFECYCLE.READ, "
        "the exporter and the pipeline.",
    )
    lifecycle_max_age: float = setting(
        7 * 86_400.0,
        Seconds(),
        "How long the lifecycle log keeps state changes. 0 means forever.",
    )
    lifecycle_max_size: int = setting(
        GB,
        Size(),
        "Maximum size of the lifecycle log, on disk or in Redis. The oldest entries are removed "
        "first. 0 means no limit.",
    )
    lifecycle_export: str = setting(
        "",
        Path(),
        "Directory where a separate process writes the lifecycle log as Parquet files, "
        "continuously. Empty: disabled. Needs the extra spark, see docs/install.md.",
    )
    drivers: list[str] = setting(
        [],
        DriverNames(),
        "Drivers: tube types written in Python. Drivers of installed packages are found without "
        "this setting. Drivers need the embedded store.",
    )
    config: str = setting(
        "",
        Path(),
        "Config file (TOML). Can be set only on the command line or in the environment.",
    )
    requirepass: str = setting(
        "",
        Secret(),
        "Password of the user 'default'. Clients must then send it with AUTH. Empty: no password.",
        is_live=True,
    )
    users: str = setting(
        "",
        Path(),
        "TOML file with users and their permissions. The config file can have tables "
        "[users.NAME] instead.",
    )
    tls_listen: list[str] = setting(
        [],
        Addresses(allows_unix=False),
        "Addresses where clients connect with TLS: host:port. Needs tls-cert and tls-key.",
    )
    tls_cert: str = setting("", Path(), "Certificate chain file of the TLS listeners (PEM).")
    tls_key: str = setting("", Path(), "Private key file of the certificate (PEM).")
    tls_ca: str = setting(
        "",
        Path(),
        "Certificate authorities file (PEM). If set, TLS clients must present a certificate that "
        "one of them signed.",
    )
    log_level: LogLevel = setting(
        "info",
        Choice(("debug", "info", "warning", "error")),
        "Lowest level of the log lines to print.",
        is_live=True,
    )
    log_json: bool = setting(
        False, Flag(), "Log one JSON object on each line instead of plain text."
    )
    bg_qadd_pool_size: int = setting(
        128,
        Count(least=1),
        "Size of the pool for additions with NOBLOCK, such as QADD ... NOBLOCK. Up to eleven "
        "times this number can be in progress; the broker refuses more.",
        is_live=True,
    )
    max_clients: int = setting(
        10_000,
        Count(least=1),
        "Maximum number of connected clients. One more client gets an error and is disconnected.",
        is_live=True,
    )
    max_args: int = setting(
        1024 * 1024,
        # 16: fewer would leave no room for the CONFIG SET that raises it again.
        Count(least=16),
        "Maximum number of arguments that the broker reads in one request. A longer request closes "
        "the connection. A command takes at most 10,000 arguments, and a longer one gets an error. "
        "A call over Tarantool's protocol with more than 10,000 closes the connection.",
        is_live=True,
    )
    max_arg_size: int = setting(
        64 * MB,
        Size(least=KB, most=GB),
        "Maximum size of one argument of a request, for example a message body.",
        is_live=True,
    )
    transaction_max_commands: int = setting(
        10_000,
        Count(least=1),
        "Maximum number of commands that a client can queue between MULTI and EXEC. The broker "
        "refuses the next command, and EXEC runs none of them.",
        is_live=True,
    )
    transaction_max_size: int = setting(
        64 * MB,
        Size(least=1 * KB),
        "Maximum memory for the commands between MULTI and EXEC. The broker refuses the next "
        "command, and EXEC runs none of them.",
        is_live=True,
    )
    query_buffer_limit: int = setting(
        128 * MB,
        Size(least=64 * KB),
        "Maximum size of an incomplete request from one client. A client beyond this limit is "
        "disconnected.",
        is_live=True,
    )
    output_buffer_limit: int = setting(
        64 * MB,
        Size(least=64 * KB),
        "Maximum size of the replies that wait for one slow client. A client whose unread replies "
        "exceed it is disconnected when more replies come.",
        is_live=True,
    )
    max_blocked_clients: int = setting(
        10_000,
        Count(),
        "Maximum number of clients that block at the same time. One more blocking command gets "
        "an error.",
        is_live=True,
    )
    idle_timeout: float = setting(
        0.0,
        Seconds(),
        "Idle time, after the last request or reply, after which a client is disconnected. A "
        "client that reads a long reply is not idle. Clients that block, that CLIENT PAUSE holds "
        "or that belong to a tube session are not disconnected. 0 means never.",
        is_live=True,
    )
    tcp_keepalive: int = setting(
        300,
        Count(most=32_767),
        "Idle time after which the operating system probes the machine of a client (TCP "
        "keepalive). A client that does not answer for the same time again is disconnected. 0 "
        "disables the probes.",
        is_live=True,
    )
    session_ttr: float = setting(
        0.0,
        Seconds(),
        "How long a tube session is kept after its last client disconnects. Until then a client "
        "can rejoin the session, and its tasks are not delivered to other clients. 0 means that "
        "the session ends at once.",
        is_live=True,
    )
    slowlog_log_slower_than: int = setting(
        10_000,
        Microseconds(),
        "Commands that take longer than this are stored for SLOWLOG. 0 stores every command, -1 "
        "stores none.",
        is_live=True,
    )
    slowlog_max_len: int = setting(
        128,
        Count(most=1_000_000),
        "Number of commands that SLOWLOG stores. The oldest are removed first.",
        is_live=True,
    )
    latency_monitor_threshold: int = setting(
        0,
        Milliseconds(),
        "Events that take this long or longer are stored for LATENCY. 0 stores none.",
        is_live=True,
    )
    shutdown_timeout: float = setting(
        10.0,
        Seconds(),
        "How long a shutdown waits for replies to reach their clients. 0 means that it does not "
        "wait.",
        is_live=True,
    )

    # Not settings. `users` as tables of the config file, for users.py:
    user_tables: dict[str, Any] = field(default_factory=dict, repr=False)
    # Where each value that was given comes from, by the setting's name.
    origins: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def value(self, name: str) -> Any:
        """The value of the setting with that name."""
        return getattr(self, SETTINGS[name].attribute)

    def put(self, name: str, value: Any, origin: str) -> None:
        """Give the setting a value that its kind has already checked."""
        setattr(self, SETTINGS[name].attribute, value)
        self.origins[name] = origin


@dataclass(frozen=True, slots=True)
class Relation:
    """A rule about several settings; the first named is the one to blame."""

    names: tuple[str, ...]
    holds: Callable[[Config], bool]
    rule: str


SETTINGS: dict[str, Setting] = {
    name: Setting(name=name, **row.metadata)
    for row in fields(Config)
    if row.metadata
    for name in [row.name.replace("_", "-")]
}

RELATIONS = (
    Relation(
        ("listen", "tls-listen"),
        lambda config: bool(config.listen or config.tls_listen),
        "no address to listen on; set listen or tls-listen",
    ),
    Relation(
        ("tls-listen", "tls-cert", "tls-key"),
        lambda config: not config.tls_listen or bool(config.tls_cert and config.tls_key),
        "requires tls-cert and tls-key",
    ),
    # Silence here would let someone believe that the plain listeners are encrypted.
    Relation(
        ("tls-cert", "tls-listen"),
        lambda config: not config.tls_cert or bool(config.tls_listen),
        "has no effect without tls-listen",
    ),
    Relation(
        ("tls-key", "tls-listen"),
        lambda config: not config.tls_key or bool(config.tls_listen),
        "has no effect without tls-listen",
    ),
    Relation(
        ("tls-ca", "tls-listen"),
        lambda config: not config.tls_ca or bool(config.tls_listen),
        "has no effect without tls-listen",
    ),
    Relation(
        ("lifecycle-export", "lifecycle"),
        lambda config: not config.lifecycle_export or config.lifecycle,
        "requires lifecycle: without it there are no state changes to export",
    ),
    Relation(
        ("lifecycle-export", "listen"),
        lambda config: not config.lifecycle_export or bool(config.listen),
        "requires listen: the exporter connects without TLS",
    ),
    Relation(
        ("drivers", "store"),
        lambda config: not config.drivers or config.store == "embedded",
        "requires the embedded store",
    ),
    Relation(
        ("max-arg-size", "query-buffer-limit"),
        lambda config: config.max_arg_size <= config.query_buffer_limit,
        "must not be greater than query-buffer-limit: an argument of that size could never arrive",
    ),
)
