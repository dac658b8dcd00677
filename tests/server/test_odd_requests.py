"""No request, however odd, is a bug: each gets one reply, and the log has nothing to say."""

from __future__ import annotations

import random
import re

import pytest

from quinque.dialects.command import Command
from quinque.server.commands.subcommands import with_subcommands
from quinque.server.commands.table import all_commands
from tests.server.broker import RunningBroker
from tests.server.resp import Client, request
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


# Requests that are carried out together when they come together: {q} is the place of a queue.
ALIKE = (
    "QADD {q}e 60 x",
    "QACK {q}e g {event}",
    "QACK {q}e {event}",
    "QGET {q}e g",
    "QRPOP {q}e",
    "QLPUSH {q}e {n} x",
    "QRPUSH {q}e {n} x",
    "QEXTEND {q}e g 60 {event}",
    "QRELEASE {q}e g {event}",
    "ADDJOB {q}j x 0",
    "GETJOB NOHANG FROM {q}j",
    "ACKJOB {job}",
    "NACK {job}",
    "RQ.PUSH {q}r x",
    "RQ.POP {q}r",
    "RQ.ACK {q}r 1-1",
    "WQ.ADD {q}i {n} x",
    "WQ.LEASE {q}i 60000",
    "WQ.COMPLETE {q}i {n}",
    "TUBE.PUT {q}t x",
    "TUBE.TAKE {q}t 0",
    "TUBE.ACK {q}t {n}",
)
WRONG_NAMES = (b"", b"x" * 1025)
WRONG = (*WRONG_NAMES, b"-1", b"D-x")
MADE = re.compile(
    rb"(D-[0-9a-f]{8}-[A-Za-z0-9+/]{24}-[0-9a-f]{4})|([0-9]{13}-[0-9]+)|([0-9]{16})|(alone|piped)"
)


@pytest.mark.parametrize("text", ALIKE)
def test_a_wrong_argument_gets_the_reply_in_a_pipeline_that_it_gets_alone(
    broker: RunningBroker, queue: str, text: str
) -> None:
    with broker.connect() as client:
        replies = [replies_to(client, f"{{{queue}}}", text, how) for how in ("alone", "piped")]

    for alone, piped in zip(*replies, strict=True):
        assert alone == piped


def replies_to(client: Client, tag: str, text: str, how: str) -> list[bytes]:
    """The replies to the request with each of its arguments replaced by a wrong one, between two
    that are right. Ids are replaced by the kind of id that they are."""
    prefix = f"{tag}{how}-"
    client.call("DEL", "")  # random requests have used the queue without a name
    client.call("TUBE.CREATE", f"{prefix}t", "fifo")
    event = client.call("QADD", f"{prefix}e", 60, "x").decode()
    job = client.call("ADDJOB", f"{prefix}j", "x", 0).decode()
    words = text.split()
    right = [it.format(q=prefix, event=event, job=job, n=0).encode() for it in words]
    replies: list[bytes] = []
    for at in range(1, len(right)):
        wrongs = WRONG_NAMES if words[at].startswith("{q}") else WRONG
        odd = [[*right[:at], wrong, *right[at + 1 :]] for wrong in wrongs]
        asked = [request(*argv) for argv in (right, *odd, right)]
        if how == "alone":
            for one in asked:
                client.send_bytes(one)
                replies.append(client.read())
        else:
            client.send_bytes(b"".join(asked))
            replies += client.read_many(len(asked))
    return [MADE.sub(lambda found: b"<%d>" % (found.lastindex or 0), it) for it in replies]
