"""What WRONGTYPE says to do: after that, another family can use the name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from quinque.cli.main import main
from tests.server.broker import RunningBroker
from tests.server.resp import Client, Refusal
from tests.servers.stores import on_every_kind as pytest_generate_tests

__all__ = ["pytest_generate_tests"]

Make = Callable[[Client, str], Any]


def make(*requests: tuple[Any, ...]) -> Make:
    """Send the requests to the queue Q."""

    def run(client: Client, queue: str) -> None:
        for words in requests:
            reply = client.call(*(queue if word == "Q" else word for word in words))
            assert not isinstance(reply, Refusal), (words, reply)

    return run


def claimed(family: str, *add: Any) -> Make:
    def run(client: Client, queue: str) -> None:
        make(add)(client, queue)
        group = ("GROUP", "g") if family == "events" else ()
        told = client.call("CLAIM.OPEN", queue, "s", "FAMILY", family, *group)
        assert isinstance(told, list)
        epoch = told[told.index(b"epoch") + 1]
        make(("CLAIM.FILL", "Q", "s", epoch, 1, "COUNT", 1, "SEAL"))(client, queue)

    return run


def leased_event(client: Client, queue: str) -> None:
    make(EVENT)(client, queue)
    taken = client.call("QGET", queue, "g", "EX", 60)
    assert isinstance(taken, list)
    HELD[queue] = [taken[0]]


def acked_by_a_group(client: Client, queue: str) -> None:
    id = client.call("QADD", queue, 60, "x")
    client.call("QGET", queue, "g", "EX", 60)
    client.call("QACK", queue, "g", id)


def dead_job(client: Client, queue: str) -> None:
    id = client.call("ADDJOB", queue, "x", 0, "MAXDELIVERIES", 1)
    client.call("GETJOB", "FROM", queue)
    client.call("NACK", id)


def acked_element(client: Client, queue: str) -> None:
    id = client.call("RQ.PUSH", queue, "x")
    client.call("RQ.POP", queue)
    client.call("RQ.ACK", queue, id)


HELD: dict[str, list[Any]] = {}  # the ids of leased events, by queue
EVENT = ("QADD", "Q", 60, "x")
JOB = ("ADDJOB", "Q", "x", 0)
ELEMENT = ("RQ.PUSH", "Q", "x")
ITEM = ("WQ.ADD", "Q", "id", "x")
TUBE = ("TUBE.CREATE", "Q", "fifottl")
TASK = ("TUBE.PUT", "Q", "x")
STATES: dict[str, dict[str, Make]] = {
    "events": {
        "messages": make(EVENT),
        "leases": leased_event,
        "groups": acked_by_a_group,
        "subscription": make(EVENT, ("CLAIM.OPEN", "Q", "s", "FAMILY", "events", "GROUP", "g")),
        "claims": claimed("events", *EVENT),
    },
    "jobs": {
        "messages": make(JOB),
        "leases": make(JOB, ("GETJOB", "FROM", "Q")),
        "delayed": make((*JOB, "DELAY", 60)),
        "dead": dead_job,
        "paused": make(("PAUSE", "Q", "in")),
        "limit": make(("QSET", "Q", "MAXDELIVERIES", 3)),
        "rate": make(("QSET", "Q", "RATE", 1, 60), JOB),
        "expired": make(("QSET", "Q", "EXPIRED", "dead")),
        "all": make(("QSET", "Q", "MAXDELIVERIES", 3), ("PAUSE", "Q", "out"), JOB),
        "subscription": make(JOB, ("CLAIM.OPEN", "Q", "s", "FAMILY", "jobs")),
        "claims": claimed("jobs", *JOB),
    },
    "reliable": {
        "messages": make(ELEMENT),
        "popped": make(ELEMENT, ("RQ.POP", "Q")),
        "empty": acked_element,
        "expiry": make(ELEMENT, ("EXPIRE", "Q", 60)),
        "claims": claimed("reliable", *ELEMENT),
    },
    "items": {
        "messages": make(ITEM),
        "leases": make(ITEM, ("WQ.LEASE", "Q", 60_000)),
    },
    "tubes": {
        "empty": make(TUBE),
        "tasks": make(TUBE, TASK),
        "taken": make(TUBE, TASK, ("TUBE.TAKE", "Q", 0)),
        "buried": make(TUBE, TASK, ("TUBE.TAKE", "Q", 0), ("TUBE.BURY", "Q", 0)),
        "delayed": make(TUBE, (*TASK, "DELAY", 60)),
    },
}
# What makes a queue of each family.
MADE = {"events": EVENT, "jobs": JOB, "reliable": ELEMENT, "items": ITEM, "tubes": TUBE}
CASES = [(family, state) for family, states in STATES.items() for state in states]


@pytest.mark.parametrize(("family", "state"), CASES, ids=lambda word: word)
def test_what_the_error_says_frees_the_name(
    broker: RunningBroker, client: Client, other: Client, family: str, state: str
) -> None:
    for wanted in MADE:
        if wanted == family:
            continue
        queue = f"{{{family}.{state}.{wanted}}}"
        STATES[family][state](client, queue)
        add: list[Any] = [queue if word == "Q" else word for word in MADE[wanted]]

        refused = other.call(*add)
        if isinstance(refused, Refusal):  # a subscription alone keeps no name
            play(broker, other, refused.text, queue, family)
            refused = other.call(*add)

        assert not isinstance(refused, Refusal), (queue, refused)


@pytest.mark.parametrize("family", [family for family in MADE if family != "reliable"])
def test_a_delete_of_another_family_says_how_to_delete(
    broker: RunningBroker, client: Client, family: str
) -> None:
    queue = f"{{delete.{family}}}"
    make(MADE[family])(client, queue)

    refused = client.call("DEL", queue)

    assert isinstance(refused, Refusal)
    play(broker, client, refused.text, queue, family)
    make(ELEMENT)(client, queue)


def play(broker: RunningBroker, client: Client, text: str, queue: str, family: str) -> None:
    """Do what the error says."""
    begins = f"queue '{queue}' belongs to the family {family}; use a command of that family or "
    begins += "another name, or remove the queue with "
    assert begins in text
    steps, _, kept = text.partition(begins)[2].partition("; ")
    for step in steps.split(", then "):
        each = re.fullmatch(r"CLAIM\.DROP (\S+) for each subscription of CLAIM\.LIST (\S+)", step)
        if each is not None:
            listed = client.call("CLAIM.LIST", each[2])
            assert isinstance(listed, list)
            for row in listed:
                name = row[row.index(b"subscription") + 1]
                assert not isinstance(client.call("CLAIM.DROP", each[1], name), Refusal)
        elif step.startswith("quinque "):
            words = [*step.split()[1:], "--yes", "--url", f"redis://127.0.0.1:{broker.port}"]
            assert CliRunner().invoke(main, words).exit_code == 0
        else:
            reply = client.call(*step.split())
            assert not isinstance(reply, Refusal), (step, reply)
    if kept:
        assert kept == "leases and claims keep the name until they end (QACK, CLAIM.DROP)"
        client.call("QACK", queue, "g", *HELD.get(queue, ()))
        client.call("CLAIM.DROP", queue, "s")
