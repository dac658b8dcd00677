"""The command `quinque cli`: any command to a broker, typed at a prompt or on the command line.

Called by   cli/main.py.
Calls       cli/line.py (the connection), cli/replies.py (the format of replies), cli/hints.py
            (completions), cli/presses.py (Ctrl-C); readline of the standard library, for history
            and Tab.

Lines with passwords are not stored in the history.

Not here: commands for people, with nouns and verbs (cli/queue.py and its neighbours).
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

import click

from quinque.cli.asking import as_bytes, run
from quinque.cli.broker_options import URL, broker_options
from quinque.cli.exit_codes import DONE, NOTHING, REFUSED
from quinque.cli.hints import Hint, Hints, pairs
from quinque.cli.line import Line, Refusal, Verbatim
from quinque.cli.presses import drop_typed, presses_heard
from quinque.cli.replies import reply_as_json, shown_reply
from quinque.cli.shown import Output, is_terminal, text_of
from quinque.errors import BadSetting, OutcomeUnknown, QuinqueError
from quinque.wire.inline import split_inline

_HISTORY_LINES: Final = 1_000
_SLOW_S: Final = 0.5  # the time of a slower command is shown, as redis-cli does
_SECRETS: Final = re.compile(r"\b(auth|requirepass|password|setuser)\b", re.IGNORECASE)
_PLAIN: Final = re.compile(rb"[!-~]+")
_ENDS: Final = frozenset({"exit", "quit"})
_MUTE: Final = frozenset({b"CLIENT REPLY OFF", b"CLIENT REPLY SKIP"})
# Commands whose reply is a text of several lines. RESP2 does not mark such a reply; redis-cli has a
# list too.
_TEXTS: Final = frozenset(
    {
        *(b"INFO", b"LOLWUT", b"CLIENT LIST", b"CLIENT INFO", b"CLUSTER NODES", b"CLUSTER INFO"),
        *(b"LATENCY DOCTOR", b"LATENCY GRAPH", b"MEMORY DOCTOR", b"MEMORY MALLOC-STATS"),
    }
)
_ARITY: Final = "wrong number of arguments"


@click.command("cli", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[WORD]...")
@broker_options(URL)
@click.option("--history", default=None, metavar="FILE",
              help="History file. Use '' to keep no history.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print each reply as one line of JSON.")
@click.pass_context
def cli(
    ctx: click.Context, /, words: tuple[str, ...], history: str | None, as_json: bool, **who: Any
) -> None:
    """Send the command WORDs to a broker, or type commands at a prompt.

    At the prompt, Tab completes commands, options and queue names, and shows the usage of a
    command. `help COMMAND` describes a command. If stdin is not a terminal, each line of it is a
    command.

    \b
    quinque cli QSTAT emails
    quinque cli help QSTAT
    quinque cli < commands.txt
    """
    out = Output(as_json)
    ctx.exit(run(out, lambda: _run(out, words, history, who)))


def _run(out: Output, words: Sequence[str], history: str | None, who: dict[str, Any]) -> int:
    line = Line(**who)
    try:
        talk = _Talk(line, out)
        if words:
            return talk.say([as_bytes(word) for word in words])
        if not is_terminal(sys.stdin):
            return _read_all(talk)
        return _prompt(talk, _history_file(history))
    finally:
        line.close()


class _Talk:
    """Runs the typed lines and prints the replies."""

    def __init__(self, line: Line, out: Output) -> None:
        self.line = line
        self._out = out
        self._hints: Hints | None = None

    @property
    def hints(self) -> Hints:
        """Return the completions for the commands of the broker, which are requested once."""
        if self._hints is None:
            docs = self.line.ask("COMMAND", "DOCS")
            self._hints = Hints([] if isinstance(docs, Refusal) else docs, self._queues)
        return self._hints

    def type(self, text: bytes) -> int:
        """Run one line and return the exit code that it alone would have."""
        words = split_inline(text)
        if words is None:
            self._out.failed("unbalanced quotes", REFUSED)
            return REFUSED
        return self.say(words) if words else DONE

    def say(self, words: Sequence[bytes]) -> int:
        """Send these words and return the exit code that they alone would have."""
        if words[0].lower() == b"help":
            return self._help([_text(word) for word in words[1:]])
        if b" ".join(words).upper() in _MUTE:
            self._out.failed(
                "CLIENT REPLY is not supported here: the prompt shows every reply", REFUSED
            )
            return REFUSED
        show: Callable[[Any], str] = reply_as_json if self._out.as_json else shown_reply
        try:
            reply = self.line.ask(*words)
        except OutcomeUnknown:
            if words[0].upper() != b"SHUTDOWN":
                raise
            return DONE  # a refusal is printed when it arrives
        if type(reply) is bytes and _replies_with_text(words):
            reply = Verbatim(reply)
        click.echo(show(reply))
        if isinstance(reply, Refusal):
            if _ARITY in reply.text and not self._out.as_json:
                self._help([_text(word) for word in words], is_short=True)
            return REFUSED
        if words[0].upper() == b"MONITOR":
            for each in self.line.listen():
                click.echo(show(each))
        return DONE

    def _help(self, words: Sequence[str], *, is_short: bool = False) -> int:
        groups = self.hints.groups()
        hint = self.hints.find(words)
        if words and hint is None:
            if not is_short:
                self._out.failed(f"unknown command {words[0]}", NOTHING)
            return NOTHING
        if self._out.as_json:
            told = {"usage": hint.usage, "summary": hint.summary} if hint else groups
            self._out.done("", told)
        elif hint is None:
            for group, names in groups.items():
                click.echo(f"{group}: {', '.join(names)}")
        else:
            click.secho(hint.usage, bold=True)
            if not is_short:
                click.echo(hint.summary)
        return DONE

    def _queues(self) -> list[str]:
        reply = self.line.ask("QUEUES")
        if isinstance(reply, Refusal):
            return []
        names = [dict(pairs(told))["name"] for told in reply[1]]
        # Leave out other names: they need quotes, or contain control characters.
        return [name.decode() for name in names if _PLAIN.fullmatch(name)]


def _read_all(talk: _Talk) -> int:
    """Run lines until exit, quit or the end of the input. Return the worst exit code."""
    code = DONE
    for line in sys.stdin.buffer if sys.stdin is not None else ():
        if line.strip().lower().decode("latin-1") in _ENDS:
            break
        code = max(code, talk.type(line))
    return code


def _prompt(talk: _Talk, history: Path | None) -> int:
    """Read and run lines until exit, quit or Ctrl-D."""
    import readline

    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # any bytes may be typed
    _read_history(history)
    readline.set_completer_delims(" \t")
    readline.set_completer(_completer(talk))
    readline.parse_and_bind("tab: complete")
    talk.line.ask("PING")  # reports at once that no broker answers
    try:
        with presses_heard(sys.stdin.fileno()):
            while _goes_on(talk):
                pass
    finally:
        _write_history(history)
    return DONE


def _goes_on(talk: _Talk) -> bool:
    """Read and run the next line. Ctrl-C cancels it. Return whether to read another one."""
    try:
        typed = input(f"{talk.line.at}> ")
        if typed.strip().lower() in _ENDS:
            return False
        _answer(talk, typed)
    except EOFError:
        click.echo()
        return False
    except KeyboardInterrupt:  # Ctrl-C does not end the prompt, whenever it comes
        drop_typed(sys.stdin.fileno())
        click.echo()
    return True


def _answer(talk: _Talk, typed: str) -> None:
    begin_s = time.monotonic()
    try:
        talk.type(as_bytes(typed))
        took_s = time.monotonic() - begin_s
        if took_s >= _SLOW_S:
            click.echo(f"({took_s:.2f}s)")
    except QuinqueError as error:
        click.secho(f"quinque: {text_of(str(error))}", fg="red", err=True)
    finally:
        _forget_secrets()


def _completer(talk: _Talk) -> Callable[[str, int], str | None]:
    import readline

    found: list[str] = []

    def complete(begun: str, number: int) -> str | None:
        if number == 0:
            try:
                found[:], hint = _completions(talk, begun)
            except QuinqueError:  # readline cannot report errors
                return None
            if hint is not None and len(found) != 1:
                sys.stdout.write(f"\n{hint.usage}\n{talk.line.at}> {readline.get_line_buffer()}")
                sys.stdout.flush()
        return f"{found[number]} " if number < len(found) else None

    return complete


def _completions(talk: _Talk, begun: str) -> tuple[list[str], Hint | None]:
    """Return the completions of the word at the cursor, and the usage of the command."""
    import readline

    typed = readline.get_line_buffer()[: readline.get_begidx()]
    before = [_text(word) for word in split_inline(as_bytes(typed)) or ()]
    is_help = bool(before) and before[0].lower() == "help"
    if is_help:
        before = before[1:]
    found = talk.hints.completions(before, begun)
    return found, None if is_help else talk.hints.find(before)


def _replies_with_text(words: Sequence[bytes]) -> bool:
    return any(b" ".join(words[:count]).upper() in _TEXTS for count in (1, 2))


def _text(word: bytes) -> str:
    return word.decode("utf-8", "surrogateescape")


def _history_file(named: str | None) -> Path | None:
    if named is not None:
        return Path(named) if named else None
    state = Path(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"))
    # A user without a home directory has no history: the path still begins with ~.
    return state / "quinque" / "history" if state.is_absolute() else None


def _read_history(file: Path | None) -> None:
    import readline

    readline.set_history_length(_HISTORY_LINES)
    if file is not None and file.exists():
        try:
            readline.read_history_file(file)
        except OSError as error:
            raise BadSetting(f"{file}: {error.strerror}") from error


def _write_history(file: Path | None) -> None:
    """Write the history, readable only by its owner. An error is ignored."""
    import readline

    if file is None:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        readline.write_history_file(file)
    except OSError:
        pass


def _forget_secrets() -> None:
    import readline

    last = readline.get_current_history_length()
    if last and _SECRETS.search(readline.get_history_item(last) or ""):
        readline.remove_history_item(last - 1)
