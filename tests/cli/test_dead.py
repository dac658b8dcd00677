"""`quinque dead`: which messages are dead and why, ready again, or gone."""

from __future__ import annotations

import pytest

from tests.cli.shell import Shell
from tests.server.resp import Client


@pytest.fixture
def ids(client: Client, queue: str) -> list[str]:
    """Three dead jobs."""
    for number in range(3):
        client.call("ADDJOB", queue, f"job {number}", 0, "MAXDELIVERIES", 1)
    taken = client.call("GETJOB", "COUNT", 3, "FROM", queue)
    for _, id, _ in taken:
        client.call("NACK", id, "REASON", "no such address")
    return [id.decode() for _, id, _ in taken]


def test_dead_messages_are_listed_with_the_reason(shell: Shell, queue: str, ids: list[str]) -> None:
    listed = shell.json("dead", "ls")
    assert {"name": queue, "family": "jobs", "dead": 3} in listed

    rows = shell.json("dead", "ls", queue, "--count", "2")
    assert [(row["id"], row["reason"]) for row in rows] == [
        (id, "no such address") for id in ids[:2]
    ]
    shown = shell.json("dead", "show", queue, ids[2])
    assert (shown["state"], shown["body"]) == ("dead", "job 2")


def test_a_dead_job_shows_no_time_to_live(shell: Shell, queue: str, ids: list[str]) -> None:
    lines = shell.lines("dead", "show", queue, ids[0])

    assert [line for line in lines if line.startswith("lives")] == []
    assert shell.json("dead", "show", queue, ids[0])["lives_s"] is None


def test_a_dead_message_is_one_line_and_full_shows_its_whole_error(
    shell: Shell, client: Client, queue: str
) -> None:
    id = client.call("ADDJOB", queue, "the body", 0, "MAXDELIVERIES", 1).decode()
    client.call("GETJOB", "FROM", queue)
    client.call("NACK", id, "REASON", "ValueError: bad\n  emails.py:8 in send")

    head, line = shell.lines("dead", "ls", queue)
    full = shell.lines("dead", "ls", queue, "--full")

    assert head.split() == ["id", "age", "deliveries", "error"]
    assert (line.split()[0], line.endswith("  1  ValueError: bad")) == (id, True)
    at = next(number for number, text in enumerate(full) if text.startswith("reason"))
    assert full[0].split() == ["id", id]
    assert " ".join(" ".join(full[at : at + 2]).split()) == (
        "reason ValueError: bad emails.py:8 in send"
    )
    assert full[-1].split(None, 1) == ["body", "the body"]


def test_dead_messages_are_redriven_by_id_by_number_and_all(
    shell: Shell, queue: str, ids: list[str]
) -> None:
    assert shell.json("dead", "redrive", queue, ids[2]) == {"redriven": 1}
    assert shell.json("dead", "redrive", queue, "--count", "1") == {"redriven": 1}
    assert shell.lines("dead", "redrive", queue) == [f"redrove 1 message of {queue}"]

    assert shell.json("dead", "redrive", queue, code=1) == {"redriven": 0}
    assert shell.code("dead", "show", queue, ids[0]) == 1


def test_dead_messages_are_dropped_and_living_ones_are_not(
    shell: Shell, queue: str, ids: list[str]
) -> None:
    shell.lines("dead", "redrive", queue, ids[0])

    assert shell.run("dead", "drop", queue).exit_code == 2
    assert shell.json("dead", "drop", queue, ids[0], ids[1], "--yes") == {"dropped": 1}
    assert shell.json("dead", "drop", queue, "--yes") == {"dropped": 1}
    assert [row["id"] for row in shell.json("message", "peek", queue)] == [ids[0]]


def test_buried_tasks_are_dead_messages_of_a_tube(shell: Shell, client: Client, queue: str) -> None:
    client.call("TUBE.CREATE", queue, "fifo")
    client.call("TUBE.MPUT", queue, "one", "two", "three")
    for id in range(3):
        client.call("TUBE.BURY", queue, id)

    assert {"name": queue, "family": "tubes", "dead": 3} in shell.json("dead", "ls")
    assert [row["body"] for row in shell.json("dead", "ls", queue)] == ["one", "two", "three"]
    assert [line.split()[0] for line in shell.lines("dead", "ls", queue)] == ["id", "0", "1", "2"]
    assert shell.json("dead", "drop", queue, "0", "--yes") == {"dropped": 1}
    assert shell.json("dead", "redrive", queue, "--count", "1") == {"redriven": 1}
    assert shell.json("dead", "drop", queue, "1", "--yes", code=1) == {"dropped": 0}
    assert shell.json("dead", "drop", queue, "--yes") == {"dropped": 1}
    assert shell.json("dead", "drop", queue, "--yes", code=1) == {"dropped": 0}
    assert [row["id"] for row in shell.json("message", "peek", queue)] == ["1"]


def test_buried_tasks_are_redriven_by_id(shell: Shell, client: Client, queue: str) -> None:
    client.call("TUBE.CREATE", queue, "fifo")
    client.call("TUBE.MPUT", queue, "one", "two", "three")
    for id in range(3):
        client.call("TUBE.BURY", queue, id)

    assert shell.json("dead", "redrive", queue, "2", "0", "2", "9") == {"redriven": 2}
    assert shell.json("dead", "redrive", queue, "2", code=1) == {"redriven": 0}
    assert "is not the id of a task" in shell.run("dead", "show", queue, "\udcff").stderr
    assert [row["id"] for row in shell.json("dead", "ls", queue)] == ["1"]
    refused = shell.run("dead", "redrive", queue, "1", "--count", "1")
    assert (refused.exit_code, "--count" in refused.stderr) == (2, True)
    assert shell.json("dead", "redrive", queue) == {"redriven": 1}


def test_families_without_dead_messages_say_so(shell: Shell, client: Client, queue: str) -> None:
    client.call("RQ.PUSH", queue, "one")

    result = shell.run("dead", "redrive", queue)

    assert (result.exit_code, "does not support dead messages" in result.stderr) == (2, True)
    assert shell.code("dead", "ls", queue) == 2
