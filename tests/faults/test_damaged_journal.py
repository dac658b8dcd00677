"""What a crash leaves is cut off and reported; what was damaged later stops the start."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from quinque.stores.embedded.records import HEADER_BYTES, SECTOR_BYTES, Batch, read_batches
from tests.server.broker import RunningBroker, start_broker, wait_until

COMMITS = 20
# Several sectors a batch, so that some of them can be missing.
BODY = b"x" * 3 * SECTOR_BYTES


@pytest.fixture
def killed(tmp_path: Path) -> RunningBroker:
    """A broker that was killed after so many messages, one batch each."""
    with start_broker(tmp_path) as broker, broker.connect() as client:
        for number in range(COMMITS):
            client.call("QADD", "q", 600, b"%d." % number + BODY)
        broker.kill()
    return broker


TEARS: dict[str, Callable[[bytes, Batch], bytes]] = {
    "one byte is left": lambda data, last: data[: last.start + 1],
    "half a header is left": lambda data, last: data[: last.start + HEADER_BYTES // 2],
    "the header is left": lambda data, last: data[: last.start + HEADER_BYTES],
    "half a body is left": lambda data, last: data[: (last.start + last.end) // 2],
    "all but a byte is left": lambda data, last: data[: last.end - 1],
    "the first sector was never written": lambda data, last: _zero(data, last.start, 1),
    "a sector in the middle was never written": lambda data, last: _zero(data, last.start, 2),
}


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS.keys())
def test_a_torn_tail_is_cut_and_reported(
    killed: RunningBroker, tear: Callable[[bytes, Batch], bytes]
) -> None:
    path, data, batches = _journal(killed)
    path.write_bytes(tear(data, batches[-1]))

    killed.restart()

    with killed, killed.connect() as client:
        assert killed.has_said("WARNING removed an incomplete last write of")
        assert killed.has_said(f"{path} at byte {batches[-1].start}")
        assert _numbers(client.call("QGET", "q", "g") for _ in range(COMMITS - 1)) == [
            *range(COMMITS - 1)
        ]
        assert client.call("QGET", "q", "g") is None
        client.call("QADD", "q", 600, b"20.")
        assert client.call("QGET", "q", "g")[1] == b"20."


def test_the_end_of_the_reserved_room_is_no_torn_tail(killed: RunningBroker) -> None:
    _, data, batches = _journal(killed)
    assert len(data) > batches[-1].end, "room is reserved ahead"

    killed.restart()

    with killed:
        assert not killed.has_said("torn")


@pytest.mark.parametrize("number", [0, COMMITS // 2, COMMITS])
def test_a_flipped_bit_in_what_was_acknowledged_stops_the_start(
    killed: RunningBroker, number: int
) -> None:
    path, data, batches = _journal(killed)
    damaged = batches[number]
    at = damaged.end - 5
    path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])

    refused = _start_refused(killed)

    assert refused.returncode == 1
    assert f"{path} at byte {damaged.start}: " in refused.stderr
    assert f"quinque check {killed.folder}" in refused.stderr
    assert path.read_bytes()[:at] == data[:at], "a refused start changes nothing"


@pytest.mark.parametrize("gone", [[0], [1], [-1], [-2, -1]])
def test_a_missing_segment_stops_the_start(tmp_path: Path, gone: list[int]) -> None:
    with start_broker(tmp_path, "--segment-size", "64kb") as broker, broker.connect() as client:
        for _ in range(20):
            client.call("ADDJOB", "q", b"x" * 20_000, 0)
        broker.kill()
    paths = sorted(broker.folder.glob("*.journal"))
    missing = [paths[at] for at in gone]
    for path in missing:
        path.unlink()

    refused = _start_refused(broker)

    assert refused.returncode == 1
    assert all(path.name in refused.stderr for path in missing)
    assert f"quinque check {broker.folder}" in refused.stderr


def test_a_job_whose_body_rots_on_the_disk_is_dead_and_the_others_are_delivered(
    tmp_path: Path,
) -> None:
    flags = ("--maxmemory", "1mb", "--segment-size", "64kb")
    with start_broker(tmp_path, *flags) as broker, broker.connect() as client:
        bodies = [b"%d-" % number + b"x" * 30_000 for number in range(100)]
        ids = [client.call("ADDJOB", "q", body, 0) for body in bodies]
        rotten = next(
            path for path in broker.folder.glob("*.journal") if b"90-xxx" in path.read_bytes()
        )
        at = rotten.read_bytes().index(b"90-xxx")
        with open(rotten, "r+b") as file:
            file.seek(at + 5)
            file.write(b"y")

        taken = [client.call("GETJOB", "FROM", "q")[0] for _ in range(99)]
        acked = client.call("ACKJOB", *[job[1] for job in taken])

        assert [job[2] for job in taken] == [*bodies[:90], *bodies[91:]]
        assert acked == 99
        assert client.call("GETJOB", "NOHANG", "FROM", "q") is None
        shown = client.call("SHOW", ids[90])
        fields = dict(zip(shown[::2], shown[1::2], strict=True))
        assert (fields[b"state"], fields[b"body"]) == (b"dead", b"")
        broker.hear(
            f"moved message {ids[90].decode()} of queue q out of the queue: a body in segment "
        )
        wait_until(lambda: not rotten.exists(), "the end of the damaged file")
        assert len([line for line in broker.log if "out of the queue" in line]) == 1
        assert len(list(broker.folder.glob("damaged-*.bin"))) == 1
        broker.kill()
        broker.restart()
        with broker.connect() as again:
            shown = again.call("SHOW", ids[90])
            assert (shown[shown.index(b"state") + 1], shown[-1]) == (b"dead", b"")


def _start_refused(broker: RunningBroker) -> subprocess.CompletedProcess[str]:
    """It starts on the folder, and ends by itself."""
    return subprocess.run(
        broker.command("127.0.0.1:0"), capture_output=True, text=True, check=False
    )


def _journal(broker: RunningBroker) -> tuple[Path, bytes, list[Batch]]:
    """The only segment: where it is, its bytes, its batches (the first opens it)."""
    (path,) = broker.folder.glob("*.journal")
    data = path.read_bytes()
    batches = [batch for batch in read_batches(data) if isinstance(batch, Batch)]
    assert len(batches) == COMMITS + 1
    return path, data, batches


def _zero(data: bytes, start: int, sector: int) -> bytes:
    """The data as if a sector of what begins at `start` had not been written."""
    at = start - start % SECTOR_BYTES + (sector - 1) * SECTOR_BYTES
    begin, end = max(at, start), at + SECTOR_BYTES
    return data[:begin] + bytes(end - begin) + data[end:]


def _numbers(replies: Iterable[list[bytes]]) -> list[int]:
    return [int(body.split(b".")[0]) for _, body in replies]
