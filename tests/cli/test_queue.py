"""`quinque queue`: which there are, how much is in them, and what is done to one as a whole."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.facts.repository import ROOT
from tests.server.broker import start_broker
from tests.server.resp import Client, request


def test_queues_of_all_families_are_listed_with_what_is_in_them(
    shell: Shell, client: Client, queue: str
) -> None:
    client.call("QADD", f"{queue}.a", 60, "one")
    client.call("ADDJOB", f"{queue}.b", "one", 0, "DELAY", 60)
    client.call("RQ.PUSH", f"{queue}.c", "one", "two")
    client.call("RQ.POP", f"{queue}.c")
    client.call("WQ.ADD", f"{queue}.d", "id", "one")
    client.call("TUBE.CREATE", f"{queue}.e", "fifo")

    listed = shell.json("queue", "ls", f"{queue}.*")

    told = [[row[name] for name in ("family", "ready", "leased", "delayed")] for row in listed]
    assert told == [
        ["events", 1, 0, 0],
        ["jobs", 0, 0, 1],
        ["reliable", 1, 1, 0],
        ["items", 1, 0, 0],
        ["tubes", 0, 0, 0],
    ]
    head, *lines = shell.lines("queue", "ls", f"{queue}.*", "--family", "reliable")
    assert head.split() == [
        "queue",
        "family",
        "ready",
        "leased",
        "claimed",
        "delayed",
        "dead",
        "oldest",
    ]
    assert [line.split()[:6] for line in lines] == [[f"{queue}.c", "reliable", "1", "1", "0", "0"]]


def test_the_largest_come_first_if_it_is_asked_for(
    shell: Shell, client: Client, queue: str
) -> None:
    client.call("RQ.PUSH", f"{queue}.few", "one")
    client.call("RQ.PUSH", f"{queue}.many", "one", "two")

    listed = shell.json("queue", "ls", f"{queue}.*", "--sort", "ready")

    assert [row["name"] for row in listed] == [f"{queue}.many", f"{queue}.few"]


def test_small_queues_are_found_among_very_many(embedded_shell: Shell, queue: str) -> None:
    shell = embedded_shell
    full = [f"{queue}.full.{number}" for number in range(1_000)]
    with shell.client() as client:
        client.send_bytes(b"".join(request("RQ.PUSH", name, "one", "two") for name in full))
        client.read_many(len(full))
        client.call("TUBE.CREATE", f"{queue}.small", "fifo")
        client.call("TUBE.PUT", f"{queue}.small", "one")
        client.call("TUBE.BURY", f"{queue}.small", 0)
        try:
            everything = shell.run("queue", "ls")
            [small] = shell.json("queue", "ls", f"{queue}.s*")
            tubes = {row.get("name") for row in shell.json("queue", "ls", "--family", "tubes")}
            dead = {row.get("name") for row in shell.json("dead", "ls")}
            named = shell.json("queue", "ls", f"{queue}.*")
        finally:
            client.call("DEL", *full)

    assert len(everything.stdout.splitlines()) == 1_001
    assert " with fewer messages" in everything.stderr
    assert (small["name"], small["dead"]) == (f"{queue}.small", 1)
    assert small["name"] in tubes & dead
    assert {row.get("name") for row in named} == {*full, small["name"]}


def test_info_tells_what_a_family_has_of_its_own(shell: Shell, client: Client, queue: str) -> None:
    client.call("ADDJOB", f"{queue}.jobs", "one", 0)
    client.call("QADD", f"{queue}.events", 60, "one")
    client.call("QGET", f"{queue}.events", "billing")
    client.call("TUBE.CREATE", f"{queue}.tube", "limfifottl", "CAPACITY", 5)

    jobs = shell.json("queue", "info", f"{queue}.jobs")
    assert (jobs["ready"], jobs["paused_in"], jobs["came"]) == (1, False, 1)
    events = shell.json("queue", "info", f"{queue}.events")
    assert events["groups"] == [{"name": "billing", "ready": 0, "leased": 1}]
    tube = shell.json("queue", "info", f"{queue}.tube")
    assert (tube["kind"], tube["capacity"], tube["calls"]["put"]) == ("limfifottl", 5, 0)
    lines = shell.lines("queue", "info", f"{queue}.events")
    assert [line.split(maxsplit=1)[1] for line in lines if line.startswith("groups")] == [
        "name billing, ready 0, leased 1"
    ]


def test_a_queue_is_paused_one_way_or_both_and_resumed(
    shell: Shell, client: Client, queue: str
) -> None:
    client.call("ADDJOB", queue, "one", 0)

    assert shell.json("queue", "pause", queue, "--out") == {
        "name": queue, "paused_in": False, "paused_out": True, "created": False,
    }  # fmt: skip
    assert shell.code("message", "take", queue) == 1
    shell.lines("queue", "pause", queue)
    assert shell.code("message", "add", queue, "two") == 3
    shell.lines("queue", "resume", queue)
    assert shell.code("message", "take", queue) == 0


def test_expired_jobs_are_kept_or_deleted_as_is_set(
    shell: Shell, client: Client, queue: str
) -> None:
    client.call("ADDJOB", queue, "one", 0)
    client.call("QADD", f"{queue}.events", 60, "one")

    assert shell.json("queue", "info", queue)["keeps_expired"] is False
    assert shell.json("queue", "set", queue, "--expired", "dead") == {
        "name": queue, "keeps_expired": True, "created": False,
    }  # fmt: skip
    assert shell.json("queue", "info", queue)["keeps_expired"] is True
    assert shell.lines("queue", "set", queue, "--expired", "delete") == [
        f"{queue}: jobs that expire are deleted"
    ]
    assert shell.code("queue", "set", queue, "--expired", "kept") == 2
    refused = shell.run("queue", "set", f"{queue}.events", "--expired", "dead")
    assert refused.exit_code == 2
    assert "only expired jobs can be kept" in refused.stderr


def test_pause_and_set_create_a_queue_as_they_do_on_the_wire(shell: Shell, queue: str) -> None:
    paused, kept = f"{queue}.paused", f"{queue}.kept"

    assert shell.lines("queue", "pause", paused, "--in") == [f"{paused} (created) is paused (in)"]
    assert shell.lines("queue", "pause", paused, "--in") == [f"{paused} is paused (in)"]
    assert shell.json("queue", "set", kept, "--expired", "dead") == {
        "name": kept, "keeps_expired": True, "created": True,
    }  # fmt: skip

    assert shell.json("queue", "info", paused)["paused_in"] is True
    assert shell.json("queue", "info", kept)["keeps_expired"] is True
    assert shell.code("message", "add", paused, "x") == 3


@pytest.mark.parametrize("family", ["jobs", "events", "reliable", "items", "tubes"])
def test_flush_leaves_nothing_in_a_queue_of_any_family(
    shell: Shell, client: Client, queue: str, family: str
) -> None:
    name = f"{queue}.{family}"
    if family == "tubes":
        client.call("TUBE.CREATE", name, "fifo")
    shell.lines("message", "add", name, "one", "two", "three", "--family", family)
    if family == "items":
        client.call("WQ.LEASE", name, 60_000)

    refused = shell.run("queue", "flush", name)
    assert refused.exit_code == 2
    assert f"refusing to remove 3 messages of {name} without confirmation" in refused.stderr
    flushed = shell.json("queue", "flush", name, "--yes")
    assert flushed == {"name": name, "removed": 3, "left": 0}


def test_what_is_not_there_is_nothing_found(shell: Shell) -> None:
    for words in (("info", "nowhere"), ("resume", "nowhere"), ("flush", "nowhere")):
        assert shell.code("queue", *words) == 1, words


def test_an_empty_list_is_no_failure(shell: Shell, client: Client, queue: str) -> None:
    client.call("ADDJOB", queue, "one", 0)

    for words in (("queue", "ls", "no*"), ("dead", "ls", queue)):
        result = shell.run(*words)
        assert (result.exit_code, result.output) == (0, "")
        assert shell.json(*words) == []
    assert shell.json("message", "peek", queue, "--state", "dead") == []


def test_the_limited_user_of_the_example_can_use_the_command_line(tmp_path: Path) -> None:
    users = ROOT / "docs" / "examples" / "users.toml"
    password = tomllib.loads(users.read_text(encoding="utf-8"))["users"]["shop"]["password"]
    own = ("--username", "shop", "--password", password)

    with start_broker(tmp_path, "--users", str(users)) as running:
        shell = Shell(running.port)
        [id] = shell.lines("message", "add", "orders.new", "book", "--family", "events", *own)
        [listed] = shell.json("queue", "ls", *own)

        assert id.isdecimal()
        assert (listed["name"], listed["ready"]) == ("orders.new", 1)
        assert "orders.new" in shell.run("queue", "info", "orders.new", *own).stdout
