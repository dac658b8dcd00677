"""What is printed: tables, spans, replies, hints, colours, completion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from quinque.cli.hints import Hints
from quinque.cli.line import Refusal, Status
from quinque.cli.main import main
from quinque.cli.pipeline_run import show_queues, show_summary
from quinque.cli.replies import shown_reply
from quinque.cli.shown import cut, span_text, table, text_of, width_of
from quinque.server.commands.table import all_commands
from tests.cli.shell import Shell
from tests.cli.terminal import Terminal
from tests.server.broker import start_broker


def test_columns_are_aligned_and_lines_have_no_blanks_at_their_ends() -> None:
    lines = table(["queue", "ready"], [["a", "1"], ["longer", "1,000"]], [False, True])

    assert [line.replace("\x1b[1m", "").replace("\x1b[0m", "") for line in lines] == [
        "queue   ready",
        "a           1",
        "longer  1,000",
    ]


def test_a_summary_has_words_for_what_is_true_and_for_lists(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_summary({"redriven": 1_000, "dry_run": False, "is_whole": True, "sample_ids": ["a", "b"]})

    assert capsys.readouterr().out == (
        "redriven    1,000\ndry run     no\nis whole    yes\nsample ids  a, b\n"
    )


def test_a_name_is_no_markup_and_does_nothing_to_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts = dict.fromkeys(("added", "acked", "expired", "removed", "dead", "open", "missing"), 1)
    signs = dict.fromkeys(("unbalanced", "acked_twice", "after_ack", "unknown"), 0)

    show_queues([{"queue": "[/red]\x1b[2J", "is_good": True, **counts, **signs}])
    show_summary({"job": "drain", "queue": "a\x1b[2J"})

    shown = capsys.readouterr().out
    assert r"[/red]\x1b[2J " in shown
    assert shown.endswith("queue  a\\x1b[2J\n")


@pytest.mark.parametrize(
    ("span_s", "text"),
    [(0, "0s"), (0.25, "0.25s"), (59.94, "59.9s"), (60, "1m 0s"), (7_500, "2h 5m"),
     (90_000, "1d 1h")],
)  # fmt: skip
def test_a_span_is_told_in_its_two_largest_units(span_s: float, text: str) -> None:
    assert span_text(span_s) == text


def test_no_control_character_reaches_a_terminal() -> None:
    assert text_of(b"\x1b]0;x\x07\x9b\xc2\x9b\n") == "\\x1b]0;x\\x07\\x9b\\x9b\\n"
    assert text_of("typed\udc9b") == "typed\\x9b"
    assert text_of("\u202eturned") == "\\u202eturned"


def test_columns_are_those_of_a_terminal() -> None:
    assert [width_of(text) for text in ("plain", "é", "e\u0301", "漢字")] == [5, 1, 1, 4]
    assert (cut("漢字", 4), cut("漢字", 3), cut("plain", 3)) == ("漢字", "漢…", "pl…")


def test_the_help_has_every_command_and_cuts_none_of_its_lines() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output

    assert "..." not in shown.partition("A broker and its data:")[2]
    for name in main.list_commands(click.Context(main)):
        assert main.get_command(click.Context(main), name) is not None
        assert f"\n  {name} " in shown
    assert set(main.commands) <= set(main.list_commands(click.Context(main)))


def test_a_broker_has_a_name_in_a_file_and_what_is_said_wins(
    embedded_shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "quinque" / "brokers.toml"
    file.parent.mkdir()
    file.write_text(
        f'[ours]\nurl = "{embedded_shell.url}"\npassword = "x"\n[odd]\nurl = "x"\nu = 1\n'
    )

    def asked(*words: str, **variables: str) -> Result:
        environ = {"XDG_CONFIG_HOME": str(tmp_path), "QUINQUE_PASSWORD": None, **variables}
        return CliRunner().invoke(main, ["cli", "PING", *words], env=environ)

    assert "AUTH" in asked("--url", "ours").stderr.upper()
    assert asked("--password", "", QUINQUE_URL="ours").output == "PONG\n"
    assert "broker odd has unknown keys: u" in asked("--url", "odd").stderr
    assert str(file) in asked("--url", "none").stderr
    assert asked("--url", embedded_shell.url).exit_code == 0


@pytest.mark.parametrize("command", [("cli", "PING"), ("queue", "ls")])
def test_the_credentials_of_a_url_win_over_those_of_the_environment(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    users = tmp_path / "users.toml"
    users.write_text('[users.ann]\npassword = "right"\n[users.default]\npassword = "other"\n')
    file = tmp_path / "quinque" / "brokers.toml"
    file.parent.mkdir()
    wrong = {"QUINQUE_USERNAME": "bob", "QUINQUE_PASSWORD": "wrong"}
    with start_broker(tmp_path / "data", "--users", str(users)) as broker:
        host = f"127.0.0.1:{broker.port}"
        file.write_text(f'[ours]\nurl = "redis://{host}"\nusername = "ann"\npassword = "right"\n')

        def code(url: str, *words: str, **variables: str) -> int:
            environ = {"XDG_CONFIG_HOME": str(tmp_path), **wrong, **variables}
            return CliRunner().invoke(main, [*command, "--url", url, *words], env=environ).exit_code

        assert code(f"redis://ann:right@{host}") == 0
        assert code(f"redis://:other@{host}") == 0
        assert code("ours") == 0
        assert code(f"redis://ann@{host}", QUINQUE_PASSWORD="right") == 0
        assert code(f"redis://{host}", QUINQUE_USERNAME="ann", QUINQUE_PASSWORD="right") == 0
        assert code(f"redis://ann:wrong@{host}", "--password", "right") == 0
        secret = tmp_path / "secret"
        secret.write_text("right\n")
        of_file: dict[str, Any] = {"QUINQUE_PASSWORD": None, "QUINQUE_PASSWORD_FILE": str(secret)}
        assert code(f"redis://ann@{host}", **of_file) == 0
        assert code(f"redis://:other@{host}", **of_file) == 0
        assert code(f"redis://ann@{host}", QUINQUE_PASSWORD_FILE=str(secret)) == 2  # both are set
        secret.unlink()
        assert code(f"redis://ann@{host}", **of_file) == 2
        assert code(f"redis://{host}") != 0


@pytest.mark.parametrize("command", [("cli", "PING"), ("queue", "ls")])
def test_a_user_without_a_password_is_not_the_user_that_needs_none(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    users = tmp_path / "users.toml"
    users.write_text('[users.ann]\npassword = "right"\n[users.default]\n')
    with start_broker(tmp_path / "data", "--users", str(users)) as broker:
        url = f"redis://ann@127.0.0.1:{broker.port}"
        result = CliRunner().invoke(main, [*command, "--url", url])

    assert (result.exit_code, "invalid username-password pair" in result.stderr) == (3, True)


@pytest.mark.parametrize("command", [("cli", "PING"), ("queue", "ls")])
def test_a_url_that_is_none_is_said_to_be_so(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*command, "--url", "redis://ann:secret@[::1"])

    why = "url: not the URL of a broker: the host or the port is invalid"
    assert (result.exit_code, result.stderr) == (2, f"quinque: {why}\n")


@pytest.mark.parametrize("command", [("cli", "PING"), ("queue", "ls")])
def test_a_url_can_be_in_a_file(
    embedded_shell: Shell, command: tuple[str, ...], tmp_path: Path
) -> None:
    secret = tmp_path / "url"
    secret.write_text(f"{embedded_shell.url}\n")

    def asked(*words: str, **variables: str) -> Result:
        environ = {"QUINQUE_URL": None, "QUINQUE_URL_FILE": str(secret), **variables}
        return CliRunner().invoke(main, [*command, *words], env=environ)

    assert asked().exit_code == 0
    assert asked("--url", "redis://127.0.0.1:1").exit_code != 0  # the option overrides the file
    both = asked(QUINQUE_URL=embedded_shell.url)
    assert (both.exit_code, "QUINQUE_URL is set too; set only one" in both.stderr) == (2, True)
    secret.unlink()
    missing = asked()
    assert (missing.exit_code, "QUINQUE_URL_FILE: cannot read" in missing.stderr) == (2, True)


def test_the_credentials_of_a_url_in_a_file_override_those_of_the_environment(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "url"
    environ = {"QUINQUE_URL": None, "QUINQUE_URL_FILE": str(secret), "QUINQUE_PASSWORD": "wrong"}
    with start_broker(tmp_path / "data", "--requirepass", "right") as broker:
        secret.write_text(f"redis://:right@127.0.0.1:{broker.port}")
        result = CliRunner().invoke(main, ["cli", "PING"], env=environ)

    assert (result.exit_code, result.output) == (0, "PONG\n")


def test_a_file_that_cannot_be_read_does_not_break_the_completion(
    embedded_shell: Shell, tmp_path: Path
) -> None:
    environ = {
        "_QUINQUE_COMPLETE": "bash_complete",
        "COMP_WORDS": "quinque queue ls --j",
        "COMP_CWORD": "3",
    }
    for variable in ("QUINQUE_URL", "QUINQUE_PASSWORD"):
        missing = {variable: None, f"{variable}_FILE": str(tmp_path / "missing")}
        result = CliRunner().invoke(main, [], env={**environ, **missing}, prog_name="quinque")

        assert (result.exit_code, result.stdout) == (0, "plain,--json\n"), result.exception


def test_a_password_that_is_missing_is_asked_for_as_the_command_has_it(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--requirepass", "secret") as broker:
        url = f"redis://127.0.0.1:{broker.port}"
        result = CliRunner().invoke(main, ["queue", "ls", "--url", url])

    told = "Authentication required. Pass --password or set QUINQUE_PASSWORD."
    assert result.stderr == f"quinque: {told}\n"


def test_replies_look_as_in_redis_cli() -> None:
    assert shown_reply([[b"a", [1, None]], [], Status(b"OK"), Refusal("ERR no"), {b"k": True}]) == (
        '1) 1) "a"\n   2) 1) (integer) 1\n      2) (nil)\n2) (empty array)\n3) OK\n'
        '4) (error) ERR no\n5) 1# "k" => (true)'
    )


def test_every_command_has_a_hint_that_says_what_its_usage_says(embedded_shell: Shell) -> None:
    with embedded_shell.client() as client:
        docs = client.call("COMMAND", "DOCS")
    assert isinstance(docs, list)
    hints = Hints(docs, list)

    for command in all_commands():
        if command.subcommands is None:
            hint = hints.find(command.name.split())
            assert hint is not None, command.name
            assert hint.usage == command.usage
    assert hints.completions([], "CLAIM.O") == ["CLAIM.OPEN"]
    assert "LIST" in hints.completions(["client"], "L")
    assert hints.completions(["ADDJOB", "q"], "RET") == ["RETRY"]


def test_names_of_queues_are_completed_in_a_shell(
    embedded_shell: Shell, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = embedded_shell
    shell.lines("message", "add", queue, "one")
    monkeypatch.setenv("QUINQUE_URL", shell.url)
    complete = ShellComplete(main, {}, "quinque", "_QUINQUE_COMPLETE")

    found = complete.get_completions(["queue", "info"], queue[:-2])
    assert [(item.value, item.help) for item in found] == [(queue, "jobs")]
    assert [item.value for item in complete.get_completions(["dead"], "re")] == ["redrive"]
    assert [item.value for item in complete.get_completions([], "de")] == ["dead"]
    shell.lines("message", "add", f"{queue} and more", "one")
    monkeypatch.setenv("_QUINQUE_COMPLETE", "bash_complete")
    [quoted] = complete.get_completions(["queue", "info"], f"{queue} ")
    assert quoted.value == f"{queue}\\\\ and\\\\ more"  # its script takes every second one away
    monkeypatch.setenv("QUINQUE_URL", "redis://127.0.0.1:1")
    assert complete.get_completions(["queue", "info"], "x") == []


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_what_a_shell_needs_is_printed(shell_name: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell_name])

    assert result.exit_code == 0
    assert "_QUINQUE_COMPLETE" in result.output


def test_colours_are_for_terminals_and_not_where_they_are_unwanted(
    embedded_shell: Shell, queue: str
) -> None:
    shell = embedded_shell
    shell.lines("message", "add", queue, "one")
    words = ("queue", "ls", queue)

    assert "\x1b[" not in "".join(shell.lines(*words))
    for variables, is_coloured in (
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ):
        with Terminal(*words, QUINQUE_URL=shell.url, **variables) as terminal:
            assert terminal.end() == 0
        assert queue in terminal.screen
        assert ("\x1b[" in terminal.raw) == is_coloured
