"""`quinque message`: every family alike where a verb makes sense, and a clear error where not."""

from __future__ import annotations

import json
import os
from base64 import b64decode
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.server.resp import Client

# Of each family, the words that taking needs.
TAKING: dict[str, tuple[str, ...]] = {
    "jobs": (),
    "events": ("--group", "billing"),
    "reliable": (),
    "items": ("--lease", "1m"),
}


@pytest.mark.parametrize("family", TAKING)
def test_what_is_added_is_peeked_at_taken_and_acked(shell: Shell, queue: str, family: str) -> None:
    name = f"{queue}.{family}"
    taking = TAKING[family]

    [one] = shell.lines("message", "add", name, "one", "--family", family)
    [two] = shell.lines("message", "add", name, "two")
    assert [row["id"] for row in shell.json("message", "peek", name)] == [one, two]
    assert shell.json("message", "show", name, two)["body"] == "two"
    [taken] = shell.json("message", "take", name, *taking)
    assert (taken["id"], taken["body"]) == (one, "one")
    group = ("--group", "billing") if family == "events" else ()
    assert shell.json("message", "ack", name, one, *group) == {"acked": 1}

    assert shell.lines("message", "take", name, "--ack", *taking)[1].split() == [two, "two"]
    assert shell.json("message", "take", name, *taking, code=1) == []


def test_a_task_of_a_tube_is_added_shown_taken_and_deleted(
    shell: Shell, client: Client, queue: str
) -> None:
    client.call("TUBE.CREATE", queue, "fifottl")

    assert shell.lines("message", "add", queue, "one", "two", "three") == ["0", "1", "2"]
    assert shell.lines("message", "add", queue, "urgent", "--pri", "0", "--delay", "1h") == ["3"]
    assert shell.json("message", "show", queue, "3") == {
        "id": "3", "state": "delayed", "body": "urgent",
    }  # fmt: skip
    assert [task["body"] for task in shell.json("message", "peek", queue)] == [
        "one",
        "two",
        "three",
    ]
    shell.lines("message", "add", queue, "now", "--delay", "1us", "--ttl", "1h")
    assert shell.json("message", "delete", queue, "4", "--yes") == {"deleted": 1}
    [delayed] = shell.json("message", "peek", queue, "--state", "delayed")
    assert delayed == shell.json("message", "show", queue, "3")
    [taken] = shell.json("message", "take", queue, "--ack")
    assert taken == {"id": "0", "body": "one"}
    assert shell.json("message", "delete", queue, "1", "99", "--yes") == {"deleted": 1}
    assert shell.code("message", "show", queue, "1") == 1


def test_a_session_takes_a_task_with_one_command_and_acks_it_with_another(
    shell: Shell, client: Client, queue: str
) -> None:
    client.call("TUBE.CREATE", queue, "fifo")
    shell.lines("message", "add", queue, "one", "two", "three")
    assert "session-ttr 60" in shell.run("message", "take", queue, "--session", "me").stderr

    client.call("CONFIG", "SET", "session-ttr", 60)
    try:
        taken = shell.json("message", "take", queue, "--session", f"{queue}.me", "--count", "2")
        assert [task["id"] for task in taken] == ["0", "1"]
        assert shell.code("message", "ack", queue, "0", "--session", f"{queue}.other") == 1
        ack = ("message", "ack", queue, "0", "1", "2", "--session", f"{queue}.me")
        assert shell.json(*ack) == {"acked": 2}
    finally:
        client.call("CONFIG", "SET", "session-ttr", 0)


def test_a_verb_that_a_family_does_not_have_is_refused_with_what_there_is_instead(
    shell: Shell, client: Client, queue: str
) -> None:
    client.call("TUBE.CREATE", queue, "fifo")
    client.call("QADD", f"{queue}.events", 60, "one")
    client.call("RQ.PUSH", f"{queue}.reliable", "one")

    for words, why in (
        (("message", "take", queue), "does not support message take without --ack or --session"),
        (("message", "ack", queue, "0"), "does not support message ack without --session"),
        (
            ("message", "add", queue, "x", "--unique", "k"),
            "--unique: the supported options are --delay",
        ),
        (
            ("message", "take", f"{queue}.events"),
            "does not support message take and ack without --group",
        ),
        (
            ("message", "peek", f"{queue}.events", "--state", "dead"),
            "queue info shows their number",
        ),
        (
            ("message", "add", f"{queue}.events", "x", "--delay", "5s"),
            "the supported options are --ttl",
        ),
        (("message", "add", f"{queue}.events", "x", "--family", "jobs"), "events, not jobs"),
        (
            ("message", "delete", f"{queue}.reliable", "1-1", "--yes"),
            "does not support message delete",
        ),
        (("message", "take", f"{queue}.reliable", "--lease", "5s"), "remove the option"),
    ):
        result = shell.run(*words)
        assert (result.exit_code, why in result.stderr) == (2, True), (words, result.stderr)


