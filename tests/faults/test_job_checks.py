"""The check of the kill loop's jobs finds what it is there to find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.faults.job_checks import check
from tests.faults.job_history import (
    SECOND_NS,
    JobOperation,
    JobView,
    QueueView,
    Snapshot,
    Status,
    Verb,
)


class Clients:
    """A history, written down one operation after the other, a second each."""

    def __init__(self) -> None:
        self.history: list[JobOperation] = []
        self._adds: dict[str, JobOperation] = {}
        self.now_ns = SECOND_NS
        self.snapshots = [self.restart()]

    def add(self, id: str = "", *options: Any, body: str = "", queue: str = "q") -> None:
        words = ["RETRY", "3600", "TTL", "86400", *map(str, options)]
        body = body or id
        op = self._write("add", [queue], body=body, options=words, id=id, is_answered=bool(id))
        self._adds[body] = op

    def get(self, id: str, *, nacks: int = 0, requeues: int = 0, body: str = "") -> None:
        rows = [["q", id, body or id, nacks, requeues]]
        self._write("get", ["q"], options=["COUNT", "1"], rows=rows)

    def lost_get(self) -> None:
        self._write("get", ["q"], options=["COUNT", "1"], is_answered=False)

    def do(self, verb: Verb, id: str, *options: Any, number: int | None = 1) -> None:
        """Ack, nack, …; no number: no answer."""
        self._write(
            verb,
            ids=[id],
            options=list(map(str, options)),
            number=-1 if number is None else number,
            is_answered=number is not None,
        )

    def pause(self, how: str) -> None:
        self._write("pause", ["q"], options=[how])

    def restart(
        self, *jobs: JobView, pause: str = "none", jobs_out: int = 0, jobs_in: int = 0
    ) -> Snapshot:
        """A snapshot in which these jobs are there."""
        self.now_ns += 2 * SECOND_NS
        queued = sorted((job for job in jobs if job.status == "queued"), key=lambda job: job.ctime)
        jobs_in = jobs_in or len(self.history)
        view = QueueView(jobs_in, jobs_out, pause, 0, "0 0", [job.id for job in queued])
        snapshot = Snapshot(self.now_ns - SECOND_NS, self.now_ns - SECOND_NS // 2)
        snapshot.jobs = {job.id: job for job in jobs}
        snapshot.queues = {"q": view}
        snapshot.keys = {(job.queue, job.key): job.id for job in jobs if job.key}
        return snapshot

    def job(self, id: str, status: Status = "queued", **changes: Any) -> JobView:
        """The job as a snapshot taken now would show it, if nothing was done to it."""
        add = self._adds[changes.get("body", id)]
        due_ns = add.answered_ns + add.seconds("DELAY") * SECOND_NS
        due_ms = (due_ns - self.now_ns) // 10**6 if status == "delayed" else None
        view = JobView(
            id=id,
            queue=add.queues[0],
            body=id,
            status=status,
            ctime=add.sent_ns,
            delay_s=add.seconds("DELAY"),
            retry_s=add.seconds("RETRY"),
            ttl_s=-(-(add.answered_ns + add.seconds("TTL") * SECOND_NS - self.now_ns) // SECOND_NS),
            nacks=0,
            requeues=0,
            deliveries=0,
            max_deliveries=int(add.option("MAXDELIVERIES", "0")),
            reason="",
            key=add.option("ID"),
            due_within_ms=due_ms,
            sent_ns=self.now_ns,
            answered_ns=self.now_ns,
        )
        return replace(view, **changes)

    def held(self, id: str, since_s: float, **changes: Any) -> JobView:
        """The job in the hands of who got it so long ago."""
        changes = {"deliveries": 1, **changes}
        retry_s = self._adds[id].seconds("RETRY")
        due_ms = round((retry_s - since_s) * 1000) if retry_s else None
        return self.job(id, "active", due_within_ms=due_ms, **changes)

    def faults(self, *snapshots: Snapshot) -> list[str]:
        found = check(self.history, [*self.snapshots, *snapshots]).violations
        return [what for what, lines in found.items() if lines]

    def _write(
        self,
        verb: Verb,
        queues: list[str] | None = None,
        *,
        ids: list[str] | None = None,
        body: str = "",
        options: list[str] | None = None,
        id: str = "",
        number: int = -1,
        rows: list[list[Any]] | None = None,
        is_answered: bool = True,
    ) -> JobOperation:
        self.now_ns += SECOND_NS
        op = JobOperation("c", verb, queues or [], ids or [], body, options or [], self.now_ns)
        if is_answered:
            op.answered_ns = self.now_ns + SECOND_NS // 2
            op.id, op.number, op.rows = id, number, rows or []
        self.history.append(op)
        return op


@pytest.fixture
def clients() -> Clients:
    return Clients()


def test_jobs_that_are_what_they_should_be_have_no_faults(clients: Clients) -> None:
    clients.add("a")
    clients.add("b", "DELAY", 3600)
    clients.add("c")
    clients.get("a")
    clients.do("ack", "a")
    clients.get("c")
    clients.do("nack", "c", "REASON", "tired")
    clients.pause("in")
    c: dict[str, Any] = {"deliveries": 1, "nacks": 1, "reason": "tired"}
    first, second = (
        clients.restart(clients.job("b", "delayed"), clients.job("c", **c), pause="in", jobs_out=2)
        for _ in range(2)
    )
    for id, nacks in (("b", 0), ("c", 1)):
        clients.get(id, nacks=nacks)
        clients.do("ack", id)

    assert clients.faults(first, second, clients.restart(pause="in", jobs_out=4)) == []


def test_a_job_that_is_not_there_is_lost(clients: Clients) -> None:
    clients.add("a")

    assert clients.faults(clients.restart(), clients.restart()) == ["acknowledged, then lost"]


def test_a_job_that_cannot_be_acked_is_lost(clients: Clients) -> None:
    clients.add("a")
    clients.get("a")
    clients.do("ack", "a", number=0)

    assert "acknowledged, then lost" in clients.faults()


def test_a_job_that_was_acked_and_is_there_is_found(clients: Clients) -> None:
    clients.add("a")
    clients.get("a")
    clients.do("ack", "a")

    assert "acked, then there again" in clients.faults(clients.restart(clients.held("a", 2)))


def test_a_job_that_was_acked_and_delivered_again_is_found(clients: Clients) -> None:
    clients.add("a")
    clients.get("a")
    clients.do("ack", "a")
    clients.get("a")

    assert "acked, then there again" in clients.faults()


def test_a_job_that_was_not_there_after_a_restart_and_then_is_is_found(clients: Clients) -> None:
    clients.add(body="a")
    first = clients.restart()

    assert "acked, then there again" in clients.faults(first, clients.restart(clients.job("a")))


def test_a_job_that_may_come_once_and_comes_twice_is_found(clients: Clients) -> None:
    clients.add("a", "RETRY", 0)
    clients.history[-1].options[:2] = []
    clients.get("a")
    clients.get("a")

    assert clients.faults() == ["RETRY 0, delivered twice"]


def test_a_job_that_may_come_once_and_is_stranded_is_found(clients: Clients) -> None:
    clients.add("a", "RETRY", 0)
    clients.history[-1].options[:2] = []

    stranded = clients.restart(clients.held("a", 1, deliveries=0))

    assert "another state or time than before" in clients.faults(stranded)


def test_a_job_in_two_hands_is_found(clients: Clients) -> None:
    clients.add("a")
    clients.get("a")
    clients.get("a", requeues=1)

    assert clients.faults() == ["held by two at once"]


def test_a_job_delivered_too_often_is_found(clients: Clients) -> None:
    clients.add("a", "MAXDELIVERIES", 1)
    clients.get("a")
    clients.do("nack", "a")
    clients.get("a", nacks=1)

    assert clients.faults() == ["delivered more often than allowed"]


def test_a_nack_that_is_not_told_of_is_found(clients: Clients) -> None:
    clients.add("a")
    clients.get("a")
    clients.do("nack", "a")
    clients.get("a", nacks=0)

    assert clients.faults() == ["counters that are wrong"]


def test_a_counter_that_a_restart_raised_is_found(clients: Clients) -> None:
    clients.add("a")

    assert "counters that are wrong" in clients.faults(
        clients.restart(clients.job("a", requeues=1))
    )


def test_a_delay_that_begins_anew_is_found(clients: Clients) -> None:
    clients.add("a", "DELAY", 3600)
    first = clients.restart(clients.job("a", "delayed"))

    anew = clients.restart(clients.job("a", "delayed", due_within_ms=3_600_000))

    assert "another state or time than before" in clients.faults(first, anew)


def test_a_lease_that_a_restart_ended_is_found(clients: Clients) -> None:
    clients.add("a")
    clients.get("a")

    ended = clients.restart(clients.job("a", deliveries=1))

    assert clients.faults(ended)[0] == "another state or time than before"


def test_a_lost_answer_explains_one_delivery_and_no_more(clients: Clients) -> None:
    for id in ("a", "b"):
        clients.add(id)
    clients.lost_get()

    one = clients.restart(clients.held("a", 1), clients.job("b"), jobs_out=1)
    two = clients.restart(clients.held("a", 3), clients.held("b", 3), jobs_out=2)

    assert "delivered by no known request" not in clients.faults(one, clients.restart())
    assert "delivered by no known request" in clients.faults(two, clients.restart())


def test_a_dead_job_whose_reason_is_another_is_found(clients: Clients) -> None:
    clients.add("a", "MAXDELIVERIES", 1)
    clients.get("a")
    clients.do("nack", "a", "REASON", "tired")
    dead: dict[str, Any] = {"status": "dead", "ttl_s": 0, "deliveries": 1, "nacks": 1}
    good = clients.restart(clients.job("a", reason="tired", **dead), jobs_out=1)

    bad = clients.restart(clients.job("a", reason="", **dead), jobs_out=1)

    assert "another state or time than before" not in clients.faults(good, good)
    assert "another state or time than before" in clients.faults(good, bad)


def test_other_terms_than_were_sent_are_found(clients: Clients) -> None:
    clients.add("a")

    for changes in ({"retry_s": 0}, {"delay_s": 1}, {"key": "k"}, {"ttl_s": 99_999}):
        assert "other terms than were sent" in clients.faults(
            clients.restart(clients.job("a", **changes))
        )


def test_a_key_with_two_jobs_is_found(clients: Clients) -> None:
    clients.add("a", "ID", "k")
    clients.add("b", "ID", "k")

    both = clients.restart(clients.job("a"), clients.job("b"))

    assert "one key, two jobs" in clients.faults(both)


def test_a_key_given_to_another_while_its_job_lived_is_found(clients: Clients) -> None:
    clients.add("a", "ID", "k")
    first = clients.restart(clients.job("a"))
    clients.add("b", "ID", "k")

    assert "one key, two jobs" in clients.faults(first, clients.restart(clients.job("a")))


def test_a_pause_that_was_forgotten_is_found(clients: Clients) -> None:
    clients.pause("all")

    assert clients.faults(clients.restart(pause="all")) == []
    assert clients.faults(clients.restart(pause="none")) == ["settings that are wrong"]


def test_counts_that_shrink_are_found(clients: Clients) -> None:
    first = clients.restart(jobs_in=10)

    assert clients.faults(first, clients.restart(jobs_in=9)) == ["counts that are wrong"]


def test_an_order_that_is_not_by_ctime_is_found(clients: Clients) -> None:
    clients.add("a")
    clients.add("b")
    snapshot = clients.restart(clients.job("a"), clients.job("b"))

    snapshot.queues["q"].peeked.reverse()

    assert "out of order" in clients.faults(snapshot)


def test_a_reply_that_is_not_in_the_order_of_the_adds_is_found(clients: Clients) -> None:
    clients.add("a")
    clients.add("b")
    clients.get("b")
    clients.history[-1].rows.append(["q", "a", "a", 0, 0])

    assert clients.faults() == ["out of order"]


def test_a_repeated_add_with_a_key_has_its_place_from_the_first_try(clients: Clients) -> None:
    clients.add("", "ID", "k", body="a")
    clients.add("b")
    clients.add("a", "ID", "k")  # answered with the id that the first try made
    clients.get("a")
    clients.history[-1].rows.append(["q", "b", "b", 0, 0])
    first_ctime = clients.history[0].sent_ns

    held = [clients.held("a", 1, ctime=first_ctime), clients.held("b", 1)]

    assert clients.faults() == []
    assert "out of order" not in clients.faults(clients.restart(*held))


def test_a_queued_job_that_is_not_in_the_queue_is_found(clients: Clients) -> None:
    clients.add("a")
    snapshot = clients.restart(clients.job("a"))

    snapshot.queues["q"].peeked.clear()

    assert "queued, but not in the queue" in clients.faults(snapshot)


def test_a_body_nobody_sent_is_found(clients: Clients) -> None:
    clients.add("a")
    clients.get("a", body="b")

    assert clients.faults() == ["delivered, never sent"]


def test_a_job_that_was_refused_and_comes_is_found(clients: Clients) -> None:
    clients.add(body="a")
    clients.history[-1].error = "PAUSED q is"
    clients.get("a")

    assert clients.faults() == ["delivered, never sent"]


def test_a_job_that_was_sent_again_is_stored_as_often_as_it_was_sent_at_most(
    clients: Clients,
) -> None:
    clients.add(body="a")
    clients.add("b")
    clients.history[-1].body = "a"
    for id in ("b", "c"):
        clients.get(id, body="a")
    assert clients.faults() == []

    clients.get("d", body="a")
    assert clients.faults() == ["sent once, stored twice"]


def test_what_a_forgotten_answer_delivered_may_come_again(clients: Clients) -> None:
    clients.add("a")
    clients.get("a")
    clients.get("a")
    assert clients.faults() == ["held by two at once"]

    clients.history[1].answered_ns = 0
    assert clients.faults() == []
