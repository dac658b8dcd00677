"""Facts about docs/decisions: numbered without gaps, all of one shape, all in the list."""

from __future__ import annotations

import re
import tomllib

from tests.facts.pages import text_of
from tests.facts.repository import ROOT

FOLDER = ROOT / "docs" / "decisions"
PAGES = sorted(FOLDER.glob("0*.md"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_decisions_are_numbered_without_gaps() -> None:
    assert [int(path.name[:4]) for path in PAGES] == list(range(1, len(PAGES) + 1))


def test_the_list_has_every_decision_with_its_title() -> None:
    titles = [text_of(path).partition("\n")[0].partition(". ")[2] for path in PAGES]
    listed = re.findall(r"^\d+\. \[(.+)\]\((.+)\)$", text_of(FOLDER / "README.md"), re.MULTILINE)

    assert listed == [(title, path.name) for title, path in zip(titles, PAGES, strict=True)]


def test_every_decision_has_its_reason_its_alternatives_and_its_test() -> None:
    shapes = {
        path.name: [line for line in text_of(path).splitlines() if line.startswith("#")]
        for path in PAGES
    }

    for path, headings in shapes.items():
        assert re.fullmatch(rf"# {int(path[:4])}\. .+", headings[0])
        assert headings[1:] == ["## Why", "## Rejected", "## Checked by"], path


def test_every_package_that_is_installed_has_its_reason() -> None:
    text = "".join(text_of(path) for path in PAGES)
    wanted = [
        *PROJECT["dependencies"],
        *(package for extra in PROJECT["optional-dependencies"].values() for package in extra),
    ]
    names = {re.split(r"[\[<>=;~ ]", package)[0] for package in wanted}

    assert {name for name in names if f"`{name}`" not in text} == set()
