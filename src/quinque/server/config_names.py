"""Names that Redis and Disque have for what is a setting here, or is not one.

Called by   config_commands.py, for CONFIG GET and CONFIG SET.
Calls       config.py for the table of settings.

    maxclients               another name of max-clients: read and set
    aof-enqueue-jobs-once    accepted, and there is nothing to do: a restart puts nothing back
    databases                can be read
    activerehashing          not here: it would mean nothing

Names that Quinque uses as well (dir, maxmemory, requirepass, slowlog-max-len …) are not repeated.

Not here: the settings themselves (config.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from quinque.errors import BadSetting
from quinque.server.address import Address, parse_address
from quinque.server.config import SETTINGS, Config
from quinque.server.setting_kinds import Choice, Count, Kind

_LEVELS: Final = {"debug": "debug", "verbose": "debug", "notice": "info", "warning": "warning"}
_LEVELS_SHOWN: Final = {"debug": "debug", "info": "notice", "warning": "warning"}


@dataclass(frozen=True, slots=True)
class OtherName:
    """The value that CONFIG GET shows under the name, and the effect of CONFIG SET.

    CONFIG SET sets `setting`, with `words` translated to those of Quinque. With `accepts`, it
    accepts these values and changes nothing. With neither, it is refused.
    """

    text: Callable[[Config], str]
    meaning: str = ""
    setting: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    accepts: Kind[Any] | None = None


def translated(name: str, value: str) -> tuple[str, str] | None:
    """Quinque's setting and the value it gets; None where there is nothing to change.

    Raises BadSetting when the name can only be read, or not have that value.
    """
    other = OTHER_NAMES[name]
    if other.setting:
        return other.setting, other.words.get(value.lower(), value)
    if other.accepts is None:
        raise BadSetting("it is read-only; CONFIG GET * lists the settings")
    other.accepts.value(value)
    return None


def _text(name: str) -> Callable[[Config], str]:
    return lambda config: SETTINGS[name].kind.text(config.value(name))


def _always(text: str) -> Callable[[Config], str]:
    return lambda config: text


def _addresses(config: Config, *, unix: bool) -> list[Address]:
    return [address for address in map(parse_address, config.listen) if address.is_unix == unix]


def _port(config: Config) -> str:
    return str(next((address.port for address in _addresses(config, unix=False)), 0))


def _bind(config: Config) -> str:
    return " ".join(address.host or "*" for address in _addresses(config, unix=False))


def _unixsocket(config: Config) -> str:
    return next((address.path for address in _addresses(config, unix=True)), "")


OTHER_NAMES: Final[dict[str, OtherName]] = {
    "save": OtherName(_always(""), "Quinque makes no snapshots"),
    "appendonly": OtherName(_always("yes"), "the journal is always on", accepts=Choice(("yes",))),
    "appendfsync": OtherName(_text("fsync"), setting="fsync"),
    "maxclients": OtherName(_text("max-clients"), setting="max-clients"),
    "maxmemory-policy": OtherName(
        _always("noeviction"),
        "messages are never evicted; beyond `maxmemory`, bodies are only on disk",
        accepts=Choice(("noeviction",)),
    ),
    "timeout": OtherName(
        lambda config: str(math.ceil(config.idle_timeout)), "whole seconds", "idle-timeout"
    ),
    "databases": OtherName(_always("1"), "there is one database"),
    "port": OtherName(_port, "the first port of `listen`"),
    "bind": OtherName(_bind, "the hosts of `listen`"),
    "unixsocket": OtherName(_unixsocket, "the first unix socket of `listen`"),
    "loglevel": OtherName(
        lambda config: _LEVELS_SHOWN.get(config.log_level, "warning"),
        "`verbose` means debug, `notice` means info",
        "log-level",
        _LEVELS,
    ),
    "logfile": OtherName(_always(""), "the log goes to stderr"),
    "client-output-buffer-limit": OtherName(
        lambda config: f"normal {config.output_buffer_limit} 0 0",
        "the value of `output-buffer-limit`",
    ),
    "aof-load-truncated": OtherName(
        _always("yes"), "an incomplete last write is removed at the start", accepts=Choice(("yes",))
    ),
    "aof-enqueue-jobs-once": OtherName(
        _always("no"),
        "no effect: queued jobs stay queued after a restart",
        accepts=Choice(("yes", "no")),
    ),
    "cluster-node-timeout": OtherName(
        _always("0"),
        "no effect: the broker waits for no other node",
        accepts=Count(),
    ),
}
