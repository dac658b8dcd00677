"""Everything that users read is plain English: the rules are in voice.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.facts.repository import PACKAGE, ROOT
from tests.facts.voice import (
    PATTERNS,
    RULES,
    Finding,
    Rule,
    Text,
    comment_texts,
    findings,
    module_texts,
    page_texts,
    texts_of,
)


class Allowed(NamedTuple):
    file: str
    words: str
    reason: str


# Words that must stay as they are, for example because another system defines the text.
ALLOWED: Final[tuple[Allowed, ...]] = ()


def test_no_text_has_a_wording_that_is_hard_to_read() -> None:
    assert [found for found in _found() if not any(_allows(it, found) for it in ALLOWED)] == []


def test_all_that_is_allowed_is_there_and_has_a_reason() -> None:
    assert [
        it for it in ALLOWED if not it.reason or not any(_allows(it, f) for f in _found())
    ] == []


@pytest.mark.parametrize(("rule", "pattern"), PATTERNS, ids=[rule.name for rule in RULES])
def test_a_rule_finds_its_bad_example_and_no_rule_the_good_one(
    rule: Rule, pattern: re.Pattern[str]
) -> None:
    [bad] = page_texts(rule.bad)
    [good] = page_texts(rule.good)

    assert pattern.search(bad.words)
    assert [other.name for other, its in PATTERNS if its.search(good.words)] == []
    assert rule.reason.find(".") == len(rule.reason) - 1


def test_a_page_is_read_without_code_headings_and_links() -> None:
    page = "# Who\n\nOne `nobody`\ntwo\n\n```\nwhoever\n```\n- [a](ours)\n- b\n  c\n\n| d |\n"

    assert list(page_texts(page)) == [
        Text(3, "One {} two"),
        Text(9, "[a]"),
        Text(10, "b c"),
        Text(13, "| d |"),
    ]


def test_a_module_is_read_by_comments_docstrings_and_strings_of_several_words() -> None:
    module = '"""One\ntwo.\n\nThree."""\nx = f"four {1}"\ny = "five"  # no\n"""Six."""\n'
    module += "# Seven `eight`\n  # nine.\n# -- ten ---\n"

    assert list(module_texts(module)) == [
        Text(8, "Seven {} nine."),
        Text(1, "One two."),
        Text(4, "Three."),
        Text(7, "Six."),
        Text(5, "four {}"),
    ]


def test_other_files_are_read_by_their_comments() -> None:
    assert list(comment_texts("key: value\n  # One.\n#!two\n")) == [Text(2, "One.")]


@cache
def _found() -> list[Finding]:
    return [found for path in _files() for found in findings(path, texts_of(path))]


def _files() -> Iterator[Path]:
    """Each file with texts of the project, except tests."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.txt")]
    examples = [path for path in (ROOT / "examples").rglob("*.*") if path.suffix != ".json"]
    for path in sorted([*pages, *examples]):
        if path.is_file() and path.suffix != ".pyc":
            yield path
    yield from sorted(PACKAGE.rglob("*.py"))
    for folder in ("bench", "demo", "tools"):
        yield from sorted(path for path in (ROOT / folder).rglob("*") if _is_program(path))


def _is_program(path: Path) -> bool:
    return path.suffix == ".py" or (path.is_file() and not path.suffix)


def _allows(allowed: Allowed, found: Finding) -> bool:
    return found.where.partition(":")[0] == allowed.file and allowed.words in found.words
