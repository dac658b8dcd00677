"""Read the settings: command line over environment over config file over defaults.

Called by   cli/options.py, once per start.
Calls       config.py for the table; the config file and QUINQUE_..._FILE are read here.

    --maxmemory 1gb                      a flag; repeat it where the setting is a list
    QUINQUE_MAXMEMORY=1gb                a variable; commas where the setting is a list
    QUINQUE_REQUIREPASS_FILE=/run/pw     the value is in that file (a docker secret)
    maxmemory = "1gb"                    the TOML file of --config or QUINQUE_CONFIG
    --redis-addr 10.0.0.7:6379           bananaq's names, which stand for settings of Quinque
    BANANAQ_REDIS_ADDR=10.0.0.7:6379     likewise

Everything that is wrong is collected, so that one start shows all of it, one line each:

    maxmemory (QUINQUE_MAXMEMORY): 'lots' is not a size from 0 to 1024tb (bytes, or …)

Not here: the users file (users.py), changes while the broker runs (config_commands.py).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from quinque.client.secret_files import FILE_SUFFIX, text_of
from quinque.errors import BadSetting
from quinque.server.config import RELATIONS, SETTINGS, Config, Setting
from quinque.server.list_kinds import Several
from quinque.server.setting_kinds import Flag

PREFIX = "QUINQUE_"

# bananaq's names of settings, and the setting that each stands for.
BANANAQ_PREFIX = "BANANAQ_"
BANANAQ_NAMES = {
    "listen-addr": "listen",
    "redis-addr": "store, as redis://ADDRESS",
    "redis-cluster": "store, as redis+cluster://ADDRESS",
}
_BANANAQ_REDIS = "127.0.0.1:6379"  # the default of bananaq
_BANANAQ_SHARED = ("bg-qadd-pool-size", "log-level")  # settings that both call the same
_BANANAQ_LEVELS = {"warn": "warning", "fatal": "error"}
_REDIS_ADDRESS = re.compile(r"(?P<host>[^\s/@:]*|\[[0-9a-fA-F:]+\]):(?P<port>[0-9]{1,5})")

# A value and where it was found, by the setting's name.
Found = dict[str, tuple[Any, str]]


@dataclass(slots=True)
class Problems:
    """The errors in the settings of this start."""

    lines: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def add(self, name: str, place: str, reason: object) -> None:
        self.lines.append(f"{name} ({place}): {reason}")
        self.names.add(name)


def load(command_line: Mapping[str, str | Sequence[str]], environ: Mapping[str, str]) -> Config:
    """Return the settings of this start.

    Raises BadSetting with one line for each error.
    """
    config, problems = read(command_line, environ)
    if problems:
        raise BadSetting("\n".join(problems))
    return config


def read(
    command_line: Mapping[str, str | Sequence[str]], environ: Mapping[str, str]
) -> tuple[Config, list[str]]:
    """The settings as far as they can be read, and what is wrong with them.

    `command_line` holds the flags that were given, by the setting's name: a text each, or
    the texts in order where the setting is a list. A bad value is reported even where a
    stronger source overrides it.
    """
    problems = Problems()
    flags = _in_command_line(command_line, problems)
    variables = _in_environment(environ, problems)
    config_path, place = {**variables, **flags}.get("config", ("", ""))
    in_file = _in_file(config_path, place, problems) if config_path else {}
    _translate_bananaq((variables, flags), problems)

    config = Config()
    for name, (value, origin) in {**in_file, **variables, **flags}.items():
        if name == "users" and isinstance(value, dict):
            config.user_tables = value
            config.origins[name] = origin
        else:
            config.put(name, value, origin)
    _check_together(config, problems)
    return config, problems.lines


def read_toml(path: str) -> dict[str, Any]:
    """Return the contents of a TOML file.

    Raises BadSetting if it cannot be read or is not TOML.
    """
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as exc:
        raise BadSetting(f"cannot read {path!r}: {exc.strerror}") from exc
    # The file may also be not UTF-8, or have integers that are too long, or lists that are too
    # deep.
    except (ValueError, RecursionError) as exc:
        raise BadSetting(f"{path!r} is not valid TOML: {exc}") from exc


def broken_relations(config: Config, besides: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return the broken rules between settings: the setting to name, and the reason.

    Rules about a setting in `besides` are skipped, because its error is reported already.
    """
    known = set(besides)
    return [
        (relation.names[0], relation.rule)
        for relation in RELATIONS
        if known.isdisjoint(relation.names) and not relation.holds(config)
    ]


def closest(name: str, names: Iterable[str], prefix: str = "") -> str:
    """Return "; did you mean …?" if a name is similar, else an empty text."""
    near = get_close_matches(name, list(names), n=1)
    return f"; did you mean {prefix}{near[0]}?" if near else ""


def _in_command_line(command_line: Mapping[str, str | Sequence[str]], problems: Problems) -> Found:
    found: Found = {}
    for name, given in command_line.items():
        if name in BANANAQ_NAMES:
            found[name] = (given, f"--{name}")
            continue
        setting = SETTINGS[name]
        kind = setting.kind
        try:
            if isinstance(kind, Several) and not isinstance(given, str):
                found[name] = (kind.value_of_list(list(given)), setting.flag)
            else:
                found[name] = (kind.value(str(given)), setting.flag)
        except BadSetting as exc:
            problems.add(name, setting.flag, exc)
    return found


