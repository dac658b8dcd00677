"""The Lua scripts, and what the errors they answer with mean.

Called by   store.py.
Calls       script_texts.py, rights.py (rights that a user of Redis lacks).

Not here: what a script is called with (feeds.py, worklists.py, looks.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from hashlib import sha1
from typing import Final, NamedTuple

from quinque.errors import (
    BY_CODE,
    NotDone,
    QuinqueError,
    StoreRefused,
    StoreUnavailable,
    WrongType,
    error_told,
)
from quinque.model.families import BY_CODE as FAMILY_BY_CODE
from quinque.stores.redis.calls import Call
from quinque.stores.redis.rights import is_from_script, lacks_keys, what_is_missing
from quinque.stores.redis.script_texts import FOLDER, script_text


class Script(NamedTuple):
    text: bytes
    sha: bytes


def error_of(text: str, call: Call) -> QuinqueError:
    """The error that a script or Redis itself answered with, to that call."""
    code = text.partition(" ")[0]
    missing = what_is_missing(text, SCRIPTS[call.script].text)
    if missing:
        if is_from_script(text) and not call.is_look:
            return StoreUnavailable(f"{missing} ({text}); the effect is unknown")
        return StoreRefused(f"{missing} ({text}); nothing was changed")
    if code in _REFUSALS:
        return NotDone(f"Redis refused: {text}; nothing was changed")
    told = _WRONG_TYPE.fullmatch(text)
    if told is not None:
        what, family, name_hex = told.groups()
        name = bytes.fromhex(name_hex)
        if what == "right":
            return StoreRefused(f"{lacks_keys(name)}; nothing was changed")
        return _wrong_type(what, family, name)
    if code not in BY_CODE:
        return StoreUnavailable(f"Redis answered: {text}; the effect is unknown")
    return error_told(text)


def _wrong_type(what: str, family: str, name: bytes) -> WrongType:
    """Make the error of scripts/lib/find_queue.lua:wrong_type."""
    if what == "key":
        return WrongType.of_key(name)
    of_what: dict[str, Callable[[bytes, str], WrongType]] = {
        "queue": WrongType.of_queue,
        "claimed": partial(WrongType.of_queue, is_claimed=True),
        "batch": WrongType.of_batch,
        "subscription": WrongType.of_subscription,
    }
    known = FAMILY_BY_CODE.get(int(family))
    return of_what[what](name, known.name if known is not None else family)


class _Scripts(dict[str, Script]):
    """Makes each script when it is first used: to make all of them takes longer than the rest of a
    broker's start."""

    def __missing__(self, name: str) -> Script:
        text = script_text(FOLDER / f"{name}.lua").encode()
        if name not in _ADDS and not name.startswith("copy_"):
            text = _ON_FULL_ALONE.get(name, _ON_FULL_SERVER) + text
        self[name] = Script(text, sha1(text, usedforsecurity=False).hexdigest().encode())
        return self[name]


# A full Redis refuses a script at its first write that may need memory, unless the script has
# written before. So a script that delivers or frees something deletes a key first that never exists
# (keys.py:guarded_keys): Redis does not refuse that, and a full server can be drained.
_ON_FULL_SERVER: Final = b"if KEYS[2] then redis.pcall('DEL', KEYS[2]) end\n"
_ADDS: Final = frozenset(
    {
        *("put", "add", "items_add", "tube_put", "tube_make", "stage_add", "configure"),
        *("set_expiry",),
    }
)
# Scripts on a key that stands alone remove from it what it never has.
_ON_FULL_ALONE: Final = {
    "note_slots": b"redis.pcall('SREM', KEYS[1], '')\n",
    **dict.fromkeys(
        ("look_at_node", "beat", "set_node", "forget_node", "set_partitions"),
        b"redis.pcall('HDEL', KEYS[1], '')\n",
    ),
}
SCRIPTS: Final = _Scripts()
_WRONG_TYPE: Final = re.compile(rf"WRONGTYPE {WrongType.begins}:([a-z]+):(\d*):([0-9a-f]*)")
# ERR is the code of many: a script that has to say one of those answers with a value.
# With these Redis itself says that it does not begin: memory, disk, replicas.
_REFUSALS: Final = frozenset({"OOM", "MISCONF", "NOREPLICAS"})
