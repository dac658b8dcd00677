"""Whether a broker can be worked with.

Called by   cli/http_port.py (/readyz).
Calls       the store, which answers at once.

That it runs at all needs no question: who answers, runs.

Not here: that the process is stopping (cli/http_port.py knows).
"""

from __future__ import annotations

from quinque.model.measure_ops import MeasureStore, StoreMeasure
from quinque.model.work_ops import LookAtNode
from quinque.server.broker import Broker


def trouble(broker: Broker) -> str:
    """Why clients should go elsewhere; empty when they need not."""
    store: StoreMeasure = broker.store.run(MeasureStore())
    if store.trouble:
        return store.trouble
    if broker.store.run(LookAtNode()).is_leaving:
        return "the broker is leaving"
    return ""
