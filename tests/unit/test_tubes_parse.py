"""The words of TUBE.* become operations, or are refused with what is wrong with them."""

from __future__ import annotations

from typing import Any, cast

import msgpack
import pytest

from quinque.dialects import tubes
from quinque.dialects.command import Session, Wait
from quinque.dialects.tube_catalog import statistics
from quinque.errors import BadArgument, NoTask, NotTaken, NoTube, TubeBusy, WrongArity
from quinque.model.limits import NEVER_MS
from quinque.model.states import State
from quinque.model.tube_ops import (
    CALLS,
    FOREVER_MS,
    PRIORITY_MOST,
    AckTasks,
    BuryTasks,
    DeleteTasks,
    DropTube,
    FindTubes,
    KickTasks,
    LookAtTube,
    MakeTube,
    PeekTasks,
    PutTasks,
    ReleaseTasks,
    ReturnTasks,
    TakeTasks,
    TaskTerms,
    TaskView,
    TouchTasks,
    TruncateTube,
    TubeSettings,
    TubeView,
)
from quinque.server.commands.table import all_commands
from quinque.wire.resp import encode

ROWS = {row.name: row for row in all_commands()}
OURS = b"0123456789abcdef"


class Asking:
    """Who asks: a client of the session OURS, with somebody else who waits on the tube `busy`."""

    def taking_session(self) -> bytes:
        return OURS

    def waiting_on(self, queue: bytes) -> int:
        return int(queue == b"busy")

    def sees(self, queue: bytes) -> bool:
        return queue != b"secret"

    def sees_all(self) -> bool:
        return False


def parsed(text: str) -> Any:
    """What a request becomes."""
    argv = [word.encode("latin-1") for word in text.split()]
    row = ROWS[argv[0].decode()]
    assert row.parse is not None
    asking = cast(Session, Asking())
    return row.parse(argv, asking) if row.with_session else row.parse(argv)


def replied(text: str, result: Any, protocol: int = 2) -> bytes:
    """What a client gets that asked so, when the store gave that."""
    row = ROWS[text.split()[0]]
    assert row.reply is not None
    asking = cast(Session, Asking())
    value = row.reply(parsed(text), result, asking) if row.with_session else row.reply(result)
    return encode(value, protocol)


def packed(**said: object) -> bytes:
    return bytes(msgpack.packb(said))


def settings(**named: Any) -> TubeSettings:
    return TubeSettings(**named)


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("fifo", settings()),
        ("fifo TEMPORARY", settings(is_temporary=True)),
        ("fifottl TTL 60", settings(ttl_ms=60_000, ttr_ms=60_000, options=packed(ttl=60.0))),
        ("utubettl ttr .5", settings(ttr_ms=500, options=packed(ttr=0.5))),
        (
            "limfifottl PRI 7 CAPACITY 3",
            settings(pri=7, capacity=3, options=packed(pri=7, capacity=3)),
        ),
        ("utube WIDTH 2", settings(width=2, options=packed(width=2))),
        ("own OPTION a b OPTION c 5", settings(options=packed(a="b", c="5"))),
    ],
)
def test_create_has_the_settings_that_were_said(said: str, wanted: TubeSettings) -> None:
    kind = said.split()[0].encode()

    assert parsed(f"TUBE.CREATE t {said}") == MakeTube(b"t", kind, wanted)
    assert parsed(f"TUBE.CREATE t {said} IFNOTEXISTS").is_idempotent


@pytest.mark.parametrize(
    ("said", "term"),
    [
        ("fifo TTL 1", "ttl"),
        ("utube TTR 1", "ttr"),
        ("utube PRI 1", "pri"),
        ("fifottl CAPACITY 1", "capacity"),
        ("limfifottl WIDTH 1", "width"),
        ("utubettl OPTION speed 3", "speed"),
    ],
)
def test_create_of_a_kind_of_ours_refuses_what_it_does_not_have(said: str, term: str) -> None:
    with pytest.raises(BadArgument, match=f"tubes of the type '[a-z]*' do not support {term}$"):
        parsed(f"TUBE.CREATE t {said}")


