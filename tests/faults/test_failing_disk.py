"""A disk that fails: what was acknowledged is kept, and what may not be is not acknowledged.

The failures are real to the broker: strace makes the system calls of its choice fail.
"""

from __future__ import annotations

import shutil
import sys
from itertools import cycle
from pathlib import Path

import pytest

from tests.faults.kill_loop import report, run
from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client, Refusal

NEVER_AGAIN = 20


@pytest.mark.parametrize("failing", ["fdatasync", "pwrite64"])
def test_after_a_failed_write_or_sync_nothing_more_is_acknowledged(
    tmp_path: Path, failing: str
) -> None:
    # Only the eighth fails: the ones after it would succeed, and must not be believed.
    with broker_with(tmp_path, f"{failing}:error=EIO:when=8") as broker:
        with broker.connect() as client:
            acknowledged = add_until_refused(client, "UNAVAILABLE")
            assert 0 < len(acknowledged) < 8
            assert client.read_to_end() == b"", "the connection is closed"
        with broker.connect() as client:
            for _ in range(NEVER_AGAIN):
                assert is_refused(client.call("QADD", "q", 600, "later"), "UNAVAILABLE")
                assert is_refused(client.call("QGET", "q", "g"), "UNAVAILABLE")
            assert client.call("QNOTIFY", "g", 0, "q") == b"q"
            assert client.call("QRPEEK", "q")[1] == acknowledged[0]
            assert b"total:" in client.call("QINFO", "q")[0]
        broker.hear("the broker accepts no more changes until it is restarted")
        broker.kill()
        broker.before = ()
        broker.restart()
        with broker.connect() as client:
            assert bodies(client)[: len(acknowledged)] == acknowledged
            assert client.call("QADD", "q", 600, "again") is not None


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("CLUSTER LEAVING yes", 8),
        ("CLUSTER RESET HARD", 8),
        # Of two syncs that follow each other, one is that of the flush.
        ("DEBUG FLUSHALL", 8),
        ("DEBUG FLUSHALL", 9),
    ],
)
def test_what_is_done_to_the_node_is_acknowledged_no_sooner_than_the_rest(
    tmp_path: Path, words: str, number: int
) -> None:
    with (
        broker_with(tmp_path, f"fdatasync:error=EIO:when={number}") as broker,
        broker.connect() as client,
    ):
        other = "ADDJOB q body 0" if "FLUSHALL" in words else words.replace("yes", "no")
        for request in cycle([other, words]):
            if is_refused(client.call(*request.split()), "UNAVAILABLE"):
                break

        assert client.read_to_end() == b"", "closed, as whoever does not know the effect must be"


def test_a_transaction_is_acknowledged_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    transaction = ["MULTI", "PING", "ADDJOB q one 0", "ADDJOB q two 0", "DEBUG FLUSHALL", "EXEC"]
    with (
        broker_with(tmp_path, "fdatasync:error=EIO:when=8") as broker,
        broker.connect() as client,
    ):
        for request in cycle(transaction):
            reply = client.call(*request.split())
            assert request != "EXEC" or isinstance(reply, Refusal) or len(reply) == 4
            if isinstance(reply, Refusal):
                break

        assert (request, reply.text.split()[0]) == ("EXEC", "UNAVAILABLE")
        assert client.read_to_end() == b"", "the connection is closed"


def test_a_sync_that_fails_in_the_background_stops_acknowledging_too(tmp_path: Path) -> None:
    with (
        broker_with(tmp_path, "fdatasync:error=EIO:when=1", "--fsync", "everysec") as broker,
        broker.connect() as client,
    ):
        add_until_refused(client, "UNAVAILABLE")

        for _ in range(NEVER_AGAIN):
            with broker.connect() as another:
                assert is_refused(another.call("QADD", "q", 600, "later"), "UNAVAILABLE")


