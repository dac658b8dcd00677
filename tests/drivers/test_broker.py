"""Drivers in a running broker, from a Redis client: as users have them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest

from quinque.errors import BadSetting
from quinque.server.config_sources import load
from tests.server.broker import BrokerDidNotStart, RunningBroker, start_broker, wait_until
from tests.server.iproto import CALL, LISTEN, IprotoClient
from tests.server.resp import Client, Refusal

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "drivers" / "unique"
UNIQUE = "unique=quinque_unique:Unique"
CLUMSY = "clumsy=tests.drivers.odd_drivers:Clumsy"
PATHS = {"PYTHONPATH": os.pathsep.join((str(EXAMPLE), str(ROOT), os.environ.get("PYTHONPATH", "")))}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("drivers")
    flags = ("--drivers", UNIQUE, "--drivers", CLUMSY)
    with start_broker(folder, *flags, variables=PATHS) as running:
        yield running


def test_the_example_works_from_a_redis_client(client: Client, queue: str) -> None:
    assert client.call("TUBE.CREATE", queue, "unique") == 1
    assert client.call("TUBE.PUT", queue, "rev-1", "OPTION", "key", "page:17") == [
        0,
        b"r",
        b"rev-1",
    ]
    assert client.call("TUBE.PUT", queue, "rev-2", "OPTION", "key", "page:17") == [
        0,
        b"r",
        b"rev-2",
    ]
    assert client.call("TUBE.TAKE", queue) == [0, b"t", b"rev-2"]
    assert client.call("TUBE.PUT", queue, "rev-3", "OPTION", "key", "page:17") == [
        1,
        b"~",
        b"rev-3",
    ]
    assert client.call("TUBE.TAKE", queue, 0) is None
    assert client.call("TUBE.ACK", queue, 0) == [0, b"-", b"rev-2"]
    assert client.call("TUBE.TAKE", queue) == [1, b"t", b"rev-3"]
    assert client.call("TUBE.TOUCH", queue, 1, 5) == Refusal(
        "NOTOUCH unique queue does not support touch"
    )


def test_who_waits_is_woken_when_the_drivers_time_has_come(
    client: Client, other: Client, queue: str
) -> None:
    client.call("TUBE.CREATE", queue, "unique", "OPTION", "quiet", "0.05")
    number = other.call("CLIENT", "ID")
    other.send("TUBE.TAKE", queue)
    wait_until(lambda: b" flags=b " in client.call("CLIENT", "LIST", "ID", number))

    assert client.call("TUBE.PUT", queue, "a", "OPTION", "key", "k") == [0, b"~", b"a"]

    assert other.value() == [0, b"t", b"a"]


def test_an_option_whose_key_is_a_table_is_refused_by_its_name(tmp_path: Path, queue: str) -> None:
    """Over Tarantool's protocol, a key may be any value."""
    options = b"\x81\x91\x01\x02"  # {[1]: 2}
    function = msgpack.packb(f"queue.tube.{queue}:put")
    body = b"\x82\x22" + function + b"\x21\x92\xa1x" + options
    header: bytes = msgpack.packb({0: CALL, 1: 7})
    flags = ("--drivers", UNIQUE, *LISTEN)
    with start_broker(tmp_path, *flags, variables=PATHS) as broker, IprotoClient(broker) as peer:
        assert peer.told("queue.create_tube", queue, "unique") == [True]

        refused = peer.ask(b"\xce" + (len(header + body)).to_bytes(4, "big") + header + body)

    assert (refused.sync, refused.error) == (7, 32)
    assert (
        refused.text == "the options of a driver must be a map with text keys, packed with msgpack"
    )


def test_what_a_client_had_taken_is_ready_when_it_is_gone(
    broker: RunningBroker, client: Client, queue: str
) -> None:
    client.call("TUBE.CREATE", queue, "unique")
    client.call("TUBE.PUT", queue, "a")
    with broker.connect() as gone:
        gone.call("TUBE.TAKE", queue)
        assert client.call("TUBE.ACK", queue, 0) == Refusal("NOTTAKEN Task was not taken")

    assert client.call("TUBE.TAKE", queue, 30) == [0, b"t", b"a"]


def test_a_driver_that_fails_is_an_error_to_its_client_and_a_traceback_in_the_log(
    broker: RunningBroker, client: Client, queue: str
) -> None:
    client.call("TUBE.CREATE", queue, "clumsy")
    client.call("TUBE.PUT", queue, "fine")

    told = client.call("TUBE.PUT", queue, "raise")

    assert told == Refusal("DRIVER driver 'clumsy' failed: put: KeyError: 'nothing'")
    assert client.call("TUBE.PUT", queue, "exit") == Refusal(
        "DRIVER driver 'clumsy' failed: put: SystemExit: enough"
    )
    assert client.call("TUBE.PUT", queue, "refuse") == Refusal("ERR not that")
    broker.hear("Traceback")
    broker.hear("_go_wrong")
    assert client.call("TUBE.PEEK", queue, 1) == Refusal("NOTASK Task 1 not found")
    assert client.call("TUBE.TAKE", queue) == [0, b"t", b"fine"]


def test_puts_that_come_together_fail_alone(client: Client, queue: str) -> None:
    client.call("TUBE.CREATE", queue, "clumsy")

    for data in ("a", "raise", "b"):
        client.send("TUBE.PUT", queue, data)

    assert client.value() == [0, b"r", b"a"]
    assert isinstance(client.value(), Refusal)
    assert client.value() == [1, b"r", b"b"]


def test_a_tube_sleeps_without_its_driver_and_survives_being_killed(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--drivers", UNIQUE, variables=PATHS) as broker:
        with broker.connect() as client:
            client.call("TUBE.CREATE", "t", "unique")
            client.call("TUBE.PUT", "t", "a")
            client.call("TUBE.PUT", "t", "b")
            client.call("TUBE.TAKE", "t")
            broker.kill()

        broker.restart("--fsync", "always")
        with broker.connect() as client:
            told = client.call("TUBE.TAKE", "t", 0)
            assert told == Refusal(
                "ASLEEP the driver 'unique' of tube 't' is not loaded; start the broker with it "
                "(setting drivers)"
            )
            broker.kill()

        broker.restart("--drivers", UNIQUE)
        with broker.connect() as client:
            wait_until(lambda: client.call("TUBE.PEEK", "t", 0) == [0, b"r", b"a"])
            assert client.call("TUBE.PUT", "t", "a2", "OPTION", "key", "a") == [0, b"r", b"a2"]
            assert client.call("TUBE.PEEK", "t", 1) == [1, b"r", b"b"]


def test_a_broker_does_not_start_with_a_driver_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(
        BrokerDidNotStart, match=r'drivers: cannot import driver "x" \(nowhere:Thing\)'
    ):
        start_broker(tmp_path, "--drivers", "x=nowhere:Thing")


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"drivers": ["x"]}, r"drivers \(--drivers\): 'x' is not name=module:Class"),
        (
            {"drivers": [UNIQUE], "store": "redis://localhost"},
            r"drivers \(--drivers\): requires the embedded store",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_refused(flags: dict[str, str | list[str]], why: str) -> None:
    with pytest.raises(BadSetting, match=why):
        load(flags, {})


def test_drivers_are_named_in_the_environment_too() -> None:
    config = load({}, {"QUINQUE_DRIVERS": f"{UNIQUE},{CLUMSY}"})

    assert config.drivers == [UNIQUE, CLUMSY]
