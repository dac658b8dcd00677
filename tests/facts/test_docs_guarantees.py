"""Facts about docs/guarantees.md: each promise has an id, conditions, and evidence."""

from __future__ import annotations

import re
from itertools import groupby

from tests.facts.pages import text_of
from tests.facts.repository import ROOT

PAGE = ROOT / "docs" / "guarantees.md"

_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_PROMISE = re.compile(r"([A-Z])(\d+)\b")
_DETAILS = re.compile(r"<details>(.*?)</details>", re.DOTALL)
_EVIDENCE = re.compile(r"`tests/[\w/]+\.py::test_\w+`|\]\(transcripts/[\w/-]+\.txt\)")


def test_every_promise_names_a_test_or_a_transcript() -> None:
    wrong = [
        heading
        for heading, text in promises()
        if [bool(_EVIDENCE.search(block)) for block in _DETAILS.findall(text)] != [True]
    ]

    assert promises()
    assert wrong == []


def test_every_promise_has_its_conditions_or_says_that_there_are_none() -> None:
    wrong = [
        heading
        for heading, text in promises()
        if len(re.findall(r"^Conditions:(?:\n\n- | none\.)", text, re.MULTILINE)) != 1
    ]

    assert wrong == []


def test_ids_are_unique_and_in_order() -> None:
    ids = [
        (found[1], int(found[2])) for heading, _ in promises() if (found := _PROMISE.match(heading))
    ]
    sections = [(letter, list(group)) for letter, group in groupby(ids, key=lambda it: it[0])]
    letters = [letter for letter, _ in sections]

    assert letters == list(dict.fromkeys(letters))
    assert [group for _, group in sections if group != sorted(set(group))] == []


def promises() -> list[tuple[str, str]]:
    """The heading of each promise, and the text from there to the next heading."""
    _, *parts = _HEADING.split(text_of(PAGE))
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [(heading, text) for heading, text in pairs if _PROMISE.match(heading)]