def test_lines_of_stdin_are_messages_and_so_is_all_of_it(
    shell: Shell, client: Client, queue: str
) -> None:
    lines = b"".join(b"%d\n" % number for number in range(2_500))

    assert shell.lines("message", "add", queue, "--lines", input=lines) == [
        f"added 2,500 messages to {queue}"
    ]
    assert client.call("QLEN", queue) == 2_500
    shell.lines("message", "add", f"{queue}.odd", "--lines", input=b"one\r\n\nlast")
    assert [row["body"] for row in shell.json("message", "peek", f"{queue}.odd")] == [
        "one",
        "",
        "last",
    ]
    shell.lines("message", "add", f"{queue}.whole", input=b"two\nlines\n")

    [whole] = shell.json("message", "take", f"{queue}.whole")
    assert whole["body"] == "two\nlines\n"


def test_a_key_is_taken_once_and_an_id_too(shell: Shell, queue: str) -> None:
    first = shell.lines("message", "add", queue, "one", "--unique", "k")

    assert shell.lines("message", "add", queue, "two", "--unique", "k") == first
    assert shell.code("message", "add", f"{queue}.i", "one", "--family", "items", "--id", "a") == 0
    assert shell.code("message", "add", f"{queue}.i", "two", "--id", "a") == 1
    # The second line would be left out if it is read later than the first.
    for name, option in ((queue, "--unique"), (f"{queue}.i", "--id")):
        result = shell.run("message", "add", name, "--lines", option, "b", input=b"one\n")
        assert (result.exit_code, "--lines adds several messages" in result.stderr) == (2, True)
    assert shell.code("message", "show", f"{queue}.i", "b") == 1


def test_a_job_is_shown_with_all_that_is_known_of_it(shell: Shell, queue: str) -> None:
    [id] = shell.lines("message", "add", queue, "one", "--delay", "1h", "--max-deliveries", "3")

    shown: dict[str, Any] = shell.json("message", "show", queue, id)

    assert (shown["state"], shown["queue"], shown["max_deliveries"]) == ("delayed", queue, 3)
    assert 3_500 < shown["due_within_s"] <= 3_600
    assert "due within" in shell.run("message", "show", queue, id).stdout


def test_bodies_that_are_no_text_are_told_in_base64_and_a_terminal_is_not_told_what_to_do(
    shell: Shell, client: Client, queue: str
) -> None:
    client.call("ADDJOB", queue, b"\x1b[2J\xff", 0)

    assert shell.json("message", "peek", queue)[0]["body_base64"] == "G1sySv8="
    assert shell.lines("message", "peek", queue)[1].endswith("\\x1b[2J\\xff")


def test_names_too_are_told_in_base64_and_do_nothing_to_a_terminal(
    shell: Shell, client: Client, queue: str
) -> None:
    name = f"{queue}\x1b[2J\udcff"  # as Python has a byte that is not UTF-8, when it was typed

    shell.lines("message", "add", name, "one")

    shown = f"{queue}\\x1b[2J\\xff"
    assert shell.lines("queue", "pause", name) == [f"{shown} is paused (in and out)"]
    flushed = shell.json("queue", "flush", name, "--yes")
    assert b64decode(flushed["name_base64"]) == os.fsencode(name)
    assert shell.run("message", "show", f"{name}.none", "x").stderr.endswith(f"{shown}.none\n")
    client.call("TUBE.CREATE", os.fsencode(f"{name}.lanes"), "utube")
    assert shell.lines("message", "add", f"{name}.lanes", "x", "--lane", name) == ["0"]


def test_nothing_within_the_time_is_nothing_found(shell: Shell, queue: str) -> None:
    shell.lines("message", "add", queue, "one")
    shell.lines("message", "take", queue, "--ack")

    result = shell.run("message", "take", queue, "--wait", "20ms")

    assert (result.exit_code, result.output) == (1, "")


def test_of_a_tube_that_gets_full_it_is_told_what_went_in(
    shell: Shell, client: Client, queue: str
) -> None:
    client.call("TUBE.CREATE", queue, "limfifottl", "CAPACITY", 5)
    full = f"quinque: tube '{queue}' is full; retry when tasks are done"

    assert shell.json("message", "add", queue, "one") == [{"id": "0"}]
    some = shell.run("message", "add", queue, "two", "three", "--pri", "1", "--json")
    assert json.loads(some.stdout) == [{"id": "1"}, {"id": "2"}]
    result = shell.run("message", "add", queue, "four", "five", "six", "seven")
    assert (result.exit_code, result.stdout.splitlines()) == (3, ["3", "4"])
    assert result.stderr.splitlines() == ["quinque: 2 messages added before the error:", full]
    client.call("TUBE.DELETE", queue, 3)
    told = shell.json("message", "add", queue, "four", "five", "--pri", "1", code=3)
    assert (told["error"], told["added"]) == (
        f"tube '{queue}' is full; retry when tasks are done",
        ["5"],
    )
    assert shell.run("message", "add", queue, "x").stderr.splitlines() == [full]


