"""Exit codes and errors of the commands that use no broker.

Called by   cli/main.py, cli/serve_command.py.
Calls       nothing.

Not here: commands that use a broker (cli/exit_codes.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable

import click

from quinque.errors import BadSetting, QuinqueError

FAILED, ASKED_WRONGLY = 1, 2


def code_of_work(work: Callable[[], int], as_json: bool = False) -> int:
    """Run the work and return its exit code. Print the errors of Quinque on stderr, one on each
    line, and if `as_json` also as an object on stdout."""
    try:
        return work()
    except QuinqueError as exc:
        code = ASKED_WRONGLY if isinstance(exc, BadSetting) else FAILED
        if as_json:
            click.echo(json.dumps({"error": str(exc), "exit_code": code}))
        for line in str(exc).splitlines():
            click.secho(f"quinque: {line}", fg="red", err=True)
        return code
