"""Facts about the pages on rows and entries: their tables are the enums and tuples of the model."""

from __future__ import annotations

from enum import IntEnum

import pytest

from quinque.model.claim_ops import ClaimState, Outcome
from quinque.model.families import FAMILIES
from quinque.model.lifecycle import Entry, Kind, Reason
from quinque.model.rows import Row
from quinque.model.states import State
from tests.facts.pages import table_rows, text_of
from tests.facts.repository import ROOT

LIFECYCLE = text_of(ROOT / "docs" / "lifecycle.md")
CLAIMS = text_of(ROOT / "docs" / "claims.md")


@pytest.mark.parametrize(
    ("head", "words"), [("| Number | Kind |", Kind), ("| Number | Reason |", Reason)]
)
def test_every_kind_and_every_reason_is_told_with_its_number(
    head: str, words: type[IntEnum]
) -> None:
    told = [(int(number), word.strip("`")) for number, word, _ in table_rows(LIFECYCLE, head)]

    assert told == [(word.value, word.name) for word in words]


def test_the_fields_of_an_entry_are_told_in_their_order() -> None:
    section = LIFECYCLE[LIFECYCLE.index("## Rows and entries") :]
    rows = table_rows(section, "| Field |")

    assert [row[0].strip("`") for row in rows] == list(Entry._fields)
    assert dict(rows)["`family`"] == ", ".join(f"{each.code} {each.name}" for each in FAMILIES)


def test_the_fields_of_a_row_are_told_in_their_order() -> None:
    section = CLAIMS[CLAIMS.index("## Chunks and rows") :]
    rows = table_rows(section, "| Field |")

    assert [row[0].strip("`") for row in rows] == list(Row._fields)
    states = ", ".join(f"{state.value} {state.name.lower()}" for state in State)
    assert dict(rows)["`state`"].startswith(states)


def test_the_outcomes_and_states_of_claims_are_told() -> None:
    outcomes = [row[0].strip("`") for row in table_rows(CLAIMS, "| Outcome |")]
    told = next(
        row[1] for row in table_rows(CLAIMS, "| Field | Meaning |\n|---|---|\n| `number`")[1:]
    )

    assert outcomes == [outcome.name for outcome in Outcome]
    assert told.replace(" or ", ", ") == ", ".join(f"`{s.name.lower()}`" for s in ClaimState)
