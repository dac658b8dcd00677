"""The jobs of the pipeline, on a broker as users run it."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from quinque.cli.main import main
from quinque.cli.pipeline_run import _last_words
from quinque.client.sync.broker import Broker
from quinque.errors import BadSetting
from quinque.model.claim_ops import FindClaims
from quinque.model.families import JOBS
from quinque.model.work_ops import LookAt
from tests.server.broker import RunningBroker, start_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = [{"name": f"order {number}", "when": number % 3} for number in range(90)]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningBroker]:
    with start_broker(tmp_path / "data", "--fsync", "no") as broker:
        yield broker


@pytest.fixture
def url(running: RunningBroker) -> str:
    return f"redis://127.0.0.1:{running.port}"


@pytest.fixture
def broker(url: str) -> Iterator[Broker]:
    with Broker(url) as broker:
        yield broker


def test_files_go_through_a_queue_into_files(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from quinque.spark.jobs.drain import Drain, drain
    from quinque.spark.jobs.ingest import Ingest, ingest

    source = _write_orders(tmp_path / "orders.json")

    put = ingest(
        spark,
        Ingest(source, "orders", "json", columns={"key": "name"}, broker={"url": url}),
    )
    assert (put["messages"], broker.call("QLEN", "orders")) == (len(ORDERS), len(ORDERS))

    asked = Drain(
        *("orders", str(tmp_path / "out"), "night", str(tmp_path / "checkpoint")),
        broker={"url": url, "maxMessagesPerTrigger": "40"},
    )
    drained = drain(spark, asked)
    again = drain(spark, asked)
    written = spark.read.parquet(str(tmp_path / "out")).collect()

    assert (drained["messages"], again["messages"]) == (len(ORDERS), 0)
    assert sorted(json.loads(row["body"])["name"] for row in written) == sorted(
        str(order["name"]) for order in ORDERS
    )
    assert broker.call("QLEN", "orders") == 0


def test_a_folder_of_another_checkpoint_is_refused_and_the_queue_keeps_its_messages(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from quinque.spark.jobs.drain import Drain, drain

    folder = tmp_path / "out"
    asked = Drain(
        "clicks", str(folder), "night", str(folder / "_checkpoint"), "json", broker={"url": url}
    )
    broker.call("ADDJOB", "clicks", "one", 0)
    drain(spark, asked)
    broker.call("ADDJOB", "clicks", "two", 0)
    shutil.rmtree(folder / "_checkpoint")

    others = (asked, replace(asked, checkpoint=str(tmp_path / "new")), replace(asked, queue="news"))
    for other in others:
        with pytest.raises(BadSetting, match=r"out has batch 0.*has no batch"):
            drain(spark, other)

    assert broker.call("QLEN", "clicks") == 1
    assert not (folder / "_checkpoint").exists()


def test_two_checkpoints_that_begin_at_once_do_not_write_to_one_folder(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    """Each has its batch 0. The one that comes second has read its messages, and fails."""
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

    from quinque.spark.jobs.drain import Drain, drain

    folder = tmp_path / "out"
    first = Drain(
        "clicks", str(folder), "night", str(tmp_path / "one"), "json", broker={"url": url}
    )
    second = replace(first, queue="news", checkpoint=str(tmp_path / "two"))
    broker.call("ADDJOB", "clicks", "one", 0)
    broker.call("ADDJOB", "news", "two", 0)
    source = {"url": url, "queue": "news", "subscription": "night"}
    rows = spark.readStream.format("quinque").options(**source).load()
    failing = rows.select(F.raise_error(F.lit("broken")).alias("value")).writeStream.format("noop")
    failing = failing.option("checkpointLocation", second.checkpoint)
    query = failing.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="broken"):
        query.awaitTermination()
    drain(spark, first)

    with pytest.raises(BadSetting, match="another checkpoint"):
        drain(spark, second)

    [held] = [view for view in broker.run(FindClaims()) if view.queue == b"news"]
    assert [claim.messages for claim in held.claims] == [1]


def test_a_queue_becomes_a_delta_table_each_batch_once(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    from quinque.spark.jobs.drain import Drain, _delta_writer, drain

    for number in range(20):
        broker.call("ADDJOB", "clicks", f"click {number}", 0)
    asked = Drain(
        *("clicks", str(tmp_path / "table"), "lake", str(tmp_path / "checkpoint"), "delta"),
        body_as="text",
        broker={"url": url},
    )

    drain(spark, asked)
    rows = spark.range(3).selectExpr("cast(id as string) as body")
    write = _delta_writer(Drain("q", str(tmp_path / "other"), "s", "c", "delta"))
    for number in (0, 0, 1):
        write(rows, number)
    # The checkpoint goes on with another queue, and begins with the batch that was not committed.
    _delta_writer(Drain("r", str(tmp_path / "other"), "s", "c", "delta"))(rows, 1)

    table = DeltaTable(str(tmp_path / "table")).to_pyarrow_table()
    assert sorted(table["body"].to_pylist()) == sorted(f"click {number}" for number in range(20))
    assert len(DeltaTable(str(tmp_path / "other")).to_pyarrow_table()) == 6


def test_a_body_that_is_not_text_stops_no_drain_into_text(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from quinque.spark.jobs.drain import Drain, drain

    text = ' \tsay "hi",\nthen go \0'
    bodies = [text.encode(), b"\xff\x00", b""]
    for queue in ("json", "csv"):
        for body in bodies:
            broker.call("ADDJOB", queue, body, 0)
    places = {
        queue: [row.enqueued.astimezone(UTC) for row in _peeked(spark, url, queue)]
        for queue in ("json", "csv")
    }

    for queue in ("json", "csv"):
        out = str(tmp_path / queue)
        drain(spark, Drain(queue, out, "night", f"{out}-state", queue, broker={"url": url}))
        assert broker.call("QLEN", queue) == 0

    lines = [json.loads(line) for line in _lines(tmp_path / "json")]
    with next((tmp_path / "csv").glob("*.csv")).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row.get("body") for row in lines] == [text, None, ""]
    assert [row.get("body_base64") for row in lines] == [None, "/wA=", None]
    assert [row["body"] for row in rows] == [text, "", ""]
    assert [row["body_base64"] for row in rows] == ["", "/wA=", ""]
    for queue, written in (("json", lines), ("csv", rows)):
        assert [datetime.fromisoformat(row["enqueued"]) for row in written] == places[queue]


def test_lines_that_cannot_be_read_are_refused_or_set_aside(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from quinque.spark.jobs.ingest import BadLines, Ingest, ingest

    lines = ['{"b": null, "a": 1.10}', "{broken", "", "\t", '\t[{"c": 1}, 7]']
    (tmp_path / "rows.json").write_text("\n".join(lines))
    (tmp_path / "rows.csv").write_text("a,b\n1,\n2\n3,4\n")
    asked = Ingest(str(tmp_path / "rows.json"), "rows", "json", broker={"url": url})
    table = replace(
        asked, source=str(tmp_path / "rows.csv"), format="csv", reading={"header": "true"}
    )

    for files, count in ((asked, 2), (table, 1), (replace(table, body_column="a"), 1)):
        with pytest.raises(BadLines, match=f"{count} of .*--bad-lines"):
            ingest(spark, files)
    assert broker.call("QLEN", "rows") == 0
    done = [
        ingest(spark, replace(files, bad_lines=str(tmp_path / "bad" / files.format)))
        for files in (asked, table)
    ]

    assert [(it["messages"], it["bad_lines"]) for it in done] == [(2, 2), (2, 1)]
    assert sorted(job[2] for job in broker.call("QPEEK", "rows", 9)) == [
        *(b'{"a":"1","b":null}', b'{"a":"3","b":"4"}', lines[0].encode(), b'{"c":1}')
    ]
    assert sorted(_lines(tmp_path / "bad" / "json")) == ["7", "{broken"]
    assert _lines(tmp_path / "bad" / "csv") == ["2"]


def test_a_bad_line_of_a_new_file_is_refused_until_it_is_set_aside(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    from quinque.spark.jobs.ingest import Ingest, ingest

    (tmp_path / "one.json").write_text('{"a": 1}\n{broken\n{"a": 2}\n')
    asked = Ingest(
        *(str(tmp_path / "one.json"), "rows", "json"),
        checkpoint=str(tmp_path / "checkpoint"),
        broker={"url": url},
    )

    with pytest.raises(StreamingQueryException) as refusal:
        ingest(spark, asked)
    said = _last_words(refusal.value)
    assert "a line cannot be read: {broken; correct the file, or" in said
    assert "STREAM_FAILED" not in said
    assert broker.call("QLEN", "rows") == 0
    done = ingest(spark, replace(asked, bad_lines=str(tmp_path / "bad")))

    assert (done["messages"], done["bad_lines"]) == (2, 1)
    assert sorted(job[2] for job in broker.call("QPEEK", "rows", 9)) == [b'{"a": 1}', b'{"a": 2}']
    assert _lines(tmp_path / "bad") == ["{broken"]


def test_rows_of_files_name_their_queue(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from quinque.spark.jobs.ingest import Ingest, ingest

    rows = [{"to": "a", "n": 1}, {"to": None, "n": 2}]
    (tmp_path / "rows.json").write_text("\n".join(map(json.dumps, rows)))

    ingest(
        spark,
        Ingest(
            str(tmp_path / "rows.json"), "rest", "json", "N", {"queue": "TO"}, broker={"url": url}
        ),
    )

    peeked = [broker.call("QPEEK", queue, 9) for queue in ("a", "rest")]
    assert [[job[2] for job in jobs] for jobs in peeked] == [[b"1"], [b"2"]]


def test_directories_are_columns_of_the_json_in_them(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from quinque.spark.jobs.ingest import Ingest, ingest

    for to in "ab":
        folder = tmp_path / "rows" / f"To={to}"
        folder.mkdir(parents=True)
        (folder / "rows.json").write_text(f'{{"n": "{to}"}}\n')
    asked = Ingest(
        *(str(tmp_path / "rows"), "rest", "json", None, {"queue": "to"}), broker={"url": url}
    )

    ingest(spark, asked)
    ingest(spark, replace(asked, checkpoint=str(tmp_path / "checkpoint")))

    peeked = [broker.call("QPEEK", queue, 9) for queue in ("a", "b", "rest")]
    assert [[job[2] for job in jobs] for jobs in peeked] == [
        [b'{"n": "a"}'] * 2,
        [b'{"n": "b"}'] * 2,
        [],
    ]


def test_rows_have_the_columns_of_all_files_and_times_all_digits(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from quinque.spark.jobs.ingest import Ingest, ingest

    at = datetime(2026, 1, 2, 3, 4, 5, 123456)
    (tmp_path / "rows").mkdir()
    one, other = (str(tmp_path / "rows" / f"{name}.parquet") for name in "ab")
    pq.write_table(pa.table({"n": [1], "at": [at]}), one)
    pq.write_table(pa.table({"n": [2], "utc": [at.replace(tzinfo=UTC)]}), other)

    ingest(spark, Ingest(str(tmp_path / "rows"), "rows", broker={"url": url}))

    rows = [json.loads(job[2]) for job in broker.call("QPEEK", "rows", 9)]
    assert sorted(rows, key=lambda row: int(row["n"])) == [
        {"n": 1, "at": "2026-01-02T03:04:05.123456", "utc": None},
        {"n": 2, "at": None, "utc": "2026-01-02T03:04:05.123456Z"},
    ]


def test_a_header_in_another_order_is_refused(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from quinque.spark.jobs.ingest import Ingest, ingest

    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "a.csv").write_text("id,name\n1,ann\n")
    (tmp_path / "rows" / "b.csv").write_text("name,id\nbob,2\n")
    asked = Ingest(
        *(str(tmp_path / "rows"), "rows", "csv"), reading={"header": "true"}, broker={"url": url}
    )

    with pytest.raises(Exception, match="CSV header does not conform to the schema"):
        ingest(spark, asked)

    assert broker.call("QLEN", "rows") == 0
    # Columns that Spark names cannot be compared with a header.
    for name in ("a", "b"):
        (tmp_path / "rows" / f"{name}.csv").write_text(",name\n1,ann\n")
    assert ingest(spark, asked)["messages"] == 2


def test_a_new_file_is_added_whatever_its_age(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from quinque.spark.jobs.ingest import Ingest, ingest

    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "new.txt").write_text("new")
    asked = Ingest(
        *(str(tmp_path / "lines"), "aged", "text"),
        checkpoint=str(tmp_path / "checkpoint"),
        broker={"url": url},
    )
    ingest(spark, asked)
    (tmp_path / "lines" / "old.txt").write_text("old")
    os.utime(tmp_path / "lines" / "old.txt", (0, 0))

    done = ingest(spark, asked)

    assert done["messages"] == 1
    assert sorted(job[2] for job in broker.call("QPEEK", "aged", 9)) == [b"new", b"old"]


def test_a_single_file_of_any_format_is_added_once_with_a_checkpoint(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from quinque.spark.jobs.ingest import Ingest, ingest

    (tmp_path / "rows.txt").write_text("one")
    pq.write_table(pa.table({"n": ["two"]}), tmp_path / "rows.parquet")
    text, table = (
        Ingest(
            *(str(tmp_path / f"rows.{ending}"), "rows", format, body),
            checkpoint=str(tmp_path / format),
            broker={"url": url},
        )
        for ending, format, body in (("txt", "text", None), ("parquet", "parquet", "n"))
    )

    counts = [ingest(spark, asked)["messages"] for asked in (text, table, text)]

    assert counts == [1, 1, 0]
    assert [job[2] for job in broker.call("QPEEK", "rows", 9)] == [b"one", b"two"]


def test_files_that_spark_would_leave_out_are_refused(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from quinque.spark.jobs.ingest import Ingest, ingest

    rows = tmp_path / "rows"
    for file in ("plain/deep.txt", "top.txt", "_hidden.txt", "day=1/of.txt"):
        (rows / file).parent.mkdir(parents=True, exist_ok=True)
        (rows / file).write_text(file)
    asked = Ingest(str(rows), "rows", "text", broker={"url": url})

    with pytest.raises(BadSetting, match=r"leave out 1 file, such as .*/plain/deep\.txt"):
        ingest(spark, replace(asked, checkpoint=str(tmp_path / "checkpoint")))
    shutil.rmtree(rows / "plain")
    with pytest.raises(BadSetting, match=r"leave out 1 file, such as .*/top\.txt"):
        ingest(spark, asked)
    with pytest.raises(BadSetting, match=r"_hidden\.txt: .* begins with _"):
        ingest(spark, replace(asked, source=str(rows / "_hidden.txt")))
    assert broker.call("QLEN", "rows") == 0
    done = ingest(spark, replace(asked, reading={"recursiveFileLookup": "true"}))

    assert done["messages"] == 2


def test_a_drained_csv_file_is_ingested_with_the_same_bodies(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from quinque.spark.jobs.drain import Drain, drain
    from quinque.spark.jobs.ingest import Ingest, _reading, ingest

    bodies = [b'say "hi"', b"C:\\", b'a \\"b\\" c', b'"', b" x,"]
    for body in bodies:
        broker.call("ADDJOB", "from", body, 0)
    out = str(tmp_path / "out")

    drain(spark, Drain("from", out, "night", f"{out}-state", "csv", broker={"url": url}))
    asked = Ingest(*(out, "to", "csv", "body"), reading={"header": "true"}, broker={"url": url})
    ingest(spark, asked)

    assert [job[2] for job in broker.call("QPEEK", "to", 9)] == bodies
    escapes = [
        _reading(replace(asked, reading=given)).get("escape")
        for given in ({"quote": "'"}, {"quote": ""}, {"Escape": "\\"})
    ]
    assert escapes == ["'", None, None]


def test_the_commands_take_the_name_of_a_queue_as_it_is(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from quinque.spark.jobs.drain import Drain, drain
    from quinque.spark.jobs.ingest import Ingest, ingest
    from quinque.spark.jobs.redrive import redrive

    (tmp_path / "lines").write_text("new")
    for queue in ("a", " b", "b", "a, b"):
        broker.call("ADDJOB", queue, "old", 0)
    [[_, dead, _]] = broker.call("GETJOB", "FROM", "a, b")
    [[_, other, _]] = broker.call("GETJOB", "FROM", "b")
    broker.call("NACK", dead, "DEAD")
    broker.call("NACK", other, "DEAD")
    connector = {"url": url}

    ingest(spark, Ingest(str(tmp_path / "lines"), "a, b", "text", broker=connector))
    back = redrive(spark, broker, "a, b", None, connector)
    out = str(tmp_path / "out")
    drained = drain(spark, Drain("a, b", out, "night", f"{out}/state", broker=connector))
    drained_next = drain(spark, Drain(" b", out, "night", f"{out}/state", broker=connector))

    assert (back["redriven"], drained["messages"], drained_next["messages"]) == (1, 2, 1)
    lengths = [broker.call("QLEN", queue) for queue in ("a", " b", "b", "a, b")]
    assert lengths == [1, 0, 0, 0]
    looked = broker.run(LookAt(JOBS, b"b"))
    assert looked is not None
    assert looked.dead == 1


def test_a_repeated_batch_is_known_although_new_files_have_other_columns(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from quinque.spark.jobs.ingest import Ingest, ingest

    files, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"
    files.mkdir()
    (files / "one.json").write_text('{"a": 1}')
    asked = Ingest(
        *(str(files), "rows", "json"),
        checkpoint=str(checkpoint),
        reading={"multiLine": "true"},
        broker={"url": url},
        bad_lines=str(tmp_path / "bad"),
    )
    ingest(spark, asked)
    # As if it had been killed when the batch was in the queue.
    for file in (checkpoint / "commits").iterdir():
        file.unlink()
    (files / "two.json").write_text('{"b": 2}')

    ingest(spark, asked)

    bodies = [json.loads(job[2]) for job in broker.call("QPEEK", "rows", 9)]
    assert bodies == [{"a": 1}, {"a": None, "b": 2}]


def test_a_rate_is_kept_and_a_checkpoint_goes_on(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from quinque.spark.jobs.ingest import Ingest, ingest

    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "one.txt").write_text("\n".join("abcde"))
    files = str(tmp_path / "lines")

    asked = Ingest(
        *(files, "slow", "text"),
        rate=2,
        checkpoint=str(tmp_path / "checkpoint"),
        broker={"url": url},
    )
    first = ingest(spark, asked)
    assert first["seconds"] >= 2.5
    (tmp_path / "lines" / "two.txt").write_text("f")
    second = ingest(spark, asked)

    assert (first["messages"], second["messages"]) == (5, 1)
    bodies = [job[2] for job in broker.call("QPEEK", "slow", 9)]
    assert sorted(bodies) == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_a_row_without_a_body_is_named_in_the_last_line(
    spark: SparkSession, url: str, broker: Broker, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    from quinque.spark.jobs.ingest import Ingest, ingest

    (tmp_path / "rows.json").write_text('{"n": 1, "k": "a"}\n{"n": null, "k": "b"}')
    asked = Ingest(
        str(tmp_path / "rows.json"), "rows", "json", "n", {"key": "k"}, broker={"url": url}
    )

    with pytest.raises(PySparkException) as refusal:
        ingest(spark, asked)

    assert _last_words(refusal.value) == (
        "BadRow: column body is null in row 2 of the task (key 'b')"
    )
    assert broker.call("QLEN", "rows") == 0


def test_the_dead_come_back_by_a_condition(spark: SparkSession, url: str, broker: Broker) -> None:
    from quinque.spark.jobs.redrive import redrive

    for number in range(6):
        broker.call("ADDJOB", "sms", f"{number}", 0, "MAXDELIVERIES", 1)
    for _, id, _ in broker.call("GETJOB", "COUNT", 6, "FROM", "sms"):
        broker.call("NACK", id)
    options = {"url": url}

    looked = redrive(spark, broker, "sms", "body > '2'", options, only_looks=True)
    back = redrive(spark, broker, "sms", "cast(body as string) in ('1', '4')", options)

    assert (looked["chosen"], looked["redriven"]) == (3, 0)
    assert (back["chosen"], back["redriven"]) == (2, 2)
    assert sorted(body for _, _, body in broker.call("GETJOB", "COUNT", 9, "FROM", "sms")) == [
        *(b"1", b"4")
    ]
    with pytest.raises(BadSetting, match="no_such"):
        redrive(spark, broker, "sms", "no_such = 1", options)


def test_the_audit_says_when_the_broker_holds_something_else(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    from quinque.spark.jobs.archive import export_record
    from quinque.spark.jobs.audit import DIFFERENT, audit
    from quinque.spark.jobs.lake import Lake

    broker.call("ADDJOB", "orders", "kept", 0)
    lake = Lake(str(tmp_path / "lake"))
    export_record(broker, lake)
    # The record has a message that the broker never had, as if it had been lost.
    path = next((tmp_path / "lake" / "journal_raw").rglob("0-1-1.parquet"))
    rows = pq.read_table(path, partitioning=None)
    lost = rows.set_column(1, "seq", [[2]]).set_column(5, "message_id", [["lost"]])
    pq.write_table(lost.cast(rows.schema), path.with_name("0-2-2.parquet"))
    broker.call("ADDJOB", "sms", "in the place of that row", 0)

    verdict, summary = audit(spark, lake, broker)

    assert all(queue["is_good"] for queue in verdict.queues)
    assert (verdict.broker, summary["verdict"]) == (DIFFERENT, "bad")
    assert [(row["queue"], row["open_by_record"], row["open_in_broker"])
            for row in verdict.differences] == [("orders", 2, 1), ("sms", 0, 1)]  # fmt: skip


def test_columns_and_files_that_are_not_there_are_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    from quinque.spark.jobs.drain import Drain, drain
    from quinque.spark.jobs.ingest import Ingest, ingest
    from quinque.spark.jobs.lake import Lake

    source = _write_orders(tmp_path / "orders.json")

    with pytest.raises(BadSetting, match="no column price"):
        ingest(spark, Ingest(source, "q", "json", body_column="price"))
    with pytest.raises(BadSetting, match="messages have no colour"):
        ingest(spark, Ingest(source, "q", "json", columns={"colour": "name"}))
    with pytest.raises(BadSetting, match="nowhere"):
        ingest(spark, Ingest(str(tmp_path / "nowhere"), "q", "json"))
    with pytest.raises(BadSetting, match="not avro"):
        ingest(spark, Ingest(source, "q", "avro"))
    with pytest.raises(BadSetting, match=r"a\[b: the path .* cannot have \["):
        drain(spark, Drain("q", str(tmp_path / "a[b"), "s", str(tmp_path / "c"), "delta"))
    with pytest.raises(BadSetting, match=r"a\{b: the path .* cannot have \{"):
        Lake(str(tmp_path / "a{b"))
    (tmp_path / "empty.csv").touch()
    with pytest.raises(BadSetting, match=r"empty.csv: no columns"):
        ingest(spark, Ingest(str(tmp_path / "empty.csv"), "q", "csv"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["audit", "lake", "--url", "gopher://x"], "not the URL of a broker"),
        (["audit", "lake", "--conf", "nonsense"], "nonsense is not NAME=VALUE"),
        (["ingest", "x", "q", "--rate", "-1"], "-1 is not in the range"),
        (["drain", "q"], "Missing argument 'DIR'"),
        (["redrive", "q", "--limit", "many"], "'many' is not a valid integer"),
    ],
)
def test_what_is_asked_wrongly_is_said_in_one_line_with_code_2(words: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["pipeline", *words])

    assert done.exit_code == 2
    assert said in done.output
    assert "Traceback" not in done.output


def test_a_broker_that_is_not_there_is_said_before_spark_starts() -> None:
    done = CliRunner().invoke(
        main, ["pipeline", "redrive", "q", "--url", "redis://127.0.0.1:1", "--json"]
    )

    told: dict[str, Any] = json.loads(done.stdout)
    assert done.exit_code == 1
    assert told["exit_code"] == 1
    assert "no broker answers at 127.0.0.1:1" in told["error"]


def _write_orders(path: Path) -> str:
    path.write_text("\n".join(json.dumps(order) for order in ORDERS), encoding="utf-8")
    return str(path)


def _peeked(spark: SparkSession, url: str, queue: str) -> list[Any]:
    options = {"url": url, "queue": queue}
    return list(spark.read.format("quinque").options(**options).load().collect())


def _lines(folder: Path) -> list[str]:
    """Those of the files that Spark wrote there."""
    files = sorted(folder.rglob("part-*"))
    return [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
