"""Find the missing permission of the store's user in an error of Redis.

Called by   scripts.py (errors of calls), link.py, routes.py, wakeups.py and replicas.py (errors of
            other commands).
Calls       nothing.

Redis names the command that a user may not run, if the command comes from a client. To a script,
Redis 6.2 and 7.0 tell only the line of the script, on which the command is.

Not here: the users of a broker (server/users.py).
"""

from __future__ import annotations

import re
from typing import Final

from quinque.errors import printable

_CODES: Final = frozenset({"NOAUTH", "WRONGPASS", "NOPERM"})
_OWN_KEYS: Final = "~quinque:*"
_CHANNELS: Final = "&quinque:*"
_FROM_SCRIPT: Final = "user_script"  # the name of any script, in errors from inside of one
_COMMAND: Final = re.compile(r"permissions? to run the '([\w|-]+)' command")
_KEYS: Final = re.compile(r"access (?:one of the keys|at least one of the keys|a key|the '.*' key)")
_CHANNEL: Final = re.compile(r"(?:access (?:one of the|a|the '.*') |publish to the )channel")
_SCRIPT_COMMAND: Final = "The user executing the script can't run this command or subcommand"
_LINE: Final = re.compile(r"user_script: ?(\d+)")
_CALLED: Final = re.compile(r"redis\.p?call\('([A-Z]+)'")
_MANY: Final = re.compile(r"\bmany\('([A-Z]+)'")
# Errors while a connection is set up that pass by themselves.
_FOR_NOW: Final = re.compile("LOADING|BUSY|MASTERDOWN|CLUSTERDOWN|ERR max number of clients")


def is_from_script(text: str) -> bool:
    """Whether a command inside a script failed, so that earlier commands may have had effect."""
    return _FROM_SCRIPT in text


def what_is_missing(text: str, script: bytes = b"", keys: str = _OWN_KEYS) -> str:
    """Return the missing permission, and where to set it; empty if the error is about something
    else. `script` is the text of the script that was called, and `keys` the permission for all
    keys."""
    code = text.partition(" ")[0]
    if code == "NOAUTH":
        return (
            "Redis requires a password: put the user and the password into the setting store, "
            "redis://user:password@host:port"
        )
    if code == "WRONGPASS":
        return "Redis refuses the user or the password in the setting store"
    right = _right(text, script, keys)
    if not right and code not in _CODES:
        return ""
    return _lacks(f"the right {right}" if right else "a right")


def lacks_keys(queue: bytes) -> str:
    """The same, of the keys of an items queue."""
    return _lacks(f"the right ~{printable(queue[:128])}:*")


def refusal(text: str) -> str:
    """Why Redis refused a connection or a command of it, with the text of Redis; empty if that
    passes by itself."""
    if _FOR_NOW.match(text):
        return ""
    missing = what_is_missing(text)
    return f"{missing} ({text})" if missing else text


def _lacks(what: str) -> str:
    return f"the Redis user lacks {what}; grant it with ACL SETUSER in Redis"


def _right(text: str, script: bytes, keys: str) -> str:
    command = _COMMAND.search(text)
    if command is not None:
        return f"+{command[1]}"
    if _SCRIPT_COMMAND in text:
        return _right_of_line(text, script.decode())
    if _CHANNEL.search(text):
        return _CHANNELS
    if not _KEYS.search(text):
        return ""
    is_of_items = keys == _OWN_KEYS and is_from_script(text)
    return f"{keys}, or ~name:* of an items queue" if is_of_items else keys


def _right_of_line(text: str, script: str) -> str:
    """Return the permission for the command on the line that Redis names. A line that runs any
    given command is part of lib/many.lua, so the missing permission is one of those that run
    through it."""
    lines = script.splitlines()
    found = _LINE.search(text)
    number = int(found[1]) if found is not None else 0
    commands = _CALLED.findall(lines[number - 1]) if 0 < number <= len(lines) else []
    commands = commands or sorted({*_MANY.findall(script)})
    return " or ".join(f"+{command.lower()}" for command in commands)
