"""Facts about README.md and the tree of docs/tour.md: what they name exists."""

from __future__ import annotations

import re

from quinque.model.families import FAMILIES
from tests.facts.pages import text_of
from tests.facts.repository import PACKAGE, ROOT

PAGE = text_of(ROOT / "README.md")
TOUR = text_of(ROOT / "docs" / "tour.md")
TREE = TOUR[TOUR.index("src/quinque/\n") :].partition("```")[0]


def test_the_tree_has_every_folder_and_top_module_of_the_package() -> None:
    drawn = {line.split()[0] for line in TREE.splitlines() if line.startswith("    ")}
    folders = {
        path.parent.name + "/" for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE
    }
    modules = {path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("_")}

    assert drawn == folders | modules


def test_the_tree_has_the_folders_of_the_repository_that_hold_something() -> None:
    drawn = {line.split("/")[0] for line in TREE.splitlines() if not line.startswith("    ")}

    for folder in sorted(drawn):
        assert (ROOT / folder).is_dir(), folder


def test_every_target_named_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert set(re.findall(r"`make ([a-z]+)`", PAGE)) <= targets


def test_every_family_is_linked() -> None:
    linked = set(re.findall(r"docs/families/(\w+)\.md", PAGE))

    assert linked == {family.name for family in FAMILIES}
