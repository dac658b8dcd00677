"""The lifecycle tables, declared with the functions of `quinque pipeline archive`.

Called by   spark-pipelines, which finds the decorated functions.
Calls       quinque.spark.tables.

journal_raw is a streaming table: each run reads the files that were added since the last one. The
other tables are built again from it.
"""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from quinque.spark.tables.audit import audit as audited
from quinque.spark.tables.audit import verdict
from quinque.spark.tables.columns import JOURNAL_RAW
from quinque.spark.tables.events import events, ranges
from quinque.spark.tables.events import seq_gaps as gaps_between
from quinque.spark.tables.flow import cumulative_flow as flow_so_far
from quinque.spark.tables.hours import queue_hour as by_hour
from quinque.spark.tables.lag import dead_letters as dead_by_hour
from quinque.spark.tables.lag import group_lag as behind
from quinque.spark.tables.lifecycle import lifecycle as rows_of_messages
from quinque.spark.tables.partials import flow_partials, lifecycle_partials

LAKE = os.environ["QUINQUE_LAKE"]


def spark() -> SparkSession:
    session = SparkSession.getActiveSession()
    assert session is not None
    return session


@dp.table
def journal_raw() -> DataFrame:
    """The record as it was exported."""
    stream = spark().readStream.schema(JOURNAL_RAW).option("recursiveFileLookup", "true")
    return stream.parquet(f"{LAKE}/journal_raw")


@dp.materialized_view
def lifecycle() -> DataFrame:
    """One row per message, and per group in feeds."""
    return rows_of_messages(lifecycle_partials(events(spark().read.table("journal_raw"))))


@dp.materialized_view
def flow() -> DataFrame:
    """How many events of each kind there were, by the minute."""
    return flow_partials(events(spark().read.table("journal_raw")))


@dp.materialized_view
def seq_gaps() -> DataFrame:
    """Numbers that are missing in the record."""
    return gaps_between(ranges(events(spark().read.table("journal_raw"))))


@dp.materialized_view
def queue_hour() -> DataFrame:
    return by_hour(spark().read.table("flow"), spark().read.table("lifecycle"))


@dp.materialized_view
def group_lag() -> DataFrame:
    return behind(spark().read.table("lifecycle"))


@dp.materialized_view
def dead_letters() -> DataFrame:
    return dead_by_hour(spark().read.table("lifecycle"))


@dp.materialized_view
def cumulative_flow() -> DataFrame:
    return flow_so_far(spark().read.table("lifecycle"))


@dp.materialized_view
def audit() -> DataFrame:
    """Whether the record adds up, queue by queue."""
    return verdict(audited(spark().read.table("lifecycle"), spark().read.table("seq_gaps")))
