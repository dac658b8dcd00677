"""The row of a metric, and its samples.

Called by   server/metrics.py (has the table), console/exposition.py (writes it out).
Calls       nothing.

Not here: the table (server/metrics.py), the format of the output (console/exposition.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]


class Buckets(NamedTuple):
    """The value of a histogram: (bound, how many are no larger) of each, how many in all, and their
    sum."""

    bounds: Sequence[tuple[float, int]]
    size: int
    total: float


Value = float | Buckets
Sample = tuple[Sequence[str], Value]  # the value of each label, in the order of the row; the value


@dataclass(frozen=True)
class Metric:
    """`name` is the whole name, as in Prometheus. `where` names the stores that have the metric.
    `read` returns its samples."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    read: Callable[[Any], Iterable[Sample]]
    where: str = "all"
