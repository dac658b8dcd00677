"""`quinque cli`: any command, on the command line, from a file, and at a prompt."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import psutil
import pytest

from tests.cli.shell import Shell
from tests.cli.terminal import Terminal
from tests.server.broker import wait_until
from tests.server.resp import Client
from tests.servers.patience import PATIENCE_S


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
    assert result.stderr == "quinque: unbalanced quotes\n"
    told = shell.run("cli", "--json", input=b"NOSUCH\nhelp QLEN\nhelp\nhelp NOSUCH\n").stdout
    refused, used, groups, unknown = map(json.loads, told.splitlines())
    mute = shell.run("cli", input=b"client reply off\nECHO x\n")
    assert (mute.exit_code, mute.stdout) == (3, '"x"\n')
    assert (used["usage"], unknown["exit_code"]) == ("QLEN queue", 1)
    assert refused["error"]
    assert "QLEN" in groups["jobs"]


def test_help_is_there_after_the_protocol_was_changed(shell: Shell) -> None:
    result = shell.run("cli", input=b"HELLO 3\nhelp QLEN\nQLEN\nhelp\n")

    lines = result.stdout.splitlines()
    assert lines.count("QLEN queue") == 2
    assert any(line.startswith("jobs: ") and "QLEN" in line for line in lines)


def test_lines_have_whatever_bytes_and_end_with_quit(shell: Shell, queue: str) -> None:
    typed = f"ADDJOB {queue} \udcff\udcfe 0\nQLEN {queue}\n quit \nQLEN {queue}\n"

    result = shell.run("cli", input=os.fsencode(typed))

    assert (result.exit_code, result.stdout.splitlines()[1:]) == (0, ["(integer) 1"])
    assert shell.json("message", "peek", queue)[0]["body_base64"] == "//4="


def test_a_monitor_that_is_cut_off_says_so(embedded_shell: Shell) -> None:
    with embedded_shell.client() as other:
        cut_off = Thread(target=cut_off_monitor, args=(other,))
        cut_off.start()
        result = embedded_shell.run("cli", "MONITOR")
        cut_off.join()

    assert (result.exit_code, result.stdout.splitlines()[0]) == (4, "OK")
    assert "lost the connection" in result.stderr


def test_what_speaks_another_protocol_is_no_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        answering = Thread(target=answer_once, args=(other, b":no number\r\n"))
        answering.start()
        result = Shell(other.getsockname()[1]).run("cli", "PING")
        answering.join()

    assert (result.exit_code, "not a Quinque broker" in result.stderr) == (4, True)


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
        terminal.wait_for("Wait until each of the jobs is removed or dead")
        at_prompt(terminal, "exit\r")
        assert terminal.end() == 0

    lines = history.read_text().splitlines()
    assert f"QPEEK {queue} 1 STATE queued" in lines
    assert not any("secret" in line for line in lines)
    assert history.stat().st_mode & 0o077 == 0


def test_ctrl_c_ends_a_command_that_waits_and_not_the_prompt(
    embedded_shell: Shell, queue: str
) -> None:
    words = ("cli", "--history", "", "--url", embedded_shell.url)
    with Terminal(*words, PYTHONIOENCODING="utf-8:strict") as terminal:
        at_prompt(terminal, f"GETJOB FROM {queue}\r")
        with embedded_shell.client() as other:
            wait_until(lambda: b"cmd=getjob" in other.call("CLIENT", "LIST"), "it waits")
        terminal.press("\x03")
        at_prompt(terminal, "ECHO again\r")
        terminal.wait_for('"again"')
        at_prompt(terminal, "ECHO \udcff\r")
        terminal.wait_for(r'"\xff"')
        at_prompt(terminal, "\x04")
        assert terminal.end() == 0


def test_an_interrupt_that_comes_just_before_a_command_waits_is_not_lost() -> None:
    """It is handled in another thread here, so that it interrupts no call of this one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = f"""
import signal, sys, threading
from quinque.cli.line import Line

def interrupt():
    sys.stdin.read(1)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt, daemon=True).start()
try:
    Line("redis://127.0.0.1:{server.getsockname()[1]}").ask("GETJOB", "FROM", "q")
except KeyboardInterrupt:
    print("interrupted")
"""
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            server.settimeout(PATIENCE_S)
            asking, _ = server.accept()
            with asking:
                asking.settimeout(PATIENCE_S)
                assert b"GETJOB" in asking.recv(1024)
                # Before, an interrupt finds it in Python code, and ends the command in any case.
                asleep = psutil.STATUS_SLEEPING
                wait_until(lambda: psutil.Process(process.pid).status() == asleep, "it waits")

                said, _ = process.communicate("x", timeout=PATIENCE_S)
        finally:
            process.kill()
            process.wait()
    assert said == "interrupted\n"


