"""The commands `quinque pipeline …`: the jobs of the data pipeline, and what they are asked.

Called by   cli/main.py.
Calls       cli/pipeline_run.py (a Spark session, progress, the summary); spark/jobs/ does the work,
            and is imported when a job runs: help and errors are there at once.

    0  done, and the audit is good        1  it failed, or the audit is not good
    2  it was asked wrongly

Not here: what the jobs do (spark/jobs/).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quinque.cli.broker_options import URL, broker_options
from quinque.cli.interrupts import asked_to_end
from quinque.cli.pipeline_run import Asked, run_job
from quinque.model.families import BY_NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quinque.spark.jobs.build import Tell

Command = TypeVar("Command", bound=Callable[..., Any])


def pairs(ctx: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE as a dictionary. Raises BadParameter."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text} is not NAME=VALUE")
        found[name] = value
    return found


@click.group()
def pipeline() -> None:
    """Queues into files and back, and the life of every message as tables, with Spark."""


def spark_options(command: Command) -> Command:
    """With the options that all jobs have."""
    for option in (
        click.option(
            "--json", "as_json", is_flag=True, help="Print one JSON object, nothing else."
        ),
        click.option(
            "--conf",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            callback=pairs,
            help="A setting of Spark's.",
        ),
        click.option("--memory", default="2g", show_default=True, help="Of the Spark driver."),
        click.option(
            "--master",
            default="local[*]",
            show_default=True,
            help="Where Spark runs; 'none' under spark-submit, which says it.",
        ),
    ):
        command = option(command)
    return command


@pipeline.command()
@click.argument("source", metavar="FILES")
@click.argument("queue")
@click.option("--format", "format_", default="parquet", show_default=True,
              help="parquet, json, csv, text or orc.")  # fmt: skip
@click.option("--body-column", default=None, help="The body; without it the row, as JSON.")
@click.option("--id-column", default=None, help="The id that it is to have (events, items).")
@click.option("--key-column", default=None, help="Its key: one such at a time (jobs).")
@click.option("--queue-column", default=None, help="The queue it is for, instead of QUEUE.")
@click.option("--delay-column", default=None, help="After how many ms it is ready.")
@click.option("--ttl-column", default=None, help="How many ms it lives.")
@click.option("--retry-column", default=None, help="How many ms a lease runs.")
@click.option("--option", "reading", multiple=True, metavar="NAME=VALUE", callback=pairs,
              help="Of the files' format: header=true, multiLine=true, …")  # fmt: skip
@click.option("--family", type=click.Choice(tuple(BY_NAME)), default="jobs", show_default=True)
@click.option("--rate", type=click.IntRange(min=0), default=0, show_default=True,
              help="So many messages a second; 0 is as fast as it goes.")  # fmt: skip
@click.option("--checkpoint", default=None, metavar="DIR",
              help="Remember which files are in: run again, only new ones come.")  # fmt: skip
@broker_options(URL)
@spark_options
@click.pass_context
def ingest(ctx: click.Context, /, source: str, queue: str, format_: str, **options: Any) -> None:
    """Put the rows of FILES (a path or a glob) into QUEUE, each once.

    Example: quinque pipeline ingest 'orders/*.json' orders --format json --body-column payload
    """
    asked = Asked.of(options)
    columns = {
        name: options[f"{word}_column"]
        for word, name in (
            *(("id", "id"), ("key", "key"), ("queue", "queue")),
            *(("delay", "delay_ms"), ("ttl", "ttl_ms"), ("retry", "retry_ms")),
        )
        if options[f"{word}_column"] is not None
    }

    def work(spark: SparkSession, tell: Tell) -> dict[str, Any]:
        from quinque.spark.jobs.ingest import Ingest, ingest

        return ingest(
            spark,
            Ingest(
                source,
                queue,
                format_,
                options["body_column"],
                columns,
                options["rate"],
                options["checkpoint"],
                options["reading"],
                asked.connector() | {"family": options["family"]},
            ),
            tell,
        )

    ctx.exit(run_job(asked, work))


@pipeline.command()
@click.argument("queue")
@click.argument("target", metavar="DIR")
@click.option("--format", "format_", default="parquet", show_default=True,
              help="parquet, json, csv or delta.")  # fmt: skip
@click.option("--body", "body_as", type=click.Choice(["binary", "text", "base64"]),
              default="binary", show_default=True)  # fmt: skip
@click.option("--subscription", default="drain", show_default=True,
              help="The name under which the broker keeps what was read.")  # fmt: skip
@click.option("--checkpoint", default=None, metavar="DIR",
              help="Where Spark keeps it; without it DIR/_checkpoint.")  # fmt: skip
@click.option("--family", type=click.Choice(tuple(BY_NAME)), default=None,
              help="Of the queue; without it jobs, and with --group events.")  # fmt: skip
@click.option("--group", default=None, help="The consumer group (events).")
@click.option("--follow", is_flag=True, help="Go on until SIGINT or SIGTERM.")
@click.option("--every", default="10 seconds", show_default=True, help="With --follow.")
@click.option("--batch", "batch_rows", type=click.IntRange(min=1), default=100_000,
              show_default=True, help="Messages in a batch, at most.")  # fmt: skip
@broker_options(URL)
@spark_options
@click.pass_context
def drain(ctx: click.Context, /, queue: str, target: str, format_: str, **options: Any) -> None:
    """Write the messages of QUEUE into DIR, each once, and ack them when they are there.

    Example: quinque pipeline drain clicks lake/clicks --format delta --follow
    """
    asked = Asked.of(options)
    broker = asked.connector() | {"maxMessagesPerTrigger": str(options["batch_rows"])}
    broker |= {name: options[name] for name in ("family", "group") if options[name]}

    def work(spark: SparkSession, tell: Tell) -> dict[str, Any]:
        from quinque.spark.jobs.drain import Drain, drain

        wished = Drain(
            queue,
            target,
            options["subscription"],
            options["checkpoint"] or f"{target.rstrip('/')}/_checkpoint",
            format_,
            options["body_as"],
            options["follow"],
            options["every"],
            broker,
        )
        with asked_to_end() as is_asked_to_end:
            return drain(spark, wished, tell, is_asked_to_end=is_asked_to_end)

    ctx.exit(run_job(asked, work))


@pipeline.command()
@click.argument("lake", metavar="LAKE")
@broker_options(None)
@spark_options
@click.pass_context
def archive(ctx: click.Context, /, lake: str, **options: Any) -> None:
    """Bring the lifecycle record into the folder LAKE, and its tables up to date.

    Without --url, what the broker's own exporter has put there is taken.

    Example: quinque pipeline archive lake --url redis://127.0.0.1:4777
    """
    asked = Asked.of(options)

    def work(spark: SparkSession, tell: Tell) -> dict[str, Any]:
        from quinque.spark.jobs.archive import archive
        from quinque.spark.jobs.lake import Lake

        return archive(spark, asked.broker(), Lake(lake), tell)

    ctx.exit(run_job(asked, work))


@pipeline.command()
@click.argument("lake", metavar="LAKE")
@click.option("--to", "target", default="report", show_default=True, metavar="DIR")
@click.option("--title", default="Quinque", show_default=True)
@broker_options(None)
@spark_options
@click.pass_context
def report(ctx: click.Context, /, lake: str, target: str, title: str, **options: Any) -> None:
    """Draw what is in LAKE: one page with plots, and the plots as pictures.

    With --url the record is brought in first, and the broker's own count compared.

    Example: quinque pipeline report lake --to report
    """
    asked = Asked.of(options)

    def work(spark: SparkSession, tell: Tell) -> dict[str, Any]:
        from pathlib import Path

        from quinque.spark.jobs.audit import audit
        from quinque.spark.jobs.lake import Lake
        from quinque.spark.jobs.report import report

        verdict, _ = audit(spark, Lake(lake), asked.broker(), tell)
        return report(spark, Lake(lake), Path(target), tell, title=title, verdict=verdict)

    ctx.exit(run_job(asked, work))


@pipeline.command()
@click.argument("lake", metavar="LAKE")
@click.option("--allow-unknown", is_flag=True,
              help="Messages that never came are fine: recording was off for a time.")  # fmt: skip
@broker_options(None)
@spark_options
@click.pass_context
def audit(ctx: click.Context, /, lake: str, allow_unknown: bool, **options: Any) -> None:
    """Prove from the record that nothing accepted was lost, and nothing done twice.

    With --url the record is brought in first, and what is open must be what the broker holds.
    The exit code is 0 if all is well, 1 if not.

    Example: quinque pipeline audit lake --url redis://127.0.0.1:4777
    """
    asked = Asked.of(options)

    def work(spark: SparkSession, tell: Tell) -> dict[str, Any]:
        from quinque.cli.pipeline_run import show_queues
        from quinque.spark.jobs.audit import audit
        from quinque.spark.jobs.lake import Lake

        verdict, summary = audit(
            spark, Lake(lake), asked.broker(), tell, allows_unknown=allow_unknown
        )
        if not asked.as_json:
            show_queues(verdict.queues)
        return summary | {"queues": verdict.queues}

    ctx.exit(run_job(asked, work))


@pipeline.command()
@click.argument("queue")
@click.option("--where", default=None, metavar="SQL", help="Which: an expression of Spark's SQL.")
@click.option("--limit", type=click.IntRange(min=0), default=0, help="At most so many; 0 = all.")
@click.option("--dry-run", is_flag=True, help="Only say which it would be.")
@broker_options(URL)
@spark_options
@click.pass_context
def redrive(
    ctx: click.Context, /, queue: str, where: str | None, limit: int, dry_run: bool, **options: Any
) -> None:
    """Make dead messages of QUEUE ready again, those for which a condition holds.

    Example: quinque pipeline redrive orders --where "reason = 'timeout' and attempt < 9"
    """
    asked = Asked.of(options)

    def work(spark: SparkSession, tell: Tell) -> dict[str, Any]:
        from quinque.spark.jobs.redrive import redrive

        broker = asked.broker()
        assert broker is not None
        return redrive(
            spark, broker, queue, where, asked.connector(), tell, limit=limit, only_looks=dry_run
        )

    ctx.exit(run_job(asked, work))
