"""Stages, pages and the record over the wire, on every store: both protocols, chunks that are none,
and requests that are refused and change nothing."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from quinque.model.lifecycle import Entry, Kind, Reason
from quinque.model.rows import Row
from tests.server.resp import Client, Refusal
from tests.servers.stores import on_every_kind as pytest_generate_tests

__all__ = ["pytest_generate_tests"]

STAGE = [b"queue", b"sink", b"run", b"number", b"decided", b"chunks", b"body-bytes", b"age-ms"]


def chunk_of(*bodies: bytes, ttl_ms: int = 0) -> bytes:
    packed = msgpack.packb([[ttl_ms, 0, -1, 0, None, list(bodies)]])
    assert isinstance(packed, bytes)
    return packed


def staged(client: Client, queue: str) -> list[Any]:
    """What is staged for the queue, but for what the clock changes."""
    views = [dict(zip(each[::2], each[1::2], strict=True)) for each in client.call("STAGE.LIST")]
    return [each | {b"age-ms": 0} for each in views if each[b"queue"] == queue.encode()]


def test_a_batch_is_listed_as_a_map(client: Client, client3: Client, queue: str) -> None:
    client.call("STAGE.ADD", "jobs", queue, "sink", "run", 3, 0, 0, 0, chunk_of(b"x"))

    [view] = [each for each in client3.call("STAGE.LIST") if each[b"queue"] == queue.encode()]

    assert list(view) == STAGE
    assert view[b"number"] == 3
    assert [b"queue", queue.encode(), b"sink", b"sink"] in [
        each[:4] for each in client.call("STAGE.LIST")
    ]


def test_a_batch_of_many_is_published_in_several_calls(client: Client, queue: str) -> None:
    many, parts = 7_000, 7
    for part in range(parts):
        bodies = [b"%d-%d" % (part, number) for number in range(many // parts)]
        staged_so_far = client.call(
            "STAGE.ADD", "jobs", queue, "sink", "run", 0, part, 9, 0, chunk_of(*bodies)
        )
        assert staged_so_far == [0, 1_000]

    named = [number for part in range(parts) for number in (part, 9, 1)]
    publish: list[str | int] = ["STAGE.PUBLISH", "jobs", queue, "sink", "run", 0, "PARTS", *named]
    done = [client.call(*publish)]
    while done[-1][1]:
        done.append(client.call(*publish))

    assert len(done) > 1
    assert sum(put for put, _ in done) == many
    assert client.call("QLEN", queue) == many
    assert client.call(*publish) == [0, 0]
    ids = client.call("GETJOB", "COUNT", 2, "FROM", queue)
    assert [body for _, _, body in ids] == [b"0-0", b"0-1"]


@pytest.mark.parametrize(
    "rows",
    [
        b"",
        b"x",
        b"\xc1",
        msgpack.packb({1: 2}),
        msgpack.packb([[0, 0, 0, 0, None]]),
        msgpack.packb([[0, 0, 0, 0, None, b"x"]]),
        msgpack.packb([[0, 0, 0, 0, None, [7]]]),
        msgpack.packb([[-1, 0, 0, 0, None, [b"x"]]]),
        msgpack.packb([[1 << 60, 0, 0, 0, None, [b"x"]]]),
        msgpack.packb([[0, 0, 0.5, 0, None, [b"x"]]]),
        msgpack.packb([[0, 0, 0, 0, b"key", [b"x", b"y"]]]),
        msgpack.packb([[0, 0, 0, 0, b"", [b"x"]]]),
        msgpack.packb([[0, 0, 0, 0, bytes(1_025), [b"x"]]]),
        chunk_of(b"x") + b"\x00",
        chunk_of(b"x")[:-1],
        b"\xdd\xff\xff\xff\xff",
    ],
)
def test_what_is_no_chunk_is_refused_with_what_is_wrong(
    client: Client, queue: str, rows: bytes
) -> None:
    refused = client.call("STAGE.ADD", "jobs", queue, "sink", "run", 0, 0, 0, 0, rows)

    assert isinstance(refused, Refusal)
    assert refused.text.startswith("ERR the rows are not a valid chunk of messages: ")
    assert staged(client, queue) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("STAGE.ADD", "tubes", "{queue}", "s", "r", 0, 0, 0, 0, "x"), "ERR family 'tubes' is "),
        (("STAGE.ADD", "events", "{queue}", "s", "r", 0, 0, 0, 0, chunk_of(b"x")), "WRONGTYPE "),
        (("STAGE.ADD", "jobs", "{queue}", "", "r", 0, 0, 0, 0, "x"), "ERR sink must not be empty"),
        (("STAGE.ADD", "jobs", "{queue}", "s", "r", 0, 0, "a", 0, "x"), "ERR attempt 'a' is not "),
        (("STAGE.PUBLISH", "jobs", "{queue}", "s", "r", 0, "PARTS", 0, 0, 2), "NOSTAGE part 0 "),
        (("STAGE.PUBLISH", "jobs", "{queue}", "s", "r", 0, "PARTS", 0, 1, 1), "NOSTAGE part 0 "),
        (("STAGE.PUBLISH", "jobs", "{queue}", "s", "r", 0, "PARTS", 0), "ERR PARTS must be three "),
        (("STAGE.PUBLISH", "jobs", "{queue}", "s", "r", 0, "SOME", "PARTS"), "ERR STAGE.PUBLISH "),
        (("STAGE.PUBLISH", "events", "{queue}", "s", "r", 0, "PARTS", 0, 0, 1), "WRONGTYPE "),
        (("STAGE.DROP", "{queue}", "s", "r", "first"), "ERR number 'first' is not a whole number"),
        (("MESSAGES.PAGE", "events", "{queue}", 0, 0), "WRONGTYPE "),
        (("MESSAGES.PAGE", "jobs", "{queue}", -1, 0), "ERR after -1 is not within 0 and "),
        (("MESSAGES.PAGE", "jobs", "{queue}", 0, 0, "SHARD", 1), "ERR no shard 1: "),
        (("MESSAGES.DIVIDE", "events", "{queue}", 1), "WRONGTYPE "),
        (("MESSAGES.DIVIDE", "jobs", "{queue}", 0), "ERR parts 0 is not within 1 and "),
        (("LIFECYCLE.READ", 0, "now"), "ERR start 'now' is not a whole number"),
    ],
)
def test_what_is_refused_changes_nothing(
    client: Client, queue: str, words: tuple[Any, ...], said: str
) -> None:
    client.call("ADDJOB", queue, "a", 0)
    client.call("STAGE.ADD", "jobs", queue, "s", "r", 0, 0, 0, 0, chunk_of(b"b"))
    before = staged(client, queue)

    refused = client.call(*(queue if word == "{queue}" else word for word in words))

    assert isinstance(refused, Refusal)
    assert refused.text.startswith(said)
    assert staged(client, queue) == before != []
    assert client.call("QLEN", queue) == 1
    published = client.call("STAGE.PUBLISH", "jobs", queue, "s", "r", 0, "PARTS", 0, 0, 1)
    assert published == [1, 0]


def test_rows_of_a_page_are_those_of_the_queue(client: Client, queue: str) -> None:
    ids = [client.call("ADDJOB", queue, f"body {number}", 0) for number in range(5)]

    count, place, last, packed = client.call("MESSAGES.PAGE", "jobs", queue, 0, 0, "COUNT", 3)
    rest = client.call("MESSAGES.PAGE", "jobs", queue, place, 0)

    rows = [Row(*row) for row in msgpack.unpackb(packed, raw=True)]
    assert (count, last, [row.id for row in rows]) == (3, 0, ids[:3])
    assert rows[-1].place == place
    assert rows[0].body == b"body 0"
    assert rest[0] == 2
    assert rest[2] == 1


def test_what_happens_to_a_message_is_on_record(client: Client, queue: str) -> None:
    before = {shard: after for shard, _, after, *_ in client.call("LIFECYCLE.SHARDS")}
    id = client.call("ADDJOB", queue, "four", 0)
    client.call("GETJOB", "FROM", queue)
    client.call("NACK", id)
    client.call("GETJOB", "FROM", queue)
    client.call("ACKJOB", id)

    rows = []
    for shard, first, after, *_ in client.call("LIFECYCLE.SHARDS"):
        start = before.get(shard, first)
        if start < after:
            for packed in client.call("LIFECYCLE.READ", shard, start):
                entry = Entry(*msgpack.unpackb(packed, raw=True))
                ids = msgpack.unpackb(entry.ids, raw=True)
                sizes = msgpack.unpackb(entry.sizes) if entry.sizes else [None] * len(ids)
                rows += [
                    (Kind(entry.kind), Reason(entry.reason), size)
                    for each, size in zip(ids, sizes, strict=True)
                    if each == id
                ]

    assert rows == [
        (Kind.ADDED, Reason.NONE, 4),
        (Kind.DELIVERED, Reason.NONE, None),
        (Kind.RETURNED, Reason.NACKED, None),
        (Kind.DELIVERED, Reason.NONE, None),
        (Kind.ACKED, Reason.NONE, None),
    ]
