"""A failure of one client is that client's; a failure of the broker itself ends the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quinque.errors import JournalDamaged
from quinque.server.readiness import stall
from quinque.stores.chance import Chance
from quinque.stores.embedded.store import EmbeddedStore
from tests.transcripts.late_store import LateStore
from tests.transcripts.stage import Stage, Wire


class Broken(Wire):
    """A connection to which nothing can be written, as after write_eof()."""

    def write(self, data: Any) -> None:
        raise RuntimeError("cannot write")


class Lingering(Wire):
    """A connection that stays open after an error, so that its client can read the error."""

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass


def words(text: str) -> list[bytes]:
    return [word.encode() for word in text.split()]


def failing(stage: Stage) -> dict[str, Exception]:
    """What the store raises."""
    assert isinstance(stage.store, LateStore)
    return stage.store.failures


def test_a_client_whose_replies_cannot_be_sent_is_disconnected_and_others_are_answered(
    tmp_path: Path,
) -> None:
    with Stage(tmp_path, 2) as stage:
        broken = Broken()
        stage.connect("a", broken)
        for client in ("a", "b", "c"):
            stage.send(client, [words("PING")])
        stage.settle()

        assert broken.is_closed
        assert stage.replies() == {"b": b"+PONG\r\n", "c": b"+PONG\r\n"}


def test_a_client_that_sent_broken_bytes_is_no_monitor_while_it_lingers(tmp_path: Path) -> None:
    with Stage(tmp_path, 2) as stage:
        wire = Lingering()
        connection = stage.connect("a", wire)
        stage.send("a", [words("MONITOR")])
        stage.settle()
        assert stage.broker.monitors == [connection]

        connection.data_received(b"*1\r\nX\r\n")
        stage.settle()

        assert stage.broker.monitors == []
        assert not wire.is_closed


def test_an_unexpected_error_in_a_commit_ends_the_process_and_nothing_is_acknowledged(
    tmp_path: Path,
) -> None:
    error = MemoryError()
    with Stage(tmp_path, 2, is_late=True) as stage:
        failing(stage)["commit"] = error
        stage.send("a", [words("PING")])
        stage.settle()

        assert error in stage.crashes
        assert stage.replies() == {}
        failing(stage).clear()


class NoMemory(dict[bytes, None]):
    """Ids that somebody waits for. There is no memory to look them up."""

    def __len__(self) -> int:
        raise MemoryError


def no_bytes(count: int) -> bytes:
    raise MemoryError


def test_an_operation_that_fails_half_way_ends_the_process_and_nothing_is_acknowledged(
    tmp_path: Path,
) -> None:
    with Stage(tmp_path, 2) as stage:
        assert isinstance(stage.store, EmbeddedStore)
        stage.send("a", [words("ADDJOB q body 0")])
        stage.settle()
        job_id = stage.replies()["a"][1:-2]
        stage.store.watched = NoMemory()
        stage.send("a", [[b"ACKJOB", job_id], words("QLEN q")])
        stage.send("b", [words("QLEN q")])
        stage.settle()

        assert [type(each) for each in stage.crashes[:1]] == [MemoryError]
        assert stage.replies() == {}
        stage.kill()
        stage.send("a", [[b"SHOW", job_id]])
        stage.settle()
        assert b"queued" in stage.replies()["a"]


def test_an_operation_that_lacks_memory_before_it_changes_anything_is_refused_alone(
    tmp_path: Path,
) -> None:
    with Stage(tmp_path, 2) as stage:
        assert isinstance(stage.store, EmbeddedStore)
        stage.store.chance = Chance(no_bytes)
        stage.send("a", [words("ADDJOB q body 0"), words("PING")])
        stage.settle()

        assert stage.replies()["a"] == (b"-NOTDONE out of memory: nothing was changed\r\n+PONG\r\n")
        assert not stage.crashes


def test_an_unexpected_error_in_a_tick_ends_the_process(tmp_path: Path) -> None:
    error = OSError("too many open files")
    with Stage(tmp_path, 2, is_late=True) as stage:
        stage.send("a", [words("ADDJOB q body 0 DELAY 1")])
        stage.settle()
        failing(stage)["tick"] = error
        stage.pass_time(1_000)

        assert error in stage.crashes
        failing(stage).clear()


def test_a_tick_that_the_store_refuses_is_tried_again_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Stage(tmp_path, 2, is_late=True) as stage:
        stage.send("a", [words("ADDJOB q body 0 DELAY 1"), words("GETJOB FROM q")])
        stage.settle()
        failing(stage)["tick"] = JournalDamaged("a body cannot be read")
        for _ in range(5):
            stage.pass_time(1_000)
        stage.replies()
        failing(stage).clear()
        stage.pass_time(1_000)

        assert b"body" in stage.replies()["a"]
        assert not stage.crashes
    assert [each.message for each in caplog.records if "a body" in each.message] == [
        "leases, delays and expiries are late: a body cannot be read; retrying"
    ]


def test_a_broker_whose_turns_do_not_end_says_that_it_must_be_started_again(
    tmp_path: Path,
) -> None:
    with Stage(tmp_path, 2, is_late=True) as stage:
        for _ in range(30):
            stage.broker.each_second()
            stage.settle()
        assert stall(stage.broker) == ""

        failing(stage)["commit"] = MemoryError()
        for _ in range(12):
            stage.broker.each_second()
            stage.settle()

        assert stall(stage.broker).startswith("no event loop iteration has ended for 1")
        failing(stage).clear()
