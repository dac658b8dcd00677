"""The events family: commands on leases that bananaq and okq do not have: QEXTEND QRELEASE QUNGET.

Called by   server/dispatch.py, through COMMANDS.
Calls       dialects/args.py.

Not here: bananaq's commands (bananaq.py); the rules (engine/feed/decide.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from quinque.dialects.args import read_name, read_seconds
from quinque.dialects.command import Command
from quinque.dialects.quick_replies import reply_share_of_named, reply_whether
from quinque.model.families import EVENTS
from quinque.model.ops import Release
from quinque.model.own_ops import ExtendLeases
from quinque.wire.resp import Value


def parse_qextend(argv: list[bytes]) -> ExtendLeases:
    """QEXTEND queue consumerGroup seconds eventID [eventID ...]

    Set the group's leases of the events to end after the given time from now. This can extend
    or shorten them. Returns the number of leases that had not ended. Quinque extension.
    """
    queue, group = _queue_and_group(argv)
    lease_ms = read_seconds("seconds", argv[3], least_ms=1)
    return ExtendLeases(EVENTS, queue, list(dict.fromkeys(argv[4:])), lease_ms, group)


def parse_qrelease(argv: list[bytes]) -> Release:
    """QRELEASE queue consumerGroup eventID [eventID ...]

    Return the group's events to the queue: the group can take them again at once. Returns the
    number of events that the group held. Quinque extension.
    """
    return Release(EVENTS, *_queue_and_group(argv), argv[3:])


def parse_qunget(argv: list[bytes]) -> Release:
    """QUNGET queue consumerGroup eventID [eventID ...]

    Return the group's events to the queue without counting the delivery, because they were not
    tried: the group can take them again at once. Returns the number of events that the group held.
    Quinque extension.
    """
    return Release(EVENTS, *_queue_and_group(argv), argv[3:], is_uncounted=True)


def gather_ids(op: ExtendLeases | Release, ids: list[bytes]) -> bool:
    """Merge requests of one group."""
    op.message_ids = ids
    return True


def reply_number(were_so: Sequence[bool]) -> Value:
    """Return the number of events for which the command took effect."""
    return sum(were_so)


def _queue_and_group(argv: list[bytes]) -> tuple[bytes, bytes]:
    return read_name("queue", argv[1]), read_name("consumerGroup", argv[2])


def _on_ids(name: str, arity: int, parse: Callable[..., Any]) -> Command:
    """Make a row for a command whose last arguments are ids."""
    row = Command(name, EVENTS.name, "write", arity, parse, reply_number)
    row.gather, row.reply_each, row.reply_share = gather_ids, reply_whether, reply_share_of_named
    row.varies, row.varies_on = -arity - 1, True
    return row


COMMANDS: Final = [
    _on_ids("QEXTEND", -5, parse_qextend),
    _on_ids("QRELEASE", -4, parse_qrelease),
    _on_ids("QUNGET", -4, parse_qunget),
]
