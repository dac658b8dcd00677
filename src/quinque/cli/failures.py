"""With which code a command ends that asks no broker, and what it says when it fails.

Called by   cli/main.py, cli/serve_command.py.
Calls       nothing.

Not here: commands that ask a broker (cli/exit_codes.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable

import click

from quinque.errors import BadSetting, QuinqueError

FAILED, ASKED_WRONGLY = 1, 2


def code_of_work(work: Callable[[], int], as_json: bool = False) -> int:
    """The exit code of the work; what it raises on purpose goes to stderr, a line each, and if
    `as_json` to stdout as an object."""
    try:
        return work()
    except QuinqueError as exc:
        code = ASKED_WRONGLY if isinstance(exc, BadSetting) else FAILED
        if as_json:
            click.echo(json.dumps({"error": str(exc), "exit_code": code}))
        for line in str(exc).splitlines():
            click.secho(f"quinque: {line}", fg="red", err=True)
        return code
