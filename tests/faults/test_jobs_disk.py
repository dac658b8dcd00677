"""Jobs on full and failing disks: what was accepted stays, and what may not be is not accepted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.disks import SmallDisk
from tests.faults.job_looks import all_ids, pairs, show
from tests.faults.test_failing_disk import broker_with
from tests.server.broker import RunningBroker, start_broker, wait_until
from tests.server.resp import Client, Refusal

DISK_KB = 1024
FILLER_BYTES = 300_000
BODY = b"x" * 4000
NEVER_AGAIN = 10


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path / "disk", DISK_KB) as disk:
        yield disk


@pytest.fixture
def broker(disk: SmallDisk, tmp_path: Path) -> Iterator[RunningBroker]:
    flags = ("--segment-size", "64kb")
    with start_broker(tmp_path / "disk", *flags, before=disk.before) as broker:
        yield broker


# -- full ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_on_a_full_disk_jobs_are_refused_and_those_there_are_worked_off(
    broker: RunningBroker, ending: str
) -> None:
    with broker.connect() as client:
        accepted = add_until_full(client)
        assert len(accepted) > DISK_KB * 1000 / len(BODY) / 2
        half = len(accepted) // 2

        given = take(client, half)
        nacked, acked = given[0], given[1:]

        assert given == accepted[:half]
        assert client.call("WORKING", nacked) == 300
        assert client.call("NACK", nacked, "REASON", "no room") == 1
        assert client.call("ACKJOB", *acked) == len(acked)
        left = [nacked, *accepted[half:]]
        assert [row[1] for row in client.call("QPEEK", "q", 1000)] == left
    getattr(broker, ending)()
    broker.restart()
    with broker.connect() as client:
        (view,) = show(client, [nacked.decode()])
        assert (view.nacks, view.deliveries, view.reason) == (1, 1, "no room")
        assert take(client, 1000) == left
        assert client.call("ACKJOB", *left) == len(left)


def test_a_broker_whose_disk_is_full_stops_in_order(broker: RunningBroker, disk: SmallDisk) -> None:
    filler = disk.inside / "filler"
    with broker.connect() as client:
        accepted = add_until_full(client)
        there = os.statvfs(disk.inside)
        filler.write_bytes(bytes(there.f_bavail * there.f_frsize))

    assert broker.stop() == 0

    assert broker.has_said("stopped")
    assert not broker.has_said("Traceback")
    filler.unlink()
    broker.restart()
    with broker.connect() as client:
        assert take(client, 1000) == accepted


def test_a_refused_job_leaves_nothing_behind(broker: RunningBroker) -> None:
    with broker.connect() as client:
        add_until_full(client)
        length = client.call("QLEN", "q")

        assert is_full(client.call("ADDJOB", "other", BODY, 0, "ID", "key", "DELAY", 10))

        assert client.call("QLEN", "q") == length
        assert client.call("QSTAT", "other") is None
        assert client.call("FINDJOB", "other", "key") is None
        assert b"registered_jobs:%d\r\n" % length in client.call("INFO", "jobs")


def test_when_there_is_room_again_jobs_are_accepted_without_a_restart(
    broker: RunningBroker, disk: SmallDisk
) -> None:
    filler = disk.inside / "filler"
    filler.write_bytes(bytes(FILLER_BYTES))
    with broker.connect() as client:
        accepted = add_until_full(client)

        filler.unlink()
        accepted += add_until_full(client)

        assert len(accepted) * len(BODY) > DISK_KB * 1000 / 2 + FILLER_BYTES / 2
        broker.kill()
    broker.restart()
    with broker.connect() as client:
        assert take(client, 1000) == accepted


def test_working_off_jobs_makes_room_by_itself(broker: RunningBroker) -> None:
    with broker.connect() as client:
        for _ in range(4):
            accepted = add_until_full(client)
            assert len(accepted) > DISK_KB * 1000 / len(BODY) / 2

            # In small bites, as workers do: compaction goes a step with each.
            for _ in range(0, len(accepted), 5):
                assert client.call("ACKJOB", *take(client, 5)) > 0

            assert client.call("QLEN", "q") == 0
        broker.kill()
    broker.restart()
    with broker.connect() as client:
        assert client.call("GETJOB", "NOHANG", "FROM", "q") is None


def test_what_is_set_while_compaction_waits_for_room_stays_set(
    broker: RunningBroker, disk: SmallDisk
) -> None:
    """Compaction stands before a record for which there is no room; then there is room again."""
    filler = disk.inside / "filler"
    filler.write_bytes(bytes(FILLER_BYTES))
    with broker.connect() as client:
        use_up_all_room(client, "TTL", 2)
        # What expires is gone, though there is no room to write that down.
        wait_until(lambda: bool(client.call("QLEN", "q") == 0))

        filler.unlink()
        assert client.call("PAUSE", "q", "all") == b"all"
        for number in range(100):
            assert client.call("QSET", "another", "MAXDELIVERIES", number) is not None
        broker.kill()
    broker.restart()
    with broker.connect() as client:
        assert client.call("PAUSE", "q", "state") == b"all"


def test_what_time_did_on_a_full_disk_is_not_undone_by_a_restart(
    broker: RunningBroker, disk: SmallDisk
) -> None:
    filler = disk.inside / "filler"
    filler.write_bytes(bytes(FILLER_BYTES))
    with broker.connect() as client:
        lapsed = client.call("ADDJOB", "lapsed", BODY, 0, "RETRY", 1)
        assert client.call("GETJOB", "FROM", "lapsed") is not None
        once = client.call("ADDJOB", "once", BODY, 0, "RETRY", 0, "DELAY", 1)
        use_up_all_room(client)
        wait_until(lambda: client.call("QLEN", "lapsed") == client.call("QLEN", "once") == 1)
        filler.unlink()
        # Before the second lease, which a slow machine sees lapse at any moment.
        counted = [jobs_in(client, "lapsed"), jobs_in(client, "once")]
        for queue, id, requeues in (("lapsed", lapsed, 1), ("once", once, 0)):
            (row,) = client.call("GETJOB", "NOHANG", "WITHCOUNTERS", "FROM", queue)
            assert row[1:2] + row[3:] == [id, b"nacks", 0, b"additional-deliveries", requeues]
        assert client.call("WORKING", lapsed) == 1
        broker.kill()
    broker.restart()

    with broker.connect() as client:
        # Its second lease lapses, at any moment; then nothing changes any more.
        wait_until(lambda: client.call("QLEN", "lapsed") == 1)
        found = {view.id.encode(): view for view in show(client, [lapsed.decode(), once.decode()])}
        assert (found[once].deliveries, found[once].requeues) == (1, 0)
        assert client.call("NACK", once) == client.call("ENQUEUE", once) == 0
        assert client.call("GETJOB", "NOHANG", "FROM", "once") is None
        assert found[lapsed].deliveries == 2
        # On a slow machine the second lease lapsed before WORKING as well.
        again = found[lapsed].requeues - 1
        assert 1 <= again <= 2
        assert [jobs_in(client, "lapsed"), jobs_in(client, "once")] == [
            counted[0] + again,
            counted[1],
        ]


# -- failing -------------------------------------------------------------------------------------


# A new segment is made, the old one gives its room back, the oldest one goes; or just a batch.
STEPS = [("pwrite64", 60), ("fsync", 6), ("ftruncate", 3), ("unlink", 1), ("unlink", 2)]


@pytest.mark.parametrize(("call", "number"), STEPS)
def test_a_kill_at_any_step_of_rotation_and_compaction_leaves_jobs_as_they_were(
    tmp_path: Path, call: str, number: int
) -> None:
    kill = f"{call}:signal=KILL:when={number}"
    with broker_with(tmp_path, kill, "--segment-size", "64kb") as broker:
        waiting, done = work_until_killed(broker)
        broker.wait()
        broker.before = ()
        broker.restart()

        with broker.connect() as client:
            left = {view.id.encode(): view for view in show(client, all_ids(client))}
            orders = [client.call("QPEEK", queue, 1000) for queue in ("q", "kept")]

    assert not done & set(left), "acked"
    for id, nacks in waiting.items():
        assert (left[id].status, left[id].nacks, left[id].requeues) == ("queued", nacks, 0)
    for order in orders:
        assert order == sorted(order, key=lambda row: left[row[1]].ctime)


@pytest.mark.parametrize("failing", ["fdatasync", "pwrite64"])
@pytest.mark.parametrize("word", ["ADDJOB", "ACKJOB", "GETJOB"])
def test_after_a_failed_write_or_sync_no_job_is_accepted_delivered_or_acked(
    tmp_path: Path, failing: str, word: str
) -> None:
    with broker_with(tmp_path, f"{failing}:error=EIO:when=8") as broker:
        with broker.connect() as client:
            # The first that uses the journal, of these, is not the first write: the node is named.
            jobs = [client.call("ADDJOB", "q", b"%d" % number, 0) for number in range(5)]
            assert all(isinstance(id, bytes) for id in jobs)
            acknowledged = use_until_unavailable(client, word, jobs)
            assert client.read_to_end() == b"", "the connection is closed"
        with broker.connect() as client:
            for _ in range(NEVER_AGAIN):
                assert is_unavailable(client.call("ADDJOB", "q", "later", 0))
                assert is_unavailable(client.call("ACKJOB", jobs[-1]))
                assert is_unavailable(client.call("GETJOB", "NOHANG", "FROM", "q"))
            assert client.call("SHOW", jobs[-1]) is not None, "looking is allowed"
        broker.kill()
        broker.before = ()
        broker.restart()
        with broker.connect() as client:
            states = {view.id: view for view in show(client, [id.decode() for id in jobs])}
            for id in jobs:
                if word == "ACKJOB" and id in acknowledged:
                    assert id.decode() not in states
                elif word == "ACKJOB" and id == jobs[len(acknowledged)]:
                    pass  # nobody was told whether it was done
                else:
                    assert id.decode() in states
                if word == "GETJOB" and id in acknowledged:
                    assert states[id.decode()].status == "active"
            if word == "ADDJOB":
                found = client.call("QPEEK", "q", 100)
                assert [row[1] for row in found][: 5 + len(acknowledged)] == jobs + acknowledged
            assert isinstance(client.call("ADDJOB", "q", "again", 0), bytes)


def work_until_killed(broker: RunningBroker) -> tuple[dict[bytes, int], set[bytes]]:
    """Add jobs, ack most of them and give some back; what must be there then, with its nacks, and
    what must not."""
    kept: dict[bytes, int] = {}
    waiting: dict[bytes, int] = {}
    done: set[bytes] = set()
    with broker.connect() as client:
        try:
            for number in range(10_000):
                # Some of every segment, so that there is something to write again.
                if number % 5 == 0:
                    kept[client.call("ADDJOB", "kept", BODY, 0)] = 0
                    continue
                waiting[client.call("ADDJOB", "q", BODY, 0)] = 0
                # From here on it may be anything, until the last request is answered.
                oldest = next(iter(waiting))
                nacks = waiting.pop(oldest)
                assert client.call("GETJOB", "NOHANG", "FROM", "q")[0][1] == oldest
                if number % 7 == 0:
                    assert client.call("NACK", oldest) == 1
                    waiting = {oldest: nacks + 1, **waiting}
                else:
                    assert client.call("ACKJOB", oldest) == 1
                    done.add(oldest)
        except (OSError, EOFError):
            return kept | waiting, done
    raise AssertionError("the broker was never killed")


def use_until_unavailable(client: Client, word: str, jobs: list[bytes]) -> list[bytes]:
    """Add, ack or get jobs until one is answered with UNAVAILABLE; the ids before that."""
    ids: list[bytes] = []
    while True:
        reply: Any
        if word == "ADDJOB":
            reply = client.call("ADDJOB", "q", "more", 0)
        elif word == "ACKJOB":
            reply = client.call("ACKJOB", jobs[len(ids)])
        else:
            reply = client.call("GETJOB", "NOHANG", "FROM", "q")
        if is_unavailable(reply):
            return ids
        if word == "ADDJOB":
            ids.append(reply)
        elif word == "ACKJOB":
            assert reply == 1
            ids.append(jobs[len(ids)])
        else:
            ids.append(reply[0][1])


def add_until_full(client: Client) -> list[bytes]:
    """Add until refused; the ids."""
    ids: list[bytes] = []
    while not is_full(reply := client.call("ADDJOB", "q", BODY, 0)):
        ids.append(reply)
    return ids


def use_up_all_room(client: Client, *options: str | int) -> None:
    """Add jobs until the disk is full, and write other records until there is no room at all."""
    while not is_full(client.call("ADDJOB", "q", BODY, 0, *options)):
        pass
    for spare in ("spare" * 200, "spare"):
        while not is_full(client.call("PAUSE", spare, "out")):
            pass


def jobs_in(client: Client, queue: str) -> int:
    found: int = pairs(client.call("QSTAT", queue))["jobs-in"]
    return found


def take(client: Client, most: int) -> list[bytes]:
    """Get up to so many jobs; the ids."""
    found = client.call("GETJOB", "NOHANG", "COUNT", most, "FROM", "q")
    assert not isinstance(found, Refusal), found
    assert all(row[2] == BODY for row in found)
    return [row[1] for row in found]


def is_full(reply: object) -> bool:
    return _is_refused(reply, "DISKFULL ")


def is_unavailable(reply: object) -> bool:
    return _is_refused(reply, "UNAVAILABLE ")


def _is_refused(reply: object, code: str) -> bool:
    """Whether that was the refusal; any other is a failure."""
    if isinstance(reply, Refusal):
        assert reply.text.startswith(code), reply.text
        return True
    return False
