"""The paths of the HTTP port and their responses.

Called by   cli/http_port.py (makes it), port.py (serves it).
Calls       exposition.py.

    GET /metrics   200, metrics for Prometheus
    GET /          200, what each of the others is for, as JSON
    GET /livez     200, or 503 and a reason, as JSON
    GET /readyz    200, or 503 and a reason, as JSON
    GET /healthz   200, or 503 and a reason, as JSON: both of them together

HEAD is GET without the body; other methods return 405 and other paths 404.

Not here: sockets (port.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from quinque.console.exposition import CONTENT_TYPE, Page
from quinque.version import __version__

_NOT_KEPT: Final = {"Cache-Control": "no-store"}
_PATHS: Final = {
    "/livez": "200, or 503 if the broker must be restarted",
    "/readyz": "200, or 503 if the broker must not get clients",
    "/healthz": "200, or 503 if /livez or /readyz is 503",
    "/metrics": "metrics for Prometheus",
}


def make_app(
    page: Page, trouble: Callable[[], str], stall: Callable[[], str] = lambda: ""
) -> Starlette:
    """Make the application. `trouble` returns why the broker is not ready, and `stall` why it must
    be restarted. Empty means that it is ready, and that it runs."""

    async def metrics(request: Request) -> Response:
        return Response(await page.text(), headers=_NOT_KEPT, media_type=CONTENT_TYPE)

    async def livez(request: Request) -> Response:
        reason = stall()
        if reason:
            return JSONResponse({"alive": False, "reason": reason}, 503, _NOT_KEPT)
        return JSONResponse({"alive": True}, headers=_NOT_KEPT)

    async def readyz(request: Request) -> Response:
        reason = trouble()
        if reason:
            return JSONResponse({"ready": False, "reason": reason}, 503, _NOT_KEPT)
        return JSONResponse({"ready": True}, headers=_NOT_KEPT)

    async def healthz(request: Request) -> Response:
        reason = stall() or trouble()
        if reason:
            return JSONResponse({"healthy": False, "reason": reason}, 503, _NOT_KEPT)
        return JSONResponse({"healthy": True}, headers=_NOT_KEPT)

    async def index(request: Request) -> Response:
        return JSONResponse({"program": "quinque serve", "version": __version__, "paths": _PATHS})

    app = Starlette(
        routes=[
            Route("/", index),
            Route("/metrics", metrics),
            Route("/livez", livez),
            Route("/readyz", readyz),
            Route("/healthz", healthz),
        ]
    )
    # Otherwise /livez/ would redirect to the name that the client uses for this host.
    app.router.redirect_slashes = False
    return app
