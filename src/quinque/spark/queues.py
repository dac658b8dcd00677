"""Find the queues that the options select.

Called by   subscriptions.py, batch.py.
Calls       the broker.

Not here: reading them (stream.py, batch.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from quinque.client.sync.broker import Broker
from quinque.errors import LimitReached
from quinque.model.claim_ops import ClaimState, FindClaims
from quinque.model.glob import compile_glob
from quinque.model.ops import Count
from quinque.model.work_ops import ScanQueues
from quinque.spark.options import Options

OPEN_CLAIMS: Final = (ClaimState.FILLING, ClaimState.SEALED)

_LOG: Final = logging.getLogger(__name__)
_SCAN_COUNT = 1_000


def find_queues(broker: Broker, options: Options) -> list[bytes]:
    """Return the named queues, or the existing ones that match the pattern, sorted."""
    if options.queues is not None:
        return [queue_name(text) for text in options.queues]
    is_chosen = chooser(options)
    return sorted({queue for queue in _all_queues(broker, options) if is_chosen(queue)})


def claimed_queues(broker: Broker, options: Options) -> list[bytes]:
    """Return the events queues that match the pattern and have open claims of the subscription,
    sorted. Their claims may have events that expired: then find_queues() does not return them."""
    if options.pattern is None or options.family.is_worklist:
        return []
    is_chosen, subscription = chooser(options), (options.subscription or "").encode()
    try:
        views = broker.run(FindClaims())
    except LimitReached as error:
        _LOG.warning("claims of expired events are not looked for: %s", error)
        return []
    return sorted(
        {
            view.queue
            for view in views
            if view.family is options.family
            and view.subscription == subscription
            and is_chosen(view.queue)
            and any(claim.state in OPEN_CLAIMS for claim in view.claims)
        }
    )


def chooser(options: Options) -> Callable[[bytes], bool]:
    """Make a function that tells whether the options select a queue with that name."""
    if options.queues is not None:
        return {queue_name(text) for text in options.queues}.__contains__
    assert options.pattern is not None
    matches = compile_glob(options.pattern.encode()).fullmatch
    return lambda queue: matches(queue) is not None


def queue_name(text: str) -> bytes:
    """The name that the text of an offset or an option means; any bytes have one."""
    return text.encode("utf-8", "surrogateescape")


def queue_text(name: bytes) -> str:
    """The text of a name in an offset."""
    return name.decode("utf-8", "surrogateescape")


def _all_queues(broker: Broker, options: Options) -> list[bytes]:
    if not options.family.is_worklist:
        return [count.queue for count in broker.run(Count(options.family))]
    queues: list[bytes] = []
    cursor = 0
    while True:
        cursor, found = broker.run(ScanQueues(options.family, cursor, _SCAN_COUNT))
        queues.extend(found)
        if not cursor:
            return queues