def test_a_write_for_which_there_was_no_room_is_made_when_there_is(tmp_path: Path) -> None:
    with broker_with(tmp_path, "pwrite64:error=ENOSPC:when=8") as broker:
        with broker.connect() as client:
            acknowledged = add_until_refused(client, "UNAVAILABLE the disk is full")
        with broker.connect() as client:
            while is_refused(client.call("QADD", "q", 600, "after"), "DISKFULL"):
                pass
            expected = [*acknowledged, b"%d" % len(acknowledged), b"after"]
            assert bodies(client) == expected
        broker.kill()
        broker.before = ()
        broker.restart()
        with broker.connect() as client:
            assert bodies(client, "h") == expected


# The steps: a batch is written, synced, and room taken for more; a new segment is made, and its
# name synced; the old one gives its room back; the oldest one goes.
STEPS = [
    ("pwrite64", 40),
    ("fdatasync", 40),
    ("fallocate", 2),
    ("fallocate", 3),
    ("fsync", 5),
    ("fsync", 6),
    ("fsync", 7),
    ("ftruncate", 3),
    ("unlink", 1),
    ("unlink", 2),
]


@pytest.mark.parametrize(("call", "number"), STEPS)
def test_a_kill_at_any_step_of_rotation_and_compaction_loses_nothing(
    tmp_path: Path, call: str, number: int
) -> None:
    kill = f"{call}:signal=KILL:when={number}"
    with broker_with(tmp_path, kill, "--segment-size", "64kb") as broker:
        waiting, done = push_and_work_off_until_killed(broker)
        broker.wait()
        broker.before = ()
        broker.restart()
        with broker.connect() as client:
            left: list[bytes] = []
            while (given := client.call("QRPOP", "line", "EX", 0)) is not None:
                left.append(given[0])
        assert set(left) >= waiting, "acknowledged and not worked off"
        assert not set(left) & done, "worked off and acknowledged"
        assert left == sorted(left)


def test_kills_between_short_writes_lose_nothing(tmp_path: Path) -> None:
    before = [sys.executable, "-m", "tests.faults.short_writes"]

    outcome = run(tmp_path, rounds=5, seed=2, before=before)

    assert outcome.is_good, "\n".join(report(outcome))


def broker_with(folder: Path, fault: str, *flags: str) -> RunningBroker:
    """A broker one of whose system calls fails, as strace's -e inject= says it."""
    call = fault.partition(":")[0]
    assert shutil.which("strace"), "strace makes the faults of this test: install it"
    log = str(folder.parent / "strace.log")
    words = ["strace", "-f", "-qq", "-o", log, "-e", f"trace={call}", "-e", f"inject={fault}"]
    return start_broker(folder, *flags, before=words)


def add_until_refused(client: Client, code: str) -> list[bytes]:
    """Add events named 0, 1, 2, … until one is refused with that code; the bodies before it."""
    added: list[bytes] = []
    while not is_refused(client.call("QADD", "q", 600, body := b"%d" % len(added)), code):
        added.append(body)
    return added


def push_and_work_off_until_killed(broker: RunningBroker) -> tuple[set[bytes], set[bytes]]:
    """Push as okq's clients do, work most of it off; what must be there then, and what must not."""
    waiting: set[bytes] = set()
    done: set[bytes] = set()
    with broker.connect() as client:
        try:
            for number in range(10_000):
                id = b"%05d" % number
                if client.call("QLPUSH", "line", id, b"x" * 4000) == b"OK":
                    waiting.add(id)
                if number % 5 == 0:
                    continue
                # From here on it may be there or not, until the ack is answered.
                oldest = min(waiting)
                waiting.discard(oldest)
                assert client.call("QRPOP", "line")[0] == oldest
                assert client.call("QACK", "line", oldest) == 1
                done.add(oldest)
        except (OSError, EOFError):
            return waiting, done
    raise AssertionError("the broker was never killed")


def bodies(client: Client, group: str = "g") -> list[bytes]:
    """The bodies of all events, as the group gets them."""
    found: list[bytes] = []
    while (given := client.call("QGET", "q", group, "EX", 0)) is not None:
        found.append(given[1])
    return found


def is_refused(reply: object, code: str) -> bool:
    """Whether that was the refusal; any other is a failure."""
    if isinstance(reply, Refusal):
        assert reply.text.startswith(code), reply.text
        return True
    return False
