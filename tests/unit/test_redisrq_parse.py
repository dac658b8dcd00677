"""RedisRQ's words become operations, or are refused in its words."""

from __future__ import annotations

from typing import Any, cast

import pytest

from quinque.dialects import redisrq
from quinque.dialects.command import Session, Wait
from quinque.errors import BadArgument, EmptyKey, WrongUsage
from quinque.model.families import RELIABLE
from quinque.model.limits import NEVER_MS, SPAN_MOST_MS
from quinque.model.own_ops import RELIABLE_TERMS, Complete, Inspect, Recover, Undeliver
from quinque.model.queue_ops import FindFamilies
from quinque.model.work_ops import Add, LookAt, Take, WorkDelivery
from quinque.server.commands.table import all_commands

ROWS = {row.name: row for row in all_commands()}
NOBODY = cast(Session, None)  # what is parsed here does not depend on who asks
TOO_LARGE = "99999999999999999999"
EXACT_MOST = (1 << 53) - 1


def words(text: str) -> list[bytes]:
    return [word.encode() for word in text.split()]


def parsed(text: str) -> Any:
    """What a request becomes."""
    argv = words(text)
    row = ROWS[argv[0].decode().upper()]
    assert row.parse is not None
    return row.parse(argv, NOBODY) if row.with_session else row.parse(argv)


def pop(queues: str, count: int = 1, timeout_ms: int = 0) -> Wait:
    names = words(queues)
    take = Take(RELIABLE, names, count, is_waiting=timeout_ms > 0, is_drained=len(set(names)) > 1)
    return Wait(take, names, b"", timeout_ms)


def test_push_becomes_an_addition_of_all_its_elements() -> None:
    assert parsed("RQ.PUSH q a") == Add(RELIABLE, b"q", [b"a"], RELIABLE_TERMS)
    assert parsed("RQ.PUSH q a b a") == Add(RELIABLE, b"q", [b"a", b"b", b"a"], RELIABLE_TERMS)
    assert redisrq.parse_push([b"RQ.PUSH", b"", b""]).bodies == [b""]


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("q", pop("q")),
        ("a b", pop("a b")),
        ("a b a", pop("a b")),
        ("q q", pop("q")),
        ("COUNT 5 q", pop("q", 5)),
        ("count 5 a b", pop("a b", 5)),
        ("BLOCK 100 q", pop("q", timeout_ms=100)),
        ("BLOCK 0 q", pop("q")),
        ("BLOCK -1 q", pop("q", timeout_ms=NEVER_MS)),
        (f"BLOCK {SPAN_MOST_MS + 1} q", pop("q", timeout_ms=NEVER_MS)),
        ("COUNT 5 BLOCK 100 q", pop("q", 5, 100)),
        ("BLOCK 100 COUNT 5 q", pop("q", 5, 100)),
        ("Block 100 Count 5 a b", pop("a b", 5, 100)),
    ],
)
def test_pop_takes_its_options_in_either_order(said: str, wanted: Wait) -> None:
    assert parsed(f"RQ.POP {said}") == wanted


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("10 k1 k2", pop("k1 k2", 10)),
        ("1 k1", pop("k1", 1)),
        ("10 BLOCK 100 k1", pop("k1", 10, 100)),
        ("10 20 30", pop("20 30", 10)),
        # It is the only word, or how many has been said, or BLOCK came first.
        ("10", pop("10")),
        ("COUNT 1 10 k1", pop("10 k1", 1)),
        ("BLOCK 100 10 k1", pop("10 k1", timeout_ms=100)),
        ("BLOCK 0 10", pop("10")),
        # No number as Redis writes them.
        ("-1 k1", pop("-1 k1")),
        ("+1 k1", pop("+1 k1")),
        ("01 k1", pop("01 k1")),
        ("1.5 k1", pop("1.5 k1")),
        (f"{TOO_LARGE} k1", pop(f"{TOO_LARGE} k1")),
        # How many is said once.
        ("10 COUNT 5 k1", pop("COUNT 5 k1", 10)),
    ],
)
def test_a_number_before_names_is_how_many(said: str, wanted: Wait) -> None:
    assert parsed(f"RQ.POP {said}") == wanted


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("COUNT", pop("COUNT")),
        ("COUNT 3", pop("COUNT 3")),
        ("COUNT abc k", pop("COUNT abc k")),
        ("COUNT 1.5 k", pop("COUNT 1.5 k")),
        (f"COUNT {TOO_LARGE} k", pop(f"COUNT {TOO_LARGE} k")),
        ("BLOCK", pop("BLOCK")),
        ("BLOCK 10", pop("BLOCK 10")),
        ("BLOCK soon k", pop("BLOCK soon k")),
        ("COUNT 2 COUNT 3 k", pop("COUNT 3 k", 2)),
        ("BLOCK 2 BLOCK 3 k", pop("BLOCK 3 k", timeout_ms=2)),
        ("k COUNT 3", pop("k COUNT 3")),
        ("COUNT 2 k BLOCK 9", pop("k BLOCK 9", 2)),
    ],
)
def test_an_option_without_its_number_and_a_name_is_a_name(said: str, wanted: Wait) -> None:
    assert parsed(f"RQ.POP {said}") == wanted


