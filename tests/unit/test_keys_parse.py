"""Redis's words for keys become operations on queues, or are refused in its words."""

from __future__ import annotations

from typing import Any, cast

import pytest

from quinque.dialects import keys
from quinque.dialects.command import Session
from quinque.errors import BadArgument
from quinque.model.families import EVENTS, FAMILIES, ITEMS, JOBS, RELIABLE
from quinque.model.limits import SCAN_MOST, SPAN_MOST_MS
from quinque.model.queue_ops import (
    DeleteQueues,
    FindFamilies,
    LookAtExpiry,
    RenameQueue,
    SetExpiry,
)
from quinque.model.work_ops import ScanQueues
from quinque.server.commands.table import all_commands
from quinque.wire.resp import Simple

ROWS = {row.name: row for row in all_commands()}
NOW_MS = 1_700_000_000_000


class Asker:
    """A client that may see some queues, at one moment."""

    def now_ms(self) -> int:
        return NOW_MS

    def sees(self, queue: bytes) -> bool:
        return not queue.startswith(b"secret")


ASKER = cast(Session, Asker())


def parsed(text: str) -> Any:
    """What a request becomes."""
    argv = [word.encode() for word in text.split()]
    row = ROWS[argv[0].decode().upper()]
    assert row.parse is not None
    return row.parse(argv, ASKER) if row.with_session else row.parse(argv)


@pytest.mark.parametrize(
    ("request_", "op"),
    [
        ("TYPE q", FindFamilies([b"q"])),
        ("EXISTS a b a", FindFamilies([b"a", b"b", b"a"])),
        ("DEL a b", DeleteQueues(RELIABLE, [b"a", b"b"])),
        ("UNLINK a", DeleteQueues(RELIABLE, [b"a"])),
        ("RENAME a b", RenameQueue(RELIABLE, b"a", b"b")),
        ("RENAMENX a b", RenameQueue(RELIABLE, b"a", b"b", only_free=True)),
        ("EXPIRE q 5", SetExpiry(RELIABLE, b"q", NOW_MS + 5_000)),
        ("EXPIRE q 0", SetExpiry(RELIABLE, b"q", NOW_MS)),
        ("EXPIRE q -9223372036854775808", SetExpiry(RELIABLE, b"q", 1)),
        ("PEXPIRE q 5", SetExpiry(RELIABLE, b"q", NOW_MS + 5)),
        (f"PEXPIRE q {SPAN_MOST_MS}", SetExpiry(RELIABLE, b"q", NOW_MS + SPAN_MOST_MS)),
        ("EXPIREAT q 1800000000", SetExpiry(RELIABLE, b"q", 1_800_000_000_000)),
        ("PEXPIREAT q 1800000000000", SetExpiry(RELIABLE, b"q", 1_800_000_000_000)),
        ("EXPIREAT q 0", SetExpiry(RELIABLE, b"q", 1)),
        ("PERSIST q", SetExpiry(RELIABLE, b"q", 0)),
        ("TTL q", LookAtExpiry(RELIABLE, b"q")),
        ("PTTL q", LookAtExpiry(RELIABLE, b"q")),
    ],
)
def test_a_request_becomes_an_operation(request_: str, op: object) -> None:
    assert parsed(request_) == op


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ("EXPIRE q soon", "value is not an integer or out of range"),
        ("EXPIRE q 9223372036854775808", "value is not an integer or out of range"),
        ("EXPIRE q 9223372036854775807", "invalid expire time in 'expire' command"),
        (f"PEXPIRE q {SPAN_MOST_MS + 1}", "invalid expire time in 'pexpire' command"),
        ("EXPIREAT q 99999999999", "invalid expire time in 'expireat' command"),
        ("EXPIRE q 5 NX", "Unsupported option NX"),
        ("SCAN x", "invalid cursor"),
        ("SCAN -1", "invalid cursor"),
        ("SCAN 0 COUNT", "syntax error"),
        ("SCAN 0 COUNT 0", "syntax error"),
        ("SCAN 0 COUNT x", "value is not an integer or out of range"),
        ("SCAN 0 NOSUCH x", "syntax error"),
        ("TYPE " + "x" * 1025, "queue has 1025 bytes; at most 1024"),
        ("RENAME q " + "x" * 1025, "queue has 1025 bytes; at most 1024"),
    ],
)
def test_a_request_is_refused(request_: str, text: str) -> None:
    with pytest.raises(BadArgument) as refused:
        parsed(request_)

    assert str(refused.value) == text


