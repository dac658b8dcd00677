"""Facts about every module of the package: how it begins and how long its functions may get."""

from __future__ import annotations

import ast

from tests.facts.repository import modules

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


def _postpones_annotations(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )
