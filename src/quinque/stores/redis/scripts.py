"""The Lua scripts, and what the errors they answer with mean.

Called by   store.py.
Calls       script_texts.py.

Not here: what a script is called with (feeds.py, worklists.py, looks.py).
"""

from __future__ import annotations

from hashlib import sha1
from typing import Final, NamedTuple

from quinque.errors import BY_CODE, NotDone, QuinqueError, StoreUnavailable, error_told
from quinque.stores.redis.script_texts import FOLDER, script_text


class Script(NamedTuple):
    text: bytes
    sha: bytes


def error_of(text: str) -> QuinqueError:
    """The error that a script or Redis itself answered with."""
    code = text.partition(" ")[0]
    if code in _REFUSALS:
        return NotDone(f"Redis refused: {text}; nothing was changed")
    if code not in BY_CODE:
        return StoreUnavailable(f"Redis answered: {text}; the effect is unknown")
    return error_told(text)


class _Scripts(dict[str, Script]):
    """Each is put together when it is first asked for: all of them take longer than the rest of a
    broker's start."""

    def __missing__(self, name: str) -> Script:
        text = script_text(FOLDER / f"{name}.lua").encode()
        self[name] = Script(text, sha1(text, usedforsecurity=False).hexdigest().encode())
        return self[name]


SCRIPTS: Final = _Scripts()
# ERR is the code of many: a script that has to say one of those answers with a value.
# With these Redis itself says that it does not begin: memory, disk, replicas, rights.
_REFUSALS: Final = frozenset({"OOM", "MISCONF", "NOREPLICAS", "NOAUTH", "NOPERM"})
