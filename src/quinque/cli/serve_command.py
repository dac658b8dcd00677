"""The command `quinque serve`: its flags, and the options that only print.

Called by   cli/main.py.
Calls       cli/options.py (flags and settings); cli/serve.py (the broker), which is imported when a
            broker starts, so that help and usage errors are fast.

Not here: the settings (server/config.py).
"""

from __future__ import annotations

import os
from typing import Any, Final

import click

from quinque.cli.broker_options import VARIABLES
from quinque.cli.failures import code_of_work
from quinque.cli.options import config_of, setting_options
from quinque.server.config_text import example, listing

_OF_BUILDS: Final = ("QUINQUE_COMPILED", "QUINQUE_COMPILED_LEVEL")  # setup.py


@click.command()
@setting_options
@click.option(
    "--example",
    "shows_example",
    is_flag=True,
    help="Print a config file with all settings and exit.",
)
@click.option("--check-config", "only_checks", is_flag=True, help="Check the settings and exit.")
@click.option(
    "--print-config", "only_prints", is_flag=True, help="Print the settings in effect and exit."
)
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

    Options override environment variables, which override the config file. Sizes are bytes, or
    a number with kb, mb, gb or tb. Times are in the unit of the setting, or a number with us,
    ms, s, m, h or d.
    """
    if shows_example:
        click.echo(example(), nl=False)
        return

    def run_broker() -> int:
        # Variables of client commands, or of a build, in the same shell are not settings.
        others = {*VARIABLES, *_OF_BUILDS}
        environ = {name: text for name, text in os.environ.items() if name not in others}
        config = config_of(options, environ)
        if only_prints:
            click.echo(listing(config), nl=False)
        elif only_checks:
            click.echo("the settings are valid")
        else:
            from quinque.cli.serve import run

            return run(config)
        return 0

    ctx.exit(code_of_work(run_broker))
