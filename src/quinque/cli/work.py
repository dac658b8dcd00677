"""`quinque work`: run processes that call the handlers of an app, and replace those that die.

Called by   cli/main.py.
Calls       worker/supervisor.py; console/exposition.py for the text of the metrics.

    0  stopped cleanly          1 a process did not stop cleanly     2 wrong usage
    4  the address is in use

Not here: the app (worker/app.py).
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from quinque.cli.spans import span_s
from quinque.errors import BadSetting
from quinque.server.address import parse_address

if TYPE_CHECKING:
    from quinque.worker.supervisor import Page


@click.command()
@click.argument("app", metavar="MODULE:APP")
@click.option(
    "--processes",
    type=click.IntRange(1, 512),
    default=1,
    show_default=True,
    help="Number of worker processes.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    default=8,
    show_default=True,
    help="Number of threads of each handler in each process. Coroutine handlers use none.",
)
@click.option(
    "--deadline",
    "deadline_s",
    callback=span_s,
    default="30s",
    show_default=True,
    metavar="TIME",
    help="Time to wait for handlers on shutdown before their messages return to the queue.",
)
@click.option(
    "--stalled-after",
    "stalled_s",
    callback=span_s,
    default="5m",
    show_default=True,
    metavar="TIME",
    help="Report unhealthy if messages wait and none finishes within this time.",
)
@click.option(
    "--failures-file",
    metavar="FILE",
    help="Count failed deliveries in FILE, for families whose broker does not count them.",
)
@click.option(
    "--alive-file", metavar="FILE", help="Touch FILE every second while the worker is healthy."
)
@click.option(
    "--http-listen",
    metavar="HOST:PORT",
    help="Serve /livez, /readyz, /healthz and /metrics on this address.",
)
@click.pass_context
def work(ctx: click.Context, /, app: str, http_listen: str | None, **asked: Any) -> None:
    """Call the handlers of an app with the messages of their queues, until SIGTERM or SIGINT.

    MODULE is a Python module that can be imported from here; APP is the App object in it. A
    process that dies is replaced, and its messages count as delivered. On a signal, the worker
    finishes the messages in progress. Messages that are not finished at the deadline return to
    the queue. A second signal stops the worker at once. Times are seconds, or a number with ms,
    s, m, h or d.
    """
    try:
        ctx.exit(_run(app, http_listen, asked))
    except (BadSetting, OSError) as exc:
        not_free = (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
        may_start_later = isinstance(exc, OSError) and exc.errno in not_free
        text = f"--http-listen: cannot listen on {http_listen}: " if may_start_later else ""
        click.secho(f"quinque: {text}{exc}", fg="red", err=True)
        ctx.exit(4 if may_start_later else 2)


def _run(app: str, http_listen: str | None, asked: dict[str, Any]) -> int:
    from quinque.worker.supervisor import Asked, Supervisor

    if not asked["stalled_s"]:
        raise BadSetting("--stalled-after is 0 but must be greater than 0")
    http_address = None
    if http_listen is not None:
        address = parse_address(http_listen)
        if address.is_unix:
            raise BadSetting("--http-listen must be a host and a port, not a Unix socket")
        http_address = (address.host, address.port)
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format=f"%(asctime)s [{os.getpid()}] %(levelname)s %(message)s",
    )
    page = _page() if find_spec("prometheus_client") is not None else None
    return Supervisor(Asked(app, http_address=http_address, **asked), page).run()


def _page() -> Page:
    # Not at the top: a worker without metrics does not need this package.
    from quinque.console.exposition import page_text
    from quinque.worker.metrics import METRICS

    return partial(page_text, METRICS)