@pytest.mark.parametrize("family", ["jobs", "events", "items", "tubes"])
def test_if_one_of_several_is_too_large_it_is_told_which_went_in(
    shell: Shell, client: Client, queue: str, family: str
) -> None:
    name = f"{queue}.{family}"
    options: tuple[str, ...] = ("--ttl", "1h") if family == "tubes" else ("--family", family)
    if family == "tubes":
        client.call("TUBE.CREATE", name, "fifottl")
    [_, before] = client.call("CONFIG", "GET", "max-arg-size")
    client.call("CONFIG", "SET", "max-arg-size", "1kb")
    try:
        bodies = ("one", "two", "x" * 2_000, "three")
        result = shell.run("message", "add", name, *bodies, *options)
        lines = b"one\ntwo\n" + b"x" * 2_000 + b"\nthree\n"
        of_lines = shell.run("message", "add", name, "--lines", *options, input=lines)
        told = shell.json("message", "add", name, *bodies, *options, code=3)
    finally:
        client.call("CONFIG", "SET", "max-arg-size", before)

    found = [row["id"] for row in shell.json("message", "peek", name)]
    assert (result.exit_code, result.stdout.splitlines()) == (3, found[:2])
    first, _ = result.stderr.splitlines()
    assert first == "quinque: 2 messages added before the error:"
    assert (of_lines.exit_code, of_lines.stderr) == (3, result.stderr)
    assert told["added"] == found[4:]


def test_a_job_is_found_in_its_own_queue_only(shell: Shell, queue: str) -> None:
    [id] = shell.lines("message", "add", queue, "one")
    shell.lines("message", "add", f"{queue}.other", "two")
    other = f"{queue}.other"

    assert shell.code("message", "show", other, id) == 1
    assert shell.json("message", "delete", other, id, "--yes", code=1) == {"deleted": 0}
    assert shell.json("message", "ack", other, id, code=1) == {"acked": 0}
    assert shell.json("dead", "redrive", other, id, code=1) == {"redriven": 0}

    assert shell.json("message", "delete", queue, id, "--yes") == {"deleted": 1}


def test_errors_are_told_in_json_too(shell: Shell) -> None:
    result = shell.run("message", "take", "nowhere", "--json")

    told = {"error": "no queue nowhere", "exit_code": 1}
    assert (result.exit_code, json.loads(result.stdout)) == (1, told)
    assert result.stderr == "quinque: no queue nowhere\n"


def test_an_empty_stdin_is_no_message_unless_it_is_meant(shell: Shell, queue: str) -> None:
    refused = shell.run("message", "add", queue)

    assert (refused.exit_code, "--empty" in refused.stderr) == (2, True)
    assert shell.code("queue", "info", queue) == 1
    shell.lines("message", "add", queue, "--empty")
    assert [row["body"] for row in shell.json("message", "peek", queue)] == [""]


def test_a_taken_message_is_returned_by_nack(shell: Shell, client: Client, queue: str) -> None:
    shell.lines("message", "add", queue, "one")
    [job] = shell.json("message", "take", queue)
    assert shell.json("message", "nack", queue, job["id"], "--reason", "busy") == {"returned": 1}
    [again] = shell.json("message", "take", queue)
    assert (again["id"], again["nacks"]) == (job["id"], 1)

    shell.lines("message", "add", f"{queue}.events", "two", "--family", "events")
    [event] = shell.json("message", "take", f"{queue}.events", "--group", "g")
    words = ("message", "nack", f"{queue}.events", event["id"])
    assert shell.run(*words).exit_code == 2
    assert shell.lines(*words, "--group", "g") == [f"returned 1 message to {queue}.events"]
    assert shell.json(*words, "--group", "g", code=1) == {"returned": 0}


def test_families_without_nack_say_what_to_do_instead(
    shell: Shell, client: Client, queue: str
) -> None:
    client.call("RQ.PUSH", f"{queue}.reliable", "one")
    client.call("WQ.ADD", f"{queue}.items", "id", "one")

    for name, instead in (("reliable", "RQ.RECOVER"), ("items", "when its lease ends")):
        result = shell.run("message", "nack", f"{queue}.{name}", "1-1")
        assert (result.exit_code, instead in result.stderr) == (2, True)


def test_a_task_is_returned_by_the_session_that_took_it(
    shell: Shell, client: Client, queue: str
) -> None:
    client.call("TUBE.CREATE", queue, "fifottl")
    client.call("TUBE.PUT", queue, "one")
    client.call("TUBE.IDENTIFY", f"{queue}.session")
    client.call("TUBE.TAKE", queue)

    assert shell.run("message", "nack", queue, "0").exit_code == 2
    words = ("message", "nack", queue, "0", "--session", f"{queue}.session")
    assert shell.json(*words, "--delay", "1h") == {"returned": 1}
    assert [row["id"] for row in shell.json("message", "peek", queue, "--state", "delayed")] == [
        "0"
    ]
    assert shell.json(*words, code=1) == {"returned": 0}
