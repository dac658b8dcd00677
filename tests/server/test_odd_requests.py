"""No request, however odd, is a bug: each gets one reply, and the log has nothing to say."""

from __future__ import annotations

import random

import pytest

from quinque.dialects.command import Command
from quinque.server.commands.subcommands import with_subcommands
from quinque.server.commands.table import all_commands
from tests.server.broker import RunningBroker
from tests.server.resp import Client
from tests.servers.stores import on_every_kind as pytest_generate_tests

__all__ = ["pytest_generate_tests"]

# They end the connection or the broker, hold everyone up, or are not answered one to one.
LEFT_OUT = {
    "QUIT",
    "SHUTDOWN",
    "MONITOR",
    "DEBUG|SLEEP",
    "CLIENT|PAUSE",
    "CLIENT|REPLY",
    "CLIENT|KILL",
    "AUTH",
    "HELLO",
    "RESET",
    "CONFIG|SET",
    "MULTI",
}
TRANSACTIONS = {"EXEC", "DISCARD", "WATCH"}  # which are not queued
ROWS = [
    row
    for row in with_subcommands(all_commands())
    if row.name not in LEFT_OUT and row.subcommands is None
]
ODD = [
    b"",
    b"0",
    b"-1",
    b"1.5",
    b"1e400",
    b"nan",
    b"-0",
    b"99999999999999999999999999",
    b"\x00\xff\r\n",
    b"q",
    b"g",
    b"EX",
    b"NOBLOCK",
    b"GROUPS",
    b"REDO",
    b"ID",
    b"TYPE",
    b"FILTERBY",
    b"PATTERN",
    b"SAMPLES",
    b"*[a-",
    b"x" * 2000,
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_odd_arguments_get_one_reply_each(
    broker: RunningBroker, client: Client, row: Command
) -> None:
    chance = random.Random(row.name)
    requests = [
        row.name.encode().split(b"|") + chance.choices(ODD, k=count)
        for count in range(7)
        for _ in range(20)
    ]

    for argv in requests:
        # A reader that would wait is woken by the clock before anyone notices.
        words = [b"0.001" if row.is_blocking and at == 2 else word for at, word in enumerate(argv)]
        reply = client.ask(*words)
        assert b"internal error" not in reply, words

    assert client.ask("PING") == b"+PONG\r\n"
    assert not broker.has_said("a bug")


def test_odd_arguments_get_one_reply_each_in_a_transaction(
    broker: RunningBroker, client: Client
) -> None:
    chance = random.Random(37)
    for row in ROWS:
        if row.name in TRANSACTIONS or row.in_multi == "refused":
            continue
        first = row.name.encode().split(b"|")
        least = max(0, abs(row.arity) - len(first))
        most = least if row.arity > 0 else least + 4
        assert client.ask("MULTI") == b"+OK\r\n"
        for _ in range(8):
            words = [*first, *chance.choices(ODD, k=chance.randint(least, most))]
            assert client.ask(*words) == b"+QUEUED\r\n", words

        replies = client.call("EXEC")

        assert len(replies) == 8, row.name
        assert "internal error" not in str(replies), row.name
    assert client.ask("PING") == b"+PONG\r\n"
    assert not broker.has_said("a bug")