def test_put_without_options_is_as_the_tube_has_it() -> None:
    assert parsed("TUBE.PUT t x") == PutTasks(b"t", [b"x"], TaskTerms())
    assert parsed("TUBE.MPUT t x \xc1y") == PutTasks(b"t", [b"x", b"\xc1\xc1y"], TaskTerms())


def test_put_with_options() -> None:
    put = parsed("TUBE.PUT t x TTL 1.5 ttr 2 PRI 3 DELAY 0.0001 UTUBE lane OPTION own 1")

    terms = TaskTerms(1500, 2000, 3, 1, b"lane", put.terms.options)
    assert put == PutTasks(b"t", [b"x"], terms, is_strict=True)
    assert msgpack.unpackb(put.terms.options) == {
        "ttl": 1.5,
        "ttr": 2.0,
        "pri": 3,
        "delay": 0.001,
        "utube": "lane",
        "own": "1",
    }


def test_put_with_a_timeout_waits_for_room() -> None:
    wait = parsed("TUBE.PUT t x TIMEOUT 0.25")

    assert (wait.queues, wait.group, wait.timeout_ms) == ([b"t"], b"room", 250)
    assert isinstance(wait.op, PutTasks)


@pytest.mark.parametrize("digits", ["3153600000", "3153600001", "9" * 30])
def test_what_lasts_a_hundred_years_or_more_lasts_for_ever(digits: str) -> None:
    assert parsed(f"TUBE.PUT t x TTL {digits}").terms.ttl_ms == FOREVER_MS
    assert parsed(f"TUBE.TOUCH t 1 {digits}").by_ms == FOREVER_MS
    assert parsed(f"TUBE.TAKE t {digits}").timeout_ms == NEVER_MS


def test_a_float_is_read_with_all_the_digits_a_client_writes() -> None:
    assert parsed("TUBE.PUT t x DELAY 0.30000000000000004").terms.delay_ms == 301
    assert parsed("TUBE.PUT t x DELAY 0.000000000001").terms.delay_ms == 1


@pytest.mark.parametrize(
    ("said", "timeout_ms", "group", "take"),
    [
        ("", NEVER_MS, b"", TakeTasks(b"t", OURS)),
        ("5", 5000, b"", TakeTasks(b"t", OURS)),
        ("0", 0, b"", TakeTasks(b"t", OURS)),
        ("-1", 0, b"", TakeTasks(b"t", OURS)),
        ("COUNT 3", NEVER_MS, b"", TakeTasks(b"t", OURS, 3)),
        ("LANE x", NEVER_MS, b"lane:x", TakeTasks(b"t", OURS, 1, b"x", is_strict=True)),
        (".5 count 2 lane x", 500, b"lane:x", TakeTasks(b"t", OURS, 2, b"x", is_strict=True)),
    ],
)
def test_take(said: str, timeout_ms: int, group: bytes, take: TakeTasks) -> None:
    is_many = "count" in said.lower()

    assert parsed(f"TUBE.TAKE t {said}") == Wait(take, [b"t"], group, timeout_ms, detail=is_many)


def test_takes_of_one_client_are_one_unless_they_count_themselves() -> None:
    wait = parsed("TUBE.TAKE t 0")

    assert tubes.gather_take(wait, [b"x"] * 7)
    assert wait.op == TakeTasks(b"t", OURS, 7)
    assert not tubes.gather_take(parsed("TUBE.TAKE t 0 COUNT 2"), [b"x"] * 7)


def test_what_is_about_tasks_by_their_ids() -> None:
    assert parsed("TUBE.ACK t 0") == AckTasks(b"t", OURS, [b"0"])
    assert parsed("TUBE.ACK t 17 4") == AckTasks(b"t", OURS, [b"17", b"4"])
    assert parsed("TUBE.TOUCH t 1 2.5") == TouchTasks(b"t", OURS, [b"1"], 2500)
    assert parsed("TUBE.TOUCH t 1 -2.5") == TouchTasks(b"t", OURS, [b"1"], 0)
    assert parsed("TUBE.PEEK t 1") == PeekTasks(b"t", [b"1"])
    assert parsed("TUBE.BURY t 1") == BuryTasks(b"t", [b"1"])
    assert parsed("TUBE.DELETE t 1 2") == DeleteTasks(b"t", [b"1", b"2"])
    assert parsed("TUBE.RELEASE t 1") == ReleaseTasks(b"t", OURS, [b"1"])


