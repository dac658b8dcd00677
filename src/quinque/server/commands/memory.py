"""MEMORY: how much the process has and a queue takes; INFO's numbers about it as well.

Called by   dispatch.py, through COMMANDS; info.py.
Calls       the store (FindFamilies, Count, LookAt), the system.

Not here: the limit on memory for bodies (the setting maxmemory).
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from functools import partial
from typing import Any, Final

from quinque.dialects.command import Command, Right, no_queues
from quinque.errors import BadArgument
from quinque.model.families import TUBES, Family
from quinque.model.ops import Count, QueueCount
from quinque.model.queue_ops import FindFamilies
from quinque.model.tube_ops import LookAtTube, TubeView
from quinque.model.work_ops import LookAt, QueueView
from quinque.server.broker import Broker
from quinque.server.commands.args import read_number, syntax_error
from quinque.server.commands.subcommands import Run, first_word
from quinque.server.connection import Connection
from quinque.stores.pending import Pending, after
from quinque.wire.resp import OK, Value, Verbatim

# A message without its body, in the indexes of its queue: measured as the growth of the process
# over a million messages of 64 bytes.
_EVENT_BYTES: Final = 360
_JOB_BYTES: Final = 500
# A queue without messages: measured likewise, over 50,000 emptied reliable queues.
_QUEUE_BYTES: Final = 3_000
# glibc has it. It is looked up once: each library that ctypes opens is a circle of objects.
_MALLOC_TRIM: Final[Any] = getattr(ctypes.CDLL(None), "malloc_trim", None)


def process_bytes() -> tuple[int, int]:
    """The memory the process has, and the most it ever had.

    Where the system does not say the first, it is the second.
    """
    unit_bytes = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes
    try:
        with open("/proc/self/statm", "rb") as file:
            used = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return peak, peak
    return used, max(used, peak)  # the system updates the peak late


def system_bytes() -> int:
    """The memory of the machine; 0 where the system does not say."""
    if "SC_PHYS_PAGES" not in os.sysconf_names:
        return 0
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def client_bytes(broker: Broker) -> int:
    """Return the bytes that wait to be read from or written to clients."""
    return sum(
        client.buffered_bytes + client.out_bytes + client.unsent_bytes
        for client in broker.clients.values()
    )


class _Kept:
    """The memory of the store. The fields are empty if the store does not report it."""

    def __init__(self, broker: Broker) -> None:
        facts = broker.store.info()
        if isinstance(facts, Pending):
            facts = {}
        self.queues = int(facts.get("queues", 0))
        self.messages = int(facts.get("messages", 0))
        self.jobs = int(facts.get("jobs", 0))
        self.body_bytes = int(facts.get("body_bytes_in_memory", 0))
        self.bodies_on_disk = int(facts.get("bodies_on_disk", 0))

    @property
    def dataset_bytes(self) -> int:
        """Messages and their bodies."""
        events = self.messages - self.jobs
        return self.body_bytes + events * _EVENT_BYTES + self.jobs * _JOB_BYTES


def run_usage(connection: Connection, argv: list[bytes]) -> Any:
    """MEMORY USAGE queue [SAMPLES count]

    Return the approximate bytes of the queue, if its bodies have the average size, or null.
    """
    match [argv[3].upper(), *argv[4:]] if len(argv) > 3 else []:
        case []:
            pass
        case [b"SAMPLES", count]:
            if read_number(count) < 0:
                raise BadArgument("value is not an integer or out of range")
        case _:
            raise syntax_error()
    broker = connection.broker
    return after(_messages_in(broker, argv[2]), partial(_usage, broker, argv[2]))


def _usage(broker: Broker, queue: bytes, found: tuple[int, int] | None) -> Value:
    if found is None:
        return None
    count, each_bytes = found
    kept = _Kept(broker)
    return (
        _QUEUE_BYTES + len(queue) + count * (each_bytes + kept.body_bytes // max(1, kept.messages))
    )


def run_stats(connection: Connection, argv: list[bytes]) -> Value:
    """MEMORY STATS

    Return the memory usage of the process by purpose.
    """
    broker = connection.broker
    kept = _Kept(broker)
    total, peak = process_bytes()
    dataset = kept.dataset_bytes
    return {
        "peak.allocated": peak,
        "total.allocated": total,
        "clients.normal": client_bytes(broker),
        "overhead.total": max(0, total - dataset),
        "keys.count": kept.queues,
        "keys.bytes-per-key": dataset // max(1, kept.queues),
        "messages.count": kept.messages,
        "bodies.bytes": kept.body_bytes,
        "bodies.on-disk": kept.bodies_on_disk,
        "dataset.bytes": dataset,
        "dataset.percentage": round(100 * dataset / total, 2),
        "peak.percentage": round(100 * total / peak, 2),
    }


def run_doctor(connection: Connection, argv: list[bytes]) -> Value:
    """MEMORY DOCTOR

    Return advice about memory problems as text.
    """
    broker = connection.broker
    (used, _), room = process_bytes(), system_bytes()
    advice: list[str] = []
    if used > room * 3 // 4:
        advice.append(
            f"The broker uses {used} of the {room} bytes of this machine. Set maxmemory, so that "
            "bodies stay on disk."
        )
    if client_bytes(broker) > used // 4:
        advice.append(
            "Buffers of clients that read or send slowly use a quarter of the memory. CLIENT "
            "LIST shows them (omem, qbuf)."
        )
    return Verbatim("\n".join(advice or ["No memory problem was found."]).encode())


def run_purge(connection: Connection, argv: list[bytes]) -> Value:
    """MEMORY PURGE

    Return unused memory to the operating system, where possible.
    """
    if _MALLOC_TRIM is not None:
        _MALLOC_TRIM(0)
    return OK


def _messages_in(broker: Broker, queue: bytes) -> Any:
    """Return the number of messages of a queue, and the approximate size of each without its body.
    None if the queue does not exist. The result may come later."""
    run = broker.store.run

    def look(families: list[Family | None]) -> Any:
        [family] = families
        if family is None:
            return None
        if family is TUBES:
            return after(run(LookAtTube(queue)), _tasks_in)
        if family.is_worklist:
            return after(run(LookAt(family, queue)), _jobs_in)
        return after(run(Count(family, [queue])), _events_in)

    return after(run(FindFamilies([queue])), look)


def _events_in(rows: list[QueueCount]) -> tuple[int, int]:
    return sum(row.total for row in rows), _EVENT_BYTES


def _jobs_in(view: QueueView | None) -> tuple[int, int] | None:
    if view is None:
        return None
    return view.ready + view.delayed + view.leased + view.dead, _JOB_BYTES


def _tasks_in(view: TubeView | None) -> tuple[int, int] | None:
    if view is None:
        return None
    return view.ready + view.delayed + view.taken + view.buried, _JOB_BYTES


def _row(word: str, right: Right, arity: int, run: Run) -> Command:
    return Command(f"MEMORY|{word}", "", right, arity, run=run, queues=no_queues)


COMMANDS: Final = [
    first_word(
        "MEMORY",
        Command("MEMORY|USAGE", "", "read", -3, run=run_usage, queues=lambda argv: argv[2:3]),
        _row("STATS", "read", 2, run_stats),
        _row("DOCTOR", "read", 2, run_doctor),
        _row("PURGE", "admin", 2, run_purge),
    ),
]
