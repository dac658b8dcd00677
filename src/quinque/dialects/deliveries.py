"""Deliveries as replies: what a dialect does once per message, and not once per request.

Called by   okq.py, bananaq.py, disque.py, as their `reply_each`.
Calls       nothing.

These are not help that users read, so unlike the rest of a dialect they can be compiled.

Not here: replies to single requests (beside their parse, in each dialect).
"""

from __future__ import annotations

from quinque.model.ops import Delivery
from quinque.model.work_ops import WorkDelivery
from quinque.wire.resp import NULL_ARRAY, Value


def reply_event(found: Delivery | None) -> Value:
    """[id, contents], or null."""
    return None if found is None else [found.message_id, found.body]


def reply_job(found: WorkDelivery | None) -> Value:
    """[[queue, id, body]], or null."""
    return NULL_ARRAY if found is None else [[found.queue, found.message_id, found.body]]
