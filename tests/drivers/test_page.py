"""docs/drivers.md: its code runs and gives what it says, and its tables are those of the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from quinque.drivers import EVENTS, Driver, Space
from quinque.drivers.registry import METHODS
from tests.facts.pages import table_rows, text_of
from tests.facts.repository import ROOT

PAGE = text_of(ROOT / "docs" / "drivers.md")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"# (.+?)(?=: |$)")


def test_the_code_gives_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    seen = 0
    for text in BLOCK.findall(PAGE):
        for statement in ast.parse(text).body:
            source = ast.unparse(statement)
            said = SAID.search(text.splitlines()[(statement.end_lineno or 1) - 1])
            if isinstance(statement, ast.Expr) and said:
                assert repr(eval(source, names)) == said[1]
                seen += 1
            else:
                exec(compile(source, "docs/drivers.md", "exec"), names)

    assert seen == 4


def test_every_method_of_a_driver_is_in_the_tables() -> None:
    needed = [_name(row[0]) for row in table_rows(PAGE, "| Method | Task of")]
    optional = re.findall(
        r"`(\w+)\(", "".join(row[0] for row in table_rows(PAGE, "| Method | Called"))
    )

    assert needed == list(METHODS)
    public = {name for name in vars(Driver) if not name.startswith("_")}
    assert {*needed, *optional, "create_space", "new"} == public


def test_every_method_of_a_space_is_in_the_table() -> None:
    named = set(
        re.findall(
            r"`(\w+)[(`]", "".join(row[0] for row in table_rows(PAGE, "| Method or attribute |"))
        )
    )

    for_the_store = {"load", "restart_ids", "begin", "changes", "end", "undo", "number"}
    public = {name for name in vars(Space) if not name.startswith("_")}
    assert named - {"Space", "now_ms", "len"} == public - for_the_store


def test_every_event_is_named() -> None:
    text = PAGE[PAGE.index("## Events") : PAGE.index("## Time")]

    assert {event for event in EVENTS if f"`{event}`" not in text} == set()


def _name(cell: str) -> str:
    found = re.match(r"`(\w+)\(", cell)
    assert found is not None
    return found[1]
