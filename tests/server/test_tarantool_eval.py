"""EVAL over Tarantool's protocol: what an expression may say, and what it may cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.server.broker import RunningBroker, start_broker
from tests.server.iproto import EVAL, LISTEN, IprotoClient, Reply, packet

# No text below needs a tenth of this, on the slowest machine; each once needed minutes.
CPU_MOST_S = 5.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with start_broker(tmp_path_factory.mktemp("broker"), *LISTEN, "--fsync", "no") as running:
        yield running


@pytest.fixture
def peer(broker: RunningBroker) -> Iterator[IprotoClient]:
    with IprotoClient(broker) as connected:
        yield connected


def evaluate(peer: IprotoClient, expression: str | bytes, *args: Any) -> Reply:
    return peer.ask(packet(EVAL, 1, {0x27: expression, 0x21: args}))


def cpu_s(broker: RunningBroker) -> float:
    times = psutil.Process(broker.pid).cpu_times()
    return times.user + times.system


@pytest.mark.parametrize(
    "expression",
    [
        "-- \n" * 40 + "!",
        "-- \n" * 2_000 + "!",
        " " * 8_000 + "!",
        "[" * 8_000,
        "[=" * 4_000,
        "--[=" * 2_000,
        "--[[" * 2_000,
        "[[]]" * 2_000,
        "'" + "\\'" * 4_000,
        '"' + "a" * 8_000,
        "'\\" + "z " * 4_000,
        "a." * 4_000,
        "a[1]" * 2_000,
        "f(" + "{" * 8_000,
        "f(" + "- " * 4_000,
        "f(" + "9" * 8_000 + "x",
        "f(0x" + "9" * 8_000 + "x",
        ";" * 8_000,
        "local a = ...;" * 560,
        "return " * 1_100,
    ],
    ids=lambda expression: f"{expression[:6]!r} of {len(expression)}",
)
def test_no_expression_takes_long_to_be_refused(
    broker: RunningBroker, peer: IprotoClient, expression: str
) -> None:
    before_s = cpu_s(broker)

    refused = evaluate(peer, expression, *range(1000))

    assert refused.error == 32
    assert "does not run Lua" in refused.text
    assert cpu_s(broker) - before_s < CPU_MOST_S


def test_an_expression_has_at_most_8_kb(peer: IprotoClient) -> None:
    evaluate(peer, "queue.create_tube('long', 'fifo')")
    start, end = "queue.tube.long:put('", "')"
    room = 8192 - len(start) - len(end)

    assert evaluate(peer, start + "x" * room + end).error == 0
    refused = evaluate(peer, start + "x" * (room + 1) + end)

    assert refused.error == 32
    assert "at most 8192 bytes" in refused.text


def test_only_the_last_dots_stand_for_all_arguments(peer: IprotoClient) -> None:
    evaluate(peer, "queue.create_tube('dots', 'fifo')")

    def put(table: str, *args: Any) -> Any:
        return evaluate(peer, f"return queue.tube.dots:put({{{table}}})", *args).body[0x30][0][2]

    assert put("...", 1, 2, 3) == [1, 2, 3]
    assert put("..., ...", 1, 2, 3) == [1, 1, 2, 3]
    assert put("..., 'x'", 1, 2, 3) == [1, "x"]
    assert put("...,", 1, 2) == [1, 2]
    assert put("'x', ...") == ["x"]
    assert evaluate(peer, "return queue.create_tube(..., ...)", "other", "fifo").error == 32
    assert evaluate(peer, "return queue.tube(...)", "other").body[0x30] == [False]


def test_arguments_that_an_expression_repeats_are_bounded(
    broker: RunningBroker, peer: IprotoClient
) -> None:
    evaluate(peer, "queue.create_tube('repeats', 'fifo')")
    before = psutil.Process(broker.pid).memory_info().rss
    large = "x" * 200_000

    dots = ", ".join(["..."] * 400)
    listed = evaluate(peer, f"queue.tube.repeats:put({{{dots}}})", *["y" * 500] * 400)
    table = "{" + ", ".join(["a"] * 400) + "}"
    tables = evaluate(peer, f"local a = ...; queue.tube.repeats:put({table})", large)
    several = ",".join(["a"] * 4_000)
    names = evaluate(peer, f"local a = ...; queue.tube.repeats:put({several})", large)

    assert listed.error == 0
    assert (tables.error, names.error) == (32, 32)
    assert "max-arg-size" in tables.text
    assert "query-buffer-limit" in names.text
    assert psutil.Process(broker.pid).memory_info().rss - before < 300 << 20


def test_a_user_without_rights_is_refused_before_the_expression_is_read(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("rights")
    users = folder / "users.toml"
    users.write_text('[users.default]\nrights = []\n[users.other]\npassword = "x"\n')
    with (
        start_broker(folder, *LISTEN, "--fsync", "no", "--users", str(users)) as running,
        IprotoClient(running) as nobody,
    ):
        refused = evaluate(nobody, "this is no Lua at all")

    assert refused.error == 42
    assert "default" in refused.text


LITERALS: dict[str, Any] = {
    r"'\x41\x7a'": "Az",
    r"'\u{41}\u{20ac}\u{1F600}'": "A€😀",
    "'a\\z  \n\t b'": "ab",
    r"'\065\9\\\'\"'": "A\t\\'\"",
    "'a\\\nb'": "a\nb",
    "[[\r\na\r\nb]]": "a\nb",
    "[==[..]]]=]..]==]": "..]]]=]..",
    "1e30": 1e30,
    "- 5": -5,
    "- - 5": 5,
    "5ULL": 5,
    "-5LL": -5,
    "-1ull": (1 << 64) - 1,
    "0xffffffffffffffffULL": (1 << 64) - 1,
    "0x10": 16,
    "0x1.8p1": 3,
    ".5e1": 5,
    "2.5": 2.5,
    "18446744073709551616": float(1 << 64),
    "{}": [],
    "{a = nil}": [],
    "{1, nil, 3}": [1, None, 3],
    "{1, 2, a = 3}": {1: 1, 2: 2, "a": 3},
    "{[1] = 'a', [2] = 'b'}": ["a", "b"],
    "{[0] = 'a'; [1.5] = 'b', [true] = 'c', ['d e'] = 'd'}": {
        0: "a",
        1.5: "b",
        True: "c",
        "d e": "d",
    },
    "{[100] = 1}": {100: 1},
    "--[[ a\n comment ]] 1 -- and one more\n": 1,
    "--[==[ ]] ]==] 2": 2,
}


@pytest.mark.parametrize("literal", LITERALS)
def test_literals_are_read_as_luajit_reads_them(peer: IprotoClient, literal: str) -> None:
    evaluate(peer, "queue.create_tube('literals', 'fifo', {if_not_exists = true})")

    reply = evaluate(peer, f"return queue.tube.literals:put({literal})")

    assert reply.error == 0, reply.text
    [[_, _, data]] = reply.body[0x30]
    assert repr(data) == repr(LITERALS[literal])


@pytest.mark.parametrize(
    "literal",
    [
        *(r"'\q'", r"'\x4'", r"'\u{110000}'", r"'\u{d800}'", r"'\256'", "'a\nb'", "'open"),
        *("5x", "0x", "1..2", "5i", "1.5LL", "99999999999999999999LL", "-'5'", "- nil"),
        *("[[open]", "[=[ ]]", "--[[ open", "{[nil] = 1}", "{[{}] = 1}", "{1 2}"),
    ],
)
def test_text_that_is_no_literal_there_is_refused(peer: IprotoClient, literal: str) -> None:
    refused = evaluate(peer, f"return queue.tube.literals:put({literal})")

    assert refused.error == 32
    assert "does not run Lua" in refused.text
