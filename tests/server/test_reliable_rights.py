"""What users may do to reliable queues, and to queues by their names; and what COMMAND tells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client, Refusal
from tests.server.rights import NO_SECRET, login, user_flags


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("rights")
    with start_broker(folder, "--fsync", "no", *user_flags(folder)) as running:
        yield running


def assert_refused(client: Client, *words: str | int) -> None:
    refusal = client.call(*words)
    assert isinstance(refusal, Refusal), words
    assert refusal.text.startswith("NOPERM"), words


def test_queues_are_refused_by_name_wherever_they_stand(broker: RunningBroker) -> None:
    with login(broker, "packer") as packer:
        for words in (
            ("RQ.PUSH", "secret", "x"),
            ("RQ.POP", "secret"),
            ("RQ.POP", 10, "orders.1", "secret"),
            ("RQ.POP", "BLOCK", 5, "COUNT", 2, "secret"),
            ("RQ.ACK", "secret", "1-1"),
            ("RQ.UNPOP", "secret", "1-1"),
            ("RQ.RECOVER", "secret", 1, 0),
            ("RQ.INSPECT", "secret", 0, 1),
            ("RQ.INFO", "secret"),
            ("TYPE", "secret"),
            ("QUEUES", "orders.1", "secret"),
            ("EXISTS", "orders.1", "secret"),
            ("DEL", "orders.1", "secret"),
            ("RENAME", "secret", "orders.1"),
            ("RENAMENX", "orders.1", "secret"),
            ("EXPIRE", "secret", 1),
            ("TTL", "secret"),
        ):
            assert packer.call(*words) == NO_SECRET, words
        assert packer.call("RQ.POP", 10, "orders.1") == []


def test_queues_tells_of_what_the_user_may_see(broker: RunningBroker) -> None:
    with login(broker, "boss") as boss, login(broker, "packer") as packer:
        boss.call("RQ.PUSH", "secret.counted", "x")
        boss.call("RQ.PUSH", "orders.counted", "x", "y")

        left_out, told = packer.call("QUEUES")
        queues = [dict(zip(each[::2], each[1::2], strict=True)) for each in told]

    assert left_out == 0
    assert [(it[b"name"], it[b"ready"]) for it in queues if it[b"name"].endswith(b"counted")] == [
        (b"orders.counted", 2)
    ]


def test_a_scan_tells_of_what_the_user_may_see(broker: RunningBroker) -> None:
    with login(broker, "boss") as boss, login(broker, "packer") as packer:
        boss.call("RQ.PUSH", "orders.seen", "x")
        boss.call("RQ.PUSH", "secret", "x")

        assert scan(boss) >= {b"orders.seen", b"secret"}
        assert b"orders.seen" in scan(packer)
        assert b"secret" not in scan(packer)


def scan(client: Client) -> set[bytes]:
    names: set[bytes] = set()
    cursor = b"0"
    while True:
        cursor, some = client.call("SCAN", cursor)
        names |= set(some)
        if cursor == b"0":
            return names


def test_a_reader_looks_and_changes_nothing(broker: RunningBroker) -> None:
    with login(broker, "boss") as boss, login(broker, "reader") as reader:
        boss.call("RQ.PUSH", "orders.read", "x")
        assert reader.call("RQ.INFO", "orders.read") == [b"undelivered", 1, b"delivered", 0]
        assert len(reader.call("RQ.INSPECT", "orders.read", 0, 1)) == 1
        assert reader.call("TYPE", "orders.read") == b"RELIABLEQ"
        assert reader.call("TTL", "orders.read") == -1
        for words in (
            ("RQ.PUSH", "orders.read", "x"),
            ("RQ.POP", "orders.read"),
            ("RQ.RECOVER", "orders.read", 1, 0),
            ("DEL", "orders.read"),
            ("PERSIST", "orders.read"),
        ):
            assert_refused(reader, *words)


def test_a_user_of_another_family_may_see_that_a_queue_is_there(broker: RunningBroker) -> None:
    with login(broker, "boss") as boss, login(broker, "jobber") as jobber:
        boss.call("RQ.PUSH", "orders.other", "x")
        assert jobber.call("EXISTS", "orders.other") == 1
        for words in (("RQ.INFO", "orders.other"), ("DEL", "orders.other"), ("TTL", "x")):
            assert_refused(jobber, *words)


def test_the_table_of_commands_knows_their_queues(broker: RunningBroker) -> None:
    with login(broker, "boss") as boss:
        keys = ("COMMAND", "GETKEYS")
        assert boss.call(*keys, "RQ.POP", "q") == [b"q"]
        assert boss.call(*keys, "RQ.POP", "COUNT", 2, "q") == [b"q"]
        assert boss.call(*keys, "RQ.POP", 10, "k1", "k2") == [b"k1", b"k2"]
        assert boss.call(*keys, "RQ.POP", "BLOCK", 5, "COUNT", 2, "a", "b") == [b"a", b"b"]
        assert boss.call(*keys, "RENAME", "a", "b") == [b"a", b"b"]
        [pop] = boss.call("COMMAND", "INFO", "RQ.POP")
        assert {b"write", b"blocking", b"movablekeys"} <= set(pop[2])
        assert pop[3:6] == [1, -1, 1]
        docs = boss.call("COMMAND", "DOCS", "rq.inspect")
        told = dict(zip(docs[1][::2], docs[1][1::2], strict=True))
        assert (told[b"group"], len(told[b"arguments"])) == (b"reliable", 4)


def test_errors_in_the_words_of_the_module_are_counted(broker: RunningBroker) -> None:
    with login(broker, "boss") as boss:
        boss.call("RQ.POP", "COUNT", -1, "q")
        boss.call("RQ.INFO", "orders.nowhere")
        said = boss.call("INFO", "errorstats")

    assert b"errorstat_usage_:count=" in said
    assert b"errorstat_EMPTYKEY:count=" in said
