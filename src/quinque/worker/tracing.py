"""Spans of OpenTelemetry around handlers, where a program has said where spans go.

Called by   executors.py, around each handler; runtime.py, which makes one if it can.
Calls       opentelemetry.

Names and attributes are those of the messaging conventions: `process <queue>`, messaging.system and
so on. Messages have no headers. A producer's context travels only if both sides use the codec
`Traced` (client/traced.py), which puts it in front of the body; else a span of the worker begins a
trace of its own, and the message's id, which both sides have, is what connects the two.

Not here: exporters and sampling, which a program sets up as it likes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from quinque.client.traced import Traced
from quinque.worker.handlers import Handler
from quinque.worker.message import Message


class Tracing:
    def __init__(self) -> None:
        self._trace: Any = import_module("opentelemetry.trace")
        self._tracer: Any = self._trace.get_tracer("quinque")

    @contextmanager
    def process(self, message: Message, handler: Handler) -> Iterator[None]:
        """Within, the span of the handler is the current one; what it raises is on it."""
        attributes: dict[str, str | int] = {
            "messaging.system": "quinque",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": message.queue,
            "messaging.message.id": message.id,
            "messaging.message.body.size": len(message.raw),
            "quinque.family": handler.family.name,
            "quinque.deliveries": message.deliveries,
        }
        if handler.group:
            attributes["messaging.consumer.group.name"] = handler.group.decode("utf-8", "replace")
        codec = handler.codec
        parent = codec.context_of(message.raw) if isinstance(codec, Traced) else None
        with self._tracer.start_as_current_span(
            f"process {message.queue}",
            context=parent,
            kind=self._trace.SpanKind.CONSUMER,
            attributes=attributes,
        ) as span:
            try:
                yield
            except BaseException as error:
                span.set_attribute("error.type", type(error).__qualname__)
                raise


def tracing_if_wanted() -> Tracing | None:
    """None if OpenTelemetry is not installed, or no exporter is set: spans would then cost time and
    go nowhere."""
    if find_spec("opentelemetry") is None:
        return None
    trace: Any = import_module("opentelemetry.trace")
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    return Tracing()
