"""Facts about docs/guarantees.md: every promise has something that holds it."""

from __future__ import annotations

from tests.facts.pages import text_of
from tests.facts.repository import ROOT

PAGE = ROOT / "docs" / "guarantees.md"


def test_every_promise_names_a_test_or_a_transcript() -> None:
    rows = [line for line in text_of(PAGE).splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not row.startswith("| promise |")]
    held_by = {row: row.rstrip("| ").rpartition(" | ")[2] for row in promises}

    assert promises
    assert [
        row for row, held in held_by.items() if "::test_" not in held and ".txt)" not in held
    ] == []
