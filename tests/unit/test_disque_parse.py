"""Disque's words become operations, or are refused: options, their order, their limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from quinque.dialects import disque, disque_ours, disque_queues
from quinque.dialects.command import Session, Wait
from quinque.errors import BadArgument, BadId
from quinque.model.families import JOBS
from quinque.model.limits import NEVER_MS, SPAN_MOST_MS, SPAN_MOST_S
from quinque.model.states import State
from quinque.model.work_ops import (
    Add,
    Browse,
    Configure,
    Finish,
    LookAt,
    Purge,
    Redrive,
    Requeue,
    ScanMessages,
    ScanQueues,
    Show,
    Take,
    Terms,
)
from quinque.server.commands.table import all_commands

ROWS = {row.name: row for row in all_commands()}
NOBODY = cast(Session, None)  # what is parsed here does not depend on who asks
ID = "D-dcb833cf-8YL1NT17e9+wsA/09NqxscQI-05a1"
OTHER_ID = "D-dcb833cf-000000000000000000000000-05a0"


def words(text: str) -> list[bytes]:
    return [word.encode() for word in text.split()]


def parsed(text: str) -> Any:
    """What a request becomes."""
    argv = words(text)
    row = ROWS[argv[0].decode().upper()]
    assert row.parse is not None
    return row.parse(argv, NOBODY) if row.with_session else row.parse(argv)


def add(
    *,
    max_length: int = 0,
    key: bytes | None = None,
    confirm_ms: int | None = NEVER_MS,
    **terms: int,
) -> Add:
    given = {"ttl_ms": 86_400_000, "retry_ms": 300_000} | terms
    return Add(JOBS, b"q", [b"body"], Terms(**given), key, max_length, confirm_ms)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("0", add()),
        ("200", add(confirm_ms=200)),
        ("+7", add(confirm_ms=7)),
        ("007", add(confirm_ms=7)),
        ("0 ASYNC", add(confirm_ms=None)),
        ("0 TTL 3600", add(ttl_ms=3_600_000)),
        ("0 ttl 60 Retry 5", add(ttl_ms=60_000, retry_ms=5_000)),
        ("0 RETRY 0", add(retry_ms=0)),
        ("0 RETRY 90000", add(retry_ms=90_000_000)),
        ("0 DELAY 5", add(delay_ms=5_000)),
        ("0 DELAY 0.25", add(delay_ms=250)),
        ("0 DELAY 86399", add(delay_ms=86_399_000)),
        ("0 REPLICATE 3", add(replicas=3)),
        ("0 REPLICATE 65535 ASYNC", add(replicas=65_535, confirm_ms=None)),
        ("0 RETRY 0 REPLICATE 1", add(retry_ms=0)),
        ("0 MAXLEN 1", add(max_length=1)),
        ("0 MAXLEN 9223372036854775807", add(max_length=2**63 - 1)),
        ("0 MAXDELIVERIES 3 ID monday", add(max_deliveries=3, key=b"monday")),
        ("0 RETRY 1 RETRY 2 RETRY 3", add(retry_ms=3_000)),
        (f"0 TTL {SPAN_MOST_S}", add(ttl_ms=SPAN_MOST_MS)),
    ],
)
def test_addjob_becomes_an_addition(options: str, wanted: Add) -> None:
    assert parsed(f"ADDJOB q body {options}") == wanted


@pytest.mark.parametrize(
    ("ttl_s", "retry_s"),
    [(1, 1), (19, 1), (20, 2), (2999, 299), (3000, 300), (3009, 300), (86400, 300)],
)
def test_the_retry_time_is_a_tenth_of_the_life_within_bounds(ttl_s: int, retry_s: int) -> None:
    assert parsed(f"ADDJOB q body 0 TTL {ttl_s}").terms.retry_ms == retry_s * 1000


# Each request has more than one thing wrong with it, except the last of its kind: what is named is
# what comes first in the order that clients know.
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("x NOSUCH 1", "syntax error in ADDJOB, at 'NOSUCH'"),
        ("x TTL", "syntax error in ADDJOB, at 'TTL'"),
        ("x TTL 0 RETRY -1", "TTL 0 is less than 1"),
        ("x RETRY -1 TTL 0", "RETRY -1 is less than 0"),
        ("x RETRY 1.5", "RETRY '1.5' is not an integer or out of range"),
        ("x DELAY 1.5.5", "DELAY '1.5.5' is not a number of seconds, 0 or more"),
        ("x DELAY -1", "DELAY -1 is less than 0"),
        ("x REPLICATE 0", "REPLICATE 0 is less than 1"),
        ("x REPLICATE 65536", "REPLICATE 65536 is over 65535"),
        ("x MAXLEN 0", "MAXLEN 0 is less than 1"),
        ("x MAXDELIVERIES 0", "MAXDELIVERIES 0 is less than 1"),
        ("x TTL 9223372036854775808", "TTL '9223372036854775808' is not an integer or out of rang"),
        ("x TTL 10000000000", f"TTL 10000000000 is over {SPAN_MOST_S} s"),
        ("x RETRY 4294967296", f"RETRY 4294967296 is over {SPAN_MOST_S} s"),
        ("x DELAY 99999999999", f"DELAY 99999999999 is over {SPAN_MOST_S} s"),
        ("x RETRY 0 REPLICATE 2 DELAY 9 TTL 5", "timeout is not an integer or out of range"),
        ("1e3", "timeout is not an integer or out of range"),
        ("-1 RETRY 0 REPLICATE 2 DELAY 9 TTL 5", "timeout is negative"),
        ("-1", "timeout is negative"),
        ("9223372036854775807", f"timeout 9223372036854775807 is over {SPAN_MOST_MS} ms"),
        ("0 RETRY 0 REPLICATE 2 DELAY 9 TTL 5", "RETRY 0 requires REPLICATE 1"),
        ("0 DELAY 5 TTL 5", "DELAY 5 must be less than TTL 5"),
        ("0 DELAY 1.5 TTL 1", "DELAY 1.5 must be less than TTL 1"),
        ("0 DELAY 100 TTL 10", "DELAY 100 must be less than TTL 10"),
        ("0 DELAY 86400", "DELAY 86400 must be less than TTL 86400"),
    ],
)
def test_addjob_is_refused_for_what_comes_first(options: str, text: str) -> None:
    with pytest.raises(BadArgument) as refused:
        parsed(f"ADDJOB q body {options}")

    assert str(refused.value).startswith(text)


def test_an_empty_queue_and_an_empty_body_are_good() -> None:
    assert disque.parse_addjob([b"ADDJOB", b"", b"", b"0"]).queue == b""
    assert disque.parse_addjob([b"ADDJOB", b"", b"", b"0"]).bodies == [b""]


@pytest.mark.parametrize(
    "parse",
    [
        disque.parse_addjob,
        disque_queues.parse_qlen,
        disque_queues.parse_pause,
        disque_ours.parse_qset,
        disque_ours.parse_qpurge,
        disque_ours.parse_qredrive,
        disque_ours.parse_findjob,
    ],
)
def test_a_long_name_is_refused(parse: Callable[[list[bytes]], object]) -> None:
    with pytest.raises(BadArgument, match="queue has 1025 bytes; at most 1024"):
        parse([b"", b"x" * 1025, b"in", b"0"])


def test_additions_are_put_together_unless_they_could_fare_differently() -> None:
    plain = parsed("ADDJOB q a 0 RETRY 5")
    assert disque.gather_addjob(plain, [b"a", b"b"])
    assert plain.bodies == [b"a", b"b"]

    assert not disque.gather_addjob(parsed("ADDJOB q a 0 ID k"), [b"a", b"b"])
    assert not disque.gather_addjob(parsed("ADDJOB q a 0 MAXLEN 2"), [b"a", b"b"])


def getjob(
    queues: str, count: int = 1, timeout_ms: int = NEVER_MS, *, detail: bool = False
) -> Wait:
    names = words(queues)
    op = Take(JOBS, names, count, is_waiting=timeout_ms > 0)
    again = Take(JOBS, names, is_waiting=True)
    return Wait(op, names, b"", timeout_ms, again, detail=detail)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("FROM q", getjob("q")),
        ("from a b a", getjob("a b")),
        ("FROM FROM COUNT", getjob("FROM COUNT")),
        ("FROM a MATCH b", getjob("a MATCH b")),
        ("NOHANG FROM q", getjob("q", timeout_ms=0)),
        ("NOHANG TIMEOUT 5000 FROM q", getjob("q", timeout_ms=0)),
        ("TIMEOUT 5000 FROM q", getjob("q", timeout_ms=5_000)),
        ("TIMEOUT 0 FROM q", getjob("q")),
        ("COUNT 7 WITHCOUNTERS FROM q", getjob("q", 7, detail=True)),
        ("COUNT 1 COUNT 2 FROM q", getjob("q", 2)),
    ],
)
def test_getjob_becomes_a_wait(options: str, wanted: Wait) -> None:
    assert parsed(f"GETJOB {options}") == wanted


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("NOHANG", "syntax error in GETJOB: FROM and the queue names are missing"),
        ("FROM", "syntax error in GETJOB, at 'FROM'"),
        ("MATCH", "syntax error in GETJOB, at 'MATCH'"),
        ("TIMEOUT", "syntax error in GETJOB, at 'TIMEOUT'"),
        ("q", "syntax error in GETJOB, at 'q': FROM or MATCH is missing before it"),
        ("NOSUCH FROM q", "syntax error in GETJOB, at 'NOSUCH'"),
        ("COUNT 0 FROM q", "COUNT 0 is less than 1"),
        ("COUNT -5 FROM q", "COUNT -5 is less than 1"),
        ("COUNT many FROM q", "COUNT 'many' is not an integer or out of range"),
        ("TIMEOUT -1 FROM q", "timeout is negative"),
        ("TIMEOUT soon FROM q", "timeout is not an integer or out of range"),
        (f"TIMEOUT {SPAN_MOST_MS + 1} FROM q", f"timeout {SPAN_MOST_MS + 1} is over"),
    ],
)
def test_getjob_is_refused(options: str, text: str) -> None:
    with pytest.raises(BadArgument) as refused:
        parsed(f"GETJOB {options}")

    assert str(refused.value).startswith(text)


def test_waits_for_one_job_from_one_queue_are_put_together() -> None:
    wait = parsed("GETJOB TIMEOUT 5 FROM q")
    assert disque.gather_getjob(wait, [b"q"] * 3)
    assert wait.op.count == 3
    assert wait.again.count == 1

    for options in ("COUNT 2 FROM q", "FROM a b", "WITHCOUNTERS FROM q"):
        assert not disque.gather_getjob(parsed(f"GETJOB {options}"), [b"q"] * 3)


@pytest.mark.parametrize(
    "command", ["ACKJOB", "FASTACK", "DELJOB", "ENQUEUE", "UNGETJOB", "DEQUEUE", "NACK"]
)
def test_ids_may_be_none_or_many_and_one_bad_one_refuses_all(command: str) -> None:
    assert list(parsed(command).message_ids) == []
    assert list(parsed(f"{command} {ID} {ID} {OTHER_ID}").message_ids) == words(
        f"{ID} {ID} {OTHER_ID}"
    )

    with pytest.raises(BadId, match=r"^Invalid Job ID format\.$"):
        parsed(f"{command} {ID} x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        ID[:-1],
        ID + "x",
        "E" + ID[1:],
        "DD" + ID[2:],
        ID[:10] + "x" + ID[11:],
        ID[:35] + "x0000",
    ],
)
@pytest.mark.parametrize("command", ["SHOW", "WORKING", "REDRIVE"])
def test_what_does_not_look_like_an_id_is_none(command: str, text: str) -> None:
    row = ROWS[command]
    assert row.parse is not None
    argv = [command.encode(), text.encode()]

    with pytest.raises(BadId):
        row.parse(argv, NOBODY) if row.with_session else row.parse(argv)


def test_what_looks_like_an_id_may_be_one() -> None:
    odd = "D-" + "\x7f" * 8 + "-" + "?" * 24 + "-" + "zzzz"

    assert parsed(f"ACKJOB {odd}") == Finish(JOBS, [odd.encode()])


def test_acks_of_an_id_each_are_put_together_if_all_of_them_are_ids() -> None:
    ids = words(f"{ID} {OTHER_ID}")
    ack = parsed(f"ACKJOB {ID}")
    assert disque.gather_finish(ack, ids)
    assert ack.message_ids == ids

    assert not disque.gather_finish(parsed(f"ACKJOB {ID}"), [*ids, b"x"])
    assert not disque.gather_finish(parsed(f"ACKJOB {ID} {ID}"), ids)
    assert not disque.gather_finish(parsed("ACKJOB"), [b"ACKJOB", b"ACKJOB"])


def test_a_nack_may_say_when_and_why() -> None:
    ids = [ID.encode()]

    assert parsed(f"NACK {ID}") == Requeue(JOBS, ids, is_nack=True)
    assert parsed(f"nack {ID} reason late delay 60") == Requeue(JOBS, ids, True, 60_000, b"late")
    assert parsed(f"NACK {ID} DELAY 1 DELAY 2") == Requeue(JOBS, ids, True, 2_000)
    assert parsed(f"NACK {ID} DEAD REASON no") == Requeue(JOBS, ids, True, 0, b"no", is_dead=True)
    assert parsed(f"NACK {ID} reason dead dead") == Requeue(
        JOBS, ids, True, 0, b"dead", is_dead=True
    )
    assert parsed(f"ENQUEUE {ID}") == Requeue(JOBS, ids, is_nack=False)
    back = Requeue(JOBS, ids, is_nack=False, is_uncounted=True)
    assert parsed(f"UNGETJOB {ID}") == back
    assert parsed(f"UNGETJOB {ID} unseen") == replace(back, lease=0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("DELAY", "syntax error in NACK, at 'DELAY'"),
        ("DELAY 1 REASON", "syntax error in NACK, at 'REASON'"),
        (f"DELAY 1 {ID} x", f"syntax error in NACK, at '{ID}'"),
        ("DELAY -1", "DELAY -1 is less than 0"),
        ("DELAY 99999999999", f"DELAY 99999999999 is over {SPAN_MOST_S} s"),
        (f"REASON {'x' * 1025}", "REASON has 1025 bytes; at most 1024"),
    ],
)
def test_a_nack_is_refused(options: str, text: str) -> None:
    with pytest.raises(BadArgument) as refused:
        parsed(f"NACK {ID} {options}")

    assert str(refused.value) == text


@pytest.mark.parametrize(
    ("request_", "op", "detail"),
    [
        (f"SHOW {ID}", Show(JOBS, ID.encode()), False),
        (f"SHOW {ID} details", Show(JOBS, ID.encode()), True),
        ("QPEEK q 3", Browse(JOBS, b"q", State.READY, 3), False),
        ("QPEEK q -3", Browse(JOBS, b"q", State.READY, -3), False),
        ("QPEEK q 0 STATE Queued", Browse(JOBS, b"q", State.READY, 0), True),
        ("QPEEK q 1 STATE delayed", Browse(JOBS, b"q", State.DELAYED, 1), True),
        ("QPEEK q 1 STATE dead", Browse(JOBS, b"q", State.DEAD, 1), True),
        ("QSTAT q", LookAt(JOBS, b"q"), False),
        ("QSTAT q DETAILS", LookAt(JOBS, b"q"), True),
    ],
)
def test_looks_are_taken_once_and_may_ask_for_more(request_: str, op: object, detail: bool) -> None:
    wait = parsed(request_)

    assert (wait.op, wait.detail, wait.timeout_ms) == (op, detail, 0)


ALL = (1 << 63) - 1
ACTIVE = [State.LEASED, State.DELAYED]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("", ScanMessages(JOBS, 0, 100)),
        ("17", ScanMessages(JOBS, 17, 100)),
        ("COUNT 5 17", ScanMessages(JOBS, 17, 5)),
        ("17 COUNT 5 BUSYLOOP", ScanMessages(JOBS, 17, ALL)),
        ("QUEUE q 0 REPLY all", ScanMessages(JOBS, 0, 100, b"q", with_bodies=True)),
        ("REPLY all REPLY ID", ScanMessages(JOBS, 0, 100)),
        ("STATE active", ScanMessages(JOBS, 0, 100, states=ACTIVE)),
        ("STATE delayed STATE active", ScanMessages(JOBS, 0, 100, states=ACTIVE[::-1])),
        ("STATE queued STATE acked", ScanMessages(JOBS, 0, 100, states=[State.READY])),
        ("STATE dead", ScanMessages(JOBS, 0, 100, states=[State.DEAD])),
        ("STATE wait-repl STATE acked", ScanMessages(JOBS, 0, 0, states=[])),
    ],
)
def test_jscan_becomes_a_scan(options: str, wanted: ScanMessages) -> None:
    assert parsed(f"JSCAN {options}") == wanted


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("", ScanQueues(JOBS, 0, 100, skips_idle=True)),
        ("COUNT 1 MINLEN 2 MAXLEN 3 4", ScanQueues(JOBS, 4, 1, 2, 3, skips_idle=True)),
        ("BUSYLOOP COUNT 1", ScanQueues(JOBS, 0, ALL, skips_idle=True)),
        ("IMPORTRATE 0", ScanQueues(JOBS, 0, 100, skips_idle=True)),
        ("IMPORTRATE 1", ScanQueues(JOBS, 0, 0, skips_idle=True)),
    ],
)
def test_qscan_becomes_a_scan(options: str, wanted: ScanQueues) -> None:
    assert parsed(f"QSCAN {options}") == wanted


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ("JSCAN 0 1", "syntax error in JSCAN, at '1'"),
        ("JSCAN 0 COUNT", "syntax error in JSCAN, at 'COUNT'"),
        ("JSCAN COUNT", "invalid cursor or option name 'COUNT'"),
        ("JSCAN -1", "invalid cursor or option name '-1'"),
        ("JSCAN MINLEN 1", "invalid cursor or option name 'MINLEN'"),
        ("JSCAN STATE", "invalid cursor or option name 'STATE'"),
        ("JSCAN 111111111111111111111", "invalid cursor or option name"),
        ("JSCAN COUNT 0", "COUNT 0 is less than 1"),
        ("JSCAN STATE lost", "STATE 'lost' is not one of queued, active, delayed, dead, wait-repl"),
        ("JSCAN REPLY some", "REPLY 'some' is not id or all"),
        ("QSCAN 0 STATE active", "syntax error in QSCAN, at 'STATE'"),
        ("QSCAN MINLEN x", "MINLEN 'x' is not an integer or out of range"),
        ("QSCAN MAXLEN -1", "MAXLEN -1 is less than 0"),
        ("QSCAN IMPORTRATE -1", "IMPORTRATE -1 is less than 0"),
        ("QPEEK q x", "count 'x' is not an integer or out of range"),
        ("QPEEK q 1 STATE", "syntax error in QPEEK, at 'STATE'"),
        ("QPEEK q 1 WITH dead", "syntax error in QPEEK, at 'WITH'"),
        ("QPEEK q 1 STATE active", "STATE 'active' is not one of queued, delayed, dead"),
        (f"SHOW {ID} MORE", "syntax error in SHOW, at 'MORE'"),
        ("QSTAT q MORE", "syntax error in QSTAT, at 'MORE'"),
        ("PAUSE q in sideways", "syntax error in PAUSE, at 'sideways'"),
        ("QSET q RATE 1", "syntax error in QSET, at 'RATE'"),
        ("QSET q MAXDELIVERIES", "syntax error in QSET, at 'MAXDELIVERIES'"),
        ("QSET q TTL 5", "syntax error in QSET, at 'TTL'"),
        ("QSET q EXPIRED", "syntax error in QSET, at 'EXPIRED'"),
        ("QSET q EXPIRED kept", "EXPIRED kept is neither delete nor dead"),
        ("QSET q MAXDELIVERIES -1", "MAXDELIVERIES -1 is less than 0"),
        (
            "QSET q RATE 5 0",
            "RATE needs a number of jobs and a number of seconds, or 0 0 for no limit",
        ),
        (
            "QSET q RATE 0 5",
            "RATE needs a number of jobs and a number of seconds, or 0 0 for no limit",
        ),
        ("QSET q RATE 5 99999999999", f"RATE 99999999999 is over {SPAN_MOST_S} s"),
        ("QPURGE q dead", "syntax error in QPURGE, at 'dead'"),
        ("QPURGE q FORGET STATE dead", "syntax error in QPURGE, at 'STATE'"),
        (
            "QPURGE q STATE dead FORGET",
            "STATE 'FORGET' is not one of queued, delayed, active, dead",
        ),
        ("QPURGE q STATE", "syntax error in QPURGE, at 'STATE'"),
        ("QPURGE q STATE dead lost", "STATE 'lost' is not one of queued, delayed, active, dead"),
        ("QREDRIVE q 5", "syntax error in QREDRIVE, at '5'"),
        ("QREDRIVE q COUNT", "syntax error in QREDRIVE, at 'COUNT'"),
        ("QREDRIVE q COUNT 0", "COUNT 0 is less than 1"),
        (f"WAITJOB -1 {ID}", "timeout is negative"),
        (f"WAITJOB x {ID}", "timeout is not an integer or out of range"),
    ],
)
def test_bad_words_are_named(request_: str, text: str) -> None:
    with pytest.raises(BadArgument) as refused:
        parsed(request_)

    assert str(refused.value).startswith(text)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("in", Configure(JOBS, b"q", True, False)),
        ("OUT", Configure(JOBS, b"q", False, True)),
        ("all", Configure(JOBS, b"q", True, True)),
        ("in out bcast", Configure(JOBS, b"q", True, True)),
        ("all none", Configure(JOBS, b"q", False, False)),
        ("all none state out", Configure(JOBS, b"q", False, True)),
        ("state", LookAt(JOBS, b"q")),
        ("bcast", LookAt(JOBS, b"q")),
    ],
)
def test_pause_goes_from_left_to_right_and_starts_from_nothing(
    options: str, wanted: Configure | LookAt
) -> None:
    assert parsed(f"PAUSE q {options}") == wanted


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        ("QSET q", LookAt(JOBS, b"q")),
        ("QSET q MAXDELIVERIES 3", Configure(JOBS, b"q", max_deliveries=3)),
        ("QSET q EXPIRED dead", Configure(JOBS, b"q", keeps_expired=True)),
        ("QSET q EXPIRED DELETE", Configure(JOBS, b"q", keeps_expired=False)),
        ("QSET q RATE 10 1", Configure(JOBS, b"q", rate=(10, 1_000))),
        (
            "QSET q RATE 0 0 MAXDELIVERIES 0",
            Configure(JOBS, b"q", max_deliveries=0, rate=(0, 0)),
        ),
        ("QPURGE q", Purge(JOBS, b"q")),
        ("QPURGE q forget", Purge(JOBS, b"q", forgets=True)),
        (
            "QPURGE q STATE dead queued dead",
            Purge(JOBS, b"q", [State.DEAD, State.READY]),
        ),
        ("QPURGE q STATE active", Purge(JOBS, b"q", [State.LEASED])),
        ("QREDRIVE q", Redrive(JOBS, queue=b"q")),
        ("QREDRIVE q COUNT 5", Redrive(JOBS, queue=b"q", count=5)),
        (f"REDRIVE {ID}", Redrive(JOBS, [ID.encode()])),
    ],
)
def test_what_is_set_and_cleared_for_queues(request_: str, wanted: object) -> None:
    assert parsed(request_) == wanted


def test_waitjob_waits_on_each_id_once() -> None:
    wait = parsed(f"WAITJOB 0 {ID} {OTHER_ID} {ID}")

    assert list(wait.queues) == words(f"{ID} {OTHER_ID}")
    assert wait.timeout_ms == NEVER_MS
    assert parsed(f"WAITJOB 5 {ID}").timeout_ms == 5


@pytest.mark.parametrize(
    ("request_", "queues", "ids"),
    [
        ("ADDJOB q body 0", "q", ""),
        ("GETJOB COUNT 3 FROM a b", "a b", ""),
        ("GETJOB MATCH FROM x", "", ""),
        (f"ACKJOB {ID} {OTHER_ID}", "", f"{ID} {OTHER_ID}"),
        (f"NACK {ID} {OTHER_ID} DELAY 1 REASON {ID}", "", f"{ID} {OTHER_ID}"),
        (f"NACK {ID} {OTHER_ID} DEAD", "", f"{ID} {OTHER_ID}"),
        (f"WORKING {ID} ANYTIME", "", ID),
        (f"SHOW {ID} DETAILS", "", ID),
        (f"WAITJOB 0 {ID}", "", ID),
        (f"REDRIVE {ID} {OTHER_ID}", "", f"{ID} {OTHER_ID}"),
        ("JSCAN 0 COUNT 1 QUEUE queue STATE dead QUEUE b", "queue b", ""),
        ("QSCAN MINLEN 1", "", ""),
        ("QPEEK q 1 STATE dead", "q", ""),
        ("FINDJOB q key", "q", ""),
        ("QREDRIVE q COUNT 1", "q", ""),
    ],
)
def test_a_row_knows_the_queues_and_the_ids_of_a_request(
    request_: str, queues: str, ids: str
) -> None:
    argv = words(request_)
    row = ROWS[argv[0].decode()]

    assert list(row.queues(argv)) == words(queues)
    assert list(row.ids(argv) if row.ids else []) == words(ids)
