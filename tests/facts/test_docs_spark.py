"""Facts about docs/spark.md: its tables are those of the code."""

from __future__ import annotations

from quinque.spark import options, schema, staging
from tests.facts.pages import table_rows, text_of
from tests.facts.repository import ROOT
from tests.faults.spark_job import MOMENTS

PAGE = ROOT / "docs" / "spark.md"

# When the first or the second fails, put the right side between the two markers.


def test_the_table_of_options_is_that_of_the_code() -> None:
    assert _between("options") == options_table()


def test_the_table_of_moments_is_that_of_the_code() -> None:
    assert _between("moments") == moments_table()


def test_the_columns_that_can_be_read_are_those_of_the_code() -> None:
    rows = table_rows(_between("columns"), "| Column")

    assert rows == [[f"`{column.name}`", column.sql_type] for column in schema.COLUMNS]


def test_the_columns_that_can_be_written_are_those_of_the_code() -> None:
    rows = table_rows(_between("written"), "| Column")

    assert [row[0].strip("`") for row in rows] == list(staging.COLUMNS)


def options_table() -> str:
    """All options as a Markdown table."""
    lines = ["| Option | Value | Default | Used by | Meaning |", "|---|---|---|---|---|"]
    for option in options.OPTIONS:
        default = "" if option.default is None else f"`{option.default}`"
        uses = "all" if len(option.uses) == 4 else ", ".join(option.uses)
        lines.append(
            f"| `{option.name}` | {option.kind.shape} | {default} | {uses} | {option.meaning} |"
        )
    return "\n".join(lines) + "\n"


def moments_table() -> str:
    """Where a job was struck, as a Markdown table."""
    lines = ["| `--moment` | Interrupted call |", "|---|---|"]
    lines += [f"| `{name}` | {what} |" for name, what in MOMENTS.items()]
    return "\n".join(lines) + "\n"


def _between(marker: str) -> str:
    page, begin = text_of(PAGE), f"<!-- {marker} -->\n"
    return page[page.index(begin) + len(begin) : page.index(f"<!-- /{marker} -->")]
