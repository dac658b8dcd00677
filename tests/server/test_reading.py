"""A client that sends many small requests at once is read a part in each turn, and is always read
on afterwards, whatever held it meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quinque.server.connection import Connection
from quinque.server.tarantool_connection import TarantoolConnection
from quinque.server.tarantool_requests import TarantoolRequests
from tests.server import iproto
from tests.transcripts.stage import Stage, Wire

MANY = 10_000
CHUNK_BYTES = 256 << 10  # as the event loop reads

# Requests of which nothing comes, and others that can be short.
SMALL = {
    "blank lines": b"\r\n",
    "line feeds": b"\n",
    "empty arrays": b"*0\r\n",
    "null arrays": b"*-1\r\n",
    "lines": b"PING\n",
    "arrays": b"*1\r\n$4\r\nPING\r\n",
}


class Tap(Wire):
    """A transport that knows whether its connection reads."""

    def __init__(self) -> None:
        super().__init__()
        self.connection: Connection | None = None
        self.is_open = True

    def pause_reading(self) -> None:
        self.is_open = False

    def resume_reading(self) -> None:
        self.is_open = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass


def connect(stage: Stage, name: str) -> Tap:
    tap = Tap()
    tap.connection = stage.connect(name, tap)
    return tap


def pour(stage: Stage, tap: Tap, data: bytes) -> bytes:
    """Give the broker what it reads of the bytes; what it does not."""
    assert tap.connection is not None
    for _ in range(20):
        if tap.is_open and data:
            tap.connection.data_received(data[:CHUNK_BYTES])
            data = data[CHUNK_BYTES:]
        stage.go_on(1)
    return data


@pytest.mark.parametrize("small", [name for name in SMALL if name != "arrays"])
def test_others_are_served_while_the_many_requests_of_a_client_are_read(
    tmp_path: Path, small: str
) -> None:
    with Stage(tmp_path, 2) as stage:
        tap = connect(stage, "a")
        assert tap.connection is not None
        tap.connection.data_received(SMALL[small] * MANY + b"ECHO end\r\n")
        stage.send("b", [[b"ECHO", b"b"]])

        stage.go_on(1)

        first = stage.replies()
        assert first["b"] == b"$1\r\nb\r\n"
        assert b"end" not in first.get("a", b"")
        assert not tap.is_open
        stage.settle()
        assert tap.written.endswith(b"$3\r\nend\r\n")
        assert tap.is_open


def test_a_client_is_read_no_more_when_it_has_sent_many_requests_in_a_turn(tmp_path: Path) -> None:
    with Stage(tmp_path, 2) as stage:
        tap = connect(stage, "a")
        assert tap.connection is not None
        for _ in range(4):
            tap.connection.data_received(SMALL["arrays"] * 1_000)
            assert tap.is_open

        tap.connection.data_received(SMALL["arrays"] * 1_000)

        assert not tap.is_open
        stage.settle()
        assert stage.replies()["a"] == b"+PONG\r\n" * 5_000
        assert tap.is_open


@pytest.mark.parametrize(
    "words",
    [
        b"*100\r\n$4\r\nNONE\r\n" + b"$0\r\n\r\n" * 99,
        b'NONE "' + rb"\x41" * 99 + b'"\n',
    ],
    ids=["arrays", "escapes"],
)
def test_a_client_is_read_no_more_when_it_has_sent_many_words_in_a_turn(
    tmp_path: Path, words: bytes
) -> None:
    """An event loop reads a socket again and again before it looks at others."""
    with Stage(tmp_path, 2) as stage:
        tap = connect(stage, "a")
        assert tap.connection is not None
        for _ in range(2):
            tap.connection.data_received(words * 80)
            assert tap.is_open

        tap.connection.data_received(words * 80)

        assert not tap.is_open
        stage.settle()
        assert stage.replies()["a"].count(b"-ERR unknown command") == 240
        assert tap.is_open


@pytest.mark.parametrize(
    ("packets", "chunks"),
    [
        (iproto.packet(iproto.PING, 1) * 1_000, 5),
        (iproto.call(1, "none", *[0] * 4_000), 5),
        (iproto.call(1, "none", *[0] * 5_000) * 3, 1),
    ],
)
def test_a_tarantool_client_is_read_no_more_when_it_has_sent_much_in_a_turn(
    tmp_path: Path, packets: bytes, chunks: int
) -> None:
    with Stage(tmp_path, 2) as stage:
        tap = Tap()
        client = TarantoolConnection(stage.broker, TarantoolRequests(stage.broker))
        client.connection_made(tap)
        stage.settle()
        tap.take()
        was_open = []

        for _ in range(chunks):
            client.data_received(packets)
            was_open.append(tap.is_open)

        assert was_open == [True] * (chunks - 1) + [False]
        stage.settle()
        replies = tap.take().count(b"\x83\x00\xce")
        assert replies == chunks * packets.count(b"\x82\x00")
        assert tap.is_open
        client.connection_lost(None)


def test_a_stranger_is_read_no_more_in_a_turn_in_which_it_began_a_long_request(
    tmp_path: Path,
) -> None:
    with Stage(tmp_path, 2, {"requirepass": "secret"}) as stage:
        tap = connect(stage, "a")
        assert tap.connection is not None

        tap.connection.data_received(b"*1000000\r\n" + b"$0\r\n\r\n" * 40_000)

        assert not tap.is_open
        stage.settle()
        assert tap.written.startswith(b"-ERR Protocol error: unauthenticated multibulk length")


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("held_by", ["a wait", "a pause", "replies"])
def test_a_client_that_was_held_is_read_to_its_end(
    tmp_path: Path, held_by: str, small: str, is_late: bool
) -> None:
    with Stage(tmp_path, 2, is_late=is_late) as stage:
        tap = connect(stage, "a")
        assert tap.connection is not None
        first, let_go = HOLD[held_by](stage, tap.connection)
        left = pour(stage, tap, first + SMALL[small] * MANY + b"ECHO end\r\n")

        let_go()
        stage.settle()
        assert pour(stage, tap, left) == b""

        stage.settle()
        assert tap.written.endswith(b"$3\r\nend\r\n")
        assert tap.is_open


def hold_by_wait(stage: Stage, connection: Connection) -> tuple[bytes, Callable[[], None]]:
    return b"GETJOB FROM q\r\n", lambda: stage.send("b", [[b"ADDJOB", b"q", b"x", b"0"]])


def hold_by_pause(stage: Stage, connection: Connection) -> tuple[bytes, Callable[[], None]]:
    stage.send("b", [[b"CLIENT", b"PAUSE", b"1000"]])
    stage.settle()
    return b"", lambda: stage.pass_time(1_000)


def hold_by_replies(stage: Stage, connection: Connection) -> tuple[bytes, Callable[[], None]]:
    connection.pause_writing()
    return b"", connection.resume_writing


HOLD = {"a wait": hold_by_wait, "a pause": hold_by_pause, "replies": hold_by_replies}


@pytest.mark.parametrize("small", SMALL)
def test_a_client_that_has_not_authenticated_is_read_to_its_end(tmp_path: Path, small: str) -> None:
    with Stage(tmp_path, 2, {"requirepass": "secret"}) as stage:
        tap = connect(stage, "a")
        data = SMALL[small] * MANY + b"AUTH secret\r\n" + SMALL[small] * MANY + b"ECHO end\r\n"

        assert pour(stage, tap, data) == b""

        stage.settle()
        assert tap.written.endswith(b"$3\r\nend\r\n")
        assert tap.is_open


@pytest.mark.parametrize("small", SMALL)
def test_what_follows_broken_bytes_is_read_and_dropped(tmp_path: Path, small: str) -> None:
    with Stage(tmp_path, 2) as stage:
        tap = connect(stage, "a")
        data = SMALL[small] * MANY + b"*1\r\nX\r\n" + SMALL[small] * MANY

        assert pour(stage, tap, data) == b""

        assert tap.written.endswith(b"-ERR Protocol error: expected '$', got 'X'\r\n")
        assert tap.is_open
        stage.pass_time(10_000)  # the client does not close
        assert tap.is_closed


@pytest.mark.parametrize("small", SMALL)
def test_a_client_that_says_no_more_gets_all_replies(tmp_path: Path, small: str) -> None:
    with Stage(tmp_path, 2) as stage:
        tap = connect(stage, "a")
        assert tap.connection is not None
        tap.connection.data_received(SMALL[small] * MANY + b"ECHO end\r\n")
        tap.connection.eof_received()
        stage.settle()

        assert tap.written.endswith(b"$3\r\nend\r\n")
        assert tap.is_closed


@pytest.mark.parametrize("small", SMALL)
def test_a_client_that_leaves_meanwhile_is_forgotten(tmp_path: Path, small: str) -> None:
    with Stage(tmp_path, 2) as stage:
        tap = connect(stage, "a")
        assert tap.connection is not None
        tap.connection.data_received(SMALL[small] * MANY)
        stage.leave("a")

        assert not stage.crashes
        assert len(stage.broker.clients) == 0


@pytest.mark.parametrize("settings", [{}, {"requirepass": "secret"}])
@pytest.mark.parametrize("is_paused", [False, True])
def test_a_tarantool_client_is_read_to_its_end(
    tmp_path: Path, settings: dict[str, str], is_paused: bool
) -> None:
    with Stage(tmp_path, 2, settings) as stage:
        tap = Tap()
        client = TarantoolConnection(stage.broker, TarantoolRequests(stage.broker))
        client.connection_made(tap)
        stage.settle()
        tap.take()
        if is_paused:
            client.pause_writing()
        client.data_received(iproto.packet(iproto.PING, 1) * MANY)
        client.eof_received()
        if is_paused:
            stage.settle()
            client.resume_writing()
        stage.settle()

        assert tap.take().count(b"\x83\x00\xce") == MANY  # in each header
        assert tap.is_open
        assert tap.is_closed
        client.connection_lost(None)