@pytest.mark.parametrize("said", ["COUNT -1 q", "BLOCK 5 COUNT -1 q", "COUNT -5 BLOCK 5 a b"])
def test_fewer_than_none_are_refused_in_the_words_of_the_module(said: str) -> None:
    with pytest.raises(WrongUsage) as refused:
        parsed(f"RQ.POP {said}")

    assert refused.value.code == "usage:"
    assert str(refused.value).startswith("RQ.POP <count:uint> [ BLOCK <milliseconds:int> ] <queue1")


@pytest.mark.parametrize("said", ["0 q", "COUNT 0 q", "COUNT 0 BLOCK -1 q"])
def test_who_asks_for_none_does_not_wait(said: str) -> None:
    assert parsed(f"RQ.POP {said}") == Wait(FindFamilies(()), (), b"", 0)


@pytest.mark.parametrize(
    ("said", "queues"),
    [
        ("q", "q"),
        ("10 a b", "a b"),
        ("COUNT 10 BLOCK 5 a b", "a b"),
        ("BLOCK 5 COUNT 10 a", "a"),
        ("COUNT a", "COUNT a"),
    ],
)
def test_the_queues_of_a_pop_are_what_users_may_or_may_not_touch(said: str, queues: str) -> None:
    assert list(ROWS["RQ.POP"].queues(words(f"RQ.POP {said}"))) == words(queues)


def test_an_ack_names_a_queue_and_ids_of_any_form() -> None:
    long = "7" * 400
    ids = words(f"1-1 {long} x")

    assert parsed(f"RQ.ACK q 1-1 {long} x") == Complete(RELIABLE, b"q", ids, is_leased=True)


def test_an_unpop_names_a_queue_and_ids_each_once() -> None:
    deliveries = [WorkDelivery(b"q", id, b"", 0, 0) for id in (b"1-1", b"x")]

    assert parsed("RQ.UNPOP q 1-1 x 1-1") == Undeliver(RELIABLE, deliveries)


@pytest.mark.parametrize(
    ("said", "count", "elapsed_ms"),
    [
        ("10 5000", 10, 5_000),
        ("10 0", 10, 0),
        ("10 -5", 10, 0),
        ("0 0", 0, 0),
        ("-1 0", 0, 0),
        ("pending 10 5000", 10, 5_000),
        ("10 5000 and more", 10, 5_000),
        (f"{(1 << 63) - 1} {(1 << 63) - 1}", EXACT_MOST, EXACT_MOST),
    ],
)
def test_recover_takes_how_many_and_how_long_ago(said: str, count: int, elapsed_ms: int) -> None:
    assert parsed(f"RQ.RECOVER q {said}") == Recover(RELIABLE, b"q", count, elapsed_ms)


