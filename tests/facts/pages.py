"""The documentation as the facts tests read it: pages, links, tables, and names of code.

Called by   the tests beside this file.
Calls       repository.py.

`engine/feed/decide.py:put` on a page is a function or a class of that module of the package,
`server/turn.py:Turn.end` a method, and `tests/…/test_x.py::test_y` a test.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.facts.repository import PACKAGE, ROOT

_LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:)([^)\s]+)\)")
_CODE_NAME = re.compile(r"`([\w/]+\.py):([A-Za-z_][\w.]*)`")
_MODULE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)`")
_TEST_NAME = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """Every page there is."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def links(path: Path) -> Iterator[tuple[Path, str]]:
    """The file and the heading (or nothing) that each link of a page leads to."""
    for target in _LINK.findall(_FENCED.sub("", text_of(path))):
        file, _, heading = target.partition("#")
        yield (path.parent / file).resolve() if file else path, heading


def anchors(path: Path) -> set[str]:
    """The headings of a page, as links name them."""
    lines = _FENCED.sub("", text_of(path)).splitlines()
    return {
        re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower()).replace(" ", "-")
        for line in lines
        if line.startswith("#")
    }


def code_names(path: Path) -> set[tuple[str, str]]:
    """The module and the name in it, for each name of code on a page."""
    return set(_CODE_NAME.findall(text_of(path)))


def module_names(path: Path) -> set[str]:
    """The modules named on a page without a name in them."""
    return set(_MODULE.findall(text_of(path)))


def named_tests(path: Path) -> set[tuple[str, str]]:
    """The file and the function of each test named on a page."""
    return set(_TEST_NAME.findall(text_of(path)))


@cache
def defined_names(path: Path) -> frozenset[str]:
    """The functions, classes, methods and constants of a Python file."""
    if not path.is_file():
        return frozenset()
    names: set[str] = set()
    for node in ast.parse(text_of(path)).body:
        names.update(_names_of(node))
        if isinstance(node, ast.ClassDef):
            names.update(f"{node.name}.{name}" for part in node.body for name in _names_of(part))
    return frozenset(names)


def module_path(name: str) -> Path:
    return PACKAGE / name


def table_rows(text: str, head: str) -> list[list[str]]:
    """The rows of the Markdown table whose first line begins with `head`, each cell stripped."""
    lines = text[text.index(head) :].splitlines()
    rows: list[list[str]] = []
    for line in lines[2:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def _names_of(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id
