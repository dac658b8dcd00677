"""What users may do to tubes, and what COMMAND, MONITOR and CLIENT tell of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Refusal
from tests.server.rights import NO_SECRET, login, user_flags

CHANGES = (
    ("TUBE.CREATE", "{}", "fifo"),
    ("TUBE.PUT", "{}", "x"),
    ("TUBE.MPUT", "{}", "x"),
    ("TUBE.TAKE", "{}", "0"),
    ("TUBE.ACK", "{}", "0"),
    ("TUBE.RELEASE", "{}", "0"),
    ("TUBE.TOUCH", "{}", "0", "5"),
    ("TUBE.BURY", "{}", "0"),
    ("TUBE.KICK", "{}"),
    ("TUBE.DELETE", "{}", "0"),
    ("TUBE.RELEASEALL", "{}"),
    ("TUBE.TRUNCATE", "{}"),
    ("TUBE.DROP", "{}"),
)
LOOKS = (("TUBE.PEEK", "{}", "0"), ("TUBE.BROWSE", "{}"), ("TUBE.STATS", "{}"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("rights")
    with start_broker(folder, "--fsync", "no", *user_flags(folder)) as running:
        yield running


def of(words: tuple[str, ...], tube: str) -> list[str]:
    return [word.format(tube) for word in words]


def test_tubes_are_refused_by_name(broker: RunningBroker) -> None:
    with login(broker, "packer") as packer:
        for words in (*CHANGES, *LOOKS):
            assert packer.call(*of(words, "secret")) == NO_SECRET, words
        assert packer.call("TUBE.CREATE", "orders.mine", "fifo") == 1
        assert packer.call("TUBE.PUT", "orders.mine", "x") == [0, b"r", b"x"]


def test_others_are_not_listed(broker: RunningBroker) -> None:
    with login(broker, "boss") as boss, login(broker, "packer") as packer:
        boss.call("TUBE.CREATE", "secret.tube", "fifo")
        boss.call("TUBE.CREATE", "orders.listed", "fifo")

        for command in ("TUBE.LIST", "TUBE.STATS"):
            assert b"secret.tube" in boss.ask(command)
            assert b"orders.listed" in packer.ask(command)
            assert b"secret.tube" not in packer.ask(command)


def test_a_reader_looks_and_changes_nothing(broker: RunningBroker) -> None:
    with login(broker, "boss") as boss, login(broker, "reader") as reader:
        boss.call("TUBE.CREATE", "read", "fifo")
        boss.call("TUBE.PUT", "read", "x")

        for words in (*CHANGES, ("TUBE.IDENTIFY",)):
            refusal = reader.call(*of(words, "read"))
            assert isinstance(refusal, Refusal)
            assert refusal.text.endswith("it needs the right 'write'"), words
        assert reader.call("TUBE.PEEK", "read", 0) == [0, b"r", b"x"]
        assert reader.call("TYPE", "read") == b"tubes"


def test_a_user_of_another_family_has_no_tubes(broker: RunningBroker) -> None:
    with login(broker, "jobber") as jobber:
        for words in (*CHANGES, *LOOKS, ("TUBE.LIST",), ("TUBE.IDENTIFY",)):
            refusal = jobber.call(*of(words, "orders.1"))
            assert isinstance(refusal, Refusal)
            assert refusal.text.startswith("NOPERM User jobber"), words


def test_a_user_who_joins_a_session_gets_no_access_to_its_tubes(broker: RunningBroker) -> None:
    with login(broker, "boss") as boss, login(broker, "packer") as packer:
        boss.call("TUBE.CREATE", "secret", "fifottl")
        boss.call("TUBE.PUT", "secret", "x")
        boss.call("TUBE.IDENTIFY", "worker-7")
        boss.call("TUBE.TAKE", "secret", 0)

        assert packer.call("TUBE.IDENTIFY", "worker-7") == b"worker-7"

        for words in (*CHANGES, *LOOKS):
            assert packer.call(*of(words, "secret")) == NO_SECRET, words
        assert boss.call("TUBE.ACK", "secret", 0) == [0, b"-", b"x"]


def test_command_tells_where_the_tube_stands_and_what_may_follow(broker: RunningBroker) -> None:
    with login(broker, "boss") as boss:
        [put, take] = boss.call("COMMAND", "INFO", "tube.put", "tube.take")
        assert put[:2] == [b"tube.put", -3]
        assert put[3:6] == take[3:6] == [1, 1, 1]
        assert b"blocking" in take[2]
        assert boss.call("COMMAND", "GETKEYS", "TUBE.ACK", "t", 1, 2) == [b"t"]
        docs = boss.ask("COMMAND", "DOCS", "tube.put")
        assert all(word in docs for word in (b"UTUBE", b"TIMEOUT", b"OPTION", b"tubes"))


def test_another_user_on_the_connection_has_the_same_session(broker: RunningBroker) -> None:
    with login(broker, "boss") as client:
        session = client.call("TUBE.IDENTIFY")
        client.call("AUTH", "packer", "p")
        assert client.call("TUBE.IDENTIFY") == session
