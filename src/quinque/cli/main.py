"""The command `quinque`: its subcommands and their exit codes.

Called by   the shell (`quinque`, `python -m quinque`).
Calls       cli/check.py, cli/copy.py, cli/clean.py and cli/spark.py, which do the work. All other
            commands have their own modules. Slow modules are imported when a command needs them, so
            that help and usage errors are fast.

    0 success          1 failure          2 wrong usage

A command that uses a broker has the codes of cli/exit_codes.py.

Not here: the settings of a broker (cli/serve_command.py).
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any, Final, cast

import click
from click.shell_completion import CompletionItem

from quinque.cli.failures import code_of_work
from quinque.cli.spans import span_s
from quinque.errors.extras import package_missing
from quinque.version import __version__, build

# The commands in the help, in this order.
_SECTIONS: Final = {
    "A broker and its data": {
        "serve": "Run a broker until SIGTERM or SIGINT.",
        "check": "Verify a data directory and repair it.",
        "copy": "Copy a store and compare the copies.",
    },
    "Queues of a running broker": {
        "queue": "List, show, pause and flush queues.",
        "message": "Add, take, ack, nack, show and delete messages.",
        "dead": "List, redrive and drop dead messages.",
        "claims": "List, show and drop subscriptions that read in claims.",
        "top": "Watch all queues.",
        "bench": "Measure the speed of a broker.",
        "cli": "Send commands to a broker, or type them at a prompt.",
    },
    "Programs": {
        "work": "Run the message handlers of an app.",
        "pipeline": "Move queues to files and back with Spark.",
        "spark": "Run pyspark or spark-submit with the right environment.",
        "clean": "Clean queues of Redis Work Queue.",
        "completion": "Print shell completion for bash, zsh or fish.",
    },
}
_WIDTH: Final = 10  # so that the sections are aligned
# Commands with a module of the same name.
_ELSEWHERE: Final = {
    "bench": "bench",
    "claims": "claims",
    "cli": "prompt",
    "completion": "completion",
    "dead": "dead",
    "message": "message",
    "pipeline": "pipeline",
    "queue": "queue",
    "serve": "serve_command",
    "top": "top",
    "work": "work",
}


class Commands(click.Group):
    """A group whose commands are imported when they are used: a broker starts without the
    others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in _SECTIONS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _ELSEWHERE.get(cmd_name)
        if module is None:
            return super().get_command(ctx, cmd_name)
        return cast(click.Command, getattr(import_module(f"quinque.cli.{module}"), cmd_name))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands without an import of their modules."""
        found = [
            CompletionItem(name, help=what)
            for section in _SECTIONS.values()
            for name, what in section.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(_WIDTH), is_for) for name, is_for in commands.items()]
                )


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(f"{__version__} ({build()})", prog_name="quinque")
@click.pass_context
def main(ctx: click.Context) -> None:
    """A message broker: five reliable-queue systems over the Redis protocol.

    \b
    quinque serve                          run a broker with its data in ./quinque-data
    quinque message add emails hello       add a message, in another terminal
    quinque queue ls                       list the queues

    Set QUINQUE_URL or --url to choose the broker. Default: redis://127.0.0.1:4777.
    """
    for stream in (sys.stdout, sys.stderr):
        # Names and bodies may have characters that the locale cannot encode.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # https://no-color.org: any value that is not empty disables colour.
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        ctx.color = False


@main.command()
@click.argument("folder", metavar="DIR")
@click.option("--repair", is_flag=True, help="Print the repairs that are safe, and carry them out.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def check(ctx: click.Context, folder: str, repair: bool, as_json: bool) -> None:
    """Verify the data directory DIR and print each problem with its location."""

    def run_check() -> int:
        from quinque.cli.check import run

        return run(folder, repair, as_json)

    ctx.exit(code_of_work(run_check, as_json))


@main.command()
@click.argument("source", metavar="FROM-URL")
@click.argument("target", metavar="TO-URL")
@click.option("--live", is_flag=True, help="Copy even if a broker is using one of the stores.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def copy(ctx: click.Context, source: str, target: str, live: bool, as_json: bool) -> None:
    """Copy everything from the store FROM-URL to the store TO-URL and compare them.

    A store is a data directory (PATH or embedded:PATH) or a Redis (redis://, rediss://, unix://,
    redis+sentinel://, redis+cluster://). To continue an interrupted copy, run the same command
    again.
    """

    def run_copy() -> int:
        from quinque.cli.copy import run

        return run(source, target, is_live=live, as_json=as_json)

    ctx.exit(code_of_work(run_copy))


@main.command()
@click.argument("prefixes", nargs=-1, metavar="[PREFIX]...")
@click.option(
    "--file",
    default=None,
    metavar="FILE",
    help="File of prefixes, one on each line. - means stdin.",
)
@click.option("--redis", "url", default="redis://127.0.0.1:6379", show_default=True, metavar="URL",
              help="URL of the Redis that has the queues.")  # fmt: skip
@click.option(
    "--light-every",
    "light_every_s",
    callback=span_s,
    metavar="TIME",
    help="Time between light cleanings.  [default: the shortest lease seen]",
)
@click.option(
    "--deep-every",
    "deep_every_s",
    callback=span_s,
    default="1h",
    show_default=True,
    metavar="TIME",
    help="Time between deep cleanings. 0 means never.",
)
@click.option("--once", "is_once", is_flag=True, help="Clean every queue once and exit.")
@click.option("--dry-run", "is_dry", is_flag=True, help="Count the repairs without making them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each cleaning.")
@click.pass_context
def clean(ctx: click.Context, /, prefixes: tuple[str, ...], file: str | None, **asked: Any) -> None:
    """Clean the queues of Redis Work Queue whose keys begin with PREFIX, until SIGTERM or SIGINT.

    Requeue items that workers abandoned, and repair items that a crash left half processed. The
    URL of the Redis is redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://. In a
    cluster, a prefix needs a hash tag. Times are seconds, or a number with ms, s, m, h or d.

    \b
    Exit codes:
    0  stopped as requested     1  Redis did not answer     3  a dry run found repairs
    """

    def run_clean() -> int:
        try:
            from quinque.cli.clean import Asked, read_prefixes, run
        except ModuleNotFoundError as exc:
            raise package_missing(exc.name, "redis") from exc
        return run(Asked(read_prefixes(prefixes, file), **asked))

    ctx.exit(code_of_work(run_clean))


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[PROGRAM [WORD]...]")
@click.pass_context
def spark(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Run pyspark or spark-submit with the Python and Java they need, or print the environment.

    \b
    quinque spark pyspark                     start a shell with format("quinque")
    quinque spark spark-submit job.py         run your own job
    eval "$(quinque spark)"                   set the environment of this shell
    """

    def run_spark() -> int:
        from quinque.cli.spark import run

        return run(list(words))

    ctx.exit(code_of_work(run_spark))