def test_release_with_what_is_so_from_then_on() -> None:
    release = parsed("TUBE.RELEASE t 1 DELAY 2 PRI 3 TTL 4 DATA new OPTION own 1")

    wanted = ReleaseTasks(b"t", OURS, [b"1"], 2000, 3, 4000, b"new", release.options, True)
    assert release == wanted
    assert msgpack.unpackb(release.options)["own"] == "1"


def test_what_is_about_a_tube() -> None:
    assert parsed("TUBE.KICK t") == KickTasks(b"t", 1)
    assert parsed("TUBE.KICK t 0") == KickTasks(b"t", 0)
    assert parsed("TUBE.KICK t ids 7 0") == KickTasks(b"t", message_ids=[b"7", b"0"])
    assert parsed("TUBE.RELEASEALL t") == ReturnTasks(b"t")
    assert parsed("TUBE.TRUNCATE t") == TruncateTube(b"t")
    assert parsed("TUBE.DROP t") == DropTube(b"t")
    assert parsed("TUBE.STATS") == parsed("TUBE.LIST") == FindTubes(10_000)
    assert parsed("TUBE.STATS t") == parsed("TUBE.LIST t") == LookAtTube(b"t")
    with pytest.raises(TubeBusy, match="There are consumers connected the tube"):
        parsed("TUBE.DROP busy")


@pytest.mark.parametrize(
    "said",
    [
        "TUBE.ACK t x",
        "TUBE.ACK t 01",
        "TUBE.ACK t -1",
        "TUBE.ACK t 1 2 1.0",
        "TUBE.PEEK t x",
        "TUBE.TOUCH t 1 soon",
        "TUBE.TAKE t soon",
        "TUBE.TAKE t 1 LANES x",
        "TUBE.TAKE t 1 LANE",
        "TUBE.TAKE t COUNT 0",
        "TUBE.PUT t x TTL -1",
        "TUBE.PUT t x PRI -1",
        f"TUBE.PUT t x PRI {PRIORITY_MOST + 1}",
        "TUBE.PUT t x PRI 1.5",
        "TUBE.PUT t x NX",
        "TUBE.PUT t x OPTION own",
        "TUBE.CREATE t utube WIDTH 0",
        "TUBE.CREATE t fifo LATER",
        "TUBE.RELEASE t 1 TTR 5",
        "TUBE.KICK t many",
        "TUBE.KICK t -1",
        f"TUBE.PUT t x UTUBE {'l' * 1025}",
        f"TUBE.PUT {'t' * 1025} x",
    ],
)
def test_what_means_nothing_is_refused(said: str) -> None:
    with pytest.raises(BadArgument):
        parsed(said)


@pytest.mark.parametrize("said", ["TUBE.KICK t 1 2", "TUBE.STATS t u", "TUBE.LIST t u"])
def test_a_word_too_many_is_refused(said: str) -> None:
    with pytest.raises(WrongArity):
        parsed(said)


def task(number: int = 17, state: State | None = State.LEASED, body: bytes = b"data") -> TaskView:
    return TaskView(b"%d" % number, state, body)


@pytest.mark.parametrize(
    ("state", "letter"),
    [
        (State.READY, b"r"),
        (State.DELAYED, b"~"),
        (State.LEASED, b"t"),
        (State.DEAD, b"!"),
        (None, b"-"),
    ],
)
def test_a_task_is_its_id_its_letter_and_its_data(state: State | None, letter: bytes) -> None:
    reply = b"*3\r\n:17\r\n$1\r\n" + letter + b"\r\n$4\r\ndata\r\n"

    assert replied("TUBE.PUT t x", [task(state=state)]) == reply
    assert replied("TUBE.TAKE t", [task(state=state)]) == reply
    assert replied("TUBE.ACK t 17", [task(state=state)]) == reply
    assert replied("TUBE.PEEK t 17", [task(state=state)]) == reply
    assert replied("TUBE.TAKE t COUNT 5", [task(state=state)] * 2) == b"*2\r\n" + reply * 2
    assert replied("TUBE.MPUT t x y", [task(state=state)]) == b"*1\r\n" + reply
    assert ROWS["TUBE.ACK"].reply_each(task(state=state), 2) == reply  # type: ignore[misc]


