"""A full disk: additions are refused, all that was accepted stays, and room brings it back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.disks import ReadOnlyDisk, SmallDisk
from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client, Refusal

DISK_KB = 1024
FILLER_BYTES = 300_000
BODY, SMALL_BODY = b"x" * 4000, b"x" * 400


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path / "disk", DISK_KB) as disk:
        yield disk


@pytest.fixture
def broker(disk: SmallDisk, tmp_path: Path) -> Iterator[RunningBroker]:
    flags = ("--segment-size", "64kb")
    with start_broker(tmp_path / "disk", *flags, before=disk.before) as broker:
        yield broker


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_what_was_accepted_stays_and_may_be_worked_on(
    broker: RunningBroker, disk: SmallDisk, ending: str
) -> None:
    with broker.connect() as client:
        accepted = add_until_full(client)
        assert len(accepted) > DISK_KB * 1000 / len(BODY) / 2

        given = take(client, "g")
        acks = [client.call("QACK", "q", "g", id) for id in given]

        assert given == accepted
        assert acks == [1] * len(accepted)
        assert is_full(client.call("QADD", "q", 600, BODY))
    getattr(broker, ending)()
    broker.restart()
    with broker.connect() as client:
        assert client.call("QGET", "q", "g") is None
        assert take(client, "h") == accepted


def test_when_there_is_room_again_it_accepts_without_a_restart(
    broker: RunningBroker, disk: SmallDisk
) -> None:
    filler = disk.inside / "filler"
    filler.write_bytes(bytes(FILLER_BYTES))
    with broker.connect() as client:
        accepted = add_until_full(client)

        filler.unlink()
        accepted += add_until_full(client)

        assert len(accepted) * len(BODY) > DISK_KB * 1000 / 2 + FILLER_BYTES / 2
        assert take(client, "g") == accepted
        broker.kill()
    broker.restart()
    with broker.connect() as client:
        assert take(client, "h") == accepted


def test_working_a_queue_off_makes_room_by_itself(broker: RunningBroker) -> None:
    with broker.connect() as client:
        for turn in range(5):
            pushed = push_until_full(client, turn)
            assert len(pushed) > DISK_KB * 1000 / len(BODY) / 2

            done = pop_and_ack(client, len(pushed))

            assert done == pushed
        broker.kill()
    broker.restart()
    with broker.connect() as client:
        assert client.call("QRPOP", "line") is None


def test_what_was_acked_while_compaction_had_no_room_stays_acked(
    broker: RunningBroker, disk: SmallDisk
) -> None:
    """Compaction stands before a large message for which there is no room; then that is acked."""
    filler, page = disk.inside / "filler", disk.inside / "page"
    filler.write_bytes(bytes(FILLER_BYTES))
    page.write_bytes(bytes(4096))
    with broker.connect() as client:
        large = [b"large-%d" % number for number in range(16)]
        for id in large:
            assert client.call("QLPUSH", "line", id, 2 * BODY) == b"OK"
        small = push_until_full(client, 0, SMALL_BODY)
        # Every other one, so that there is something to gain and nothing to drop.
        small = [*small[::2], *small[1::2]]
        for _ in range(len(small) // 2):
            assert client.call("QACK", "line", small.pop()) == 1
        page.unlink()
        assert [client.call("QACK", "line", id) for id in large[:-1]] == [1] * 15
        filler.unlink()
        # Compaction goes a step with each turn that changes something.
        for _ in range(50):
            assert isinstance(client.call("QADD", "q", 600, "body"), bytes)
        broker.kill()
    broker.restart()

    with broker.connect() as client:
        left = pop_and_ack(client, len(small) + len(large))

    assert sorted(left) == sorted([large[-1], *small])


def test_a_broker_and_a_check_start_on_a_disk_that_has_not_a_byte_left(
    broker: RunningBroker, disk: SmallDisk
) -> None:
    with broker.connect() as client:
        accepted = add_until_full(client)
        broker.kill()
    lock = disk.inside / broker.folder.name / "lock"
    lock.unlink()
    lock.touch()
    with open(disk.inside / "filler", "wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(4096)):
            pass

    check = [*disk.before, sys.executable, "-m", "quinque", "check", str(broker.folder)]
    checked = subprocess.run(check, capture_output=True, text=True, check=False)
    broker.restart()

    assert checked.returncode == 0, checked.stderr
    with broker.connect() as client:
        assert take(client, "g")[:10] == accepted[:10]


def test_a_read_only_snapshot_can_be_checked_and_copied(tmp_path: Path) -> None:
    snapshot, target = tmp_path / "snapshot", tmp_path / "target"
    with start_broker(tmp_path / "source") as broker, broker.connect() as client:
        id = client.call("QADD", "q", 600, BODY)
        broker.kill()
    quinque = [sys.executable, "-m", "quinque"]

    with ReadOnlyDisk(snapshot, broker.folder) as disk:
        checked = subprocess.run(
            [*disk.before, *quinque, "check", str(snapshot)], capture_output=True, text=True
        )
        copied = subprocess.run(
            [*disk.before, *quinque, "copy", str(snapshot), str(target / "data")],
            capture_output=True,
            text=True,
        )

    assert checked.returncode == 0, checked.stderr
    assert copied.returncode == 0, copied.stderr
    with start_broker(target) as broker, broker.connect() as client:
        assert client.call("QGET", "q", "g") == [id, BODY]


@pytest.mark.parametrize("is_full", [True, False])
def test_a_program_that_cannot_open_a_folder_is_told_which_and_why(
    tmp_path: Path, is_full: bool
) -> None:
    program = """
