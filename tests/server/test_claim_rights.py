"""Limited users: their permissions for claims, stages, pages and the lifecycle log."""

from __future__ import annotations

from collections.abc import Iterator

import msgpack
import pytest

from tests.server.broker import RunningBroker, start_broker
from tests.server.resp import Client, Refusal
from tests.server.rights import NO_SECRET, login, user_flags
from tests.servers import stores

ROWS = msgpack.packb([[60_000, 0, -1, 0, None, [b"x"]]])


@pytest.fixture(scope="module", params=stores.ALL)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    folder = tmp_path_factory.mktemp("rights")
    flags = stores.store_flags(request, request.param)
    with start_broker(folder, *flags, *user_flags(folder)) as running:
        yield running


@pytest.fixture
def boss(broker: RunningBroker) -> Iterator[Client]:
    with login(broker, "boss") as client:
        yield client


def open_claims(client: Client, queue: str, *options: str) -> int:
    """The epoch."""
    reply = client.call("CLAIM.OPEN", queue, "s", *options)
    epoch = dict(zip(reply[::2], reply[1::2], strict=True))[b"epoch"]
    assert isinstance(epoch, int)
    return epoch


def test_queues_are_refused_by_name(broker: RunningBroker, boss: Client) -> None:
    epoch = open_claims(boss, "secret")

    with login(broker, "packer") as packer:
        for words in (
            ("CLAIM.OPEN", "secret", "s"),
            ("CLAIM.FILL", "secret", "s", epoch, 1, "COUNT", 1),
            ("CLAIM.READ", "secret", "s", 1),
            ("CLAIM.PLAY", "secret", "s", epoch, 1),
            ("CLAIM.MARK", "secret", "s", 1, "ACK", "IDS", "a"),
            ("CLAIM.SETTLE", "secret", "s", epoch, 1),
            ("CLAIM.RELEASE", "secret", "s", epoch, 1),
            ("CLAIM.RENEW", "secret", "s", epoch),
            ("CLAIM.PURGE", "secret", "s", 1),
            ("CLAIM.DROP", "secret", "s"),
            ("CLAIM.INFO", "secret", "s"),
            ("CLAIM.LIST", "secret"),
            ("STAGE.ADD", "jobs", "secret", "sink", "run", 0, 0, 0, 0, ROWS),
            ("STAGE.PUBLISH", "jobs", "secret", "sink", "run", 0, "PARTS"),
            ("STAGE.DROP", "secret", "sink", "run", 0),
            ("MESSAGES.PAGE", "jobs", "secret", 0, 0),
            ("MESSAGES.DIVIDE", "jobs", "secret", 2),
        ):
            assert packer.call(*words) == NO_SECRET, words

    assert boss.call("CLAIM.RENEW", "secret", "s", epoch) == 0, "it was not opened since"


def test_lists_pass_over_other_queues(broker: RunningBroker, boss: Client) -> None:
    for queue in ("orders.listed", "secret.listed"):
        open_claims(boss, queue)
        boss.call("STAGE.ADD", "jobs", queue, "sink", "run", 0, 0, 0, 0, ROWS)

    with login(broker, "packer") as packer:
        packer.call("HELLO", 3)
        claims, stages = packer.call("CLAIM.LIST"), packer.call("STAGE.LIST")
    boss.call("HELLO", 3)

    assert b"orders.listed" in {row[b"queue"] for row in claims}
    assert {row[b"queue"] for row in stages} == {b"orders.listed"}
    assert all(row[b"queue"].startswith(b"orders.") for row in claims)
    assert {row[b"queue"] for row in boss.call("STAGE.LIST")} == {
        b"orders.listed",
        b"secret.listed",
    }
    assert {b"orders.listed", b"secret.listed"} <= {
        row[b"queue"] for row in boss.call("CLAIM.LIST")
    }


def test_the_record_is_for_those_who_see_every_queue(broker: RunningBroker, boss: Client) -> None:
    boss.call("ADDJOB", "orders.recorded", "x", 0)
    shard, first, after, *_ = boss.call("LIFECYCLE.SHARDS")[0]

    assert boss.call("LIFECYCLE.READ", shard, first) != []
    assert after > first
    with login(broker, "packer") as packer:
        assert packer.call("LIFECYCLE.READ", shard, first) == Refusal(
            "NOPERM LIFECYCLE.READ requires a user who can access every queue"
        )
        # On a Redis Cluster the shards are the slots of queues.
        assert packer.call("LIFECYCLE.SHARDS") == Refusal(
            "NOPERM LIFECYCLE.SHARDS requires a user who can access every queue"
        )


def test_who_may_read_may_look_and_change_nothing(broker: RunningBroker, boss: Client) -> None:
    boss.call("ADDJOB", "orders.looked", "x", 0)
    epoch = open_claims(boss, "orders.looked")
    boss.call("CLAIM.FILL", "orders.looked", "s", epoch, 1, "COUNT", 1, "SEAL")

    with login(broker, "reader") as reader:
        assert len(reader.call("CLAIM.READ", "orders.looked", "s", 1)) == 1
        assert reader.call("CLAIM.INFO", "orders.looked", "s") is not None
        assert reader.call("MESSAGES.PAGE", "jobs", "orders.looked", 0, 0)[0] == 0
        for words in (
            ("CLAIM.OPEN", "orders.looked", "s"),
            ("CLAIM.SETTLE", "orders.looked", "s", epoch, 1),
            ("CLAIM.DROP", "orders.looked", "s"),
            ("STAGE.ADD", "jobs", "orders.looked", "sink", "run", 0, 0, 0, 0, ROWS),
        ):
            assert reader.call(*words).text.endswith("it needs the right 'write'"), words


def test_a_user_of_some_families_claims_in_those(broker: RunningBroker, boss: Client) -> None:
    boss.call("QADD", "news", 60, "x")
    epoch = open_claims(boss, "news", "FAMILY", "events")
    boss.call("CLAIM.FILL", "news", "s", epoch, 1, "COUNT", 1, "SEAL")

    staged = ("events", "news", "sink", "run", 0, 0, 0, 0, ROWS)
    assert boss.call("STAGE.ADD", *staged)[0] == 0

    with login(broker, "jobber") as jobber:
        own = open_claims(jobber, "orders.own")
        assert jobber.call("CLAIM.RENEW", "orders.own", "s", own) == 0
        assert jobber.call("CLAIM.RENEW", "nowhere", "s", 1).text.startswith("NOSUB ")
        assert jobber.call("STAGE.DROP", "orders.own", "sink", "run", 0) == 0
        assert jobber.call("MESSAGES.PAGE", "jobs", "orders.own", 0, 0)[0] == 0
        assert jobber.call("MESSAGES.PAGE", "lists", "orders.own", 0, 0) == Refusal(
            "ERR family 'lists' is not one of events, jobs, reliable, items"
        )
        for words in (
            ("CLAIM.OPEN", "news", "s", "FAMILY", "events"),
            ("CLAIM.OPEN", "news", "s", "GROUP", "s"),
            ("CLAIM.READ", "news", "s", 1),
            ("CLAIM.SETTLE", "news", "s", epoch, 1),
            ("CLAIM.INFO", "news", "s"),
            ("CLAIM.LIST",),
            ("STAGE.LIST",),
            ("STAGE.ADD", *staged),
            ("STAGE.DROP", "news", "sink", "run", 0),
            ("MESSAGES.PAGE", "events", "news", 0, 0),
            ("LIFECYCLE.SHARDS",),
            ("LIFECYCLE.READ", 0, 1),
        ):
            assert jobber.call(*words).text.startswith("NOPERM User jobber"), words
