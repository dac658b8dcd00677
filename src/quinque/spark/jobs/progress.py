"""How a query that runs is getting on, and what it did in the end.

Called by   ingest.py, drain.py.
Calls       pyspark.

Not here: bars and words (cli/pipeline.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

# Spark keeps the progress of the last hundred batches; a batch takes no less than a tenth of this.
_LOOK_S: Final = 1

Tell = Callable[[str, int, int], None]


class Watched:
    """Rows and batches of one query, counted as they are done."""

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query
        self._rows: dict[int, int] = {}

    @property
    def rows(self) -> int:
        return sum(self._rows.values())

    @property
    def batches(self) -> int:
        return sum(1 for rows in self._rows.values() if rows)

    def wait(self, tell: Tell | None, total: int) -> None:
        """The query has ended. Raises what ended it; interrupted, it is stopped first."""
        try:
            while not self.query.awaitTermination(_LOOK_S):
                self._look()
                if tell is not None:
                    tell("messages", self.rows, total)
        finally:
            if self.query.isActive:
                self.query.stop()
            self._look()
        if tell is not None:
            tell("messages", self.rows, max(total, self.rows))

    def until(self, rows: int, tell: Tell | None) -> None:
        """So many rows are done, and the query is stopped. Raises what ended it before."""
        try:
            while self.rows < rows and not self.query.awaitTermination(_LOOK_S):
                self._look()
                if tell is not None:
                    tell("messages", self.rows, rows)
        finally:
            if self.query.isActive:
                self.query.stop()

    def _look(self) -> None:
        for progress in self.query.recentProgress:
            told: Any = progress
            self._rows[told["batchId"]] = told["numInputRows"]


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._since_s = time.monotonic()

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self._since_s, 3)

    def rate(self, count: int) -> float:
        return round(count / max(self.seconds, 0.001), 1)