def test_a_press_that_comes_while_readline_handles_a_key_is_not_lost() -> None:
    """It is handled in another thread here, so that it interrupts no wait of readline's."""
    script = """
import readline, signal, sys, termios, threading
from quinque.cli.presses import presses_heard

def press():
    while termios.tcgetattr(0)[3] & termios.ECHO:  # readline does not have the terminal yet
        pass
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

with presses_heard(0):
    for _ in range(3):
        threading.Thread(target=press, daemon=True).start()
        try:
            input("> ")
        except KeyboardInterrupt:
            print("interrupted")
    print("typed", input("> "))
"""
    with Terminal(script=script) as terminal:
        for _ in range(3):
            terminal.wait_for("interrupted")
        at_prompt(terminal, "x\r")
        terminal.wait_for("typed x")
        assert terminal.end() == 0


def test_at_the_prompt_the_terminal_drops_no_key_because_of_a_press(
    embedded_shell: Shell, queue: str
) -> None:
    """Readline may be about to read it, and would wait for another one, deaf to Ctrl-C."""
    with Terminal("cli", "--history", "", "--url", embedded_shell.url) as terminal:
        terminal.wait_for("> ")
        assert terminal.keeps_keys()
        terminal.press("ECHO dropped")
        terminal.press("\x03")
        at_prompt(terminal, "ECHO kept\r")
        terminal.wait_for('"kept"')
        at_prompt(terminal, "exit\r")
        terminal.end()
        assert not terminal.keeps_keys()


def cut_off_monitor(other: Client) -> None:
    """Disconnect the client that monitors, as soon as there is one."""
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        for line in other.call("CLIENT", "LIST").splitlines():
            if b" cmd=monitor " in line:
                other.call("CLIENT", "KILL", "ID", line.split()[0].removeprefix(b"id="))
                return


def answer_once(server: socket.socket, reply: bytes) -> None:
    """Whatever is asked, that is the reply."""
    server.settimeout(PATIENCE_S)
    asking, _ = server.accept()
    with asking:
        asking.recv(1024)
        asking.sendall(reply)


def at_prompt(terminal: Terminal, keys: str) -> None:
    """Keys that come before the prompt are the terminal's, and not readline's."""
    terminal.wait_for("> ")
    terminal.press(keys)


@pytest.mark.parametrize("hello", ["2", "3"])
@pytest.mark.parametrize(
    "words",
    [
        ("info", "server"),
        ("CLIENT", "LIST"),
        ("CLIENT", "INFO"),
        ("CLUSTER", "NODES"),
        ("CLUSTER", "INFO"),
        ("LATENCY", "DOCTOR"),
        ("MEMORY", "DOCTOR"),
    ],
    ids=" ".join,
)
def test_a_text_for_people_is_shown_in_its_own_lines(
    shell: Shell, client: Client, words: tuple[str, ...], hello: str
) -> None:
    typed = f"HELLO {hello}\n{' '.join(words)}\nECHO end\n".encode()
    result = shell.run("cli", input=typed)
    text = client.call(*words)

    lines = result.stdout.splitlines()
    assert isinstance(text, bytes)
    begins = text.decode()[:2]  # more of it may differ: numbers, and the clients that there are
    assert lines[-1] == '"end"'
    assert any(line.startswith(begins) for line in lines)
    assert not any("\\r" in line or "\\n" in line for line in lines)


def test_a_text_for_people_cannot_change_the_terminal(shell: Shell, client: Client) -> None:
    client.call("ADDJOB", "\x1b[2J", "x", 0)
    shown = shell.run("cli", "INFO").stdout

    assert "# Server" in shown.splitlines()
    assert "\x1b" not in shown
    assert isinstance(shell.json("cli", "INFO"), str)
