"""The options that say which broker a command asks.

Called by   cli/asking.py, cli/pipeline.py.
Calls       nothing.

Not here: what a URL means (client/addresses.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

URL: Final = "redis://127.0.0.1:4777"


def broker_options(default: str | None) -> Callable[[Command], Command]:
    """With the options that say which broker. Without a `default`, only who names one has one: not
    even the environment does."""

    def with_options(command: Command) -> Command:
        for option in (
            click.option("--key", default=None, metavar="FILE", help="The certificate's key."),
            click.option("--certificate", default=None, metavar="FILE", help="For rediss://."),
            click.option("--ca", default=None, metavar="FILE", help="For rediss://."),
            click.option(
                "--password",
                default=None,
                envvar="QUINQUE_PASSWORD",
                help="If not in the URL. Better: QUINQUE_PASSWORD.",
            ),
            click.option(
                "--username",
                default=None,
                envvar="QUINQUE_USERNAME",
                help="If not in the URL; or QUINQUE_USERNAME.",
            ),
            click.option(
                "--url",
                default=default,
                envvar=None if default is None else "QUINQUE_URL",
                show_default=default is not None,
                help="The broker, or several: redis://h1:4777,h2:4777."
                + ("" if default is None else " Or QUINQUE_URL."),
            ),
        ):
            command = option(command)
        return command

    return with_options
