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
_NO_ANSWER: Final = object()
NOT_WAITED: Final = -1  # within_ms of a call that replicas need not confirm


# Scripts that only look, or carry out what time made due: after a failover that is due again.
_LOOKS: Final = frozenset(
    {
        *("open", "due", "settle", "settle_feeds", "info", "find_slots"),
        *("show", "browse", "look_at", "find_key", "find_queues", "scan_queues", "scan_messages"),
        *("count", "peek", "find_ready", "find_busy", "takeable", "look_at_node", "beat"),
        *("consumers",),
        *("find_record", "read_record", "trim_record", "measure", "measure_groups"),
        *("find_families", "inspect", "look_at_expiry", "sweep"),
        *("browse_places", "divide_places", "leased_places"),
        *("find_partitions", "set_node", "forget_node"),
        *("copy_queues", "copy_out_worklist", "copy_out_work", "copy_out_groups"),
        *("copy_out_detached", "copy_out_feed", "copy_out_claims", "copy_out_chunk"),
        *("copy_out_published", "copy_out_items", "copy_out_tube", "copy_out_tasks"),
        *("claim_look", "claim_read", "claim_due", "stage_find", "stage_due"),
        *("items_look_at", "items_lengths", "items_scan", "settle_items"),
        *("items_read", "items_keys", "items_browse", "items_show"),
        *(
            "tube_browse",
            "tube_look",
            "tube_scan",
            "tube_peek",
            "tube_takers",
            "tube_sweep",
            "settle_tubes",
        ),
        *("tube_give_back", "session_due", "session_ended", "session_beat", "session_rejoin"),
        *("session_check", "session_keep"),
    }
)
# Scripts that change something, and of which a repeat does no harm and answers as the first time.
_REPEATABLE: Final = frozenset(
    {
        *("note_slots", "set_partitions", "extend_feed", "items_extend", "event_share"),
        *("claim_renew", "claim_mark", "stage_add"),
        *("copy_in_worklist", "copy_in_work", "copy_in_subscription", "copy_in_chunk"),
        *("copy_in_published", "copy_in_items", "copy_in_tube", "copy_in_tasks"),
        *("copy_in_groups", "copy_in_detached", "copy_in_feed", "copy_mark", "copy_unmark"),
    }
)
# Scripts that write, and change nothing that the client of the operation was promised.
_UNPROMISED: Final = frozenset({"note_slots", "event_share"})


class Call(NamedTuple):
    """A script, the key it is about (keys.slot_key, or one that stands alone) and its ARGV.

    A call that `makes` may make a queue where there was none. A call that `may_fail` answers with
    its error, and the steps go on. `replicas` is how many replicas have to confirm the call
    `within_ms` (0 = whenever); otherwise it answers with NoReplicas. Its changes go on record if it
    `is_recorded`. A call that `is_once` is never repeated, although its script may be. The answer
    `idle` says that it has changed nothing that a client was promised.
    """

    script: str
    keys: Sequence[bytes]
    argv: Sequence[Arg]
    makes: bool = False
    may_fail: bool = False
    replicas: int = 0
    within_ms: int = 0
    is_recorded: bool = True
    is_once: bool = False
    idle: object = _NO_ANSWER

    @property
    def is_look(self) -> bool:
        """Whether it changes nothing that a client was promised."""
        return self.script in _LOOKS

    @property
    def is_change(self) -> bool:
        """Whether it may change something that the client of the operation was promised."""
        return self.script not in _LOOKS and self.script not in _UNPROMISED

    @property
    def is_safe(self) -> bool:
        """Whether it may be made again when it is not known whether it was carried out."""
        return self.script in _LOOKS or (self.script in _REPEATABLE and not self.is_once)


Steps = Generator[Sequence[Call], list[Any], Any]
Runner = Callable[[Any, Edge], Steps]


def one_call(make: Callable[[Any, Edge], Call], read: Callable[[Any, Any], Any]) -> Runner:
    """Steps of one call: `make(op, edge)` is the call, `read(op, reply)` the result."""

    def run(op: Any, edge: Edge) -> Steps:
        (reply,) = yield [make(op, edge)]
        return read(op, reply)

    return run
