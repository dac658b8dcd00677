"""What users may do to tubes over Tarantool's protocol: alone, and beside calls that are alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.broker import RunningBroker, start_broker
from tests.server.iproto import EVAL, LISTEN, IprotoClient, call, packet
from tests.server.resp import Client
from tests.server.rights import login, user_flags
from tests.servers import stores

ACCESS_DENIED = 42
CALLS: tuple[tuple[str, list[Any]], ...] = (
    ("put", ["forged"]),
    ("take", [0]),
    ("take", [60]),
    ("ack", [0]),
    ("release", [0]),
    ("touch", [0, 1]),
    ("peek", [0]),
    ("bury", [0]),
    ("delete", [0]),
    ("kick", [1]),
    ("release_all", []),
    ("truncate", []),
    ("drop", []),
)


@pytest.fixture(params=stores.ALL)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker that knows users and speaks Tarantool's protocol, on each kind of store."""
    flags = stores.store_flags(request, request.param)
    with start_broker(tmp_path, *flags, *user_flags(tmp_path), *LISTEN) as running:
        yield running


def fill(boss: Client) -> bytes:
    """A tube with four tasks, of which the first is taken; what TUBE.STATS tells of it."""
    boss.call("TUBE.CREATE", "secret", "fifottl")
    boss.call("TUBE.MPUT", "secret", "a", "b", "c", "d")
    assert boss.call("TUBE.TAKE", "secret", 0)
    return boss.ask("TUBE.STATS", "secret")


@pytest.mark.parametrize("user", ["", "packer", "reader", "jobber"])
def test_calls_that_a_user_may_not_make_are_refused_however_many_come_together(
    broker: RunningBroker, user: str
) -> None:
    with login(broker, "boss") as boss, IprotoClient(broker) as client:
        before = fill(boss)
        if user:
            assert not client.login(user, user[0]).error

        for word, args in CALLS:
            if user == "reader" and word == "peek":
                continue
            for count in (1, 2, 3):
                function = f"queue.tube.secret:{word}"
                client.send(*[call(number, function, *args) for number in range(count)])
                errors = [client.read().error for _ in range(count)]
                assert errors == [ACCESS_DENIED] * count, (word, count)
                assert boss.ask("TUBE.STATS", "secret") == before, (word, count)


@pytest.mark.parametrize("user", ["", "packer", "reader", "jobber"])
def test_expressions_that_a_user_may_not_evaluate_are_refused_however_many_come_together(
    broker: RunningBroker, user: str
) -> None:
    with login(broker, "boss") as boss, IprotoClient(broker) as client:
        before = fill(boss)
        if user:
            client.login(user, user[0])

        for text in ("return queue.tube.secret:take(0)", "return queue.tube.secret:put('forged')"):
            client.send(*[packet(EVAL, number, {0x27: text, 0x21: []}) for number in range(3)])
            assert [client.read().error for _ in range(3)] == [ACCESS_DENIED] * 3, text

        assert boss.ask("TUBE.STATS", "secret") == before


def test_a_user_of_some_tubes_has_them_alone_and_together(broker: RunningBroker) -> None:
    with login(broker, "boss") as boss, IprotoClient(broker) as client:
        boss.call("TUBE.CREATE", "orders.1", "fifo")
        client.login("packer", "p")

        client.send(*[call(number, "queue.tube.orders.1:put", number) for number in range(3)])
        put = [client.read().body[0x30] for _ in range(3)]
        client.send(*[call(number, "queue.tube.orders.1:take", 0) for number in range(4)])
        took = [client.read().body[0x30] for _ in range(4)]

        assert put == [[[number, "r", number]] for number in range(3)]
        assert took == [*[[[number, "t", number]] for number in range(3)], []]


def test_calls_before_and_after_a_login_each_have_the_rights_of_their_time(
    broker: RunningBroker,
) -> None:
    take = "queue.tube.secret:take"
    with login(broker, "boss") as boss, IprotoClient(broker) as client:
        fill(boss)
        client.send(call(1, take, 0), call(2, take, 0))
        before = [client.read().error for _ in range(2)]
        client.login("boss", "b")
        client.send(call(1, take, 0), call(2, take, 0))
        as_boss = [client.read().error for _ in range(2)]
        client.login("packer", "p")
        client.send(call(1, take, 0), call(2, take, 0))
        as_packer = [client.read().error for _ in range(2)]

        assert (before, as_boss) == ([ACCESS_DENIED] * 2, [0, 0])
        assert as_packer == [ACCESS_DENIED] * 2
