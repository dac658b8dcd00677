"""Facts about the code on the pages: each command of `quinque` parses, and all Python compiles.

What the commands and programs do is tested beside what they use: test_pages.py, test_guides.py and
test_readme.py in tests/transcripts, and test_page.py in the folder of each program.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator

import click

from quinque.cli.main import main
from tests.facts.pages import pages, text_of
from tests.facts.repository import name

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\S*/)?quinque (.*)$", re.MULTILINE)
# A program imports only these. Other modules may change with any version.
PUBLIC = {
    "quinque",
    "quinque.aio",
    "quinque.claims",
    "quinque.drivers",
    "quinque.errors",
    "quinque.tracing",
    "quinque.worker",
    "quinque.workqueue",
}
# The rest of such a line is for another program.
ENDS = {"|", ">", "&&", "&", ";", "<"}


def test_every_command_on_a_page_parses() -> None:
    wrong, seen = [], 0
    for page in pages():
        for words in _commands(text_of(page)):
            seen += 1
            try:
                _parse(words)
            except click.ClickException as error:
                wrong.append(f"{name(page)}: quinque {shlex.join(words)}: {error.format_message()}")

    assert wrong == []
    assert seen > 80


def test_all_python_on_the_pages_compiles() -> None:
    for page in pages():
        for kind, block in FENCED.findall(text_of(page)):
            if kind == "python":
                compile(block, name(page), "exec")


def test_the_programs_on_the_pages_import_only_public_modules() -> None:
    imported = {
        (name(page), module)
        for page in pages()
        for kind, block in FENCED.findall(text_of(page))
        if kind == "python"
        for module in _imports(block)
    }

    assert {it for it in imported if it[1] not in PUBLIC} == set()
    assert {module for _, module in imported} >= {"quinque.claims", "quinque.tracing"}


def _imports(program: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Import):
            yield from (it.name for it in node.names if it.name.split(".")[0] == "quinque")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "quinque":
            yield node.module or ""


def _commands(text: str) -> Iterator[list[str]]:
    for kind, block in FENCED.findall(text):
        if kind in ("", "console", "sh"):
            for line in COMMAND.findall(re.sub(r"\\\n\s*", " ", block)):
                words = shlex.split(re.split(r"   | #", line)[0], comments=True)
                ends = [words.index(end) for end in ENDS if end in words]
                yield words[: min(ends, default=len(words))]


def _parse(words: list[str]) -> None:
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            raise click.UsageError(f"no command {words[0]}")
        command, words = found, words[1:]
        context = click.Context(
            command, context, info_name=command.name, **command.context_settings
        )
    command.make_parser(context).parse_args(list(words))
