"""What a long line of requests costs, each of which is held, grows with the line and not faster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from quinque.server.client import size_of
from tests.transcripts.stage import Stage, Wire

MANY = 300


class Counted(list[bytes]):
    """A request that counts how often its arguments are gone through."""

    looks = 0

    def __iter__(self) -> Iterator[bytes]:
        Counted.looks += 1
        return super().__iter__()


def test_each_request_of_a_long_line_is_measured_a_few_times(tmp_path: Path) -> None:
    """A store that answers later holds the client after each of them."""
    with Stage(tmp_path, 2, is_late=True) as stage:
        connection = stage.connect("a", Wire())
        one, other = [b"TYPE", b"a"], [b"QLEN", b"b"]
        Counted.looks = 0

        stage.broker.turn.arrived(connection, [Counted(one), Counted(other)] * MANY)
        stage.go_on(1)
        held_bytes = connection.buffered_bytes
        stage.go_on(20 * MANY)

        assert stage.replies()["a"] == b"+none\r\n:0\r\n" * MANY
        assert Counted.looks < 20 * MANY
        assert held_bytes == MANY * (size_of(one) + size_of(other)) - size_of(one)
        assert connection.buffered_bytes == 0
