"""Facts about every module of the package: how it begins and how long its functions may get."""

from __future__ import annotations

import ast
import tomllib

from tests.facts.repository import ROOT, modules

COMPILED = {
    str(path.relative_to(ROOT))
    for pattern in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["quinque"][
        "compiled"
    ]["include"]
    for path in ROOT.glob(pattern)
}
MOST_LINES_OF_A_FUNCTION = 60


def test_every_module_begins_with_a_docstring() -> None:
    silent = [path for path, tree in modules() if not ast.get_docstring(tree)]

    assert silent == []


def test_every_module_postpones_its_annotations() -> None:
    eager = [path for path, tree in modules() if not _postpones_annotations(tree)]

    assert eager == []


def test_no_function_is_longer_than_a_screen() -> None:
    lengths = {
        f"{path}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert {where: n for where, n in lengths.items() if n > MOST_LINES_OF_A_FUNCTION} == {}


def test_a_table_that_is_declared_is_not_looked_at_early() -> None:
    """Why: src/quinque/spark/tables/__init__.py; tests/spark/tables/declared_pipeline.py shows what
    comes of it."""
    early = [
        f"{path}:{node.lineno} {node.attr}"
        for path, tree in modules()
        if "spark/tables/" in str(path)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("withColumn", "withColumns", "columns")
    ]

    assert early == []


def test_no_function_within_a_function_refers_to_its_neighbour() -> None:
    """Compiled by mypyc, they form a circle, which a broker never collects: each request on Redis
    left 740 bytes behind."""
    circles = [
        f"{path}:{neighbour.lineno} {neighbour.name}"
        for path, tree in modules()
        if str(path) in COMPILED
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for neighbour, others in _neighbours(node)
        if neighbour.name in others
    ]

    assert circles == []


def _neighbours(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
) -> list[tuple[ast.FunctionDef, set[str]]]:
    """The functions directly within a function, each with the names that the functions and lambdas
    within it use."""
    within = [
        node
        for node in ast.walk(function)
        if node is not function
        and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    used = {name.id for node in within for name in ast.walk(node) if isinstance(name, ast.Name)}
    return [(node, used) for node in within if isinstance(node, ast.FunctionDef)]


def _postpones_annotations(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )
