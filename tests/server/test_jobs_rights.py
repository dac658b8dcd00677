"""What a user who may see only some queues can do to jobs: by name, by id, by pattern, by scan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client, Refusal
from tests.server.rights import NO_SECRET, login, user_flags

UNKNOWN_ID = "D-00000000-AAAAAAAAAAAAAAAAAAAAAAAA-05a1"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with start_broker(tmp_path, "--fsync", "no", *user_flags(tmp_path)) as running:
        yield running


@pytest.fixture
def boss(broker: RunningBroker) -> Iterator[Client]:
    with login(broker, "boss") as client:
        yield client


@pytest.fixture
def packer(broker: RunningBroker) -> Iterator[Client]:
    with login(broker, "packer") as client:
        yield client


def test_queues_are_refused_by_name(packer: Client) -> None:
    for words in (
        ("ADDJOB", "secret", "x", "0"),
        ("GETJOB", "NOHANG", "FROM", "orders.1", "secret"),
        ("QLEN", "secret"),
        ("QSTAT", "secret"),
        ("QPEEK", "secret", "1"),
        ("JSCAN", "QUEUE", "secret"),
        ("PAUSE", "secret", "in"),
        ("QSET", "secret"),
        ("QPURGE", "secret"),
        ("QREDRIVE", "secret"),
        ("FINDJOB", "secret", "monday"),
    ):
        assert packer.call(*words) == NO_SECRET, words


def test_jobs_of_other_queues_are_refused_by_id(boss: Client, packer: Client) -> None:
    own = boss.call("ADDJOB", "orders.1", "x", "0")
    others = boss.call("ADDJOB", "secret", "x", "0")

    by_ids = ("ACKJOB", "FASTACK", "DELJOB", "NACK", "ENQUEUE", "DEQUEUE", "REDRIVE", "UNGETJOB")
    for command in by_ids:
        assert packer.call(command, own, others) == not_seen(others), command
    for words in (
        ("SHOW", others, "DETAILS"),
        ("WORKING", others, "ANYTIME"),
        ("WAITJOB", 0, own, others),
        ("NACK", own, others, "REASON", "none", "DEAD"),
        ("UNGETJOB", others, "UNSEEN"),
    ):
        assert packer.call(*words) == not_seen(others), words

    assert boss.call("QLEN", "orders.1") == 1
    assert packer.call("ACKJOB", own, UNKNOWN_ID) == 1
    assert packer.call("ACKJOB", own, "x") == Refusal("BADID Invalid Job ID format.")


def not_seen(id: bytes) -> Refusal:
    """The job is named, and its queue is not: the user may not know of that."""
    text = f"NOPERM User packer has no permissions to access the queue of '{id.decode()}'"
    return Refusal(text)


def test_scans_pass_over_other_queues(boss: Client, packer: Client) -> None:
    own = boss.call("ADDJOB", "orders.1", "x", "0")
    boss.call("ADDJOB", "secret", "x", "0")

    assert packer.call("JSCAN") == [b"0", [own]]
    assert [job[1] for job in packer.call("JSCAN", "REPLY", "all")[1]] == [own]
    assert packer.call("QSCAN") == [b"0", [b"orders.1"]]


def test_patterns_are_for_those_who_see_every_queue(boss: Client, packer: Client) -> None:
    boss.call("ADDJOB", "orders.1", "x", "0")

    assert packer.call("GETJOB", "NOHANG", "MATCH", "orders.*") == Refusal(
        "NOPERM MATCH requires a user who can access every queue"
    )
    assert len(boss.call("GETJOB", "NOHANG", "MATCH", "orders.*")) == 1


def test_who_may_read_may_look_and_change_nothing(broker: RunningBroker, boss: Client) -> None:
    id = boss.call("ADDJOB", "orders.1", "x", "0")

    with login(broker, "reader") as reader:
        assert reader.call("SHOW", id)[1] == id
        assert reader.call("WAITJOB", 1, id) is None
        for words in (("GETJOB", "FROM", "orders.1"), ("ACKJOB", id), ("PAUSE", "orders.1", "in")):
            assert reader.call(*words).text.endswith("it needs the right 'write'"), words


def test_another_family_is_another_family(broker: RunningBroker) -> None:
    with login(broker, "eventful") as client:
        assert client.call("QLEN", "q").text.startswith("NOPERM User eventful")
