"""Read, change and save settings for CONFIG GET, CONFIG SET and CONFIG REWRITE.

Called by   the CONFIG command, through the dispatcher.
Calls       config.py for the table, config_names.py for other names, config_text.py for the text of
            the file.

Not here: the arguments of the command and its reply (commands/settings.py).
"""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import replace

from quinque.errors import BadArgument, BadSetting, printable
from quinque.model.glob import compile_glob
from quinque.server.config import SETTINGS, Config
from quinque.server.config_names import OTHER_NAMES, translated
from quinque.server.config_sources import broken_relations, closest
from quinque.server.config_text import rewritten
from quinque.server.open_files import clients_allowed
from quinque.stores.embedded.disk import sync_file

# Many times the longest name; a longer pattern only costs time to compile.
MOST_PATTERN_BYTES = 1024

LIVE_ORIGIN = "CONFIG SET"


def get(config: Config, pattern: bytes) -> list[tuple[str, str]]:
    """The settings whose names match, with their values as text; names of other systems come last.
    The password of a store is not shown.

    Raises BadArgument when the pattern is far longer than any name.
    """
    if len(pattern) > MOST_PATTERN_BYTES:
        raise BadArgument(f"the pattern is longer than {MOST_PATTERN_BYTES} bytes")
    matches = compile_glob(pattern.lower()).fullmatch
    ours = [
        (name, setting.kind.shown(config.value(name)))
        for name, setting in SETTINGS.items()
        if matches(name.encode())
    ]
    theirs = [
        (name, other.text(config)) for name, other in OTHER_NAMES.items() if matches(name.encode())
    ]
    return ours + theirs


def set_live(config: Config, pairs: Iterable[tuple[bytes, bytes]]) -> None:
    """Give live settings new values: all of them, or none.

    Raises BadSetting that names the first setting that cannot have its value.
    """
    changed = replace(config, origins=dict(config.origins))
    names: list[str] = []
    for given_name, given_value in pairs:
        asked = printable(given_name[:128]).lower()
        if asked not in SETTINGS and asked not in OTHER_NAMES:
            hint = closest(asked, [*SETTINGS, *OTHER_NAMES])
            raise BadSetting(f"Unsupported CONFIG parameter: {asked}{hint}")
        try:
            for name, value in _assignment(asked, given_value):
                if name in names:
                    raise BadSetting("the setting is given twice")
                changed.put(name, value, LIVE_ORIGIN)
                names.append(name)
        except BadSetting as exc:
            raise _failed(asked, str(exc)) from None
    for blamed, rule in broken_relations(changed):
        raise _failed(blamed, rule)
    if "max-clients" in names:
        _check_open_files(changed)
    for name in names:
        config.put(name, changed.value(name), LIVE_ORIGIN)


def rewrite(config: Config) -> None:
    """Write the settings in effect to the config file. If this raises, the file is unchanged.

    Raises BadSetting if there is no config file, or it cannot be written.
    """
    if not config.config:
        raise BadSetting(
            "The server is running without a config file: start it with --config FILE to have one"
        )
    path = os.path.realpath(config.config)  # so that a link stays a link
    try:
        text = rewritten(_text_of(path), config)
        tomllib.loads(text)
        _replace_file(path, text.encode())
    except OSError as exc:
        raise BadSetting(f"Rewriting config file: {exc.strerror}") from exc
    except ValueError as exc:
        raise BadSetting(f"Rewriting config file: the file is no longer valid TOML: {exc}") from exc


def _assignment(asked: str, given: bytes) -> list[tuple[str, object]]:
    """The setting and its value, or nothing where a name of others needs nothing changed."""
    name, text = asked, given.decode("utf-8", "surrogateescape")
    if asked in OTHER_NAMES:
        ours = translated(asked, text)
        if ours is None:
            return []
        name, text = ours
    setting = SETTINGS[name]
    if not setting.is_live:
        raise BadSetting("it can only be changed by a restart; set it in the config file")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise setting.kind.refusal(given) from None
    return [(name, setting.kind.value(text))]


def _check_open_files(config: Config) -> None:
    """Raises BadSetting, with the text of Redis, if the system permits fewer clients."""
    allowed, _ = clients_allowed(config)
    if config.max_clients > allowed:
        why = "The operating system is not able to handle the specified number of clients, try with"
        raise _failed("max-clients", f"{why} {allowed}")


def _failed(name: str, reason: str) -> BadSetting:
    return BadSetting(f"CONFIG SET failed (possibly related to argument '{name}') - {reason}")


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""  # removed since the start: it comes back


def _replace_file(path: str, content: bytes) -> None:
    """The file has the new content and its old mode, or all is as it was."""
    folder = os.path.dirname(path)
    handle, written = tempfile.mkstemp(prefix=".quinque-", suffix=".toml", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            if os.path.exists(path):
                os.fchmod(file.fileno(), os.stat(path).st_mode & 0o7777)
            sync_file(file.fileno())
        os.replace(written, path)
    except BaseException:
        os.unlink(written)
        raise
    # The name is on disk only when the folder is.
    folder_handle = os.open(folder, os.O_RDONLY)
    try:
        sync_file(folder_handle)
    finally:
        os.close(folder_handle)
