"""COMMAND: the facts about commands that clients get."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.server.resp import Client, Refusal

GETKEYS = ("COMMAND", "GETKEYS")


def entry(client: Client, name: str) -> list[Any]:
    (found,) = client.call("COMMAND", "INFO", name)
    assert isinstance(found, list)
    return found


def test_command_lists_as_many_as_count_says(client: Client) -> None:
    rows = client.call("COMMAND")

    assert len(rows) == client.call("COMMAND", "COUNT") == len(client.call("COMMAND", "LIST"))
    assert rows == client.call("COMMAND", "INFO")


def test_an_entry_has_the_ten_parts_of_redis_7(client: Client, client3: Client) -> None:
    assert client.ask("COMMAND", "INFO", "QADD", "nosuch") == (
        b"*2\r\n*10\r\n$4\r\nqadd\r\n:-4\r\n*1\r\n+write\r\n:1\r\n:1\r\n:1\r\n"
        b"*2\r\n+@events\r\n+@write\r\n*0\r\n*0\r\n*0\r\n*-1\r\n"
    )
    assert client3.ask("COMMAND", "INFO", "nosuch") == b"*1\r\n_\r\n"


@pytest.mark.parametrize(
    ("name", "flags", "positions"),
    [
        ("qget", [b"write"], [1, 1, 1]),
        ("qnotify", [b"readonly", b"blocking"], [3, -1, 1]),
        ("qstatus", [b"readonly", b"movablekeys"], [1, -1, 1]),
        ("qregister", [b"readonly"], [1, -1, 1]),
        ("ping", [b"fast"], [0, 0, 0]),
        ("auth", [b"fast", b"no_auth"], [0, 0, 0]),
        ("config|set", [b"admin"], [0, 0, 0]),
        ("memory|usage", [b"readonly"], [2, 2, 1]),
        ("client", [], [0, 0, 0]),
    ],
)
def test_flags_and_places_of_queues_follow_from_the_command(
    client: Client, name: str, flags: list[bytes], positions: list[int]
) -> None:
    found = entry(client, name)

    assert found[0] == name.encode()
    assert found[2] == flags
    assert found[3:6] == positions


def test_subcommands_stand_in_the_entry_of_their_first_word(client: Client) -> None:
    subcommands = entry(client, "client")[9]

    assert entry(client, "client|list") in subcommands
    assert [row[0][:7] for row in subcommands[:2]] == [b"client|", b"client|"]


def test_docs_say_what_a_command_does_and_takes(client: Client, client3: Client) -> None:
    documentation = client3.call("COMMAND", "DOCS", "qget", "nosuch")

    assert list(documentation) == [b"qget"]
    assert documentation[b"qget"][b"summary"].startswith(b"Take the group's next event")
    assert documentation[b"qget"][b"group"] == b"events"
    assert documentation[b"qget"][b"arguments"] == [
        {b"name": b"queue", b"type": b"key"},
        {b"name": b"consumerGroup", b"type": b"string"},
        {b"name": b"seconds", b"type": b"string", b"token": b"EX", b"flags": [b"optional"]},
        {
            b"name": b"withdeliveries",
            b"type": b"pure-token",
            b"token": b"WITHDELIVERIES",
            b"flags": [b"optional"],
        },
    ]
    assert client.ask("COMMAND", "DOCS", "nosuch") == b"*0\r\n"
    assert client3.ask("COMMAND", "DOCS", "nosuch") == b"%0\r\n"


def test_docs_of_all_commands_have_every_command(client3: Client) -> None:
    documentation = client3.call("COMMAND", "DOCS")

    assert list(documentation) == client3.call("COMMAND", "LIST")
    assert b"client|kill" in documentation[b"client"][b"subcommands"]


def test_no_two_commands_have_the_same_summary(client3: Client) -> None:
    documentation = client3.call("COMMAND", "DOCS")
    summaries = Counter(entry[b"summary"] for entry in documentation.values())

    assert [summary for summary, number in summaries.items() if number > 1] == []


def test_list_can_be_filtered(client: Client) -> None:
    assert client.call("COMMAND", "LIST", "FILTERBY", "PATTERN", "qla*") == []
    assert client.call("COMMAND", "LIST", "filterby", "pattern", "QLP*") == [b"qlpush", b"qlpeek"]
    assert b"config|set" in client.call("COMMAND", "LIST", "FILTERBY", "ACLCAT", "admin")
    assert b"qadd" in client.call("COMMAND", "LIST", "FILTERBY", "ACLCAT", "events")
    assert client.call("COMMAND", "LIST", "FILTERBY", "MODULE", "x") == []


@pytest.mark.parametrize("words", [("FILTERBY",), ("FILTERBY", "MODULE"), ("x", "PATTERN", "a")])
def test_a_wrong_filter_is_a_syntax_error(client: Client, words: tuple[str, ...]) -> None:
    assert client.call("COMMAND", "LIST", *words) == Refusal("ERR syntax error")


def test_getkeys_finds_the_queues_of_a_request(client: Client) -> None:
    assert client.call(*GETKEYS, "qadd", "foo", 60, "x") == [b"foo"]
    assert client.call(*GETKEYS, "QNOTIFY", "g", 0, "a", "b") == [b"a", b"b"]
    assert client.call(*GETKEYS, "QSTATUS", "a", "b", "GROUPS", "g") == [b"a", b"b"]
    assert client.call(*GETKEYS, "MEMORY", "USAGE", "a") == [b"a"]


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("nosuch",), "Invalid command specified"),
        (("CLIENT", "nosuch"), "Invalid command specified"),
        (("PING",), "The command has no key arguments"),
        (("QADD", "foo"), "Invalid number of arguments specified for command"),
        ((), "wrong number of arguments for 'command|getkeys' command"),
    ],
)
def test_getkeys_of_no_good_request_is_refused(
    client: Client, words: tuple[str, ...], refusal: str
) -> None:
    assert client.call(*GETKEYS, *words) == Refusal(f"ERR {refusal}")


def test_an_unknown_subcommand_is_refused(client: Client) -> None:
    assert client.call("COMMAND", "nosuch") == Refusal(
        "ERR unknown subcommand 'nosuch'. Try COMMAND HELP."
    )
