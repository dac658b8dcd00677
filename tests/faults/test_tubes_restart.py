"""After a restart, wanted or not, tubes and tasks are what they were, and sessions as was said.

A stop is SIGTERM, a kill is SIGKILL. What was taken is ready after it, unless its session is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.clocks import WallClock
from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client, Refusal

A_LITTLE_S = 60  # more than a test takes
KINDS = ("fifo", "fifottl", "limfifottl", "utube", "utubettl")
ENDS = ["stop", "kill"]


@pytest.fixture
def clock(tmp_path: Path) -> WallClock:
    return WallClock(tmp_path)


@pytest.fixture
def broker(tmp_path: Path, clock: WallClock) -> Iterator[RunningBroker]:
    """A broker of its own, with bodies only on the disk."""
    with start_broker(tmp_path, "--maxmemory", "1", variables=clock.variables) as running:
        yield running


def peeked(client: Client, tube: str, count: int) -> list[Any]:
    """The tasks of the first ids, as they are; None for each that is not there."""
    found = [client.call("TUBE.PEEK", tube, id) for id in range(count)]
    return [None if isinstance(task, Refusal) else task for task in found]


def letters(client: Client, tube: str, count: int) -> bytes:
    """The states of the first ids, a letter each; a point for each that is not there."""
    return b"".join(b"." if task is None else task[1] for task in peeked(client, tube, count))


def fill(client: Client) -> None:
    """In a tube of each kind: a task that is ready, one that is taken, buried, acked; and where
    there are times, one that is delayed."""
    for kind in KINDS:
        assert client.call("TUBE.CREATE", kind, kind) == 1
        for number in range(4):
            options = ("UTUBE", f"lane {number}") if kind.startswith("utube") else ()
            client.call("TUBE.PUT", kind, f"{kind} {number}\r\n", *options)
        assert client.call("TUBE.TAKE", kind, 0)[0] == 0
        assert client.call("TUBE.TAKE", kind, 0)[0] == 1
        assert client.call("TUBE.ACK", kind, 1)[1] == b"-"
        assert client.call("TUBE.BURY", kind, 2)[1] == b"!"
        if kind.endswith("ttl"):
            assert client.call("TUBE.PUT", kind, "later", "DELAY", 600)[1] == b"~"
        assert letters(client, kind, 5) == (b"t.!r~" if kind.endswith("ttl") else b"t.!r.")


@pytest.mark.parametrize("end", ENDS)
def test_everything_is_as_it_was_but_what_was_taken_is_ready(
    broker: RunningBroker, end: str
) -> None:
    with broker.connect() as client:
        fill(client)
        fill_temporary(client)
        listed = client.call("TUBE.LIST")
        before = {kind: peeked(client, kind, 5) for kind in KINDS}
        getattr(broker, end)()

    broker.restart()

    with broker.connect() as client:
        assert client.call("TUBE.LIST") == listed
        counts = statistics(client, "fifo", "calls")
        assert counts in ({}, {b"release": 1}), "it begins to count anew"
        assert statistics(client, "fifo", "tasks") == {b"ready": 2, b"buried": 1, b"total": 3}
        for kind in KINDS:
            first, *others = peeked(client, kind, 5)
            assert first == [0, b"r", before[kind][0][2]]
            assert others == before[kind][1:]
            assert client.call("TUBE.TAKE", kind, 0) == [0, b"t", first[2]]
            number = client.call("TUBE.PUT", kind, "new")[0]
            assert number == (5 if kind.endswith("ttl") else 4), "no id comes again"
            assert client.call("TUBE.KICK", kind, 9) == 1
        assert client.call("TUBE.TAKE", "temporary", 0) is None
        assert client.call("TUBE.PUT", "temporary", "y") == [0, b"r", b"y"]
        assert client.call("TUBE.TAKE", "temporary", 0) == [0, b"t", b"y"]


def fill_temporary(client: Client) -> None:
    """A tube whose tasks do not outlive the broker: ready, taken, buried."""
    assert client.call("TUBE.CREATE", "temporary", "fifottl", "TEMPORARY", "TTL", 9, "PRI", 3) == 1
    for number in range(3):
        assert client.call("TUBE.PUT", "temporary", "x" * 100)[0] == number
    client.call("TUBE.TAKE", "temporary", 0)
    client.call("TUBE.BURY", "temporary", 2)


def statistics(client: Client, tube: str, part: str) -> dict[bytes, int]:
    """What is not 0 of one part of them."""
    rows = paired(paired(client.call("TUBE.STATS", tube))[part.encode()])
    return {name: count for name, count in rows.items() if count}


def paired(flat: list[Any]) -> dict[bytes, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def test_a_session_that_is_kept_is_found_again_with_what_it_had(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--session-ttr", "600") as broker:
        with broker.connect() as client:
            fill(client)
            session = client.call("TUBE.IDENTIFY")
            broker.kill()

        broker.restart()

        with broker.connect() as client:
            assert letters(client, "utube", 4) == b"t.!r"
            assert client.call("TUBE.ACK", "utube", 0) == Refusal("NOTTAKEN Task was not taken")
            assert client.call("TUBE.IDENTIFY", session) == session
            for kind in KINDS:
                assert client.call("TUBE.ACK", kind, 0)[1] == b"-"


def test_a_session_that_nobody_comes_back_to_ends(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--session-ttr", "0.3") as broker:
        with broker.connect() as client:
            client.call("TUBE.CREATE", "t", "fifo")
            client.call("TUBE.PUT", "t", "x")
            client.call("TUBE.TAKE", "t", 0)
            session = client.call("TUBE.IDENTIFY")
            broker.kill()

        broker.restart()

        with broker.connect() as client:
            assert client.call("TUBE.TAKE", "t", 20) == [0, b"t", b"x"]
            refused = client.call("TUBE.IDENTIFY", session)
            assert isinstance(refused, Refusal)
            assert refused.text.startswith("NOSESSION The UUID ")


def test_what_became_due_while_it_was_down_is_so_when_it_is_up(
    broker: RunningBroker, clock: WallClock
) -> None:
    with broker.connect() as client:
        for kind in ("fifottl", "utubettl"):
            client.call("TUBE.CREATE", kind, kind, "TTL", 100_000)
            client.call("TUBE.PUT", kind, "delayed", "DELAY", 600)
            client.call("TUBE.PUT", kind, "long", "DELAY", 9_000)
            client.call("TUBE.PUT", kind, "over", "TTL", 600)
            client.call("TUBE.PUT", kind, "buried", "TTL", 600)
            client.call("TUBE.PUT", kind, "buried for long")
            client.call("TUBE.PUT", kind, "ready")
            for id in (3, 4):
                client.call("TUBE.BURY", kind, id)
            assert letters(client, kind, 6) == b"~~r!!r"
    broker.kill()
    clock.jump(600 + A_LITTLE_S)

    broker.restart()

    with broker.connect() as client:
        for kind in ("fifottl", "utubettl"):
            assert letters(client, kind, 6) == b"r~..!r"
