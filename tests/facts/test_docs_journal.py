"""Facts about docs/journal.md: its tables are the layout that the code has."""

from __future__ import annotations

from struct import Struct
from typing import Any

from quinque.model import claim_events, events, own_events, stage_events, tube_events
from quinque.stores.embedded import records
from quinque.stores.embedded.journal import RESERVE_BYTES
from tests.facts.pages import table_rows, text_of
from tests.facts.repository import ROOT

PAGE = text_of(ROOT / "docs" / "journal.md")
# Of a Requeued, of a Removed and of a TasksReturned, and not kinds of records.
REASONS = (
    *(
        "LAPSE",
        "NACK",
        "ENQUEUE",
        "DELAY_OVER",
        "UNCOUNTED",
        "FINISHED",
        "DELETED",
        "PURGED",
        "NO_ACK",
    ),
    *("BY_RELEASE", "BY_SESSION", "BY_TTR", "BY_DELAY", "BY_KICK"),
)
# They have the same fields.
ALIKE: dict[str, Any] = {"Replaced": events.WorkKept, "TaskReplaced": tube_events.TaskKept}
BEGIN, END = "<!-- records -->\n", "<!-- /records -->"


def test_the_table_of_records_is_that_of_the_events() -> None:
    table = PAGE[PAGE.index(BEGIN) + len(BEGIN) : PAGE.index(END)]

    # When this fails, put the right side between the two markers.
    assert table == records_table()


def test_the_header_has_the_sizes_that_are_written() -> None:
    written = records.batch_header(b"body", now_ms=1, synced=2)
    sizes = [int(row[1]) for row in table_rows(PAGE, "| Header field | Bytes |")]
    signs = {4: "I", 8: "Q"}
    layout = Struct("<4s" + "".join(signs[size] for size in sizes[1:]))

    magic, length, _, now_ms, synced, _ = layout.unpack(written)

    assert (magic, length, now_ms, synced) == (b"QnqB", 4, 1, 2)
    assert sum(sizes) == records.HEADER_BYTES == 32


def test_the_version_and_the_room_are_those_of_the_code() -> None:
    words = " ".join(PAGE.split())

    assert f"`version` is that of the format, {records.VERSION} on this page" in words
    assert f"{RESERVE_BYTES >> 20} MiB ahead" in words


def records_table() -> str:
    """Every record as a row: its number, its name, and its fields."""
    kinds = sorted(
        (
            (value, "".join(map(str.capitalize, name.split("_"))), module)
            for module in (events, claim_events, stage_events, own_events, tube_events)
            for name, value in vars(module).items()
            if name.isupper() and isinstance(value, int) and name not in REASONS
        ),
        key=lambda row: row[0],
    )
    rows: list[str] = []
    for kind, name, module in kinds:
        record = ALIKE.get(name) or getattr(module, name)
        fields = ", ".join(f"`{field}`" for field in record._fields[1:])
        rows.append(f"| {kind} | `{name}` | {fields} |")
    head = ["| Kind | Record | Fields after the kind |", "|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"