@pytest.mark.parametrize("said", ["10", "x 5", "10 x", "PENDING", "PENDING 10", "1.5 0", "01 0"])
def test_recover_without_two_numbers_is_refused(said: str) -> None:
    with pytest.raises(WrongUsage, match=r"^RQ\.RECOVER <key> <count:uint> <elapsed:uint>$"):
        parsed(f"RQ.RECOVER q {said}")


@pytest.mark.parametrize(
    ("said", "is_leased", "start", "count"),
    [
        ("0 10", False, 0, 10),
        ("-2 2", False, -2, 2),
        ("PENDING 0 10", True, 0, 10),
        ("pending -1 1", True, -1, 1),
        ("0 10 and more", False, 0, 10),
        ("PENDING 0 10 more", True, 0, 10),
        (f"{-(1 << 63)} {(1 << 63) - 1}", False, -EXACT_MOST, EXACT_MOST),
    ],
)
def test_inspect_looks_at_either_list(said: str, is_leased: bool, start: int, count: int) -> None:
    assert parsed(f"RQ.INSPECT q {said}") == Inspect(RELIABLE, b"q", is_leased, start, count)


@pytest.mark.parametrize(
    "said", ["0 0", "0 -1", "x 1", "1 x", "PENDING 1", "PENDING 1 0", "PENDING x 1", "0 PENDING 1"]
)
def test_inspect_is_refused_for_its_numbers_after_a_missing_queue(said: str) -> None:
    asked = parsed(f"RQ.INSPECT q {said}")

    with pytest.raises(EmptyKey):
        redisrq.reply_inspect(asked, None, NOBODY)
    with pytest.raises(WrongUsage, match=r"^RQ\.INSPECT <key> \[ PENDING \] <start:int> <count:ui"):
        redisrq.reply_inspect(asked, [], NOBODY)


def test_info_is_a_look() -> None:
    assert parsed("RQ.INFO q") == LookAt(RELIABLE, b"q")


def test_a_queue_that_is_not_there_is_an_empty_key() -> None:
    with pytest.raises(EmptyKey) as refused:
        redisrq.reply_info(None)
    assert (refused.value.code, str(refused.value)) == ("EMPTYKEY", "")

    with pytest.raises(EmptyKey):
        redisrq.reply_inspect(parsed("RQ.INSPECT q 0 1"), None, NOBODY)


@pytest.mark.parametrize(
    "request_",
    [
        "RQ.PUSH {} a",
        "RQ.POP {}",
        "RQ.POP a {}",
        "RQ.ACK {} 1-1",
        "RQ.UNPOP {} 1-1",
        "RQ.RECOVER {} 1 0",
        "RQ.INSPECT {} 0 1",
        "RQ.INFO {}",
    ],
)
def test_a_long_name_is_refused(request_: str) -> None:
    with pytest.raises(BadArgument, match="queue has 1025 bytes; at most 1024"):
        parsed(request_.format("x" * 1025))


def test_requests_for_one_queue_are_put_together() -> None:
    push, ack = parsed("RQ.PUSH q a"), parsed("RQ.ACK q 1-1")
    assert redisrq.gather_push(push, [b"a", b"b"])
    assert redisrq.gather_ack(ack, [b"1-1", b"1-2"])
    assert (push.bodies, ack.message_ids) == ([b"a", b"b"], [b"1-1", b"1-2"])

    for said, share in (("q", 1), ("BLOCK 5 q", 1), ("COUNT 10 q", 10)):
        wait = parsed(f"RQ.POP {said}")
        assert redisrq.gather_pop(wait, [b"RQ.POP"] * 3) == share
        assert wait.op.count == 3 * share

    for said in ("COUNT 17 q", "a b", "COUNT 0 q"):
        assert not redisrq.gather_pop(parsed(f"RQ.POP {said}"), [b"RQ.POP"] * 3)
