"""docs/workqueue.md: its code runs and gives what it says, and its tables are those of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import click.testing
import pytest

from quinque.cli.main import clean, main
from tests.facts.pages import table_rows, text_of
from tests.facts.repository import ROOT
from tests.servers.patience import wait_until
from tests.servers.redis_server import RedisServer
from tests.workqueue.stage import Place
from tests.workqueue.test_cleaning import DAMAGE, LIGHT_IS_ENOUGH

PAGE = text_of(ROOT / "docs" / "workqueue.md")
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def _only_our_keys(place: Place) -> Iterator[None]:
    yield
    for key in place.raw.keys("mail:*"):
        place.raw.delete(key)


@pytest.mark.usefixtures("_only_our_keys")
def test_the_code_gives_what_the_page_says(place: Place, redis_server: RedisServer) -> None:
    names: dict[str, Any] = {}
    seen = 0
    for kind, text in BLOCK.findall(PAGE):
        if kind == "console":
            seen += _run_commands(text, redis_server.url)
        else:
            wait_until(lambda: not place.raw.exists("mail:lease:cy"), "the short lease has ended")
            seen += _run_code(
                text.replace("Redis()", f"Redis.from_url('{redis_server.url}')"), names
            )

    assert seen == 10


def _run_code(text: str, names: dict[str, Any]) -> int:
    """Each statement, and its value beside the comment after it; how many were compared."""
    seen = 0
    for statement in ast.parse(text).body:
        source = ast.unparse(statement)
        line = text.splitlines()[(statement.end_lineno or 1) - 1]
        said = re.search(r"# (True|False|None|\(.*\)|CleanCounts\(.*\))(?=:|$)", line)
        if isinstance(statement, ast.Expr) and said:
            value = eval(source, names)
            assert repr(value) == said[1], line
            seen += 1
        else:
            exec(compile(source, "docs/workqueue.md", "exec"), names)
    return seen


def _run_commands(text: str, url: str) -> int:
    commands = re.split(r"^\$ quinque ", text, flags=re.MULTILINE)[1:]
    for command in commands:
        words, _, shown = command.partition("\n")
        done = click.testing.CliRunner().invoke(main, [*words.split(), "--redis", url])
        assert done.stdout == shown
    return len(commands)


def test_every_damage_is_in_the_table() -> None:
    rows = table_rows(PAGE, "| Damage")

    assert [row[0] for row in rows] == [name for name in DAMAGE if name != "nothing"]
    assert {row[0] for row in rows if row[2] == "yes"} == set(LIGHT_IS_ENOUGH)


def test_every_option_is_in_the_table() -> None:
    rows = table_rows(PAGE, "| Option")

    assert [row[0].strip("`").split()[0] for row in rows[1:]] == [
        option.opts[0] for option in clean.params if option.param_type_name == "option"
    ]
