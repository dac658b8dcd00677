"""The settings of a broker: one table, from which everything that names a setting is made.

Called by   config_sources.py (reads values), config_text.py (the example file),
            config_names.py (other systems' names), config_commands.py (CONFIG GET, SET and
            REWRITE), cli/options.py (the flags of `quinque serve`), and whoever obeys a setting:
            `config.max_clients`.
Calls       setting_kinds.py, list_kinds.py, address_kinds.py.

A setting is a field of Config. Its name elsewhere follows from the field:

    max_clients      here               max-clients           config file, CONFIG GET and SET
    --max-clients    command line       QUINQUE_MAX_CLIENTS   environment

A live setting may change while the broker runs (CONFIG SET), so whoever obeys one reads it
from the Config each time and keeps no copy.

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
LogLevel = Literal["debug", "info", "warning", "error"]

KB, MB, GB = SIZE_UNITS["kb"], SIZE_UNITS["mb"], SIZE_UNITS["gb"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of one setting beside its value."""

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
    """The values of all settings, and beside them where they came from."""

    listen: list[str] = setting(
        ["127.0.0.1:4777"],
        Addresses(),
        "Where clients connect: host:port, or unix:path for a unix socket. An empty host is every"
        " address of this machine; port 0 is any free port.",
    )
    tarantool_listen: list[str] = setting(
        [],
        Addresses(),
        "Where clients of Tarantool's queue connect, which speak its own protocol: host:port, or"
        " unix:path.",
    )
    http_listen: list[str] = setting(
        [],
        Addresses(allows_unix=False),
        "Where metrics and probes are served over HTTP: host:port. Whoever reaches it sees the"
        " names of all queues. Empty is nowhere. Needs pip install 'quinque[http]'.",
    )
    dir: str = setting(
        "quinque-data",
        Path(),
        "The data folder. It is made when missing, and belongs to one broker at a time.",
    )
    store: str = setting(
        "embedded",
        StoreUrl(),
        "Where messages are kept: embedded is a journal in the data folder, a URL is a Redis that"
        " several brokers may share.",
    )
    announce: str = setting(
        "",
        Reachable(),
        "Where clients reach this broker, as those that share its store tell them. Empty is the"
        " first address it listens on; if that is every address, the one by which it reaches the"
        " store, or others if the store is on the same machine.",
    )
    store_timeout: float = setting(
        5.0,
        Seconds(),
        "How long a request may take in a store on Redis. When it was not carried out by then,"
        " NOTDONE says so; when nobody knows, UNAVAILABLE.",
    )
    store_replicas: int = setting(
        0,
        Count(most=16),
        "How many replicas must have every change, in a store on Redis, before it is answered. 0"
        " does not wait for them.",
    )
    fsync: Fsync = setting(
        "always",
        Choice(("always", "everysec", "no")),
        "When the journal is forced to disk: always is before the reply to each change; everysec"
        " may lose the last second when the machine fails; no leaves it to the system.",
        is_live=True,
    )
    segment_size: int = setting(
        64 * MB,
        Size(least=64 * KB, most=4 * GB),
        "How large one file of the journal grows before the next one starts.",
    )
    maxmemory: int = setting(
        0,
        Size(),
        "Memory for message bodies. Past it, bodies live only on disk and are read back when they"
        " are delivered. 0 is no limit.",
        is_live=True,
    )
    lifecycle: bool = setting(
        True,
        Flag(),
        "Keep a record of every change of every message's state, which LIFECYCLE.READ, the exporter"
        " and the pipeline read.",
    )
    lifecycle_max_age: float = setting(
        7 * 86_400.0,
        Seconds(),
        "How long changes stay on record. 0 is for ever.",
    )
    lifecycle_max_size: int = setting(
        GB,
        Size(),
        "How much the record may take, on the disk or in the Redis; the oldest goes first. 0 is no"
        " limit.",
    )
    lifecycle_export: str = setting(
        "",
        Path(),
        "A folder to which the record is copied all the time, as Parquet files, by a process of its"
        " own. Empty is none. Needs pip install 'quinque[spark]'.",
    )
    drivers: list[str] = setting(
        [],
        DriverNames(),
        "Drivers: kinds of tubes that somebody wrote in Python. Those of installed packages are"
        " found without being named here. They need the embedded store.",
    )
    config: str = setting(
        "",
        Path(),
        "The config file (TOML). Given on the command line or in the environment only.",
    )
    requirepass: str = setting(
        "",
        Secret(),
        "The password of the user 'default', which clients must then give with AUTH. Empty is"
        " none.",
        is_live=True,
    )
    users: str = setting(
        "",
        Path(),
        "A TOML file of named users and their rights; or, in the config file, tables"
        " [users.NAME] instead of a path.",
    )
    tls_listen: list[str] = setting(
        [],
        Addresses(allows_unix=False),
        "Where clients connect with TLS: host:port. Needs tls-cert and tls-key.",
    )
    tls_cert: str = setting("", Path(), "The certificate chain of the TLS listeners (PEM).")
    tls_key: str = setting("", Path(), "The private key of the certificate (PEM).")
    tls_ca: str = setting(
        "",
        Path(),
        "Certificate authorities (PEM). When set, TLS clients must show a certificate signed by"
        " one of them.",
    )
    log_level: LogLevel = setting(
        "info",
        Choice(("debug", "info", "warning", "error")),
        "The least important messages that are logged.",
        is_live=True,
    )
    log_json: bool = setting(False, Flag(), "Log one JSON object per line instead of plain text.")
    bg_qadd_pool_size: int = setting(
        128,
        Count(least=1),
        "The pool for QADD ... NOBLOCK and the like: eleven times this many may be under way at"
        " once; one more is refused.",
        is_live=True,
    )
    max_clients: int = setting(
        10_000,
        Count(least=1),
        "How many clients may be connected at once; one more gets an error and is closed.",
        is_live=True,
    )
    max_args: int = setting(
        1024 * 1024,
        # 16: fewer would leave no room for the CONFIG SET that raises it again.
        Count(least=16),
        "How many arguments one request may have; the connection of a longer one is closed.",
        is_live=True,
    )
    max_arg_size: int = setting(
        64 * MB,
        Size(least=KB, most=GB),
        "How large one argument of a request, such as a message body, may be.",
        is_live=True,
    )
    transaction_max_commands: int = setting(
        10_000,
        Count(least=1),
        "How many commands a client may queue between MULTI and EXEC. The broker refuses the next"
        " one, and EXEC runs none of them.",
        is_live=True,
    )
    transaction_max_size: int = setting(
        64 * MB,
        Size(least=1 * KB),
        "How much memory the commands between MULTI and EXEC may take. The broker refuses the next"
        " one, and EXEC runs none of them.",
        is_live=True,
    )
    query_buffer_limit: int = setting(
        128 * MB,
        Size(least=64 * KB),
        "How much one client may have sent that is not yet a whole request; past it the"
        " connection is closed.",
        is_live=True,
    )
    output_buffer_limit: int = setting(
        64 * MB,
        Size(least=64 * KB),
        "How much may wait for one client that does not read; past it the connection is closed.",
        is_live=True,
    )
    max_blocked_clients: int = setting(
        10_000,
        Count(),
        "How many clients may wait in a blocking command at once; one more gets an error.",
        is_live=True,
    )
    idle_timeout: float = setting(
        0.0,
        Seconds(),
        "How long a client may be silent before it is closed. A client that waits in a blocking"
        " command, or is of a tube session, is not closed. 0 is never.",
        is_live=True,
    )
    tcp_keepalive: int = setting(
        300,
        Count(most=32_767),
        "After how many seconds of silence the system asks the machine of a client whether it is"
        " still there. A client that does not answer for as long again is disconnected. 0 does not"
        " ask.",
        is_live=True,
    )
    session_ttr: float = setting(
        0.0,
        Seconds(),
        "How long a session of the tubes family is kept when its last client is gone. Until then a"
        " client can come back to it, and nobody else gets its tasks. 0 is not at all.",
        is_live=True,
    )
    slowlog_log_slower_than: int = setting(
        10_000,
        Microseconds(),
        "Commands that take longer are kept for SLOWLOG. 0 keeps every command, -1 none.",
        is_live=True,
    )
    slowlog_max_len: int = setting(
        128,
        Count(most=1_000_000),
        "How many commands SLOWLOG keeps; the oldest goes first.",
        is_live=True,
    )
    latency_monitor_threshold: int = setting(
        0,
        Milliseconds(),
        "What takes this long or longer is kept for LATENCY. 0 keeps nothing.",
        is_live=True,
    )
    shutdown_timeout: float = setting(
        10.0,
        Seconds(),
        "How long a stop waits for replies to reach their clients. 0 does not wait.",
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
        "there is no address to listen on; set listen or tls-listen",
    ),
    Relation(
        ("tls-listen", "tls-cert", "tls-key"),
        lambda config: not config.tls_listen or bool(config.tls_cert and config.tls_key),
        "needs tls-cert and tls-key",
    ),
    # Silence here would let someone believe that the plain listeners are encrypted.
    Relation(
        ("tls-cert", "tls-listen"),
        lambda config: not config.tls_cert or bool(config.tls_listen),
        "is not used without tls-listen",
    ),
    Relation(
        ("tls-key", "tls-listen"),
        lambda config: not config.tls_key or bool(config.tls_listen),
        "is not used without tls-listen",
    ),
    Relation(
        ("tls-ca", "tls-listen"),
        lambda config: not config.tls_ca or bool(config.tls_listen),
        "is not used without tls-listen",
    ),
    Relation(
        ("lifecycle-export", "lifecycle"),
        lambda config: not config.lifecycle_export or config.lifecycle,
        "has nothing to copy without lifecycle",
    ),
    Relation(
        ("lifecycle-export", "listen"),
        lambda config: not config.lifecycle_export or bool(config.listen),
        "needs an address to listen on without TLS: the process that copies connects there",
    ),
    Relation(
        ("drivers", "store"),
        lambda config: not config.drivers or config.store == "embedded",
        "needs the embedded store",
    ),
    Relation(
        ("max-arg-size", "query-buffer-limit"),
        lambda config: config.max_arg_size <= config.query_buffer_limit,
        "is over query-buffer-limit, so that the largest argument could never arrive",
    ),
)
