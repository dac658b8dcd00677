"""The Lua scripts, and what the errors they answer with mean.

Called by   store.py.
Calls       nothing; it reads scripts/*.lua when it is imported.

A line `-- include lib/name.lua` stands for that file, once; includes may include.

Not here: what a script is called with (feeds.py, worklists.py, looks.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path
from typing import Final, NamedTuple

from quinque.errors import NotDone, QuinqueError, StoreUnavailable

FOLDER: Final = Path(__file__).parent / "scripts"
_INCLUDE: Final = re.compile(r"^-- include (lib/\w+\.lua)$")


class Script(NamedTuple):
    text: bytes
    sha: bytes


def script_text(path: Path) -> str:
    """The file with all it includes, each once, before it is used."""
    return "\n".join(_lines(path, set()))


def error_of(text: str) -> QuinqueError:
    """The error that a script or Redis itself answered with."""
    code, _, rest = text.partition(" ")
    kind = _BY_CODE.get(code)
    if code in _REFUSALS:
        return NotDone(f"Redis refuses: {text}; nothing was changed")
    if kind is None:
        return StoreUnavailable(f"Redis answered: {text}; the effect is unknown")
    # Its own way to begin would ask for the parts that the text was made of.
    error = kind.__new__(kind, rest)
    Exception.__init__(error, rest)
    return error


def _lines(path: Path, seen: set[str]) -> Iterator[str]:
    for line in path.read_text(encoding="utf-8").splitlines():
        include = _INCLUDE.match(line)
        if include is None:
            yield line
        elif include[1] not in seen:
            seen.add(include[1])
            yield from _lines(FOLDER / include[1], seen)


def _load(path: Path) -> Script:
    text = script_text(path).encode()
    return Script(text, sha1(text, usedforsecurity=False).hexdigest().encode())


def _classes(kind: type[QuinqueError]) -> Iterator[type[QuinqueError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _classes(child)


SCRIPTS: Final[dict[str, Script]] = {
    path.stem: _load(path) for path in sorted(FOLDER.glob("*.lua"))
}
# ERR is the code of many: a script that has to say one of those answers with a value.
# With these Redis itself says that it does not begin: memory, disk, replicas, rights.
_REFUSALS: Final = frozenset({"OOM", "MISCONF", "NOREPLICAS", "NOAUTH", "NOPERM"})
_BY_CODE: Final = {kind.code: kind for kind in _classes(QuinqueError) if kind.code != "ERR"}
