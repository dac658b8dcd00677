"""One table of exit codes: each happens, and the page shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from quinque.cli.exit_codes import MEANINGS
from tests.cli.shell import Shell
from tests.cli.terminal import Terminal
from tests.facts.pages import table_rows, text_of
from tests.facts.repository import ROOT
from tests.server.resp import Client
from tests.servers.ports import ReservedPort


def test_the_page_has_the_table() -> None:
    rows = table_rows(text_of(ROOT / "docs" / "cli.md"), "| code |")

    assert {int(code): meaning for code, meaning in rows} == MEANINGS


def test_each_code_is_what_scripts_see(
    shell: Shell, client: Client, queue: str, tmp_path: Path
) -> None:
    client.call("ADDJOB", queue, "one", 0)

    assert shell.code("queue", "info", queue) == 0
    assert shell.code("queue", "info", f"{queue}.none") == 1
    assert shell.code("queue", "info", queue, "--no-such-option") == 2
    assert shell.code("queue", "info", queue, "--url", "http://x") == 2
    assert shell.code("queue", "pause", queue) == 0
    assert shell.code("message", "add", queue, "two") == 3
    assert shell.code("queue", "ls", "--ca", str(tmp_path / "none")) == 2


@pytest.mark.parametrize("words", [("queue", "ls"), ("top", "--once"), ("cli", "PING"), ("bench",)])
def test_a_broker_that_is_not_there_is_said_to_be_so(words: tuple[str, ...]) -> None:
    port = ReservedPort()
    try:
        result = Shell(port.number).run(*words)
    finally:
        port.close()

    assert result.exit_code == 4
    assert "no broker answers at 127.0.0.1" in result.stderr


def test_destructive_verbs_ask_and_no_means_no(embedded_shell: Shell, queue: str) -> None:
    shell = embedded_shell
    shell.lines("message", "add", queue, "one")
    with Terminal("queue", "flush", queue, QUINQUE_URL=shell.url) as terminal:
        terminal.wait_for(f"Remove 1 message of {queue}? [y/N]")
        terminal.press("n\r")
        assert terminal.end() == 2
    assert shell.lines("cli", "QLEN", queue) == ["(integer) 1"]

    with Terminal("queue", "flush", queue, QUINQUE_URL=shell.url, NO_COLOR="1") as terminal:
        terminal.wait_for("[y/N]")
        terminal.press("y\r")
        terminal.wait_for(f"removed 1 message of {queue}")
        assert terminal.end() == 0