import sys
import quinque
from quinque.errors import QuinqueError

try:
    quinque.open(sys.argv[1])
except QuinqueError as error:
    print(type(error).__name__, error)
"""
    (tmp_path / "empty").mkdir()
    mounted = tmp_path / "disk"
    small, fixed = SmallDisk, lambda folder, _: ReadOnlyDisk(folder, tmp_path / "empty")

    with (small if is_full else fixed)(mounted, 16) as disk:
        if is_full:
            with open(disk.inside / "filler", "wb", buffering=0) as filler, suppress(OSError):
                while filler.write(bytes(4096)):
                    pass
        words = [*disk.before, sys.executable, "-c", program, str(mounted / "data")]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout

    kind, why = ("DiskFull", "No space left") if is_full else ("NotDone", "Read-only file system")
    assert told.startswith(f"{kind} cannot open the data directory {mounted}/data: ")
    assert why in told


def add_until_full(client: Client) -> list[bytes]:
    """Add until refused; the ids."""
    ids: list[bytes] = []
    while not is_full(reply := client.call("QADD", "q", 600, BODY)):
        ids.append(reply)
    return ids


def push_until_full(client: Client, turn: int, body: bytes = BODY) -> list[bytes]:
    """Push as okq's clients do until refused; the ids."""
    ids: list[bytes] = []
    while not is_full(client.call("QLPUSH", "line", id := b"%d-%d" % (turn, len(ids)), body)):
        ids.append(id)
    return ids


def take(client: Client, group: str) -> list[bytes]:
    """Get all there is for the group; the ids."""
    ids: list[bytes] = []
    while (given := client.call("QGET", "q", group, "EX", 600)) is not None:
        assert given[1] == BODY
        ids.append(given[0])
    return ids


def pop_and_ack(client: Client, most: int) -> list[bytes]:
    """Work off up to so many events, and be told each time that it is done; their ids."""
    ids: list[bytes] = []
    while len(ids) < most and (given := client.call("QRPOP", "line", "EX", 600)) is not None:
        assert client.call("QACK", "line", given[0]) == 1
        ids.append(given[0])
    return ids


def is_full(reply: object) -> bool:
    """Whether the disk was; any other refusal is a failure."""
    if isinstance(reply, Refusal):
        assert reply.text.startswith("DISKFULL "), reply.text
        return True
    return False
