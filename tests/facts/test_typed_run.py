"""The results that a client and a store tell type checkers of are the same."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.facts.repository import PACKAGE


def results(path: Path, name: str) -> dict[str, str]:
    """What `run` of that class gives, by the name of the operation."""
    found = {}
    [kind] = (
        it
        for it in ast.parse(path.read_text()).body
        if isinstance(it, ast.ClassDef) and it.name == name
    )
    for it in kind.body:
        if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef) and it.name == "run":
            ops, gives = it.args.args[1].annotation, it.returns
            assert ops is not None
            assert gives is not None
            found.update(dict.fromkeys(ast.unparse(ops).split(" | "), ast.unparse(gives)))
    return found


def test_a_client_gives_what_a_store_gives() -> None:
    of_stores = results(PACKAGE / "stores" / "base.py", "Store")
    of_clients = results(PACKAGE / "client" / "aio" / "typed_run.py", "TypedRun")

    assert len(of_clients) > 50
    assert {op: gives for op, gives in of_clients.items() if of_stores.get(op) != gives} == {}
