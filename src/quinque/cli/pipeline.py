"""The commands `quinque pipeline …`: the jobs of the data pipeline and their options.

Called by   cli/main.py.
Calls       cli/pipeline_run.py (a Spark session, progress, the summary); spark/jobs/ does the work,
            and is imported when a job runs, so that help and usage errors are fast.

    0 success, or the audit passed        1 failure, or the audit failed
    2 wrong usage

Not here: the jobs (spark/jobs/).
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
    """Parse NAME=VALUE into a dictionary. Raises BadParameter."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text} is not NAME=VALUE")
        found[name] = value
    return found


@click.group()
def pipeline() -> None:
    """Move queues to files and back, and store the lifecycle of messages as tables, with Spark."""


def spark_options(command: Command) -> Command:
    """Add the options that all jobs have."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print only one JSON object."),
        click.option(
            "--conf",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            callback=pairs,
            help="Spark setting. May be repeated.",
        ),
        click.option(
            "--memory", default="2g", show_default=True, help="Memory of the Spark driver."
        ),
        click.option(
            "--master",
            default="local[*]",
            show_default=True,
            help="Spark master. Use 'none' under spark-submit, which sets it.",
        ),
    ):
        command = option(command)
    return command


@pipeline.command()
@click.argument("source", metavar="FILES")
@click.argument("queue")
@click.option("--format", "format_", default="parquet", show_default=True,
              help="Format of the files: parquet, json, csv, text or orc.")  # fmt: skip
@click.option(
    "--body-column",
    default=None,
    help="Column of the body. Without it, the body is the row as JSON.",
)
@click.option("--id-column", default=None, help="Column of the message id (events, items).")
@click.option("--key-column", default=None, help="Column of the unique key (jobs).")
@click.option("--queue-column", default=None, help="Column of the queue name. Null means QUEUE.")
@click.option("--delay-column", default=None, help="Column of the delay in milliseconds.")
@click.option("--ttl-column", default=None, help="Column of the time to live in milliseconds.")
@click.option("--retry-column", default=None, help="Column of the lease duration in milliseconds.")
@click.option("--option", "reading", multiple=True, metavar="NAME=VALUE", callback=pairs,
              help="Option of the file format, for example header=true.")  # fmt: skip
@click.option("--family", type=click.Choice(tuple(BY_NAME)), default="jobs", show_default=True,
              help="Family of the queue.")  # fmt: skip
@click.option("--rate", type=click.IntRange(min=0), default=0, show_default=True,
              help="Maximum messages added per second. 0 means no limit.")  # fmt: skip
@click.option("--checkpoint", default=None, metavar="DIR",
              help="Directory that remembers the files already added. The next run adds only new "
                   "files.")  # fmt: skip
@click.option("--bad-lines", default=None, metavar="DIR",
              help="Directory for lines of json and csv that cannot be read. Without it, such a "
                   "line makes the command fail.")  # fmt: skip
@broker_options(URL)
@spark_options
@click.pass_context
def ingest(ctx: click.Context, /, source: str, queue: str, format_: str, **options: Any) -> None:
    """Add the rows of FILES (a path or a glob) to QUEUE, each row once.

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
                options["bad_lines"],
            ),
            tell,
        )

    ctx.exit(run_job(asked, work))


@pipeline.command()
@click.argument("queue")
@click.argument("target", metavar="DIR")
@click.option("--format", "format_", default="parquet", show_default=True,
              help="Format of the files: parquet, json, csv or delta.")  # fmt: skip
@click.option("--body", "body_as", type=click.Choice(["binary", "text", "base64"]),
              default="binary", show_default=True,
              help="Form of the bodies. csv and json have no binary: they use text. A body that is "
                   "not UTF-8 is then in the column body_base64.")  # fmt: skip
@click.option("--subscription", default="drain", show_default=True,
              help="Name under which the broker stores the read position.")  # fmt: skip
@click.option("--checkpoint", default=None, metavar="DIR",
              help="Checkpoint directory of Spark.  [default: DIR/_checkpoint]")  # fmt: skip
@click.option("--family", type=click.Choice(tuple(BY_NAME)), default=None,
              help="Family of the queue.  [default: events with --group, else jobs]")  # fmt: skip
@click.option("--group", default=None, help="Consumer group (events).")
@click.option("--follow", is_flag=True, help="Keep running until SIGINT or SIGTERM.")
@click.option(
    "--every", default="10 seconds", show_default=True, help="Time between batches, with --follow."
)
@click.option("--batch", "batch_rows", type=click.IntRange(min=1), default=100_000,
              show_default=True, help="Maximum number of messages in a batch.")  # fmt: skip
@broker_options(URL)
@spark_options
@click.pass_context
def drain(ctx: click.Context, /, queue: str, target: str, format_: str, **options: Any) -> None:
    """Write the messages of QUEUE to DIR, each once, and ack them after they are written.

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
@click.option("--parquet", "plain", default=None, metavar="DIR",
              help="Also write the tables to DIR as plain Parquet files.")  # fmt: skip
@broker_options(None)
@spark_options
@click.pass_context
def archive(ctx: click.Context, /, lake: str, plain: str | None, **options: Any) -> None:
    """Copy the lifecycle log to the directory LAKE and update its tables.

    Without --url, the command reads the files that the broker's exporter wrote to LAKE.

    Example: quinque pipeline archive lake --url redis://127.0.0.1:4777
    """
    asked = Asked.of(options)

    def work(spark: SparkSession, tell: Tell) -> dict[str, Any]:
        from quinque.spark.jobs.archive import archive
        from quinque.spark.jobs.lake import Lake

        return archive(spark, asked.broker(), Lake(lake), tell, plain=plain)

    ctx.exit(run_job(asked, work))


@pipeline.command()
@click.argument("lake", metavar="LAKE")
@click.option("--to", "target", default="report", show_default=True, metavar="DIR",
              help="Directory of the report.")  # fmt: skip
@click.option("--title", default="Quinque", show_default=True, help="Title of the report.")
@broker_options(None)
@spark_options
@click.pass_context
def report(ctx: click.Context, /, lake: str, target: str, title: str, **options: Any) -> None:
    """Draw the data in LAKE: one page with plots, and each plot as a picture.

    With --url, the lifecycle log is copied first, and the totals are compared to the broker's.

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
              help="Accept messages without an ADDED row, for example because recording"
                   " was off.")  # fmt: skip
@broker_options(None)
@spark_options
@click.pass_context
def audit(ctx: click.Context, /, lake: str, allow_unknown: bool, **options: Any) -> None:
    """Check in the lifecycle log that no accepted message was lost and none was done twice.

    With --url, the lifecycle log is copied first, and the unfinished messages are compared to
    those of the broker. The exit code is 0 if the audit passes and 1 if it fails.

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
@click.option(
    "--where", default=None, metavar="SQL", help="Condition on the dead messages, in Spark SQL."
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=0,
    help="Maximum number of messages to redrive. 0 means all.",
)
@click.option("--dry-run", is_flag=True, help="Print the messages without redriving them.")
@broker_options(URL)
@spark_options
@click.pass_context
def redrive(
    ctx: click.Context, /, queue: str, where: str | None, limit: int, dry_run: bool, **options: Any
) -> None:
    """Make the dead messages of QUEUE that match a condition ready again.

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
