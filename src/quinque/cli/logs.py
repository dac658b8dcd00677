"""The log of a broker: lines on stderr, as text or as JSON.

Called by   serve.py.
Calls       nothing.

    {"ts": 1767225600.123, "level": "info", "logger": "quinque", "msg": "stopping"}

The fields include the `extra` of a call and, as `error`, the traceback of an error. Logs of
libraries and drivers, warnings of Python and uncaught exceptions have the same format.

Not here: the events (each module logs its own).
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from types import TracebackType
from typing import Final

from quinque.server.config import Config

_KNOWN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}
_NOT_FIELDS: Final = frozenset({"color_message", "taskName"})  # uvicorn's; Python 3.12's


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        for name, value in record.__dict__.items():
            if name not in _KNOWN and name not in _NOT_FIELDS:
                line.setdefault(name, value)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        # Values that JSON cannot express are written as Python shows them.
        return json.dumps(line, default=repr)


def start_logging(config: Config) -> None:
    """Log to stderr, with the format and the level of the settings."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter(f"%(asctime)s [{os.getpid()}] %(levelname)s %(message)s")
    handler.setFormatter(JsonLines() if config.log_json else text)
    # Routine messages of other packages are left out.
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("quinque").setLevel(config.log_level.upper())
    # A request that is not HTTP is the sender's mistake, and not logged.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda it: _log_uncaught(it.exc_type, it.exc_value, it.exc_traceback)
    sys.unraisablehook = lambda it: _log_uncaught(it.exc_type, it.exc_value, it.exc_traceback)


def _log_uncaught(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    exc_info = (kind, error or kind(), trace)
    logging.getLogger("quinque").critical("an unhandled exception", exc_info=exc_info)
