"""A queue as one session sees it, and a cleaning of it: what sync.py and aio.py have in common.

Called by   sync.py and aio.py, whose classes these are the base of.
Calls       working.py and cleaning.py for the steps.

Not here: waiting for Redis.
"""

from __future__ import annotations

import uuid
from typing import Any

from quinque.workqueue import working
from quinque.workqueue.cleaning import GRACE_S, Cleaner
from quinque.workqueue.counts import CleanCounts, Progress
from quinque.workqueue.item import Item
from quinque.workqueue.key_prefix import KeyPrefix
from quinque.workqueue.keys import Keys
from quinque.workqueue.steps import Steps
from quinque.workqueue.working import Pipeline, Writes, check_writes


class Session:
    """The queue whose keys begin with `name`.

    `writes` is the kind of leases to write: "new", "old" or "both". With "both", the cleaners of
    new and old clients respect the lease. All kinds are read in any case.
    """

    def __init__(
        self, name: KeyPrefix, *, writes: Writes = "both", session: str | None = None
    ) -> None:
        """Raises BadArgument."""
        self.keys = Keys(name)
        self.session = uuid.uuid4().hex if session is None else session
        self._writes: Writes = check_writes(writes)

    def add_unique_item_to_pipeline(self, pipeline: Pipeline, item: Item) -> None:
        """Add the item when the pipeline is executed. Its id must be new."""
        working.add_to_pipeline(self.keys, pipeline, item)

    def add_item_to_pipeline(self, pipeline: Pipeline, item: Item) -> None:
        """The same as add_unique_item_to_pipeline, under its name in the published package."""
        self.add_unique_item_to_pipeline(pipeline, item)

    def _lease(self, db: Any, lease_secs: float, block: bool, timeout: float) -> Steps[Item | None]:
        wait_s = working.wait_s_of(block, timeout)
        return working.lease(
            self.keys,
            self.session,
            self._writes,
            working.lease_ms_of(lease_secs),
            wait_s=wait_s,
            longest_wait_s=None if wait_s == 0 else _longest_wait_s(db),
        )

    def _extend(self, item: Item, lease_secs: float) -> Steps[bool]:
        lease_ms = working.lease_ms_of(lease_secs)
        return working.extend(self.keys, self.session, self._writes, item, lease_ms)

    def _check(self, db: Any) -> None:
        """Raise BadArgument if the queue would be spread over several servers of this client."""
        if not self.keys.has_tag and hasattr(db, "nodes_manager"):
            raise self.keys.no_tag()


class Slices:
    """A cleaning in slices. `counts` has its results so far, `progress` its progress.

    After an error, start a new cleaning from the beginning. Completed repairs are kept.
    """

    def __init__(
        self, queue: Session, db: Any, *, dry_run: bool = False, grace_s: float = GRACE_S
    ) -> None:
        """Create the cleaning without a request to Redis. Raises BadArgument."""
        queue._check(db)
        self.is_done = False
        self.progress: Progress | None = None
        self._db = db
        self._cleaner = Cleaner(queue.keys, dry_run=dry_run, grace_s=grace_s)
        self._steps = self._begin(self._cleaner)
        self._answer: Any = None

    @property
    def counts(self) -> CleanCounts:
        return self._cleaner.counts

    def _begin(self, cleaner: Cleaner) -> Steps[CleanCounts]:
        raise NotImplementedError


def _longest_wait_s(db: Any) -> float | None:
    """Return the longest wait in Redis: half of the socket timeout of the client."""
    patience_s = db.get_connection_kwargs().get("socket_timeout")
    return None if patience_s is None else float(patience_s) / 2
