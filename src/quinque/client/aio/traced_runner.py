"""OpenTelemetry spans around the operations of a program on its queues.

Called by   tracing.py, which wraps the runner of a program's queues in it.
Calls       a Runner; opentelemetry, which has to be installed.

Operations that send, receive or settle messages get a span; all others do not. You have to enable
it: a span costs about as much as adding a job.

Not here: the names of spans (client/span_names.py), the context inside messages (client/traced.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from quinque.client.aio.runner import Runner
from quinque.client.span_names import Named, span_of
from quinque.errors.extras import package_missing
from quinque.model.ops import Op


class TracedRunner:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        try:
            self._trace: Any = import_module("opentelemetry.trace")
        except ModuleNotFoundError as exc:
            raise package_missing(exc.name, "otel") from exc
        self._tracer: Any = self._trace.get_tracer("quinque")

    async def run(self, op: Op, wait_ms: int = 0) -> Any:
        named = span_of(op)
        if named is None:
            return await self._runner.run(op, wait_ms)
        with self._span(named):
            return await self._runner.run(op, wait_ms)

    async def run_all(self, ops: Sequence[Op]) -> list[Any]:
        named = span_of(ops[0]) if ops else None
        if named is None:
            return await self._runner.run_all(ops)
        with self._span(named):
            return await self._runner.run_all(ops)

    async def close(self) -> None:
        await self._runner.close()

    def _span(self, named: Named) -> Any:
        kind = getattr(self._trace.SpanKind, named.kind)
        return self._tracer.start_as_current_span(
            named.name, kind=kind, attributes=named.attributes
        )
