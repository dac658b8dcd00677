"""The Lua scripts of the library: each is one step that happens as a whole.

Called by   steps.py.
Calls       nothing; it reads scripts/*.lua when it is imported.

Not here: what a script is called with (working.py, cleaning.py).
"""

from __future__ import annotations

from hashlib import sha1
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent / "scripts"


class Script(NamedTuple):
    text: bytes
    sha: bytes


def _load(path: Path) -> Script:
    text = path.read_bytes()
    return Script(text, sha1(text, usedforsecurity=False).hexdigest().encode())


SCRIPTS: Final[dict[str, Script]] = {
    path.stem: _load(path) for path in sorted(FOLDER.glob("*.lua"))
}
