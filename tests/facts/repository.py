"""The repository as the facts tests read it: its text files and the modules of the package.

Called by   the tests beside this file.
Calls       nothing of the package; it reads files and imports none of them.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "quinque"

_IGNORED_FOLDERS = {".git"} | {
    line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line.endswith("/")
}


def modules(under: Path = PACKAGE) -> Iterator[tuple[str, ast.Module]]:
    """The path and the syntax tree of every Python file, in order of path."""
    for path in sorted(under.rglob("*.py")):
        yield name(path), ast.parse(path.read_text(encoding="utf-8"))


def text_files() -> Iterator[tuple[Path, str]]:
    """Every file that git would keep and that is UTF-8 text."""
    for folder, subfolders, files in os.walk(ROOT):
        subfolders[:] = sorted(set(subfolders) - _IGNORED_FOLDERS)
        for file in sorted(set(files) - _IGNORED_FOLDERS):  # .git is a file in a linked worktree
            path = Path(folder, file)
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def name(path: Path) -> str:
    """How a failing test should call the file."""
    return path.relative_to(ROOT).as_posix()
