"""Facts about the pages of the families: every command is there, with its own usage line."""

from __future__ import annotations

import re

import pytest

from quinque.dialects.command import Command
from quinque.model.families import FAMILIES
from quinque.server.commands.table import all_commands
from tests.facts.pages import text_of
from tests.facts.repository import ROOT

COMMANDS = [command for command in all_commands() if command.group]


def test_every_family_has_a_page_and_every_page_a_family() -> None:
    found = {path.stem for path in (ROOT / "docs" / "families").glob("*.md")}

    assert found == {family.name for family in FAMILIES}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_has_a_heading_and_below_it_its_usage(command: Command) -> None:
    page = text_of(ROOT / "docs" / "families" / f"{command.group}.md")

    assert f"\n### {command.name}\n\n    {command.usage}\n\n" in page


def test_a_page_has_no_command_that_does_not_exist() -> None:
    known = {command.name for command in COMMANDS}
    headings = {
        heading
        for path in (ROOT / "docs" / "families").glob("*.md")
        for heading in re.findall(r"^### ([A-Z.]+)$", text_of(path), re.MULTILINE)
    }

    assert headings == known
