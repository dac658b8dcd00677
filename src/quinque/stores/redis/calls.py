"""One call of a script, and an operation as steps of such calls.

Called by   feeds.py, worklists.py and looks.py (make them), store.py (carries them out).
Calls       nothing.

The steps of an operation are a generator: it yields the calls that can be made at the same time, is
sent what each answered, and returns the result. What a call refuses is raised inside it. So the
steps know nothing of sockets, and how calls travel is decided in one place.

Not here: what the scripts do (scripts/).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, NamedTuple

from quinque.stores.redis.edge import Edge

Arg = bytes | int
NOT_WAITED: Final = -1  # within_ms of a call that replicas need not confirm


# Scripts of which a repeat does no harm and answers as the first time would have: they look, and
# carry out what time made due.
_SAFE: Final = frozenset(
    {
        *("open", "due", "settle", "settle_feeds", "info", "find_slots", "note_slots"),
        *("show", "browse", "look_at", "find_key", "find_queues", "scan_queues", "scan_messages"),
        *("count", "peek", "find_ready", "find_busy", "takeable", "look_at_node", "beat"),
        *("find_record", "read_record", "trim_record", "measure", "measure_groups"),
        *("find_families", "inspect", "look_at_expiry", "sweep"),
        *("browse_places", "divide_places", "leased_places"),
        *("find_partitions", "set_node", "forget_node", "set_partitions"),
        *("copy_queues", "copy_out_worklist", "copy_out_work", "copy_out_groups"),
        *("copy_out_detached", "copy_out_feed", "copy_in_worklist", "copy_in_work"),
        *("claim_look", "claim_read", "claim_renew", "claim_mark", "claim_due"),
        *("copy_out_claims", "copy_out_chunk", "copy_out_published", "copy_in_subscription"),
        *("copy_in_chunk", "copy_in_published"),
        *("stage_add", "stage_find", "stage_due", "extend_feed"),
        *("items_look_at", "items_extend", "items_lengths", "items_scan", "settle_items"),
        *("items_read", "items_keys", "copy_out_items", "copy_in_items"),
        *("tube_look", "tube_scan", "tube_peek", "tube_takers", "tube_sweep", "settle_tubes"),
        *("tube_give_back", "session_due", "session_ended", "session_beat", "session_rejoin"),
        *(
            "session_check",
            "session_keep",
            "copy_out_tube",
            "copy_out_tasks",
            "copy_in_tube",
            "copy_in_tasks",
        ),
        *("copy_in_groups", "copy_in_detached", "copy_in_feed", "copy_mark", "copy_unmark"),
    }
)


class Call(NamedTuple):
    """A script, the key it is about (keys.slot_key, or one that stands alone) and its ARGV.

    One that `makes` may make a queue where there was none. One that `may_fail` answers with its
    error, and the steps go on. With `replicas`, so many replicas are there and confirm what it did,
    `within_ms` (0 = whenever), or it answers with NoReplicas. What it changes goes on record if it
    `is_recorded`.
    """

    script: str
    keys: Sequence[bytes]
    argv: Sequence[Arg]
    makes: bool = False
    may_fail: bool = False
    replicas: int = 0
    within_ms: int = 0
    is_recorded: bool = True

    @property
    def is_safe(self) -> bool:
        return self.script in _SAFE


Steps = Generator[Sequence[Call], list[Any], Any]
Runner = Callable[[Any, Edge], Steps]


def one_call(make: Callable[[Any, Edge], Call], read: Callable[[Any, Any], Any]) -> Runner:
    """Steps of one call: `make(op, edge)` is the call, `read(op, reply)` the result."""

    def run(op: Any, edge: Edge) -> Steps:
        (reply,) = yield [make(op, edge)]
        return read(op, reply)

    return run
