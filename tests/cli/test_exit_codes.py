"""One table of the exit codes of all commands: each happens, and the page shows it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from quinque.cli import check, clean, copy, pipeline_run
from quinque.cli.exit_codes import BROKER_COMMANDS, CODES
from quinque.cli.main import main
from quinque.worker import process
from tests.cli.shell import Shell
from tests.cli.terminal import Terminal
from tests.facts.pages import table_rows, text_of
from tests.facts.repository import ROOT
from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client
from tests.servers.ports import ReservedPort
from tests.servers.redis_server import RedisServer


def test_the_page_has_the_table() -> None:
    rows = table_rows(text_of(ROOT / "docs" / "cli.md"), "| Command | Code |")

    told = [(command.strip("`"), int(code), meaning) for command, code, meaning in rows]
    assert told == [
        (command, code, meaning)
        for command, codes in CODES.items()
        for code, meaning in codes.items()
    ]


def test_the_table_has_every_command() -> None:
    commands = [*BROKER_COMMANDS, *(set(CODES) - {"broker commands"})]

    assert sorted(commands) == sorted(main.list_commands(click.Context(main)))


def test_the_table_has_every_code_that_a_command_returns() -> None:
    returned = {
        "check": {check.SOUND, check.DAMAGED, check.UNUSABLE},
        "copy": {copy.COPIED, copy.FAILED, copy.REFUSED, copy.DIFFERENT},
        "clean": {clean.ENDED, clean.FAILED, clean.FOUND_SOMETHING, 2},
        "pipeline": {pipeline_run.DONE, pipeline_run.FAILED, pipeline_run.ASKED_WRONGLY},
        "work": {process.ENDED, process.FAILED, process.ASKED_WRONGLY, 4},
    }

    assert {command: set(CODES[command]) for command in returned} == returned


@pytest.mark.parametrize("command", sorted(main.list_commands(click.Context(main))))
def test_an_unknown_option_is_wrong_usage_in_every_command(command: str) -> None:
    # These two pass unknown options on: to the broker, and to the program that is run.
    if command in ("cli", "spark"):
        return

    assert CliRunner().invoke(main, [command, "--no-such-option"]).exit_code == 2


def test_check_and_copy_end_with_the_codes_of_the_table(
    embedded_broker: RunningBroker, tmp_path: Path
) -> None:
    def code(*words: object) -> int:
        return CliRunner().invoke(main, [str(word) for word in words]).exit_code

    with start_broker(tmp_path, "--fsync", "no") as broker:
        broker.stop()
    in_use, stopped, copied = embedded_broker.folder, broker.folder, tmp_path / "copied"

    assert code("check", in_use) == 1
    assert code("check", stopped) == 0
    assert code("check", tmp_path / "none") == 2
    assert code("copy", stopped, copied) == 0
    assert code("copy", in_use, copied) == 1
    assert code("copy", stopped, stopped) == 2


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 1), (signal.SIGTERM, -signal.SIGTERM)]
)
@pytest.mark.parametrize("command", ["check", "copy"])
def test_ctrl_c_ends_check_and_copy_with_1_and_sigterm_kills_them(
    command: str, number: signal.Signals, code: int, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    # The command blocks when it reads this segment, and opening it here waits for that.
    segment = folder / "0000000001.journal"
    os.mkfifo(segment)
    targets = [str(tmp_path / "target")] if command == "copy" else []
    words = [sys.executable, "-m", "quinque", command, str(folder), *targets]

    with (
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        segment.open("wb"),
    ):
        process.send_signal(number)
        process.communicate(timeout=120)

    assert process.returncode == code


def test_serve_ends_with_the_codes_of_the_table(
    embedded_broker: RunningBroker, tmp_path: Path
) -> None:
    with start_broker(tmp_path, "--fsync", "no") as broker:
        assert broker.stop() == 0
    segment = min(broker.folder.glob("*.journal"))
    segment.write_bytes(b"?" * len(segment.read_bytes()))

    assert _code("serve", "--dir", str(broker.folder)) == 1
    assert _code("serve", "--fsync", "perhaps") == 2
    assert _code("serve", "--dir", str(embedded_broker.folder)) == 4
    in_use = f"127.0.0.1:{embedded_broker.port}"
    for setting in ("--listen", "--tarantool-listen", "--http-listen"):
        assert _code("serve", "--dir", str(tmp_path / "other"), setting, in_use) == 4, setting
    assert _code("serve", "--dir", str(tmp_path / "other"), "--listen", "192.0.2.1:0") == 4
    assert _code("work", "no_such_module:app", "--http-listen", in_use) == 4


def test_serve_ends_with_1_on_a_redis_that_a_person_has_to_set_up(tmp_path: Path) -> None:
    with RedisServer(None, "--maxmemory-policy", "allkeys-lru") as redis:
        words = ("serve", "--dir", str(tmp_path), "--listen", "127.0.0.1:0", "--store")
        assert _code(*words, redis.url) == 1, "it may delete messages"

        redis.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        redis.ask("ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-eval")
        assert _code(*words, f"redis://u:p@{redis.address}") == 1, "a right is missing"
        assert _code(*words, f"redis://u:x@{redis.address}") == 1, "the password is wrong"
        redis.ask("CONFIG", "SET", "requirepass", "secret")
        assert _code(*words, redis.url) == 1, "there is no password"
        assert _code(*words, f"redis+cluster://{redis.address}") == 1, "nor for a cluster"


def test_serve_ends_with_4_while_redis_does_not_answer(tmp_path: Path) -> None:
    port = ReservedPort()
    try:
        store = f"redis://127.0.0.1:{port.number}"
        words = ("serve", "--dir", str(tmp_path), "--store", store, "--store-timeout", "0.1")
        assert _code(*words) == 4
    finally:
        port.close()


@pytest.mark.parametrize(("name", "command"), [("quinque", "serve"), ("quinque-worker", "work")])
def test_the_units_of_systemd_restart_only_after_codes_that_may_pass(
    name: str, command: str
) -> None:
    unit = (ROOT / "examples" / "systemd" / f"{name}.service").read_text()
    lines = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line)

    # A worker ends with 1 only when it is stopped, or when its processes fail at the start.
    may_pass = {0, 4} if command == "serve" else {0, 1, 4}
    assert lines["Restart"] == "on-failure"
    assert set(map(int, lines["RestartPreventExitStatus"].split())) == {*CODES[command]} - may_pass


def test_the_page_of_the_service_has_every_code() -> None:
    rows = table_rows(text_of(ROOT / "docs" / "install.md"), "| Code | Meaning |")

    told = {int(code): meaning for code, meaning in rows}
    assert told.keys() == CODES["serve"].keys()
    assert told[1] == CODES["serve"][1]


def test_programs_end_with_the_codes_of_the_table(tmp_path: Path) -> None:
    nowhere = f"unix://{tmp_path}/nowhere"

    assert _code("work", "no_such_module:app") == 2
    assert _code("clean", "mail", "--once", "--redis", nowhere) == 1
    assert _code("clean") == 2
    assert _code("pipeline", "audit", str(tmp_path), "--url", nowhere) == 1
    assert _code("pipeline", "audit", str(tmp_path), "--url", "http://x") == 2
    assert _code("completion", "bash") == 0
    assert _code("completion", "tcsh") == 2
    assert _code("spark", "no-such-program") == 2


def test_each_code_is_what_scripts_see(
    shell: Shell, client: Client, queue: str, tmp_path: Path
) -> None:
    client.call("ADDJOB", queue, "one", 0)

    assert shell.code("queue", "info", queue) == 0
    assert shell.code("message", "take", queue, "--ack") == 0
    assert shell.code("message", "take", queue, "--ack") == 1
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
    assert "; start one with: quinque serve" in result.stderr


@pytest.mark.parametrize("words", [("queue", "ls"), ("message", "take", "x"), ("bench",)])
def test_a_redis_that_is_no_broker_is_said_to_be_so(
    words: tuple[str, ...], redis_server: RedisServer
) -> None:
    result = CliRunner().invoke(main, [*words, "--url", redis_server.url])

    assert result.exit_code == 4
    assert "is not a Quinque broker" in result.stderr


def test_what_cannot_be_printed_has_a_code_and_no_traceback(
    embedded_shell: Shell, queue: str
) -> None:
    shell = embedded_shell
    shell.lines("message", "add", queue, "one")
    words = [sys.executable, "-m", "quinque", "queue", "ls", "--url", shell.url]
    reader, writer = os.pipe()
    os.close(reader)

    with open("/dev/full", "w") as full, open(writer, "w") as unread:
        results = [
            subprocess.run(words, stdout=stdout, stderr=subprocess.PIPE, text=True)
            for stdout in (full, unread)
        ]

    told = [(result.returncode, result.stderr) for result in results]
    assert told == [(5, "quinque: No space left on device\n"), (141, "")]


def test_what_the_locale_has_no_characters_for_is_printed_with_their_numbers(
    embedded_shell: Shell, queue: str
) -> None:
    embedded_shell.lines("message", "add", queue, "ü€")

    words = ["message", "peek", queue, "--url", embedded_shell.url]
    result = CliRunner(charset="latin-1").invoke(main, words)

    assert (result.exit_code, "ü\\u20ac" in result.stdout) == (0, True)


def test_a_folder_in_use_is_said_to_be_so_in_json_too(embedded_broker: RunningBroker) -> None:
    result = CliRunner().invoke(main, ["check", str(embedded_broker.folder), "--json"])

    told = json.loads(result.stdout)
    assert (result.exit_code, told["exit_code"]) == (1, 1)
    assert "is in use by the process" in told["error"]


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


def _code(*words: str) -> int:
    """The exit code of a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "quinque", *words], capture_output=True, timeout=120
    ).returncode
