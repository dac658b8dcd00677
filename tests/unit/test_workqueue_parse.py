"""WQ.* become operations, or are refused with what is wrong; results become replies."""

from __future__ import annotations

from typing import Any, cast

import pytest

from quinque.dialects.command import Session, Wait
from quinque.dialects.workqueue import COMMANDS, gather_add, gather_ids, gather_lease, reply_lease
from quinque.errors import BadArgument, WrongArity
from quinque.model.families import ITEMS
from quinque.model.limits import NAME_MOST_BYTES, NEVER_MS, SPAN_MOST_MS
from quinque.model.own_ops import AddItems, Cleaned, CleanItems, Complete, ExtendLeases
from quinque.model.work_ops import LookAt, QueueView, Take, WorkDelivery
from quinque.wire.resp import NULL_ARRAY, OK, encode

ROWS = {row.name: row for row in COMMANDS}
SESSION = cast(Session, None)  # none of these looks at it
EXACT_MOST = (1 << 53) - 1

_WORDS = {"EMPTY": b"", "LONG": bytes(NAME_MOST_BYTES + 1)}


def parsed(text: str) -> Any:
    """What a request becomes; EMPTY stands for no bytes, LONG for a name that is too long."""
    argv = [_WORDS.get(word, word.encode()) for word in text.split()]
    row = ROWS[argv[0].decode().upper()]
    assert row.parse is not None
    count, arity = len(argv), row.arity
    assert count == arity or (arity < 0 and count >= -arity), "this is refused before it is parsed"
    return row.parse(argv, SESSION) if row.with_session else row.parse(argv)


def replied(name: str, result: Any) -> Any:
    reply = ROWS[name].reply
    assert reply is not None
    return reply(result)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("WQ.ADD q i data", AddItems(ITEMS, b"q", [b"i"], [b"data"])),
        ("wq.add q i x j EMPTY", AddItems(ITEMS, b"q", [b"i", b"j"], [b"x", b""])),
        ("WQ.ADDUNIQUE q i data", AddItems(ITEMS, b"q", [b"i"], [b"data"], is_known_new=True)),
        ("WQ.COMPLETE q i", Complete(ITEMS, b"q", [b"i"], is_leased=False)),
        ("WQ.COMPLETE q i j i", Complete(ITEMS, b"q", [b"i", b"j", b"i"], is_leased=False)),
        ("WQ.EXTEND q 1 i", ExtendLeases(ITEMS, b"q", [b"i"], 1)),
        ("WQ.EXTEND q 5000 i j", ExtendLeases(ITEMS, b"q", [b"i", b"j"], 5_000)),
        ("WQ.LEN q", LookAt(ITEMS, b"q")),
        ("WQ.CLEAN q", CleanItems(ITEMS, b"q", False, 0, 1_000)),
        ("WQ.CLEAN q DEEP", CleanItems(ITEMS, b"q", True)),
        ("WQ.CLEAN q count 5 CURSOR 7 deep", CleanItems(ITEMS, b"q", True, 7, 5)),
        (f"WQ.CLEAN q CURSOR {EXACT_MOST}", CleanItems(ITEMS, b"q", False, EXACT_MOST)),
    ],
)
def test_a_request_becomes_an_operation(text: str, wanted: object) -> None:
    assert parsed(text) == wanted


