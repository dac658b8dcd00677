"""docs/client.md: its code runs and gives what it says, and every method is on it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from quinque.client.sync.broker import Broker
from quinque.client.sync.events import Events, Group
from quinque.client.sync.items import Items
from quinque.client.sync.jobs import Jobs
from quinque.client.sync.queues import Queues
from quinque.client.sync.reliable import Reliable
from quinque.client.sync.tubes import Tube
from tests.facts.pages import text_of
from tests.facts.repository import ROOT
from tests.server.broker import RunningBroker

PAGE = text_of(ROOT / "docs" / "client.md")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"  # (.+?)(?=: it|$)")


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
            said = SAID.search(text.splitlines()[(statement.end_lineno or 1) - 1])
            if isinstance(statement, ast.Expr) and said:
                assert repr(eval(source, names)) == said[1], source
                seen += 1
                continue
            exec(compile(source, "docs/client.md", "exec"), names)
            if said and "print" in source:
                assert capsys.readouterr().out == said[1] + "\n", source
                seen += 1
    names["queues"].close()

    assert seen == 30


@pytest.mark.parametrize("kind", [Queues, Jobs, Events, Group, Tube, Reliable, Items])
def test_every_method_is_named(kind: type) -> None:
    public = {
        name for name in vars(kind) if not name.startswith("_") and callable(getattr(kind, name))
    }

    assert {name for name in public if f"`{name}(" not in PAGE.replace(f"queues.{name}", name)} == (
        set()
    )


def test_every_setting_of_a_connection_is_named() -> None:
    settings = [name for name in Broker.__init__.__annotations__ if name not in ("url", "return")]

    assert [name for name in settings if f"`{name}" not in PAGE] == []
