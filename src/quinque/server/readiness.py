"""Find out whether the broker is ready, and whether it must be restarted.

Called by   cli/http_port.py (/readyz and /livez).
Calls       the store, which answers at once.

A broker whose event loop answers, but whose iterations do not end, sends no replies. It must be
restarted.

Not here: the stop of the process (cli/http_port.py).
"""

from __future__ import annotations

from quinque.model.measure_ops import MeasureStore, StoreMeasure
from quinque.model.work_ops import LookAtNode
from quinque.server.broker import Broker

_STALLED_S = 10


def stall(broker: Broker) -> str:
    """Why the broker must be started again; empty when it need not be."""
    if broker.stalled_s < _STALLED_S:
        return ""
    return f"no event loop iteration has ended for {broker.stalled_s} s: clients get no replies"


def trouble(broker: Broker) -> str:
    """Why clients should go elsewhere; empty when they need not."""
    store: StoreMeasure = broker.store.run(MeasureStore())
    if store.trouble:
        return store.trouble
    if broker.store.run(LookAtNode()).is_leaving:
        return "the broker is draining (CLUSTER LEAVING yes)"
    return ""
