"""The settings as the text of a config file: the example, the listing, the rewritten file.

Called by   cli/main.py (--example, --print-config), config_commands.py (CONFIG REWRITE).
Calls       config.py for the table.

Not here: reading such a file (config_sources.py), writing it to disk (config_commands.py).
"""

from __future__ import annotations

import textwrap
import tomllib
from typing import Any

from quinque.client.secret_files import FILE_SUFFIX
from quinque.errors import BadSetting
from quinque.server.config import SETTINGS, Config, Setting

WIDTH = 98

HEAD = """\
# Settings of a Quinque broker with their defaults. Delete the lines that you do not change.
#
# The command line (--max-clients 50) overrides the environment (QUINQUE_MAX_CLIENTS=50),
# which overrides this file (max-clients = 50). QUINQUE_REQUIREPASS_FILE=/run/secrets/password
# reads the value from that file. This works for every setting that is not itself a path.
#
# Sizes:  bytes, or "64kb", "100mb", "1gb" (1kb is 1024 bytes).
# Times:  a number in the unit of the setting, or "500us", "20ms", "30s", "2m", "1h", "1d".
"""

# The last lines of the example; tables must follow all plain settings.
USERS_TAIL = """\
# Users can be defined here instead of in a separate file (then remove `users` above):
#
# [users.alice]
# password = "open sesame"          # or password-sha256 = "<64 hex digits>"
# families = ["events"]             # default: all
# commands = ["QADD", "QSTATUS"]    # default: all; "-QFLUSH" removes one
# queues = ["orders.*"]             # default: all; * ? [a-z] [^a-z], and '\\xNN' is any byte
# rights = ["read", "write"]        # this is the default; there is also "admin"
"""


def example() -> str:
    """A config file with every setting, its meaning, unit and default.

    Loaded as it stands, it changes nothing.
    """
    return "\n".join([HEAD, *map(_example_of, SETTINGS.values()), USERS_TAIL])


def listing(config: Config) -> str:
    """The settings in force as TOML: first those that were set, each with its origin, then those
    at their defaults. Secrets are left out."""
    given: dict[str, str] = {}
    defaults: list[str] = []
    for name, setting in SETTINGS.items():
        if name in config.origins:
            given[_shown(config, setting)] = config.origins[name]
        else:
            defaults.append(_line(setting, config.value(name)))
    width = max(map(len, given), default=0)
    lines = [f"{line:<{width}}  # {origin}" for line, origin in given.items()]
    head = ["# Settings that were set, and where.", *lines, ""] if lines else []
    return "\n".join([*head, "# Settings at their defaults.", *defaults]) + "\n"


def _shown(config: Config, setting: Setting) -> str:
    value = config.value(setting.name)
    if setting.kind.is_secret and value:
        return f"# {setting.name} is set and not shown"
    if setting.name == "users" and config.user_tables:
        return f"# users: {len(config.user_tables)} tables, not shown"
    return _line(setting, value)


def rewritten(text: str, config: Config) -> str:
    """Return the config file `text` with the settings in effect.

    Comments, tables and the order stay. A changed setting keeps its place. A new setting that is
    not at its default comes last, before the first table.

    Raises BadSetting if the text is not TOML.
    """
    head, tables = _statements(text)
    lines: list[str] = []
    present: set[str] = set()
    for statement in head:
        name, given = _assigned(statement)
        present.add(name)
        is_kept = name not in SETTINGS or isinstance(given, dict) or _is_given(config, name, given)
        lines.append(statement if is_kept else _line(SETTINGS[name], config.value(name)) + "\n")
    # A users table below would make a `users` here a second value of the same name.
    if "users" in tomllib.loads(text):
        present.add("users")
    if lines and not lines[-1].endswith("\n"):
        lines.append("\n")
    for name, setting in SETTINGS.items():
        if name not in present and not _is_given(config, name, setting.default):
            lines.append(_line(setting, config.value(name)) + "\n")
    return "".join(lines) + tables


def _example_of(setting: Setting) -> str:
    kind = setting.kind
    unit = f" {kind.unit}," if kind.unit else ""
    comment = [
        *textwrap.wrap(setting.meaning, WIDTH - 2),
        f"Value:{unit} {kind.shape}. Default: {kind.toml(setting.default)}."
        + (" CONFIG SET changes it." if setting.is_live else ""),
    ]
    return "".join(f"# {line}\n" for line in comment) + _line(setting, setting.default) + "\n"


def _line(setting: Setting, value: Any) -> str:
    line = f"{setting.name} = {setting.kind.toml(value)}"
    return f"# {line}" if setting.name == "config" else line


def _is_given(config: Config, name: str, given: object) -> bool:
    """True when a config file that has `given` for the setting needs no change."""
    # A value from a secret's file stays out of the config file: it comes again at the next start.
    if name == "config" or config.origins.get(name, "").endswith(FILE_SUFFIX):
        return True
    try:
        return bool(SETTINGS[name].kind.value_of_toml(given) == config.value(name))
    except BadSetting:
        return False


def _statements(text: str) -> tuple[list[str], str]:
    """Return the top-level statements of the file, and the rest from the first table on.

    A statement is a line, or several if its value has several. Comments and empty lines are
    statements too.
    """
    statements: list[str] = []
    begun = ""
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if not begun and line.lstrip().startswith("["):
            return statements, "".join(lines[number:])
        begun += line
        try:
            tomllib.loads(begun)
        except tomllib.TOMLDecodeError:
            continue
        statements.append(begun)
        begun = ""
    if begun:
        raise BadSetting("the config file is no longer valid TOML")
    return statements, ""


def _assigned(statement: str) -> tuple[str, object]:
    """The name and value that a statement sets; no name for a comment or an empty line."""
    for name, value in tomllib.loads(statement).items():
        return name, value
    return "", None
