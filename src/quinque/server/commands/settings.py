"""CONFIG: settings read, changed and written down while the broker runs.

Called by   dispatch.py, through COMMANDS.
Calls       config_commands.py; then the modules that keep a copy of a changed setting.

Not here: which settings there are and what values they take (server/config.py).
"""

from __future__ import annotations

import logging
from typing import Final

from quinque.dialects.args import check_count
from quinque.dialects.command import Command, no_queues
from quinque.errors import WrongArity
from quinque.model.limits import PATTERNS_MOST
from quinque.server import config_commands
from quinque.server.broker import Broker
from quinque.server.commands.subcommands import Run, first_word, with_subcommands
from quinque.server.connection import Connection
from quinque.server.counts import Stats
from quinque.wire.resp import OK, Value


def run_get(connection: Connection, argv: list[bytes]) -> Value:
    """CONFIG GET pattern [pattern ...]

    Return the settings whose names match a pattern, with their values.
    """
    config = connection.broker.config
    check_count("patterns", argv[2:], PATTERNS_MOST)
    pairs = [pair for pattern in argv[2:] for pair in config_commands.get(config, pattern)]
    return {name: text.encode() for name, text in pairs}


def run_set(connection: Connection, argv: list[bytes]) -> Value:
    """CONFIG SET setting value [setting value ...]

    Change settings: all of these, or none.
    """
    if len(argv) % 2:
        raise WrongArity("CONFIG|SET")
    pairs = zip(argv[2::2], argv[3::2], strict=True)
    config_commands.set_live(connection.broker.config, pairs)
    _obey(connection.broker)
    return OK


def run_rewrite(connection: Connection, argv: list[bytes]) -> Value:
    """CONFIG REWRITE

    Write the current settings to the config file.
    """
    config_commands.rewrite(connection.broker.config)
    return OK


def run_resetstat(connection: Connection, argv: list[bytes]) -> Value:
    """CONFIG RESETSTAT

    Reset the counters of INFO to 0.
    """
    broker = connection.broker
    broker.stats = Stats()
    for row in with_subcommands(broker.dispatch.commands.values()):
        row.calls = row.failed_calls = row.spent_ns = 0
    return OK


def _obey(broker: Broker) -> None:
    """Give the new value to all parts of the broker that have a copy of the setting."""
    config = broker.config
    logging.getLogger("quinque").setLevel(config.log_level.upper())
    broker.read_live_settings()
    broker.store.configure(config.fsync, config.maxmemory)


def _row(word: str, arity: int, run: Run) -> Command:
    return Command(f"CONFIG|{word}", "", "admin", arity, run=run, queues=no_queues)


COMMANDS: Final = [
    first_word(
        "CONFIG",
        _row("GET", -3, run_get),
        _row("SET", -4, run_set),
        _row("REWRITE", 2, run_rewrite),
        _row("RESETSTAT", 2, run_resetstat),
    ),
]
