"""The progress and the result of a running query.

Called by   ingest.py, drain.py.
Calls       pyspark.

Not here: output (cli/pipeline.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

# Spark keeps the progress of the last hundred batches; a batch takes no less than a tenth of this.
_LOOK_S: Final = 1
_LOOK_WHILE_ENDING_S: Final = 0.05

Tell = Callable[[str, int, int], None]
IsAskedToEnd = Callable[[], bool]


def never() -> bool:
    """Return False: for a job that cannot be stopped."""
    return False


class Watched:
    """Rows and batches of one query, counted as they are done."""

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query
        self.was_ended = False
        self._rows: dict[int, int] = {}
        self._committed = "{}"

    @property
    def rows(self) -> int:
        return sum(self._rows.values())

    @property
    def batches(self) -> int:
        return sum(1 for rows in self._rows.values() if rows)

    @property
    def committed(self) -> dict[str, Any]:
        """Return the position of its first source after the last committed batch with rows. Empty
        before the first one."""
        offset: dict[str, Any] = json.loads(self._committed)
        return offset

    def wait(self, tell: Tell | None, total: int, is_asked_to_end: IsAskedToEnd = never) -> None:
        """Wait until the query has ended, by itself or after a stop request (`was_ended`), when its
        batch is finished. Raises the error of the query. If this is interrupted, the query is
        stopped first."""
        try:
            while not self.query.awaitTermination(_LOOK_S):
                self._look()
                if tell is not None:
                    tell("messages", self.rows, total)
                if is_asked_to_end():
                    self.was_ended = True
                    self._finish_batch()
                    break
        finally:
            if self.query.isActive:
                self.query.stop()
            self._look()
        if tell is not None:
            tell("messages", self.rows, max(total, self.rows))

    def _finish_batch(self) -> None:
        """The batch that runs is over, if one does."""
        told_before = self._last_told()
        while self.query.status["isTriggerActive"] and self._last_told() == told_before:
            # Seconds, parts of them too.
            if self.query.awaitTermination(_LOOK_WHILE_ENDING_S):  # type: ignore[arg-type]
                return

    def _last_told(self) -> str | None:
        """Return when the last batch that the query reported started."""
        last: Any = self.query.lastProgress
        return None if last is None else last["timestamp"]

    def _look(self) -> None:
        for progress in self.query.recentProgress:
            told: Any = progress
            self._rows[told["batchId"]] = told["numInputRows"]
            if told["numInputRows"]:
                self._committed = told["sources"][0]["endOffset"]


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._since_s = time.monotonic()

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self._since_s, 3)

    def rate(self, count: int) -> float:
        return round(count / max(self.seconds, 0.001), 1)
