"""Health for probes, as a file that is touched and as an HTTP port, which also has metrics.

Called by   supervisor.py.
Calls       the standard library's HTTP server, in a thread.

A process is healthy if its event loop has run recently, and if each of its handlers has finished a
message recently or has nothing to do. It is unhealthy if messages wait and none finishes within the
given time.

    GET /          200, what each of the others is for, as JSON
    GET /livez     200 while the supervisor runs
    GET /readyz    200 when every process calls handlers; 503 and a reason before, and at the end
    GET /healthz   200, or 503 with what is wrong; a JSON object either way
    GET /metrics   200, for Prometheus; 501 where there is no package for it

Not here: the state that a process reports (runtime.py), the metrics (metrics.py).
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any, Final

from quinque.errors import many
from quinque.errors.extras import missing_text
from quinque.version import __version__
from quinque.worker.board import Told

Tell = Callable[[], Sequence[tuple[int, float, Told]]]

LOG = logging.getLogger("quinque.worker")

_TOUCH_S: Final = 1.0
_STARTING_S: Final = 30.0  # time to import an app and to run the event loop for the first time
# The event loop writes a heartbeat four times a second. A handler may block it for this time.
_SILENT_S: Final = 10.0
_ASKING_S: Final = 10.0
# Each has a thread and a file. If all files are used, no process can be started.
CONNECTIONS_MOST: Final = 64
_JSON: Final = "application/json"
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_PATHS: Final = {
    "/livez": "200 while the worker runs",
    "/readyz": "200, or 503 if the worker starts or stops",
    "/healthz": "200, or 503 if messages wait and no work gets done",
    "/metrics": "metrics for Prometheus",
}
_NO_METRICS: Final = f"{missing_text('prometheus_client', 'http')}\n".encode()


class Health:
    def __init__(self, tell: Tell, stalled_s: float, file: str | None) -> None:
        """Remove a file that an earlier worker left. Raises OSError when the file cannot be
        written."""
        self._tell = tell
        self._silent_s = max(_SILENT_S, stalled_s)
        self._file = None if file is None else Path(file)
        self._touched_s = 0.0
        self.is_stopping = False
        if self._file is not None:
            self._file.touch()
            self._file.unlink()

    def look(self) -> dict[str, Any]:
        """Return the state of each process."""
        now_s = monotonic()
        processes = []
        for pid, started_s, told in self._tell():
            trouble = self._trouble(pid, started_s, told, now_s)
            beat_s = None if not told.beat_s else round(now_s - told.beat_s, 3)
            processes.append(
                {
                    "pid": pid,
                    "trouble": trouble,
                    "finished": told.finished,
                    "failed": told.failed,
                    "held": told.held,
                    "seconds_since_beat": beat_s,
                }
            )
        is_healthy = not any(process["trouble"] for process in processes)
        return {"healthy": is_healthy, "processes": processes}

    def unready(self) -> str:
        """Why the worker does not call handlers; empty if it does."""
        if self.is_stopping:
            return "the worker is stopping"
        for pid, _, told in self._tell():
            if not pid:
                return "a process died and is not restarted yet"
            if not told.beat_s:
                return f"process {pid} is starting"
        return ""

    def touch(self) -> None:
        """Touch the file if all processes are healthy, once a second."""
        now_s = monotonic()
        if self._file is not None and now_s - self._touched_s >= _TOUCH_S:
            self._touched_s = now_s
            try:
                if self.look()["healthy"]:
                    self._file.touch()
            except OSError as error:  # a probe notices it; handlers continue
                LOG.error("cannot touch %s: %s", self._file, error)

    def close(self) -> None:
        """Remove the file, which would report that the worker runs."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def _trouble(self, pid: int, started_s: float, told: Told, now_s: float) -> str:
        if not pid:
            return "the process died and is not restarted yet"
        if not told.beat_s:
            return "the process does not start" if now_s - started_s > _STARTING_S else ""
        if now_s - told.beat_s > self._silent_s:
            return "the event loop of the process is blocked"
        handlers = many(told.stalled, "handler")
        return f"no progress in {handlers} of the process" if told.stalled else ""


class _Server(ThreadingHTTPServer):
    """A connection over the limit replaces the oldest one. So a probe is answered, however many
    connections are open."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._lock = threading.Lock()
        self._open: dict[Any, None] = {}  # in their order
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._open) >= CONNECTIONS_MOST:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with suppress(OSError):  # its client is gone
                    oldest.shutdown(socket.SHUT_RDWR)  # which ends its thread
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)


class HealthPort:
    """The HTTP port. `url` is its address."""

    def __init__(
        self, health: Health, metrics: Callable[[], bytes] | None, address: tuple[str, int]
    ) -> None:
        """Bind the address. Raises OSError."""

        class Request(BaseHTTPRequestHandler):
            timeout = _ASKING_S  # time limit for a request

            def do_GET(self) -> None:  # the name that http.server calls
                match self.path.partition("?")[0]:
                    case "/livez":
                        self._answer(200, _JSON, _json({"alive": True}))
                    case "/readyz":
                        reason = health.unready()
                        ready = {"ready": False, "reason": reason} if reason else {"ready": True}
                        self._answer(503 if reason else 200, _JSON, _json(ready))
                    case "/healthz":
                        told = health.look()
                        self._answer(200 if told["healthy"] else 503, _JSON, _json(told))
                    case "/metrics" if metrics is not None:
                        self._answer(200, _TEXT, metrics())
                    case "/metrics":
                        self._answer(501, _TEXT, _NO_METRICS)
                    case "/":
                        told = {"program": "quinque work", "version": __version__, "paths": _PATHS}
                        self._answer(200, _JSON, _json(told))
                    case _:
                        self.send_error(404)

            def _answer(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing: probes come every few seconds."""

        self._server = _Server(address, Request)
        host, port = str(self._server.server_address[0]), self._server.server_address[1]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _json(told: dict[str, Any]) -> bytes:
    return json.dumps(told).encode() + b"\n"
