"""Tracing with OpenTelemetry, for programs that add and take messages.

Called by   programs.
Calls       client/aio/traced_runner.py, client/sync/traced_runner.py, client/traced.py.

    queues = tracing.traced_queues(quinque.connect("redis://localhost:4777"))
    queues.jobs("emails", codec=tracing.Traced("json")).add({"to": "ann@example.com"})

Not here: spans of handlers (worker/tracing.py).
"""

from __future__ import annotations

from typing import overload

from quinque.client.aio.queues import Queues as AsyncQueues
from quinque.client.aio.traced_runner import TracedRunner as AsyncTracedRunner
from quinque.client.sync.queues import Queues
from quinque.client.sync.traced_runner import TracedRunner
from quinque.client.traced import Traced

__all__ = ["Traced", "traced_queues"]


@overload
def traced_queues(queues: Queues) -> Queues: ...
@overload
def traced_queues(queues: AsyncQueues) -> AsyncQueues: ...
def traced_queues(queues: Queues | AsyncQueues) -> Queues | AsyncQueues:
    """Return the same queues, with a span around each operation that sends, receives or settles
    messages. Closing them closes `queues`.

    Accepts the queues of `quinque` and of `quinque.aio`. A span costs about as much as adding a
    job.

    Raises BadSetting if OpenTelemetry is not installed.
    """
    if isinstance(queues, AsyncQueues):
        return AsyncQueues(AsyncTracedRunner(queues.runner))
    return Queues(TracedRunner(queues.runner))