def test_a_value_is_shown_as_its_bytes() -> None:
    assert replied("TUBE.PEEK t 1", [task(body=b"\xc1\x93\x01\x02\x03")]).endswith(
        b"$4\r\n\x93\x01\x02\x03\r\n"
    )


@pytest.mark.parametrize(("protocol", "null"), [(2, b"*-1\r\n"), (3, b"_\r\n")])
def test_nothing_is_null(protocol: int, null: bytes) -> None:
    for said in ("TUBE.TAKE t", "TUBE.PUT t x TIMEOUT 1"):
        assert replied(said, None, protocol) == replied(said, [], protocol) == null
    assert replied("TUBE.TOUCH t 1 0", [None], protocol) == null
    assert replied("TUBE.TAKE t COUNT 1", None, protocol) == b"*0\r\n"
    for said in ("TUBE.ACK t 1 2", "TUBE.DELETE t 1 2"):
        assert replied(said, [None, None], protocol) == b"*2\r\n" + null * 2


def test_what_is_about_one_task_that_it_cannot_be_about_is_an_error() -> None:
    for said in ("TUBE.ACK t 1", "TUBE.RELEASE t 1", "TUBE.TOUCH t 1 5"):
        with pytest.raises(NotTaken):
            replied(said, [None])
    for said in ("TUBE.PEEK t 1", "TUBE.BURY t 1", "TUBE.DELETE t 1"):
        with pytest.raises(NoTask, match="Task 1 not found"):
            replied(said, [None])
    with pytest.raises(NoTube):
        replied("TUBE.STATS t", None)


@pytest.mark.parametrize("protocol", [2, 3])
def test_gathered_acks_are_answered_as_if_each_had_come_alone(protocol: int) -> None:
    row = ROWS["TUBE.ACK"]
    assert row.reply_each is not None
    assert row.reply_share is not None
    error = b"-NOTTAKEN Task was not taken\r\n"

    assert row.reply_each(None, protocol) == error
    assert row.reply_share([None], protocol, [b"1"]) == error
    assert row.reply_share([task(1), None], protocol, [b"1", b"2"]) == replied(
        "TUBE.ACK t 1 2", [task(1), None], protocol
    )


def test_statistics_are_those_of_tarantool_and_no_others() -> None:
    calls = list(range(len(CALLS)))
    tube = TubeView(b"t", b"fifo", TubeSettings(), 1, 2, 3, 4, 5, calls)

    assert statistics(tube) == {
        "tasks": {"ready": 1, "taken": 2, "delayed": 3, "buried": 4, "done": 5, "total": 10},
        "calls": dict(zip(CALLS, calls, strict=True)),
    }


def test_a_client_is_told_of_tubes_it_may_know_of() -> None:
    found = [TubeView(name, b"fifo", TubeSettings(), 0, 0, 0, 0, 0) for name in (b"t", b"secret")]

    assert b"secret" not in replied("TUBE.STATS", found) + replied("TUBE.LIST", found)
    assert b"$1\r\nt\r\n" in replied("TUBE.STATS", found)


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (b"fifo", {}),
        (b"fifottl", {b"ttl": b"1.5", b"ttr": None, b"pri": 7}),
        (b"limfifottl", {b"ttl": b"1.5", b"ttr": None, b"pri": 7, b"capacity": 3}),
        (b"utube", {b"width": 2}),
        (b"utubettl", {b"ttl": b"1.5", b"ttr": None, b"pri": 7, b"width": 2}),
        (b"own", {b"options": b"\x80"}),
    ],
)
def test_a_tube_is_listed_with_what_its_kind_has(kind: bytes, named: dict[bytes, object]) -> None:
    said = TubeSettings(ttl_ms=1500, pri=7, capacity=3, width=2, options=b"\x80")
    tube = TubeView(b"t", kind, said, 0, 0, 0, 0, 0)
    wanted = {b"name": b"t", b"kind": kind, b"temporary": 0, b"asleep": 0, **named}

    words = [word for pair in wanted.items() for word in pair]
    assert replied("TUBE.LIST", [tube]) == encode([words], 2)  # type: ignore[list-item]
