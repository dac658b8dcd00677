"""docs/client.md: its code runs and gives what it says, and every method is on it."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import quinque
import quinque.aio
from quinque import errors
from quinque.client.aio.broker import Broker
from tests.facts.pages import text_of
from tests.facts.repository import ROOT
from tests.server.broker import RunningBroker

PAGE = text_of(ROOT / "docs" / "client.md")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"  # (.+)$", re.MULTILINE)


def test_the_code_gives_what_the_page_says(
    embedded_broker: RunningBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    seen = 0
    for block in BLOCK.findall(PAGE):
        text = block.replace("localhost:4777", f"127.0.0.1:{embedded_broker.port}")
        for statement in ast.parse(text).body:
            source = ast.unparse(statement)
            lines = text.splitlines()[statement.lineno - 1 : statement.end_lineno]
            said = SAID.search("\n".join(lines))
            if isinstance(statement, ast.Expr) and said:
                assert repr(eval(source, names)) == said[1], source
                seen += 1
                continue
            exec(compile(source, "docs/client.md", "exec"), names)
            if said and "print" in source:
                assert capsys.readouterr().out == said[1] + "\n", source
                seen += 1
    names["queues"].close()

    assert seen == 32


def public_methods(kind: type) -> list[str]:
    return [
        name for name in vars(kind) if not name.startswith("_") and callable(getattr(kind, name))
    ]


@pytest.mark.parametrize(
    "kind",
    [
        quinque.Queues,
        quinque.Jobs,
        quinque.Events,
        quinque.Group,
        quinque.Tube,
        quinque.Reliable,
        quinque.Items,
    ],
)
def test_every_method_is_named(kind: type) -> None:
    page = PAGE.replace("queues.", "")

    assert [name for name in public_methods(kind) if f"`{name}(" not in page] == []


@pytest.mark.parametrize("module", [quinque, quinque.aio])
def test_all_that_programs_see_says_what_it_does(module: Any) -> None:
    for name in set(module.__all__) - {"__version__"}:
        it = getattr(module, name)
        assert it.__doc__, name
        for method in public_methods(it) if isinstance(it, type) else ():
            assert getattr(it, method).__doc__, f"{name}.{method}"


def test_both_colours_take_the_same_settings() -> None:
    [plain, awaited, broker] = [
        list(inspect.signature(it).parameters.values())
        for it in (quinque.connect, quinque.aio.connect, Broker)
    ]

    assert plain == [it for it in awaited if it.name != "connections"]
    assert awaited == broker
    assert (
        inspect.signature(quinque.open).parameters == inspect.signature(quinque.aio.open).parameters
    )


def test_every_setting_of_a_connection_is_named() -> None:
    settings = set(inspect.signature(quinque.aio.connect).parameters) - {"url"}
    settings |= set(inspect.signature(quinque.connect).parameters) - {"url"}

    assert [name for name in sorted(settings) if f"`{name}" not in PAGE] == []


def test_codes_are_those_of_the_errors_beside_them() -> None:
    table = PAGE[PAGE.index("| Class | Code |") :].split("\n\n")[0]
    for row in table.splitlines()[2:]:
        named, codes, _ = row.strip("| ").split(" |", 2)
        kinds = [getattr(errors, name) for name in re.findall(r"`(\w+)`", named)]
        said = re.findall(r"`(\w+)`", codes)
        assert [kind.code for kind in kinds[len(kinds) - len(said) :]] == said or not said, row
