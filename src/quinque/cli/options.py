"""The flags of `quinque serve`, made from the table of settings.

Called by   cli/serve_command.py.
Calls       server/config.py for the table, server/config_sources.py and server/users.py to read
            flags, environment and files.

click sees every value as text. Values of flags, environment and file are checked in one place, so
that one start reports all errors.

Not here: the command (cli/serve_command.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from quinque.errors import BadSetting
from quinque.server.config import SETTINGS, Config, Setting
from quinque.server.config_sources import BANANAQ_NAMES, BANANAQ_PREFIX, read
from quinque.server.setting_kinds import Flag, size_text
from quinque.server.users import Users


def setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add one option for each setting to the command, in the order of the table."""
    # click lists options in the order of the decorators, which Python applies from the last to the
    # first.
    for name, stands_for in reversed(BANANAQ_NAMES.items()):
        command = _bananaq_option(name, stands_for)(command)
    for setting in reversed(SETTINGS.values()):
        command = _option(setting)(command)
    return command


def config_of(options: Mapping[str, Any], environ: Mapping[str, str]) -> Config:
    """Return the settings of this start. `options` has the flags as click has read them.

    Raises BadSetting with one line for each error in settings and users.
    """
    config, problems = read(_given(options), environ)
    _, more = Users.read(config)
    if problems or more:
        raise BadSetting("\n".join([*problems, *more]))
    return config


def _option(setting: Setting) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    kind = setting.kind
    if isinstance(kind, Flag):
        flags = f"{setting.flag}/--no-{setting.name}"
        return click.option(flags, setting.attribute, default=None, help=_help(setting))
    return click.option(
        setting.flag,
        setting.attribute,
        metavar=kind.metavar,
        multiple=kind.is_repeatable,
        default=None,
        help=_help(setting),
    )


def _bananaq_option(
    name: str, stands_for: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    variable = BANANAQ_PREFIX + name.replace("-", "_").upper()
    told = f"Name in bananaq of the setting {stands_for}.  [env: {variable}]"
    if name == "redis-cluster":
        return click.option(f"--{name}", is_flag=True, default=None, help=told)
    return click.option(f"--{name}", metavar="ADDRESS", default=None, help=told)


def _help(setting: Setting) -> str:
    kind = setting.kind
    shown = size_text(setting.default) if kind.unit == "bytes" else kind.text(setting.default)
    facts = [f"{kind.unit}, {kind.shape}" if kind.unit else kind.shape]
    if kind.is_repeatable:
        facts.append("repeatable")
    facts += [f"default: {shown or 'none'}", f"env: {setting.variable}"]
    return f"{setting.meaning}  [{'; '.join(facts)}]"


def _given(options: Mapping[str, Any]) -> dict[str, str | list[str]]:
    """Return the flags that were given, as text by the name of the setting."""
    given: dict[str, str | list[str]] = {
        name: "yes" if value is True else value
        for name in BANANAQ_NAMES
        if (value := options.get(name.replace("-", "_"))) is not None
    }
    for name, setting in SETTINGS.items():
        value = options.get(setting.attribute)
        if value is None or value == ():
            continue
        if isinstance(value, bool):
            given[name] = setting.kind.text(value)
        else:
            given[name] = value if isinstance(value, str) else list(value)
    return given
