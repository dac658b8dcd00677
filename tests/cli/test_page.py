"""docs/cli.md: what it shows after `$ ` is what one would see, but for ids, moments and rates."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from quinque.cli.main import main
from tests.cli.shell import Shell
from tests.facts.pages import text_of
from tests.facts.repository import ROOT
from tests.server.broker import start_broker

PAGE = text_of(ROOT / "docs" / "cli.md")
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ID = re.compile(r"D-[0-9a-f]{8}-[\w+/]{24}-05a1|\b\d{13}-\d+|\b\d{16}\b")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
SPAN = re.compile(r'\b\d[\d.]*[smhd]( \d+[smhd])?(?=\s|$)|(?<=_s": )[\d.]+')
NUMBER = re.compile(r"\b\d[\d.,]*")
# Every number that these print is another each time.
MEASURED = {"top", "bench", "CLAIM.OPEN", "CLAIM.FILL"}


def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--fsync", "no") as broker:
        shell = Shell(broker.port)
        ids: dict[str, str] = {}
        code = 0
        seen = 0
        for block in BLOCK.findall(PAGE):
            for exchange in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                line, _, shown = exchange.partition("\n")
                line = ID.sub(lambda found: ids[found[0]], line)
                if line == "echo $?":
                    assert f"{code}\n" == shown
                    continue
                words, printed = _words(line)
                result = shell.run(*words, input=printed)
                code = result.exit_code
                is_measured = not MEASURED.isdisjoint(words)
                assert _shape(result.output, is_measured) == _shape(shown, is_measured), line
                ids.update(zip(ID.findall(shown), ID.findall(result.output), strict=True))
                seen += 1

    assert seen >= 25


def test_every_command_is_on_the_page_or_has_another() -> None:
    for name in main.list_commands(click.Context(main)):
        assert f"`{name}`" in PAGE or f"quinque {name} " in PAGE, name


@pytest.mark.parametrize(
    ("section", "command"),
    [
        ("Queues", "queue"),
        ("Messages", "message"),
        ("Dead messages", "dead"),
        ("Claims", "claims"),
        ("top", "top"),
        ("bench", "bench"),
        ("Prompt", "cli"),
    ],
)
def test_the_section_of_a_command_has_its_verbs_and_options(section: str, command: str) -> None:
    text = _section(section)
    found = main.get_command(click.Context(main), command)
    assert found is not None
    verbs = found.commands if isinstance(found, click.Group) else {"": found}
    shared = _section("Broker options")

    missing = [f"{command} {verb}" for verb in verbs if verb and f"`{command} {verb} " not in text]
    missing += [
        f"{command} {verb} {option.opts[0]}"
        for verb, it in verbs.items()
        for option in it.params
        if option.opts[0].startswith("--")
        if f"`{option.opts[0]}`" not in shared and f"`{option.opts[0]}" not in text
    ]

    assert missing == []


def test_every_option_has_a_help_text() -> None:
    assert list(_options_without_help(main, "quinque")) == []


def _options_without_help(command: click.Command, name: str) -> Iterator[str]:
    context = click.Context(command)
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden and not option.help:
            yield f"{name} {option.opts[0]}"
    if isinstance(command, click.Group):
        for verb in command.list_commands(context):
            found = command.get_command(context, verb)
            assert found is not None
            yield from _options_without_help(found, f"{name} {verb}")


def _section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _words(line: str) -> tuple[list[str], bytes]:
    """The words after `quinque`, and what is piped into it."""
    words = shlex.split(line)
    at = words.index("quinque")
    printed = words[1].encode().decode("unicode_escape").encode() if words[0] == "printf" else b""
    return words[at + 1 :], printed


def _shape(text: str, is_measured: bool) -> str:
    text = MOMENT.sub("<moment>", ID.sub("<id>", text))
    text = SPAN.sub("<span>", text)
    text = NUMBER.sub("<number>", text) if is_measured else text
    return "\n".join(" ".join(line.split()) for line in text.splitlines())
