"""`quinque cli`: any command, on the command line, from a file, and at a prompt."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.shell import Shell
from tests.cli.terminal import Terminal


def test_a_command_is_sent_and_its_reply_shown_as_redis_cli_does(shell: Shell, queue: str) -> None:
    assert shell.lines("cli", "PING") == ["PONG"]
    assert shell.lines("cli", "ECHO", "a\nb") == ['"a\\nb"']
    shell.lines("cli", "RQ.PUSH", queue, "one")
    assert shell.lines("cli", "RQ.INFO", queue) == [
        '1) "undelivered"',
        "2) (integer) 1",
        '3) "delivered"',
        "4) (integer) 0",
    ]
    assert shell.json("cli", "RQ.INFO", queue) == ["undelivered", 1, "delivered", 0]


def test_a_refused_command_has_its_own_code_and_shows_how_it_is_used(shell: Shell) -> None:
    result = shell.run("cli", "QLEN")

    assert result.exit_code == 3
    assert result.stdout.splitlines() == [
        "(error) ERR wrong number of arguments for 'qlen' command",
        "QLEN queue",
    ]


def test_lines_are_read_where_nobody_types(shell: Shell, queue: str) -> None:
    typed = f"ADDJOB {queue} 'two words' 0\nQLEN {queue}\nhelp QLEN\nNOSUCH\n'open\n".encode()

    result = shell.run("cli", input=typed)

    lines = result.stdout.splitlines()
    assert result.exit_code == 3
    assert lines[1] == "(integer) 1"
    assert lines[2] == "QLEN queue"
    assert lines[4].startswith("(error) ERR unknown command 'NOSUCH'")
    assert result.stderr == "quinque: the quotes do not balance\n"
    told = shell.run("cli", "--json", input=b"NOSUCH\nhelp QLEN\nhelp\nhelp NOSUCH\n").stdout
    refused, used, groups, unknown = map(json.loads, told.splitlines())
    assert (used["usage"], unknown["exit_code"]) == ("QLEN queue", 1)
    assert refused["error"]
    assert "QLEN" in groups["jobs"]


def test_at_the_prompt_tab_completes_and_shows_the_usage(
    embedded_shell: Shell, queue: str, tmp_path: Path
) -> None:
    shell = embedded_shell
    shell.lines("message", "add", queue, "one")
    history = tmp_path / "history"
    with Terminal("cli", "--history", str(history), "--url", shell.url) as terminal:
        at_prompt(terminal, "PIN\t\r")
        terminal.wait_for("PONG")
        at_prompt(terminal, f"QPEEK {queue[:-1]}\t1 STA\tqueued\r")
        terminal.wait_for('"one"')
        at_prompt(terminal, "QPEEK \t")
        terminal.wait_for("QPEEK queue count [STATE state]")
        at_prompt(terminal, "\x15AUTH secret\r")
        terminal.wait_for("(error)")
        at_prompt(terminal, "help WAITJOB\r")
        terminal.wait_for("Wait until each of the jobs is gone or dead")
        at_prompt(terminal, "exit\r")
        assert terminal.end() == 0

    lines = history.read_text().splitlines()
    assert f"QPEEK {queue} 1 STATE queued" in lines
    assert not any("secret" in line for line in lines)
    assert history.stat().st_mode & 0o077 == 0


def test_ctrl_c_ends_a_command_that_waits_and_not_the_prompt(
    embedded_shell: Shell, queue: str
) -> None:
    with Terminal("cli", "--history", "", "--url", embedded_shell.url) as terminal:
        at_prompt(terminal, f"GETJOB FROM {queue}\r")
        terminal.wait_for(f"FROM {queue}")
        terminal.press("\x03")
        at_prompt(terminal, "ECHO again\r")
        terminal.wait_for('"again"')
        at_prompt(terminal, "\x04")
        assert terminal.end() == 0


def at_prompt(terminal: Terminal, keys: str) -> None:
    """Keys that come before the prompt are the terminal's, and not readline's."""
    terminal.wait_for("> ")
    terminal.press(keys)
