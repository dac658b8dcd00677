"""What processes of a worker share: the board of each, and how often messages have failed."""

from __future__ import annotations

import os

from quinque.worker import Message
from quinque.worker.board import Board, Hand, Left, Told
from quinque.worker.failures import Failures, key_of


def test_a_board_shows_what_was_in_hand() -> None:
    board, long = Board(), b"x" * 200
    try:
        held, running, done, gone, longer = (
            Message("q", id, b"", 1) for id in (b"h", b"r", b"d", b"g", long)
        )
        board.hold([held, running, done, gone, longer], 300)
        for message in (running, longer):
            board.mark(message, Hand.RUNNING)
        board.mark(done, Hand.DONE)
        board.drop(gone)
        board.write(Told(1.5, 2, 3, 4, 5))

        assert board.read() == Told(1.5, 2, 3, 4, 5)
        assert set(board.crash()) == {key_of(300, b"r"), key_of(300, long)}
        assert board.crash() == []  # each is told once
        assert set(board.take_left()) == {
            Left(Hand.HELD, 300, b"h"),
            Left(Hand.CRASHED, 300, b"r"),
            Left(Hand.DONE, 300, b"d"),
            Left(Hand.CRASHED, 300, b""),  # it had no room
        }
        assert list(board.take_left()) == []
    finally:
        board.close()


def test_failures_are_counted_for_all_who_share_them() -> None:
    failures = Failures()
    others = Failures(os.dup(failures.fd))
    try:
        one, other = key_of(1, b"one"), key_of(2, b"one")
        assert not others.are_any

        assert [failures.add(one), others.add(one), failures.add(other, least=7)] == [1, 2, 7]
        others.forget(one)

        assert (failures.are_any, failures.of(one), others.of(other)) == (True, 0, 7)
        # These have a bucket in common, which has room for eight: for those that failed last.
        keys = [(number * 2048 + 1).to_bytes(8, "little") for number in range(9)]
        for key in (*keys[:8], keys[0], keys[8]):
            failures.add(key)
        assert [others.of(key) for key in keys] == [2, 0, 1, 1, 1, 1, 1, 1, 1]
    finally:
        failures.close()
        others.close()
