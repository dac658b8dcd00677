"""A lake that the tests of this folder look at, made once: it takes Spark some seconds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.spark.tables.history import History, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = 1_200


@pytest.fixture(scope="session")
def histories() -> list[History]:
    return [History(seed, shard).run(STEPS) for shard, seed in enumerate((3, 17))]


@pytest.fixture(scope="session")
def lake(
    spark: SparkSession, histories: list[History], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A lake whose files came out of order, in three runs, some of their rows twice."""
    from quinque.spark.jobs.build import build_batches, write_tables
    from quinque.spark.jobs.lake import Lake

    folder = tmp_path_factory.mktemp("lake")
    pieces = _in_pieces([history.table() for history in histories])
    for number in range(3):
        for piece in pieces[number::3]:
            write_rows(folder, piece)
        # What was there at the end of the last run comes again, in a larger file.
        write_rows(folder, histories[0].table().slice(0, 100 * (number + 1)))
        build_batches(spark, Lake(str(folder)))
    write_tables(spark, Lake(str(folder)))
    return folder


def _in_pieces(tables: list[pa.Table]) -> list[pa.Table]:
    chance = random.Random(5)
    pieces = []
    for table in tables:
        start = 0
        while start < len(table):
            size = chance.randrange(20, 300)
            pieces.append(table.slice(start, size))
            start += size
    chance.shuffle(pieces)
    return pieces
