"""Facts about every text file of the repository: nothing unfinished, nothing from elsewhere."""

from __future__ import annotations

import re

from tests.facts.repository import ROOT, name, text_files

# The brackets keep the patterns from finding themselves.
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X])\b")
SOMEBODYS_FOLDER = re.compile(r"(?<![\w.:/-])/(?:home|root|Users|work\w*)/[\w.]")
CLIMBS = re.compile(r"(?<![\w.)}/])(?:\.\./)+[\w-][\w./-]*")


def test_nothing_is_marked_as_unfinished() -> None:
    assert _lines_with(UNFINISHED) == []


def test_no_file_names_a_folder_of_somebodys_machine() -> None:
    assert _lines_with(SOMEBODYS_FOLDER) == []


def test_a_relative_path_leads_to_something_in_the_repository() -> None:
    astray = [
        f"{name(path)}: {climb}"
        for path, text in text_files()
        for climb in CLIMBS.findall(text)
        if not (target := (path.parent / climb.rstrip(".")).resolve()).is_relative_to(ROOT)
        or not target.exists()
    ]

    assert astray == []


def _lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name(path)}:{number} {line.strip()}"
        for path, text in text_files()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]