def test_a_type_is_that_of_the_module_or_the_name_of_the_family() -> None:
    shown = [keys.reply_type([family]) for family in (RELIABLE, EVENTS, JOBS, ITEMS, None)]

    texts = [value.text for value in shown if isinstance(value, Simple)]
    assert texts == [b"RELIABLEQ", b"events", b"jobs", b"items", b"none"]


@pytest.mark.parametrize(
    ("expires_ms", "ttl_s", "pttl_ms"),
    [
        (None, -2, -2),
        (0, -1, -1),
        (NOW_MS + 1, 0, 1),
        (NOW_MS + 1_499, 1, 1_499),
        (NOW_MS + 1_500, 2, 1_500),
        (NOW_MS - 5, 0, 0),
    ],
)
def test_what_is_left_is_told_in_seconds_and_in_milliseconds(
    expires_ms: int | None, ttl_s: int, pttl_ms: int
) -> None:
    assert keys.reply_ttl(parsed("TTL q"), expires_ms, ASKER) == ttl_s
    assert keys.reply_pttl(parsed("PTTL q"), expires_ms, ASKER) == pttl_ms


def scan(request_: str, found: object) -> tuple[int, list[object]]:
    """The cursor and the names that the answer has, if the store finds this."""
    answer: Any = keys.reply_scan(parsed(request_), found, ASKER)
    cursor, names = answer
    return int(cursor), names


def test_a_scan_goes_through_the_families_one_after_the_other() -> None:
    cursor = 0
    seen = []
    for family in FAMILIES:
        wait = parsed(f"SCAN {cursor} COUNT 7")
        assert wait.op == ScanQueues(family, 0, 7)
        cursor, names = scan(f"SCAN {cursor}", (12345, [b"a"]))
        wait = parsed(f"SCAN {cursor} COUNT 7")
        assert wait.op == ScanQueues(family, 12345, 7)
        cursor, names = scan(f"SCAN {cursor}", (0, [b"b"]))
        assert names == [b"b"]
        seen.append(cursor)

    assert seen[-1] == 0
    assert 0 not in seen[:-1]


def test_a_scan_of_one_type_ends_with_it() -> None:
    assert parsed("SCAN 0 TYPE ReliableQ").op == ScanQueues(RELIABLE, 0, 10)
    cursor, _ = scan("SCAN 0 TYPE RELIABLEQ", (99, []))
    assert parsed(f"SCAN {cursor} TYPE RELIABLEQ").op == ScanQueues(RELIABLE, 99, 10)
    assert scan(f"SCAN {cursor} TYPE RELIABLEQ", (0, [b"q"])) == (0, [b"q"])
    assert scan("SCAN 0 TYPE events", (0, [b"e"])) == (0, [b"e"])


def test_a_scan_of_a_type_that_there_is_not_finds_nothing() -> None:
    assert parsed("SCAN 0 TYPE hash").op == FindFamilies(())
    assert scan("SCAN 0 TYPE hash", []) == (0, [])


def test_a_scan_shows_what_matches_and_the_user_may_see() -> None:
    names = [b"orders.1", b"orders.2", b"letters", b"secret.orders.3"]

    assert scan("SCAN 2 MATCH *orders*", (0, names))[1] == [b"orders.1", b"orders.2"]


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        ("*", SCAN_MOST, SCAN_MOST),
        ("orders.*", SCAN_MOST, SCAN_MOST),
        ("?" * 1_024, SCAN_MOST, SCAN_MOST),
        ("*a*", 1_000, 5_000),
        ("*" + "a" * 1_000 + "b*", 1, 20),
    ],
)
def test_a_scan_looks_at_fewer_names_if_its_pattern_takes_long_to_match(
    pattern: str, least: int, most: int
) -> None:
    """The names of a page are matched while no other client is served."""
    scan = parsed(f"SCAN 0 MATCH {pattern} COUNT 1000000").op

    assert least <= scan.count <= most


def test_a_cursor_that_no_scan_gave_is_taken_for_the_end() -> None:
    assert scan("SCAN 18446744073709551615", (0, []))[0] == 0
