"""The command `quinque`: what it is asked, and with which code it ends.

Called by   the shell (`quinque`, `python -m quinque`).
Calls       cli/options.py to read the settings; cli/serve.py, cli/check.py, cli/copy.py,
            cli/clean.py, cli/pipeline.py and cli/spark.py do the work; cli/queue.py, message.py,
            dead.py, top.py, bench.py and prompt.py ask a broker. What is slow to import is imported
            when asked for, so that help and errors are there at once.

    0  done          1  it was tried and failed          2  it was asked wrongly

Who asks a broker ends with a code of cli/exit_codes.py.

Not here: the settings (server/config.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, cast

import click

from quinque.cli.options import config_of, setting_options, span_s
from quinque.errors import BadSetting, QuinqueError
from quinque.server.config_text import example, listing
from quinque.version import __version__

FAILED, ASKED_WRONGLY = 1, 2

# Commands by name, and the modules that have them, under the same name.
_ELSEWHERE: Final = {
    "bench": "bench",
    "cli": "prompt",
    "completion": "completion",
    "dead": "dead",
    "message": "message",
    "pipeline": "pipeline",
    "queue": "queue",
    "top": "top",
    "work": "work",
}


class Commands(click.Group):
    """A group whose commands are imported when they are asked for: a broker starts without them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _ELSEWHERE.get(cmd_name)
        if module is None:
            return super().get_command(ctx, cmd_name)
        return cast(click.Command, getattr(import_module(f"quinque.cli.{module}"), cmd_name))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="quinque")
@click.pass_context
def main(ctx: click.Context) -> None:
    """One broker, five reliable-queue systems, spoken over the Redis protocol."""
    # https://no-color.org: set, to whatever but the empty text, is no colour.
    if os.environ.get("NO_COLOR"):
        ctx.color = False


@main.command()
@setting_options
@click.option("--example", "shows_example", is_flag=True, help="Print a config file and exit.")
@click.option("--check-config", "only_checks", is_flag=True, help="Check the settings and exit.")
@click.option("--print-config", "only_prints", is_flag=True, help="Print the settings and exit.")
@click.pass_context
def serve(
    ctx: click.Context,
    /,
    shows_example: bool,
    only_checks: bool,
    only_prints: bool,
    **options: Any,
) -> None:
    """Run a broker in the foreground, until SIGTERM or SIGINT.

    The command line wins over the environment, which wins over the config file. Sizes are
    bytes, or a number with kb, mb, gb or tb. Times are in the setting's own unit, or a number
    with us, ms, s, m, h or d.
    """
    if shows_example:
        click.echo(example(), nl=False)
        return

    def run_broker() -> int:
        config = config_of(options, os.environ)
        if only_prints:
            click.echo(listing(config), nl=False)
        elif only_checks:
            click.echo("the settings are good")
        else:
            from quinque.cli.serve import run

            return run(config)
        return 0

    ctx.exit(_code_of(run_broker))


@main.command()
@click.argument("folder", metavar="DIR")
@click.option("--repair", is_flag=True, help="Do what can safely be done, after saying what.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def check(ctx: click.Context, folder: str, repair: bool, as_json: bool) -> None:
    """Verify the data folder DIR, and say what is wrong and where."""

    def run_check() -> int:
        from quinque.cli.check import run

        return run(folder, repair, as_json)

    ctx.exit(_code_of(run_check))


@main.command()
@click.argument("source", metavar="FROM-URL")
@click.argument("target", metavar="TO-URL")
@click.option("--live", is_flag=True, help="Go on though brokers use one of them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def copy(ctx: click.Context, source: str, target: str, live: bool, as_json: bool) -> None:
    """Copy everything from the store FROM-URL into the store TO-URL, and compare them.

    A store is a data folder (PATH or embedded:PATH) or a Redis (redis://, rediss://, unix://,
    redis+sentinel://, redis+cluster://). A copy that was interrupted goes on when it is
    asked for again.
    """

    def run_copy() -> int:
        from quinque.cli.copy import run

        return run(source, target, is_live=live, as_json=as_json)

    ctx.exit(_code_of(run_copy))


@main.command()
@click.argument("prefixes", nargs=-1, metavar="[PREFIX]...")
@click.option("--file", default=None, metavar="FILE", help="Prefixes, a line each; - is stdin.")
@click.option("--redis", "url", default="redis://127.0.0.1:6379", show_default=True, metavar="URL")
@click.option(
    "--light-every",
    "light_every_s",
    callback=span_s,
    metavar="TIME",
    help="How often to clean lightly.  [default: as often as the shortest lease lasts]",
)
@click.option(
    "--deep-every",
    "deep_every_s",
    callback=span_s,
    default="1h",
    show_default=True,
    metavar="TIME",
    help="How often to clean deeply; 0 is never.",
)
@click.option("--once", "is_once", is_flag=True, help="Clean every queue once and end.")
@click.option("--dry-run", "is_dry", is_flag=True, help="Count, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each cleaning.")
@click.pass_context
def clean(ctx: click.Context, /, prefixes: tuple[str, ...], file: str | None, **asked: Any) -> None:
    """Clean the queues of Redis Work Queue whose keys begin with PREFIX, until SIGTERM or SIGINT.

    What workers abandoned waits again; what died in the middle of something is put right. The
    Redis is redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://; in a cluster
    a prefix has a hash tag. Times are seconds, or a number with ms, s, m, h or d.

    \b
    0  ended as asked     1  Redis could not be asked     3  a dry run found something
    """

    def run_clean() -> int:
        try:
            from quinque.cli.clean import Asked, read_prefixes, run
        except ModuleNotFoundError as exc:
            raise BadSetting(
                f"the package {exc.name} is missing: pip install 'quinque[redis]'"
            ) from exc
        return run(Asked(read_prefixes(prefixes, file), **asked))

    ctx.exit(_code_of(run_clean))


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[PROGRAM [WORD]...]")
@click.pass_context
def spark(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Run pyspark or spark-submit with the Python and the Java they need, or print how.

    \b
    quinque spark pyspark                     a shell that knows format("quinque")
    quinque spark spark-submit job.py         a job of your own
    eval "$(quinque spark)"                   the environment, for this shell
    """

    def run_spark() -> int:
        from quinque.cli.spark import run

        return run(list(words))

    ctx.exit(_code_of(run_spark))


def _code_of(work: Callable[[], int]) -> int:
    """The exit code of the work; what it raises on purpose goes to stderr, a line each."""
    try:
        return work()
    except QuinqueError as exc:
        for line in str(exc).splitlines():
            click.secho(f"quinque: {line}", fg="red", err=True)
        return ASKED_WRONGLY if isinstance(exc, BadSetting) else FAILED
