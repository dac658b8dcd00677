"""Times on a command line.

Called by cli/main.py, cli/message.py, cli/top.py, as the callback of options.
Calls       server/setting_kinds.py, which reads them.

Not here: how a time is shown (cli/shown.py).
"""

from __future__ import annotations

import click

from quinque.errors import BadSetting


def span_s(ctx: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """Parse a time as in settings, in seconds. Raises BadParameter."""
    from quinque.server.setting_kinds import Seconds

    try:
        return None if text is None else Seconds().value(text)
    except BadSetting as exc:
        raise click.BadParameter(str(exc)) from exc
