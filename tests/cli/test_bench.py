"""`quinque bench`: a quick load, in the words of every family, of which nothing is left."""

from __future__ import annotations

import json

import pytest

from quinque.model.families import BY_NAME
from tests.cli.shell import Shell


@pytest.mark.parametrize("family", BY_NAME)
def test_the_load_is_told_as_a_table_and_leaves_nothing(shell: Shell, family: str) -> None:
    rows = shell.json("bench", "--count", "50", "--batch", "20", "--family", family)

    assert [(row["what"], row["messages"]) for row in rows] == [
        ("add, one at a time", 5),
        ("add, 20 at a time", 50),
        ("take and ack, 20 at a time", 55),
    ]
    assert all(row["per_second"] > 0 and row["p99_ms"] >= row["median_ms"] for row in rows)
    left = shell.run("queue", "ls", "quinque-bench-*", "--family", family, "--json")
    # The broker removes an empty queue of items after five minutes.
    assert [row["kept"] for row in json.loads(left.stdout)] == ([0] if family == "items" else [])
