"""What processes of a worker share: the board of each, and how often messages have failed."""

from __future__ import annotations

import os
import subprocess
import sys
from math import inf
from pathlib import Path

import pytest

from quinque.errors import BadSetting
from quinque.worker import Message
from quinque.worker.board import Board, Hand, Left, Told
from quinque.worker.failures import Failures, failures_file, key_of
from quinque.worker.lives import Lives


def test_a_board_shows_what_was_in_hand() -> None:
    board, long = Board(), b"x" * 200
    try:
        held, running, done, gone, longer = (
            Message("q", id, b"", 1) for id in (b"h", b"r", b"d", b"g", long)
        )
        held.ours_until_s = done.ours_until_s = 1.5
        board.hold([held, running, done, gone, longer], 1, b"salt")
        for message in (running, longer):
            board.mark(message, Hand.RUNNING)
        board.mark(done, Hand.DONE)
        done.ours_until_s = 2.5
        board.extend(done)
        board.drop([gone])
        board.extend(gone)
        board.write(Told(1.5, 2, 3, 4, 5))

        assert board.read() == Told(1.5, 2, 3, 4, 5)
        assert board.count() == {(1, Hand.HELD): 1, (1, Hand.RUNNING): 2, (1, Hand.DONE): 1}
        salts = [b"other", b"salt"]
        assert set(board.crash(salts)) == {(1, key_of(b"salt", it)) for it in (b"r", long)}
        assert board.crash(salts) == []  # each is told once
        assert set(board.take_left()) == {
            Left(Hand.HELD, 1, b"h", 1, 1.5),
            Left(Hand.CRASHED, 1, b"r", 1, inf),
            Left(Hand.DONE, 1, b"d", 1, 2.5),
            Left(Hand.CRASHED, 1, b"", 1, inf),  # it had no room
        }
        assert list(board.take_left()) == []
    finally:
        board.close()


def test_failures_are_counted_for_all_who_share_them() -> None:
    failures = Failures()
    others = Failures(os.dup(failures.fd))
    try:
        one, other = key_of(b"1", b"one"), key_of(b"2", b"one")
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


def test_failures_in_a_file_are_those_of_all_who_name_it(tmp_path: Path) -> None:
    path, key = tmp_path / "failures", key_of(b"salt", b"id")
    first = Failures(failures_file(str(path)))
    first.add(key, least=3)
    other = Failures(failures_file(str(path)))
    first.close()

    assert other.add(key) == 4
    other.close()

    (tmp_path / "letters").write_text("to whom it may concern")
    with pytest.raises(BadSetting, match="is not a failures file"):
        failures_file(str(tmp_path / "letters"))
    assert (tmp_path / "letters").read_text() == "to whom it may concern"


def test_who_has_died_is_seen_until_it_is_counted() -> None:
    lives = Lives(2)
    program = (
        f"import sys; from quinque.worker.lives import Lives; lives = Lives(2, {lives.fd}); "
        "lives.begin(1); print('begun', flush=True); sys.stdin.read()"
    )
    try:
        lives.begin(0)
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            pass_fds=[lives.fd],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            assert lives.are_counted()  # it lives
            process.kill()

        assert not lives.are_counted()
        lives.count(1)
        assert lives.are_counted()
    finally:
        lives.close()
