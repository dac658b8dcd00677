"""All families at work for long: every message is accounted for, and the broker does not grow.

A build plays a few rounds. QUINQUE_EFFORT plays them for ten minutes, which is long enough to see
memory, files or disk space that one round in a thousand does not give back.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic

from tests.model.effort import EFFORT
from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client

SECONDS = 600
ROUNDS = 12
WARM_ROUNDS = 8  # until caches, free lists and the journal have their size
MESSAGES = 40  # of each family in a round
MOST_GROWTH = 1.2
MOST_JOURNAL_BYTES = 16 << 20


def test_rounds_of_all_families_lose_nothing_and_leave_nothing_behind(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--fsync", "no", "--segment-size", "256kb") as broker:
        ends_s = monotonic() + SECONDS if EFFORT else 0
        number, warm = 0, (0, 0)
        while number < ROUNDS or monotonic() < ends_s:
            with broker.connect() as client, broker.connect() as other:
                play_round(client, other, number)
            number += 1
            if number == WARM_ROUNDS:
                warm = used(broker)

        memory_bytes, files = used(broker)
        assert memory_bytes < warm[0] * MOST_GROWTH
        assert files <= warm[1] + 2  # a segment more, and its successor
        journal_bytes = sum(path.stat().st_size for path in broker.folder.rglob("*.journal"))
        assert journal_bytes < MOST_JOURNAL_BYTES


def play_round(client: Client, other: Client, number: int) -> None:
    """Send messages through a queue of each family under a new name, and account for each."""
    bodies = [b"%d-%d-" % (number, at) + b"x" * (at * 50) for at in range(MESSAGES)]

    for body in bodies:
        client.call("ADDJOB", f"jobs{number}", body, 0)
    rows = client.call("GETJOB", "COUNT", MESSAGES, "FROM", f"jobs{number}")
    assert [row[2] for row in rows] == bodies
    assert client.call("NACK", *[row[1] for row in rows[::2]]) == len(rows[::2])
    again = client.call("GETJOB", "COUNT", MESSAGES, "FROM", f"jobs{number}")
    assert [row[2] for row in again] == bodies[::2]
    assert client.call("ACKJOB", *[row[1] for row in rows]) == MESSAGES

    elements = f"elements{number}"
    client.call("RQ.PUSH", f"{elements}-old", *bodies)
    assert client.call("RENAME", f"{elements}-old", elements) == b"OK"
    rows = client.call("RQ.POP", "COUNT", MESSAGES, elements)
    assert [row[2] for row in rows] == bodies
    assert len(client.call("RQ.ACK", elements, *[row[1] for row in rows])) == MESSAGES
    assert client.call("DEL", elements) == 1

    events = f"events{number}"
    for body in bodies:
        client.call("QADD", events, 60, body)
    for group in (f"g{number}", "same"):
        taken = [client.call("QGET", events, group) for _ in bodies]
        assert [event[1] for event in taken] == bodies
        for event in taken:
            assert client.call("QACK", events, group, event[0]) == 1
    client.call("QFLUSH", events)

    items = f"items{number}"
    for at, body in enumerate(bodies):
        assert client.call("WQ.ADD", items, f"id{at}", body) == 1
    for at, body in enumerate(bodies):
        assert client.call("WQ.LEASE", items, 60_000) == [[b"id%d" % at, body]]
        assert client.call("WQ.COMPLETE", items, f"id{at}") == 1

    tube = f"tube{number}"
    assert client.call("TUBE.CREATE", tube, "fifottl") == 1
    for at, body in enumerate(bodies):
        assert client.call("TUBE.PUT", tube, body) == [at, b"r", body]
    for at, body in enumerate(bodies):
        assert client.call("TUBE.TAKE", tube) == [at, b"t", body]
        assert client.call("TUBE.ACK", tube, at) == [at, b"-", body]
    assert client.call("TUBE.DROP", tube) == b"OK"

    other.send("GETJOB", "TIMEOUT", 60_000, "FROM", f"waited{number}")
    client.call("ADDJOB", f"waited{number}", "x", 0)
    [row] = other.value()
    assert client.call("ACKJOB", row[1]) == 1


def used(broker: RunningBroker) -> tuple[int, int]:
    """Return the broker's resident memory in bytes, and the number of its open files."""
    status = Path(f"/proc/{broker.pid}/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(resident.split()[1]) << 10, len(os.listdir(f"/proc/{broker.pid}/fd"))