@pytest.mark.parametrize(
    ("text", "count", "timeout_ms"),
    [
        ("WQ.LEASE q 500", 1, 0),
        ("WQ.LEASE q 500 COUNT 7", 7, 0),
        ("WQ.LEASE q 500 BLOCK 0", 1, 0),
        ("WQ.LEASE q 500 BLOCK 1500 COUNT 2", 2, 1_500),
        ("wq.lease q 500 count 2 block -1", 2, NEVER_MS),
        (f"WQ.LEASE q 500 BLOCK {SPAN_MOST_MS}", 1, SPAN_MOST_MS),
    ],
)
def test_a_lease_waits_for_as_long_as_it_says(text: str, count: int, timeout_ms: int) -> None:
    is_waiting = timeout_ms > 0
    take = Take(ITEMS, [b"q"], count, is_waiting=is_waiting, lease_ms=500)

    assert parsed(text) == Wait(take, [b"q"], b"", timeout_ms)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("WQ.ADD EMPTY i x", "queue must not be empty"),
        ("WQ.ADD LONG i x", "queue has 1025 bytes; at most 1024"),
        ("WQ.ADD q EMPTY x", "id must not be empty"),
        ("WQ.ADD q i x LONG y", "id has 1025 bytes; at most 1024"),
        ("WQ.ADDUNIQUE q EMPTY x", "id must not be empty"),
        ("WQ.LEASE EMPTY 1", "queue must not be empty"),
        ("WQ.LEASE q 0", f"lease-ms 0 is not within 1 and {SPAN_MOST_MS}"),
        ("WQ.LEASE q 1.5", "lease-ms '1.5' is not a whole number"),
        ("WQ.LEASE q 1 COUNT", "WQ.LEASE has no value after 'COUNT'"),
        ("WQ.LEASE q 1 COUNT 0", f"COUNT 0 is not within 1 and {EXACT_MOST}"),
        ("WQ.LEASE q 1 BLOCK soon", "BLOCK 'soon' is not a whole number"),
        ("WQ.LEASE q 1 NOW", "WQ.LEASE has no option 'NOW'"),
        ("WQ.COMPLETE q EMPTY", "id must not be empty"),
        ("WQ.COMPLETE EMPTY i", "queue must not be empty"),
        ("WQ.EXTEND q -1 i", f"lease-ms -1 is not within 1 and {SPAN_MOST_MS}"),
        ("WQ.EXTEND q 1 i EMPTY", "id must not be empty"),
        ("WQ.LEN EMPTY", "queue must not be empty"),
        ("WQ.CLEAN LONG", "queue has 1025 bytes; at most 1024"),
        ("WQ.CLEAN q CURSOR -1", f"CURSOR -1 is not within 0 and {EXACT_MOST}"),
        ("WQ.CLEAN q COUNT 0", f"COUNT 0 is not within 1 and {EXACT_MOST}"),
        ("WQ.CLEAN q LIGHT", "WQ.CLEAN has no option 'LIGHT'"),
    ],
)
def test_a_bad_argument_is_named(text: str, why: str) -> None:
    with pytest.raises(BadArgument) as refused:
        parsed(text)

    assert str(refused.value) == why


def test_an_id_without_data_is_a_wrong_number_of_arguments() -> None:
    with pytest.raises(WrongArity):
        parsed("WQ.ADD q i x j")


def test_requests_that_are_alike_are_one() -> None:
    wait = parsed("WQ.LEASE q 500")
    assert gather_lease(wait, [b"500"] * 3)
    assert wait.op.count == 3

    addition = parsed("WQ.ADD q i x")
    assert gather_add(addition, [b"i", b"x", b"j", b"y"])
    assert (addition.message_ids, addition.bodies) == ([b"i", b"j"], [b"x", b"y"])

    complete = parsed("WQ.COMPLETE q i")
    assert gather_ids(complete, [b"i", b"j", b"i"])
    assert complete.message_ids == [b"i", b"j", b"i"]


@pytest.mark.parametrize("text", ["WQ.LEASE q 500 COUNT 2", "WQ.LEASE q 500 BLOCK 1"])
def test_requests_for_several_items_or_that_may_wait_are_run_one_by_one(text: str) -> None:
    assert not gather_lease(parsed(text), [b"2"] * 2)


def test_requests_of_which_one_is_bad_are_not_run_as_one() -> None:
    with pytest.raises(BadArgument):
        gather_ids(parsed("WQ.EXTEND q 5 i"), [b"i", b""])


def test_the_replies() -> None:
    asked = parsed("WQ.LEASE q 500")
    found = [WorkDelivery(b"q", b"i", b"data", 0, 0)]
    queue = QueueView(b"q", 3, 0, 2, 0, 0, 0, 0, 0, False, False, 0, 0, 0)

    assert replied("WQ.ADD", [True, False, True]) == 2
    assert replied("WQ.ADDUNIQUE", [False]) is OK
    assert reply_lease(asked, found, SESSION) == [[b"i", b"data"]]
    assert reply_lease(asked, [], SESSION) == []
    assert reply_lease(asked, None, SESSION) is NULL_ARRAY
    assert replied("WQ.COMPLETE", [True, False]) == 1
    assert replied("WQ.COMPLETE", None) == 0
    assert replied("WQ.LEN", queue) == {"queued": 3, "processing": 2}
    assert replied("WQ.LEN", None) == {"queued": 0, "processing": 0}
    assert replied("WQ.CLEAN", Cleaned(5, 4, 3, 2, 1)) == {
        "cursor": 5,
        "looked-at": 4,
        "returned": 3,
        "dropped": 2,
        "doubled": 1,
    }


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_reply_in_bytes_is_the_one_that_is_written_out(protocol: int) -> None:
    asked, lease = parsed("WQ.LEASE q 500"), ROWS["WQ.LEASE"]
    assert lease.reply_each is not None
    item = WorkDelivery(b"q", b"i", b"data", 0, 0)

    for found in ([item], []):
        written = encode(reply_lease(asked, found, SESSION), protocol)
        assert lease.reply_each(found[0] if found else None, protocol) == written
