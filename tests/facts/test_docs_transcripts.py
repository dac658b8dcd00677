"""Facts about the transcripts: every command is in them, and every way it can be refused."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from quinque.server.commands.table import all_commands
from tests.facts.pages import text_of
from tests.facts.repository import PACKAGE
from tests.transcripts.notation import lines_of, parse, requests_of, transcript_paths

TRANSCRIPTS = [parse(text_of(path)) for path in transcript_paths()]
REQUESTS = [argv for transcript in TRANSCRIPTS for argv in requests_of(transcript)]
REPLIES = {line for transcript in TRANSCRIPTS for line in lines_of(transcript)}

DIALECTS = tuple(
    path.name
    for path in sorted((PACKAGE / "dialects").glob("*.py"))
    if path.name not in {"__init__.py", "args.py", "command.py"}
)


def test_every_command_of_a_family_is_in_a_transcript() -> None:
    asked = {argv[0].upper().decode() for argv in REQUESTS}

    assert {command.name for command in all_commands() if command.group} - asked == set()


def test_every_option_in_a_usage_line_is_in_a_transcript() -> None:
    asked = {(argv[0].upper(), word.upper()) for argv in REQUESTS for word in argv[1:]}
    options = {
        (command.name.encode(), word.encode())
        for command in all_commands()
        if command.group
        for word in re.findall(r"\b[A-Z]{2,}\b", command.usage.removeprefix(command.name))
    }

    assert options - asked == set()


def test_every_command_of_a_family_is_refused_for_its_number_of_arguments_if_it_can_be() -> None:
    refused = {
        command.name
        for command in all_commands()
        if b"-ERR wrong number of arguments for '%b' command" % command.name.lower().encode()
        in REPLIES
    }

    assert {c.name for c in all_commands() if c.group and c.arity != -1} - refused == set()


def test_every_bad_argument_of_the_dialects_is_in_a_transcript() -> None:
    errors = [line.decode("utf-8", "replace") for line in REPLIES if line.startswith(b"-ERR ")]
    unseen = [
        pattern
        for pattern in _refusals()
        if not any(re.fullmatch(f"-ERR {pattern}", error) for error in errors)
    ]

    assert unseen == []


def _refusals() -> Iterator[str]:
    """The texts of the BadArguments of the dialects, and of the readers of arguments they use."""
    trees = [ast.parse(text_of(PACKAGE / "dialects" / file)) for file in DIALECTS]
    readers = ast.parse(text_of(PACKAGE / "dialects" / "args.py"))
    used = {
        alias.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "quinque.dialects.args"
        for alias in node.names
    }
    for function in readers.body:
        if isinstance(function, ast.FunctionDef) and function.name in used:
            yield from _texts_in(function)
    for tree in trees:
        yield from _texts_in(tree)


def _texts_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "BadArgument"
        ):
            [text] = node.args
            yield _pattern(text)


def _pattern(text: ast.expr) -> str:
    """A text with anything in its holes."""
    if isinstance(text, ast.JoinedStr):
        return "".join(
            re.escape(part.value)
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
            else ".*"
            for part in text.values
        )
    assert isinstance(text, ast.Constant)
    return re.escape(str(text.value))
