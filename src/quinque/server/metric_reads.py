"""Read the samples of each metric, with the values of their labels, from the collected values.

Called by   metrics.py, whose rows these functions are, or make.
Calls       only the system, for memory and processor time.

All values are counts that exist anyway: the cost of a page of metrics does not depend on the number
of messages.

Not here: the names and the meaning of the metrics (metrics.py), measuring (measuring.py).
"""

from __future__ import annotations

import platform
import resource
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from quinque.model.lifecycle import Kind, Reason
from quinque.model.measure_ops import QueueMeasure
from quinque.server.commands.subcommands import with_subcommands
from quinque.server.measuring import Reading
from quinque.stats.metric import Buckets, Sample
from quinque.version import __version__

Read = Callable[[Reading], Iterable[Sample]]

# A message that comes back because its delay is over was not held by a consumer.
NO_CAUSE: Final = (Reason.NONE, Reason.DELAY_OVER)


# -- queues ---------------------------------------------------------------------------------------


def states(reading: Reading) -> Iterator[Sample]:
    for found in reading.queues:
        labels = _labels(found)
        yield (*labels, "ready"), found.ready
        yield (*labels, "leased"), found.leased
        if found.family.is_worklist:
            yield (*labels, "delayed"), found.delayed
            yield (*labels, "dead"), found.dead
            yield (*labels, "claimed"), found.claimed
        else:
            yield (*labels, "kept"), found.kept


def oldest(reading: Reading) -> Iterator[Sample]:
    for found in reading.queues:
        if found.first_ms is not None:
            yield _labels(found), max(0, reading.now_ms - found.first_ms) / 1000
        elif not found.ready:
            yield _labels(found), 0


def groups(reading: Reading) -> Iterator[Sample]:
    for found in reading.queues:
        for group in found.groups:
            labels = (*_labels(found), shown(group.name))
            yield (*labels, "ready"), group.ready
            yield (*labels, "leased"), group.leased


def changes(*kinds: Kind) -> Read:
    """Make a function that reads how often messages of a queue had this change."""

    def read(reading: Reading) -> Iterator[Sample]:
        for found in reading.queues:
            yield _labels(found), sum(n for code, n in found.changes.items() if code >> 8 in kinds)

    return read


def causes(*kinds: Kind) -> Read:
    """Make the same function for each reason of the change."""

    def read(reading: Reading) -> Iterator[Sample]:
        for found in reading.queues:
            counts: Counter[Reason] = Counter()
            for code, number in found.changes.items():
                if code >> 8 in kinds:
                    counts[Reason(code & 0xFF)] += number
            for reason in sorted(counts):
                if reason not in NO_CAUSE:
                    yield (*_labels(found), reason.name.lower()), counts[reason]

    return read


def by_family(count: Callable[[Reading], Counter[str]]) -> Read:
    def read(reading: Reading) -> Iterator[Sample]:
        for family, number in sorted(count(reading).items()):
            yield (family,), number

    return read


def _labels(found: QueueMeasure) -> tuple[str, str]:
    return found.family.name, shown(found.queue)


def shown(name: bytes) -> str:
    """A name as a label, different for each name. Bytes that are not UTF-8, or not printable, are
    written \\xNN, and a backslash twice."""
    text = name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else "".join(f"\\x{byte:02x}" for byte in letter.encode())
        for letter in text
    )


# -- the broker -----------------------------------------------------------------------------------


def clients(reading: Reading) -> Iterator[Sample]:
    kinds = Counter({"resp2": 0, "resp3": 0, "iproto": 0, "monitor": 0})
    for client in reading.broker.clients.values():
        kind = f"resp{client.protocol}" if client.protocol else "iproto"
        kinds["monitor" if client.is_monitor else kind] += 1
    for kind, number in kinds.items():
        yield (kind,), number


def errors(reading: Reading) -> Iterator[Sample]:
    for code, number in sorted(reading.broker.stats.errors.items()):
        yield (code,), number


def commands(field: str, unit: float = 1) -> Read:
    def read(reading: Reading) -> Iterator[Sample]:
        for row in with_subcommands(reading.broker.dispatch.commands.values()):
            if row.calls:
                yield (row.name.lower(),), getattr(row, field) / unit

    return read


def processor(reading: Reading) -> Iterator[Sample]:
    own = resource.getrusage(resource.RUSAGE_SELF)
    yield ("user",), own.ru_utime
    yield ("system",), own.ru_stime


def build(reading: Reading) -> Iterator[Sample]:
    store = reading.broker.config.store.partition(":")[0]
    yield (__version__, platform.python_version(), store), 1


def one(value: Callable[[Reading], float]) -> Read:
    def read(reading: Reading) -> Iterator[Sample]:
        yield (), value(reading)

    return read


def of_all(value: Callable[[Reading], float]) -> Read:
    """A value that is known only when the store has measured all its queues."""

    def read(reading: Reading) -> Iterator[Sample]:
        if reading.has_asked:
            yield (), value(reading)

    return read


# -- the store ------------------------------------------------------------------------------------


def figure(name: str) -> Read:
    """The figure of the store under this name, if it has one."""

    def read(reading: Reading) -> Iterator[Sample]:
        if name in reading.store.figures:
            yield (), reading.store.figures[name]

    return read


def spread(name: str, unit: int = 1) -> Read:
    def read(reading: Reading) -> Iterator[Sample]:
        spread = reading.store.spreads.get(name)
        if spread is not None:
            bounds = [(bound / unit, count) for bound, count in spread.bounds]
            yield (), Buckets(bounds, spread.size, spread.total / unit)

    return read


def export_lag(reading: Reading) -> Iterator[Sample]:
    lag = reading.broker.facts.get("lifecycle_lag")
    if isinstance(lag, int):
        yield (), lag
