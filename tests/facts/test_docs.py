"""Facts about the pages of the documentation: what they name exists, and they can be found."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from quinque.server.config import SETTINGS
from quinque.server.config_sources import BANANAQ_NAMES
from quinque.server.setting_kinds import Flag
from tests.facts.pages import (
    anchors,
    code_names,
    defined_names,
    links,
    module_names,
    module_path,
    named_tests,
    pages,
    text_of,
)
from tests.facts.repository import ROOT, name


def test_every_link_leads_somewhere() -> None:
    astray = [
        f"{name(page)}: {target}#{heading}"
        for page in pages()
        for target, heading in links(page)
        if not target.exists() or (heading and heading not in anchors(target))
    ]

    assert astray == []


def test_every_page_is_reached_from_the_readme() -> None:
    reached = {ROOT / "README.md"}
    to_read = [ROOT / "README.md"]
    while to_read:
        for target, _ in links(to_read.pop()):
            if target not in reached and target.suffix == ".md" and target.exists():
                reached.add(target)
                to_read.append(target)

    assert set((ROOT / "docs").rglob("*.md")) - reached == set()


def test_the_index_has_each_page_once() -> None:
    index = ROOT / "docs" / "README.md"
    linked = Counter(target for target, _ in links(index) if target != index)
    folders = [ROOT / "docs", ROOT / "docs" / "families", ROOT / "docs" / "migrate"]
    listed = {page for folder in folders for page in folder.glob("*.md")} - {index}

    assert {name(page): linked[page] for page in listed if linked[page] != 1} == {}


def test_every_transcript_and_example_is_linked_from_a_page() -> None:
    linked = {target for page in pages() for target, _ in links(page)}
    files = {*(ROOT / "docs").rglob("*.txt"), *(ROOT / "docs" / "examples").iterdir()}

    assert files - linked == set()


def test_every_name_of_code_exists() -> None:
    unknown = [
        f"{name(page)}: {module}:{named}"
        for page in pages()
        for module, named in code_names(page)
        if named not in defined_names(module_path(module))
    ]

    assert unknown == []


def test_every_module_named_exists() -> None:
    unknown = [
        f"{name(page)}: {module}"
        for page in pages()
        for module in module_names(page)
        if not module_path(module).exists() and not (ROOT / module).exists()
        if module not in _files_of_the_reader(page)
    ]

    assert unknown == []


def test_every_test_named_exists() -> None:
    unknown = [
        f"{name(page)}: {file}::{function}"
        for page in pages()
        for file, function in named_tests(page)
        if function not in defined_names(ROOT / file)
    ]

    assert unknown == []


def test_every_variable_and_flag_of_the_settings_exists() -> None:
    variables = {setting.variable for setting in SETTINGS.values()}
    # Of those who connect to a broker.
    variables |= {"QUINQUE_URL", "QUINQUE_USERNAME", "QUINQUE_PASSWORD"}
    variables |= set(re.findall(r"QUINQUE_[A-Z_]+", (ROOT / "setup.py").read_text("utf-8")))
    flags = {setting.flag for setting in SETTINGS.values()} | {
        *(
            f"--no-{it.flag.removeprefix('--')}"
            for it in SETTINGS.values()
            if isinstance(it.kind, Flag)
        ),
        "--example",
        "--check-config",
        "--print-config",
        *(f"--{name}" for name in BANANAQ_NAMES),
    }
    files = [*pages(), *(ROOT / "docs" / "examples").iterdir()]
    unknown = [
        f"{name(path)}: {word}"
        for path in files
        for line in text_of(path).splitlines()
        for word in [
            *(variable.removesuffix("_FILE") for variable in re.findall(r"QUINQUE_[A-Z_]+", line)),
            *(re.findall(r"--[a-z][a-z-]+", line) if "quinque serve" in line else []),
        ]
        if word not in variables | flags
    ]

    assert unknown == []


def _files_of_the_reader(page: Path) -> set[str]:
    """The files that the page tells its reader to write."""
    return set(re.findall(r"[Ss]ave (?:this|it) as `([\w.]+)`", text_of(page)))
