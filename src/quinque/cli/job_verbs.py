"""The verbs of the command line for job queues.

Called by   verbs_of.py.
Calls       client/sync/jobs.py.

Not here: the meaning of the verbs (verbs.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quinque.cli.verbs import Shown, Tell, Verbs, instant
from quinque.client.sync.broker import Broker
from quinque.client.sync.jobs import Jobs
from quinque.model.families import JOBS
from quinque.model.states import State
from quinque.model.work_ops import WorkView


class JobVerbs(Verbs):
    family = JOBS
    has_dead = True
    adding = frozenset({"delay", "ttl", "retry", "max_deliveries", "key"})
    nacking = frozenset({"delay", "reason"})

    def __init__(self, broker: Broker, queue: bytes) -> None:
        super().__init__(broker, queue)
        self._jobs: Jobs[bytes] = Jobs(broker, queue)

    def add(self, bodies: Sequence[bytes], how: dict[str, Any]) -> list[str]:
        if "key" not in how:
            return self._jobs.add_many(bodies, **how)
        if len(bodies) != 1:
            self.refuse("--unique with several messages", "add one message at a time")
        return [self._jobs.add(bodies[0], **how)]

    def take(self, count: int, wait_s: float, is_acked: bool, how: dict[str, Any]) -> list[Shown]:
        jobs = self._jobs.take_many(count, wait_s)
        if is_acked:
            self._jobs.ack(jobs)
        return [
            Shown(job.id, job.body, {"nacks": job.nacks or None, "requeues": job.requeues or None})
            for job in jobs
        ]

    def ack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        return self._jobs.ack(list(self._own(ids)))

    def nack(self, ids: Sequence[str], how: dict[str, Any]) -> int:
        return self._jobs.nack(list(self._own(ids)), **how)

    def delete(self, ids: Sequence[str]) -> int:
        return self._jobs.delete(list(self._own(ids)))

    def show(self, id: str) -> Shown | None:
        view = self._own([id]).get(id)
        if view is None:
            return None
        facts: dict[str, Any] = {
            "queue": view.queue,
            "state": view.state.name.lower(),
            "added": None if view.place is None else instant(view.place // 1000),
            "due_within_s": None if view.due_within_ms is None else view.due_within_ms / 1000,
            "lives_s": _lives_s(view),
            "retry_s": None if view.terms is None else view.terms.retry_ms / 1000,
            "deliveries": view.deliveries,
            "max_deliveries": view.max_deliveries or None,
            "nacks": view.nacks or None,
            "requeues": view.requeues or None,
            "reason": view.reason or None,
            "key": view.key,
        }
        return Shown(view.message_id.decode(), view.body or b"", facts)

    def flush(self, tell: Tell) -> int:
        count = self._jobs.purge()
        tell(count)
        return count

    def pause(self, is_in: bool, is_out: bool) -> None:
        if is_in or is_out:
            self._jobs.pause(adding=is_in, taking=is_out)
        else:
            self._jobs.resume()

    def keep_expired(self, is_kept: bool) -> None:
        self._jobs.keep_expired(is_kept)

    def details(self) -> dict[str, Any]:
        view = self._jobs.info()
        if view is None:
            return {}
        return {
            "paused_in": view.is_paused_in,
            "paused_out": view.is_paused_out,
            "max_deliveries": view.max_deliveries or None,
            "rate": f"{view.rate_count} in {view.rate_ms / 1000:g} s" if view.rate_count else None,
            "keeps_expired": view.keeps_expired,
            "partitions": view.partitions if view.partitions > 1 else None,
            "came": view.came,
            "went": view.went,
            "age_s": None if view.age_ms is None else view.age_ms / 1000,
            "idle_s": None if view.idle_ms is None else view.idle_ms / 1000,
        }

    def redrive(self, ids: Sequence[str], count: int) -> int:
        if not ids:
            return self._jobs.redrive(count)
        own = list(self._own(ids))
        return self._jobs.redrive(ids=own) if own else 0

    def drop(self, ids: Sequence[str]) -> int:
        if not ids:
            return self._jobs.purge(State.DEAD)
        # A job that was redriven since is not dropped.
        dead = [id for id, view in self._own(ids).items() if view.state is State.DEAD]
        return self._jobs.delete(dead)

    def _own(self, ids: Sequence[str]) -> dict[str, WorkView]:
        """Return the jobs that are in this queue: an id alone can name a job of any queue."""
        views = {id: self._jobs.show(id) for id in ids}
        return {id: view for id, view in views.items() if view and view.queue == self.queue}


def _lives_s(view: WorkView) -> float | None:
    """Return the remaining time to live. None for a dead job, which has no time to live."""
    if view.state is State.DEAD or view.ttl_left_ms is None:
        return None
    return view.ttl_left_ms / 1000
