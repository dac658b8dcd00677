"""Facts about the pages on commands: every command is there, with its own usage line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quinque.dialects.command import Command
from quinque.model.families import FAMILIES
from quinque.server.commands.table import all_commands
from tests.facts.pages import text_of
from tests.facts.repository import ROOT

COMMANDS = [command for command in all_commands() if command.group]
FAMILY_PAGES = ROOT / "docs" / "families"


def page_of(group: str) -> Path:
    """A family's page, or that of commands for the queues of every family."""
    page = FAMILY_PAGES / f"{group}.md"
    return page if page.exists() else ROOT / "docs" / f"{group}.md"


def test_every_family_has_a_page_and_every_page_a_family() -> None:
    found = {path.stem for path in FAMILY_PAGES.glob("*.md")}

    assert found == {family.name for family in FAMILIES}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_has_a_heading_and_below_it_its_usage(command: Command) -> None:
    page = text_of(page_of(command.group))

    assert f"\n### {command.name}\n\n    {command.usage}\n\n" in page


def test_a_page_has_no_command_that_does_not_exist() -> None:
    known = {command.name for command in COMMANDS}
    headings = {
        heading
        for group in {command.group for command in COMMANDS}
        for heading in re.findall(r"^### ([A-Z.]+)$", text_of(page_of(group)), re.MULTILINE)
    }

    assert headings == known
