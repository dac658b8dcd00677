"""A codec that carries the context of a trace in front of the body.

Called by   tracing.py, for programs, which give it to queues and to handlers; worker/tracing.py.
Calls       opentelemetry, where it is installed; a codec.

    queues.jobs("emails", codec=Traced("json"))

    \\0trace <length of the headers> <headers, as JSON><body>

Messages have no headers, so the codec puts an envelope around the body. Every reader of the queue
must use the codec, so the program has to choose it. It also reads bodies without an envelope. It
writes no envelope if OpenTelemetry is not installed or no trace is active, unless the body itself
begins like one.

Not here: spans (worker/tracing.py).
"""

from __future__ import annotations

import json
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from quinque.client.codecs import Codec, Name, body_of, codec_of

_MARK: Final = b"\0trace "
_DIGITS_MOST: Final = 9  # of a length


class Traced:
    def __init__(self, codec: Name | Codec[Any] = "bytes") -> None:
        """Raises BadArgument."""
        self._codec = codec_of(codec)
        is_there = find_spec("opentelemetry") is not None
        self._propagate: Any = import_module("opentelemetry.propagate") if is_there else None

    def encode(self, value: Any) -> bytes:
        body = body_of(self._codec, value)
        headers: dict[str, str] = {}
        if self._propagate is not None:
            self._propagate.inject(headers)
        if not headers and not body.startswith(_MARK):
            return body
        told = json.dumps(headers).encode()
        return b"%s%d %s%s" % (_MARK, len(told), told, body)

    def decode(self, body: bytes) -> Any:
        return self._codec.decode(_opened(body)[1])

    def context_of(self, body: bytes) -> Any:
        """Return the trace context in which the message was added, or None if it is unknown."""
        headers = _opened(body)[0]
        return self._propagate.extract(headers) if headers and self._propagate is not None else None


def _opened(body: bytes) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body."""
    if not body.startswith(_MARK):
        return {}, body
    length, _, rest = body[len(_MARK) :].partition(b" ")
    if not length.isdigit() or len(length) > _DIGITS_MOST or int(length) > len(rest):
        return {}, body
    try:
        headers = json.loads(rest[: int(length)])
    except (ValueError, RecursionError):
        return {}, body
    is_ours = isinstance(headers, dict) and all(isinstance(it, str) for it in headers.values())
    return (headers, rest[int(length) :]) if is_ours else ({}, body)
