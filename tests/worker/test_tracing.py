"""Spans of OpenTelemetry: of a program, of a handler, and from the one to the other."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import quinque
import quinque.aio
from quinque.errors import BadSetting
from quinque.tracing import Traced, traced_queues
from quinque.worker import App
from tests.server.broker import RunningBroker
from tests.servers.patience import wait_until
from tests.worker.inside import working

ODD = (
    b"\0trace %b x" % (b"9" * 5_000),
    b'\0trace 18 {"traceparent": 5}x',
    b"\0trace 100000 " + b"[" * 100_000,
)


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """What is traced in this process, which can be said only once."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[InMemorySpanExporter]:
    exporter.clear()
    yield exporter
    exporter.clear()


def test_the_span_of_a_handler_is_in_the_trace_of_whoever_added_the_job(
    broker: RunningBroker, queue: str, spans: InMemorySpanExporter
) -> None:
    url = f"redis://127.0.0.1:{broker.port}"
    app, seen = App(url), list[object]()
    app.add(queue, seen.append, codec=Traced("json"))
    with traced_queues(quinque.connect(url)) as queues, working(app):
        with trace.get_tracer("program").start_as_current_span("order") as order:
            id = queues.jobs(queue, codec=Traced("json")).add({"n": 1})
        wait_until(lambda: _named(spans, f"process {queue}"), "it is worked")

    [process] = _named(spans, f"process {queue}")
    [add] = _named(spans, f"add {queue}")
    assert seen == [{"n": 1}]
    assert process.context.trace_id == add.context.trace_id == order.get_span_context().trace_id
    assert (process.kind, add.kind) == (trace.SpanKind.CONSUMER, trace.SpanKind.PRODUCER)
    attributes = process.attributes or {}
    assert attributes["messaging.message.id"] == id
    assert attributes["messaging.system"] == "quinque"
    assert attributes["messaging.destination.name"] == queue
    assert (add.attributes or {})["messaging.batch.message_count"] == 1


def test_what_a_handler_raises_is_on_its_span(
    broker: RunningBroker, queue: str, spans: InMemorySpanExporter
) -> None:
    url = f"redis://127.0.0.1:{broker.port}"
    app = App(url)

    @app.handler(queue)
    async def fail(body: bytes) -> None:
        raise KeyError(body)

    with quinque.connect(url) as queues, working(app):
        queues.jobs(queue).add(b"x", max_deliveries=1)
        wait_until(lambda: _named(spans, f"process {queue}"), "it is worked")

    [process] = _named(spans, f"process {queue}")
    assert (process.attributes or {})["error.type"] == "KeyError"
    assert process.status.status_code is trace.StatusCode.ERROR


def test_a_body_without_a_context_is_read_as_it_is() -> None:
    codec = Traced("bytes")

    assert codec.encode(b"plain") == b"plain"  # no trace is under way
    assert codec.decode(b"plain") == b"plain"
    assert codec.context_of(b"plain") is None
    for odd in (b"\0trace ", b"\0trace x y", b"\0trace 3 {}", b"\0trace 2 []", *ODD):
        assert codec.decode(odd) == odd
        assert codec.context_of(odd) is None


def test_a_body_that_begins_like_a_context_comes_back_as_it_was() -> None:
    codec = Traced("bytes")
    body = b"\0trace 2 {}x"

    assert codec.decode(codec.encode(body)) == body


def test_a_program_on_an_event_loop_is_traced_too(
    broker: RunningBroker, queue: str, spans: InMemorySpanExporter
) -> None:
    async def add() -> str:
        async with traced_queues(quinque.aio.connect(f"redis://127.0.0.1:{broker.port}")) as queues:
            return await queues.jobs(queue).add(b"x")

    id = asyncio.run(add())

    assert id
    [span] = _named(spans, f"add {queue}")
    assert span.kind == trace.SpanKind.PRODUCER


@pytest.mark.parametrize("client", [quinque, quinque.aio])
def test_a_package_that_is_missing_is_named(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)

    with pytest.raises(BadSetting, match=r"trace is missing; install the extra 'otel'"):
        traced_queues(client.connect("redis://localhost:4777"))


def _named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]
