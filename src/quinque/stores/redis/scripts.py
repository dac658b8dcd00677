"""The Lua scripts, and what the errors they answer with mean.

Called by   store.py.
Calls       nothing; it reads scripts/*.lua when it is imported.

A line `-- include lib/name.lua` stands for that file, once; includes may include. Numbers that have
a name, `local NAME = 1`, are written where the name is: all of a script is carried out at every
call, and each local that a function uses makes it dearer to make that function.

Not here: what a script is called with (feeds.py, worklists.py, looks.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path
from typing import Final, NamedTuple

from quinque.errors import BY_CODE, NotDone, QuinqueError, StoreUnavailable, error_told

FOLDER: Final = Path(__file__).parent / "scripts"
_INCLUDE: Final = re.compile(r"^-- include (lib/\w+\.lua)$")
_NUMBERS: Final = re.compile(r"^local ([A-Z][A-Z_, ]*) = ([\d.^, ]+?)(?: *--.*)?$", re.MULTILINE)


class Script(NamedTuple):
    text: bytes
    sha: bytes


def script_text(path: Path) -> str:
    """The file with all it includes, each once, before it is used; numbers have no names."""
    text = "\n".join(_lines(path, set()))
    numbers: dict[str, str] = {}
    for names, values in _NUMBERS.findall(text):
        numbers.update(zip(names.split(", "), values.split(", "), strict=True))
    if not numbers:
        return text
    # What is quoted, or a comment, stays as it is.
    word = re.compile(rf"'[^'\n]*'|--[^\n]*|\b({'|'.join(numbers)})\b")
    return word.sub(
        lambda found: f"({numbers[found[1]]})" if found[1] else found[0], _NUMBERS.sub("", text)
    )


def error_of(text: str) -> QuinqueError:
    """The error that a script or Redis itself answered with."""
    code = text.partition(" ")[0]
    if code in _REFUSALS:
        return NotDone(f"Redis refuses: {text}; nothing was changed")
    if code not in BY_CODE:
        return StoreUnavailable(f"Redis answered: {text}; the effect is unknown")
    return error_told(text)


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


SCRIPTS: Final[dict[str, Script]] = {
    path.stem: _load(path) for path in sorted(FOLDER.glob("*.lua"))
}
# ERR is the code of many: a script that has to say one of those answers with a value.
# With these Redis itself says that it does not begin: memory, disk, replicas, rights.
_REFUSALS: Final = frozenset({"OOM", "MISCONF", "NOREPLICAS", "NOAUTH", "NOPERM"})
