"""Claims over the wire, on every store: maps in both protocols, waiting, clients that go away, and
requests that are refused and change nothing."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from quinque.model.rows import Row
from tests.server.broker import RunningBroker, wait_until
from tests.server.resp import Client, Refusal
from tests.servers.stores import on_every_kind as pytest_generate_tests

__all__ = ["pytest_generate_tests"]

SUBSCRIPTION = [
    b"family",
    b"queue",
    b"subscription",
    b"group",
    b"shard",
    b"shards",
    b"epoch",
    b"settled",
    b"lease-ms",
    b"release-ms",
    b"unrenewed-ms",
    b"stalled",
    b"backlog",
    b"oldest-ms",
    b"stamp-us",
    b"created-us",
    b"claims",
]
CLAIM = [b"number", b"state", b"messages", b"body-bytes", b"chunks", b"plays", b"age-ms"]
MESSAGE = [
    b"id",
    b"body",
    b"attempt",
    b"place",
    b"expires-ms",
    b"nacks",
    b"requeues",
    b"reason",
    b"key",
]


def open_claims(client: Client, queue: str, *options: str) -> int:
    """The epoch."""
    reply = client.call("CLAIM.OPEN", queue, "s", *options)
    epoch = as_map(reply)[b"epoch"]
    assert isinstance(epoch, int)
    return epoch


def as_map(reply: Any) -> dict[bytes, Any]:
    if isinstance(reply, dict):
        return reply
    return dict(zip(reply[::2], reply[1::2], strict=True))


def test_what_is_a_map_in_resp3_is_flat_in_resp2(
    client: Client, client3: Client, queue: str
) -> None:
    client.call("ADDJOB", queue, "x", 0)
    epoch = open_claims(client, queue)

    claim = client3.call("CLAIM.FILL", queue, "s", epoch, 1, "COUNT", 1, "SEAL")
    info = client3.call("CLAIM.INFO", queue, "s")
    [listed] = client3.call("CLAIM.LIST", queue)
    [message] = client3.call("CLAIM.READ", queue, "s", 1)

    assert list(claim) == CLAIM
    assert list(info) == list(listed) == SUBSCRIPTION
    assert list(info[b"claims"][0]) == CLAIM
    assert list(message) == MESSAGE
    flat = client.call("CLAIM.INFO", queue, "s")
    assert flat[::2] == SUBSCRIPTION
    assert flat[-1][0][::2] == CLAIM
    assert client.call("CLAIM.READ", queue, "s", 1)[0][::2] == MESSAGE
    assert client.call("CLAIM.FILL", queue, "s", epoch, 1, "COUNT", 1)[::2] == CLAIM


def test_nothing_is_null_in_both(client: Client, client3: Client, queue: str) -> None:
    epoch = open_claims(client, queue)
    fill = ("CLAIM.FILL", queue, "s", epoch, 1, "COUNT", 1)

    assert (client.ask(*fill), client3.ask(*fill)) == (b"*-1\r\n", b"_\r\n")
    info = ("CLAIM.INFO", queue, "nobody")
    assert (client.ask(*info), client3.ask(*info)) == (b"*-1\r\n", b"_\r\n")
    drop = ("CLAIM.DROP", queue, "nobody")
    assert (client.ask(*drop), client3.ask(*drop)) == (b"$-1\r\n", b"_\r\n")


def test_packed_and_told_messages_are_the_same(client: Client, queue: str) -> None:
    bodies = [b"\x00\xff\r\n", b"", b"x" * 100_000, b"plain"]
    for body in bodies:
        client.call("ADDJOB", queue, body, 0, "ID", b"\xfe" + body[:5])
    epoch = open_claims(client, queue)
    client.call("CLAIM.FILL", queue, "s", epoch, 1, "COUNT", 9, "SEAL")

    chunks = client.call("CLAIM.READ", queue, "s", 1, "PACKED")
    rows = [Row(*row) for chunk in chunks for row in msgpack.unpackb(chunk, raw=True)]
    told = [as_map(message) for message in client.call("CLAIM.READ", queue, "s", 1)]

    assert [row.body for row in rows] == [message[b"body"] for message in told] == bodies
    assert [row.id for row in rows] == [message[b"id"] for message in told]
    assert [row.key for row in rows] == [message[b"key"] for message in told]
    assert [row.place for row in rows] == [message[b"place"] for message in told]
    assert [row.expires_ms for row in rows] == [message[b"expires-ms"] for message in told]


def test_a_large_claim_is_read_chunk_by_chunk(client: Client, queue: str) -> None:
    many = 2_500
    for number in range(many):
        client.send("ADDJOB", queue, number, 0)
    client.read_many(many)
    epoch = open_claims(client, queue)
    claim = as_map(client.call("CLAIM.FILL", queue, "s", epoch, 1, "COUNT", many, "SEAL"))
    assert (claim[b"messages"], claim[b"state"]) == (many, b"sealed")

    bodies = []
    for chunk in range(claim[b"chunks"]):
        [packed] = client.call("CLAIM.READ", queue, "s", 1, "CHUNK", chunk, "CHUNKS", 1, "PACKED")
        bodies += [row[1] for row in msgpack.unpackb(packed, raw=True)]

    assert bodies == [b"%d" % number for number in range(many)]
    assert claim[b"chunks"] >= 3
    assert client.call("CLAIM.READ", queue, "s", 1, "CHUNK", claim[b"chunks"]) == []
    assert client.call("CLAIM.SETTLE", queue, "s", epoch, 1) == many


def claim_many(client: Client, queue: str, number: int = 1, many: int = 2_500) -> int:
    """A sealed claim of that many jobs, which no broker closes in one step; the epoch."""
    for body in range(many):
        client.send("ADDJOB", queue, body, 0)
    client.read_many(many)
    epoch = open_claims(client, queue)
    client.call("CLAIM.FILL", queue, "s", epoch, number, "COUNT", many, "SEAL")
    return epoch


def test_the_reply_comes_when_the_last_message_of_a_large_claim_is_back(
    client: Client, queue: str
) -> None:
    epoch = claim_many(client, queue)

    assert (
        as_map(client.call("CLAIM.PLAY", queue, "s", epoch, 1, "KEEP", 2_400))[b"messages"] == 2_400
    )
    assert client.call("CLAIM.RELEASE", queue, "s", epoch, 1) == 2_400
    assert client.call("QLEN", queue) == 2_500
    client.call("CLAIM.FILL", queue, "s", epoch, 2, "COUNT", 2_500)
    assert client.call("CLAIM.DROP", queue, "s") == 2_500
    assert client.call("QLEN", queue) == 2_500


def test_a_large_claim_is_released_in_a_transaction(client: Client, queue: str) -> None:
    epoch = claim_many(client, queue)
    client.call("MULTI")
    client.call("CLAIM.RELEASE", queue, "s", epoch, 1)
    client.call("QLEN", queue)

    assert client.call("EXEC") == [2_500, 2_500]


def test_a_large_claim_goes_back_though_its_client_is_gone(
    client: Client, other: Client, queue: str
) -> None:
    epoch = claim_many(client, queue)
    client.send("CLAIM.RELEASE", queue, "s", epoch, 1)
    wait_until(lambda: other.call("QLEN", queue) > 0, "it has begun")
    client.sock.close()

    wait_until(lambda: other.call("QLEN", queue) == 2_500, "it is done")
    wait_until(lambda: other.call("CLAIM.DROP", queue, "s") == 0, "it has no claims")


def test_who_waits_for_a_claim_is_woken(client: Client, other: Client, queue: str) -> None:
    epoch = open_claims(client, queue)
    client.send("CLAIM.FILL", queue, "s", epoch, 1, "COUNT", 5, "SEAL", "TIMEOUT", 60_000)

    wait_until(lambda: b"cmd=claim.fill" in other.call("CLIENT", "LIST"), "the fill is there")
    other.call("ADDJOB", queue, "x", 0)

    claim = as_map(client.value())
    assert (claim[b"number"], claim[b"messages"], claim[b"state"]) == (1, 1, b"sealed")


def test_who_waits_is_woken_by_events_too(client: Client, other: Client, queue: str) -> None:
    epoch = open_claims(client, queue, "FAMILY", "events")
    client.send("CLAIM.FILL", queue, "s", epoch, 1, "COUNT", 5, "TIMEOUT", 60_000)

    wait_until(lambda: b"cmd=claim.fill" in other.call("CLIENT", "LIST"), "the fill is there")
    other.call("QADD", queue, 60, "x")

    assert as_map(client.value())[b"messages"] == 1


def test_waiting_ends_when_time_is_up(client: Client, queue: str) -> None:
    epoch = open_claims(client, queue)

    assert client.call("CLAIM.FILL", queue, "s", epoch, 1, "COUNT", 5, "TIMEOUT", 20) is None


def test_a_client_that_goes_away_leaves_its_claim_to_the_next(
    broker: RunningBroker, client: Client, queue: str
) -> None:
    client.call("ADDJOB", queue, "x", 0)
    epoch = open_claims(client, queue)
    with broker.connect() as leaving:
        leaving.send("CLAIM.FILL", queue, "s", epoch, 1, "COUNT", 5, "SEAL")

    def is_claimed() -> bool:
        return bool(as_map(client.call("CLAIM.INFO", queue, "s"))[b"claims"])

    wait_until(is_claimed, "the claim is there")
    epoch = open_claims(client, queue)
    assert [as_map(m)[b"body"] for m in client.call("CLAIM.READ", queue, "s", 1)] == [b"x"]
    assert client.call("CLAIM.SETTLE", queue, "s", epoch, 1) == 1


def test_the_older_of_two_readers_is_told_so(client: Client, other: Client, queue: str) -> None:
    client.call("ADDJOB", queue, "x", 0)
    first = open_claims(client, queue)
    second = open_claims(other, queue)
    assert second > first

    for words in (
        ("CLAIM.FILL", queue, "s", first, 1, "COUNT", 1),
        ("CLAIM.SETTLE", queue, "s", first, 1),
        ("CLAIM.RELEASE", queue, "s", first, 1),
        ("CLAIM.RENEW", queue, "s", first),
    ):
        said = (
            f"epoch {first} of subscription 's' is no longer valid: another reader opened it as"
            f" epoch {second}; stop this reader, or open the subscription again"
        )
        assert client.call(*words) == Refusal(f"SUPERSEDED {said}"), words
    assert client.call("QLEN", queue) == 1


def test_an_epoch_that_never_was_is_told_apart(client: Client, queue: str) -> None:
    client.call("ADDJOB", queue, "x", 0)
    epoch = open_claims(client, queue)

    for words in (
        ("CLAIM.SETTLE", queue, "s", epoch + 1, 1),
        ("CLAIM.RENEW", queue, "s", epoch + 1),
    ):
        said = f"epoch {epoch + 1} of subscription 's' does not exist: the newest epoch is {epoch}"
        assert client.call(*words) == Refusal(f"SUPERSEDED {said}"), words


def test_names_of_any_bytes_are_told_as_they_are(client: Client, queue: str) -> None:
    name, subscription = queue.encode() + b"\x00\xff\r\n", b"\xfe\n"
    client.call("ADDJOB", name, b"x", 0)
    epoch = as_map(client.call("CLAIM.OPEN", name, subscription))[b"epoch"]
    client.call("CLAIM.FILL", name, subscription, epoch, 1, "COUNT", 1, "SEAL")

    [view] = client.call("CLAIM.LIST", name)

    assert as_map(view)[b"queue"] == name
    assert as_map(view)[b"subscription"] == subscription
    assert client.call("CLAIM.READ", name, subscription, 9) == Refusal(
        "NOCLAIM claim 9 of subscription '\\xfe ' does not exist"
    )
    assert client.call("CLAIM.DROP", name, subscription) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("OPEN", "s", "FAMILY", "tubes"),
            "ERR family 'tubes' is not one of events, jobs, reliable, items",
        ),
        (("OPEN", "s", "FAMILY", "events"), "WRONGTYPE "),
        (("OPEN", "s", "LEASE", "-1"), "ERR LEASE -1 is not within 1 and 3153600000000"),
        (("OPEN", "s", "SHARD", "1"), "ERR no shard 1: the number of shards is 1"),
        (("FILL", "s", "{epoch}", "9", "COUNT", "1"), "BADCLAIM claim 9 of subscription 's' "),
        (("FILL", "s", "{epoch}", "2", "COUNT", "x"), "ERR COUNT 'x' is not a whole number"),
        (("FILL", "s", "{epoch}", "2", "COUNT", "1", "SHARD", "3"), "ERR no shard 3: "),
        (("FILL", "t", "{epoch}", "2", "COUNT", "1"), "NOSUB no subscription 't' on queue '"),
        (("READ", "s", "2"), "NOCLAIM claim 2 of subscription 's' does not exist"),
        (("PLAY", "s", "{epoch}", "2"), "NOCLAIM claim 2 of subscription 's' does not exist"),
        (("PLAY", "s", "{epoch}", "1", "KEEP"), "ERR CLAIM.PLAY has no value after 'KEEP'"),
        (
            ("MARK", "s", "2", "DEAD", "IDS", "a"),
            "NOCLAIM claim 2 of subscription 's' does not exist",
        ),
        (("MARK", "s", "1", "GONE", "IDS", "a"), "ERR outcome 'GONE' is not one of ACK, NACK, "),
        (("SETTLE", "t", "{epoch}", "1"), "NOSUB no subscription 't' on queue '"),
        (("SETTLE", "s", "{epoch}", "one"), "ERR number 'one' is not a whole number"),
        (("RELEASE", "t", "{epoch}", "1"), "NOSUB no subscription 't' on queue '"),
        (("RENEW", "s", "0"), "ERR epoch 0 is not within 1 and 9007199254740991"),
        (("PURGE", "s", "-1"), "ERR number -1 is not within 0 and 9007199254740991"),
        (("DROP", "s", "NOW"), "ERR CLAIM.DROP has no option 'NOW'"),
    ],
)
def test_what_is_refused_changes_nothing(
    client: Client, queue: str, words: tuple[str, ...], said: str
) -> None:
    client.call("ADDJOB", queue, "a", 0)
    client.call("ADDJOB", queue, "b", 0)
    epoch = open_claims(client, queue)
    client.call("CLAIM.FILL", queue, "s", epoch, 1, "COUNT", 1, "SEAL")
    before = _still(client, queue)

    refused = client.call(
        f"CLAIM.{words[0]}", queue, *(word.replace("{epoch}", str(epoch)) for word in words[1:])
    )

    assert isinstance(refused, Refusal)
    assert refused.text.startswith(said)
    assert _still(client, queue) == before
    assert client.call("CLAIM.RENEW", queue, "s", epoch) == 1


def _still(client: Client, queue: str) -> Any:
    """What there is, but for what the clock changes."""
    view = as_map(client.call("CLAIM.INFO", queue, "s"))
    claims = [as_map(claim) | {b"age-ms": 0} for claim in view[b"claims"]]
    timeless = {b"unrenewed-ms": 0, b"oldest-ms": 0, b"claims": claims}
    return view | timeless, client.call("QLEN", queue), client.call("CLAIM.READ", queue, "s", 1)


def test_until_the_stamp_of_a_queue_without_messages_takes_nothing_later(
    client: Client, queue: str
) -> None:
    epoch = open_claims(client, queue)
    client.call("ADDJOB", queue, "later", 0)

    assert client.call("CLAIM.FILL", queue, "s", epoch, 1, "COUNT", 5, "UNTIL", 0) is None
    assert client.call("CLAIM.FILL", queue, "s", epoch, 1, "COUNT", 5) is not None


def test_memory_usage_of_a_tube_is_a_number_on_every_store(client: Client, queue: str) -> None:
    client.call("TUBE.CREATE", queue, "fifo")
    empty = client.call("MEMORY", "USAGE", queue)
    client.call("TUBE.PUT", queue, "x")

    assert empty < client.call("MEMORY", "USAGE", queue)