def _in_environment(environ: Mapping[str, str], problems: Problems) -> Found:
    found: Found = {}
    by_variable = {setting.variable: setting for setting in SETTINGS.values()}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX):
            continue
        setting = by_variable.get(variable)
        is_file = setting is None and variable.endswith(FILE_SUFFIX)
        if is_file:
            setting = by_variable.get(variable.removesuffix(FILE_SUFFIX))
        if setting is None:
            # Without the prefix, which alone makes any two names look alike.
            names = [known.removeprefix(PREFIX) for known in by_variable]
            hint = closest(variable.removeprefix(PREFIX), names, PREFIX)
            problems.add(variable, "environment", f"unknown setting{hint}")
            continue
        try:
            text = _text_in(setting, variable, environ) if is_file else environ[variable]
            found[setting.name] = (setting.kind.value(text), variable)
        except BadSetting as exc:
            problems.add(setting.name, variable, exc)
    for variable in sorted(environ):
        if variable.upper().startswith(BANANAQ_PREFIX):
            _add_bananaq_variable(variable, environ[variable], found, problems)
    return found


def _add_bananaq_variable(variable: str, text: str, found: Found, problems: Problems) -> None:
    """Add a variable BANANAQ_… that has a meaning here. The README of bananaq writes them as
    bananaq_… too."""
    name = variable[len(BANANAQ_PREFIX) :].lower().replace("_", "-")
    if name in BANANAQ_NAMES:
        found.setdefault(name, (text, variable))
    elif name in _BANANAQ_SHARED and name not in found:
        try:
            value = SETTINGS[name].kind.value(_BANANAQ_LEVELS.get(text.lower(), text))
            found[name] = (value, variable)
        except BadSetting as exc:
            problems.add(name, variable, exc)


def _translate_bananaq(sources: Sequence[Found], problems: Problems) -> None:
    """The settings that bananaq's names stand for are in the sources, weakest first, in place of
    them. Its address and whether that is a cluster may come from two sources."""
    address, is_cluster, strongest, place = _BANANAQ_REDIS, False, -1, ""
    for rank, source in enumerate(sources):
        for name in [name for name in BANANAQ_NAMES if name in source]:
            text, origin = source.pop(name)
            try:
                if name == "listen-addr":
                    _put_alias(source, "listen", text, origin)
                elif name == "redis-addr":
                    address, strongest, place = _redis_address(text), rank, origin
                else:
                    is_cluster = Flag().value(text)
                    if is_cluster:
                        strongest, place = rank, origin
            except BadSetting as exc:
                problems.add(name, origin, exc)
    if place:
        scheme = "redis+cluster" if is_cluster else "redis"
        try:
            _put_alias(sources[strongest], "store", f"{scheme}://{address}", place)
        except BadSetting as exc:
            problems.add("store", place, exc)


def _put_alias(source: Found, name: str, text: str, origin: str) -> None:
    if name in source:
        raise BadSetting(f"{source[name][1]} is given too; give only one of them")
    source[name] = (SETTINGS[name].kind.value(text), origin)


def _redis_address(text: str) -> str:
    found = _REDIS_ADDRESS.fullmatch(text)
    if found is None:
        raise BadSetting(f"{text!r} is not an address such as 127.0.0.1:6379")
    return f"{found['host'] or '127.0.0.1'}:{found['port']}"


def _text_in(setting: Setting, variable: str, environ: Mapping[str, str]) -> str:
    """The text of the file that a QUINQUE_..._FILE variable names, without its last line end."""
    if setting.kind.is_path:
        # QUINQUE_CONFIG_FILE=quinque.toml would otherwise read the settings as a path.
        raise BadSetting(f"is already a path; set {setting.variable} to it")
    if setting.variable in environ:
        raise BadSetting(f"{setting.variable} is set too; set only one of them")
    return text_of(environ[variable])


def _in_file(path: str, place: str, problems: Problems) -> Found:
    try:
        given = read_toml(path)
    except BadSetting as exc:
        problems.add("config", place, exc)
        return {}
    found: Found = {}
    for name, value in given.items():
        if name == "users" and isinstance(value, dict) and value:
            found[name] = (value, path)
        elif name == "config":
            problems.add(name, path, "a config file cannot set the path of another config file")
        elif name not in SETTINGS:
            problems.add(name, path, f"unknown setting{closest(name, SETTINGS)}")
        else:
            try:
                found[name] = (SETTINGS[name].kind.value_of_toml(value), path)
            except BadSetting as exc:
                problems.add(name, path, exc)
    return found


def _check_together(config: Config, problems: Problems) -> None:
    for name, rule in broken_relations(config, problems.names):
        problems.add(name, config.origins.get(name, "default"), rule)
    for name in ("tls-cert", "tls-key", "tls-ca"):
        path = config.value(name)
        if not path:
            continue
        try:
            with open(path, "rb"):
                pass
        except OSError as exc:
            reason = f"cannot read {path!r}: {exc.strerror}"
            problems.add(name, config.origins.get(name, "default"), reason)
