"""Facts about the pure layers: what they import, and that they read and write nothing.

import-linter follows imports through other modules of the package; this looks at the layers' own
lines, so that pytest alone says which line is wrong. Both read the same lists.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator

from tests.facts.repository import PACKAGE, ROOT, modules

CONTRACT = next(
    contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    if contract["type"] == "forbidden"
)
LAYERS = [layer.removeprefix("quinque.") for layer in CONTRACT["source_modules"]]
FORBIDDEN = set(CONTRACT["forbidden_modules"])
READS_OR_WRITES = {"input", "open", "print"}


def test_the_pure_layers_are_those_the_design_names() -> None:
    assert LAYERS == ["dialects", "engine", "model", "wire"]


def test_pure_layers_import_no_clock_no_chance_and_no_io() -> None:
    wrong = [
        f"{path}:{node.lineno} {module}"
        for path, tree in _pure_modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in _imported(node)
        if module.partition(".")[0] in FORBIDDEN
    ]

    assert wrong == []


def test_pure_layers_open_and_print_nothing() -> None:
    wrong = [
        f"{path}:{node.lineno} {node.func.id}"
        for path, tree in _pure_modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in READS_OR_WRITES
    ]

    assert wrong == []


def _pure_modules() -> Iterator[tuple[str, ast.Module]]:
    for layer in LAYERS:
        yield from modules(PACKAGE / layer)


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if node.level == 0 else []
