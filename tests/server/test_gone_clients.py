"""A client that goes while the store is being asked for it takes nothing with it.

The store answers later, so a client can be lost in each of the moments between the question and the
answer. A job with is delivered at most once: had it gone with the client, nobody would get
it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transcripts.stage import Stage

MOMENTS = range(12)  # iterations of the event loop; by then everything is answered


@pytest.fixture(params=MOMENTS)
def moment(request: pytest.FixtureRequest) -> int:
    moment: int = request.param
    return moment


def words(text: str) -> list[bytes]:
    return [word.encode() for word in text.split()]


def call(stage: Stage, client: str, text: str) -> bytes:
    stage.send(client, [words(text)])
    stage.settle()
    return stage.replies().get(client, b"")


def lose(stage: Stage, client: str, moment: int) -> bytes:
    """The client is lost at that moment; what it had been told by then."""
    stage.go_on(moment)
    got = stage.replies().get(client, b"") + stage.unsent(client)
    stage.leave(client)
    return got


def test_a_job_it_asked_for(moment: int, tmp_path: Path) -> None:
    with Stage(tmp_path, 2, is_late=True) as stage:
        call(stage, "b", "ADDJOB w body 0")
        stage.send("a", [words("GETJOB NOHANG FROM w")])

        got = lose(stage, "a", moment)
        assert (b"body" in got) != (b"body" in call(stage, "b", "GETJOB NOHANG FROM w"))


def test_a_job_it_waited_for(moment: int, tmp_path: Path) -> None:
    with Stage(tmp_path, 2, is_late=True) as stage:
        call(stage, "a", "GETJOB FROM w")
        stage.send("b", [words("ADDJOB w body 0")])

        got = lose(stage, "a", moment)
        assert (b"body" in got) != (b"body" in call(stage, "b", "GETJOB NOHANG FROM w"))


def test_jobs_that_several_asked_for_together(moment: int, tmp_path: Path) -> None:
    with Stage(tmp_path, 2, is_late=True) as stage:
        call(stage, "b", "ADDJOB w one 0")
        call(stage, "b", "ADDJOB w two 0")
        for client in ("a", "c"):
            stage.send(client, [words("GETJOB NOHANG FROM w")])

        stage.go_on(moment)
        got = b"".join(stage.replies().values()) + stage.unsent("a")
        stage.leave("a")
        got += stage.replies().get("c", b"")
        got += call(stage, "b", "GETJOB NOHANG FROM w") + call(stage, "b", "GETJOB NOHANG FROM w")
        assert got.count(b"one") == got.count(b"two") == 1


@pytest.mark.parametrize("waits", [False, True])
def test_an_item_it_asked_for(moment: int, tmp_path: Path, waits: bool) -> None:
    """A millisecond later it is there for others."""
    with Stage(tmp_path, 2, is_late=True) as stage:
        lease = "WQ.LEASE i 60000 BLOCK 5000"
        if waits:
            call(stage, "a", lease)
            stage.send("b", [words("WQ.ADD i id body")])
        else:
            call(stage, "b", "WQ.ADD i id body")
            stage.send("a", [words(lease)])

        got = lose(stage, "a", moment)
        stage.pass_time(1)
        assert (b"body" in got) != (b"body" in call(stage, "c", "WQ.LEASE i 60000"))


def test_an_event_it_asked_for(moment: int, tmp_path: Path) -> None:
    with Stage(tmp_path, 2, is_late=True) as stage:
        call(stage, "b", "QADD e 60 body")
        stage.send("a", [words("QGET e g EX 30")])

        got = lose(stage, "a", moment)
        assert (b"body" in got) != (b"body" in call(stage, "b", "QGET e g EX 30"))


@pytest.mark.parametrize("waits", [False, True])
def test_a_task_it_asked_for(moment: int, tmp_path: Path, waits: bool) -> None:
    """Though its session is kept, what it never got is for others at once."""
    with Stage(tmp_path, 2, {"session-ttr": "60"}, is_late=True) as stage:
        call(stage, "b", "TUBE.CREATE t utube")
        if waits:
            call(stage, "a", "TUBE.TAKE t")
            stage.send("b", [words("TUBE.PUT t body")])
        else:
            call(stage, "b", "TUBE.PUT t body")
            stage.send("a", [words("TUBE.TAKE t 5")])

        got = lose(stage, "a", moment)
        assert (b"$1\r\nt\r\n" in got) != (b"body" in call(stage, "b", "TUBE.TAKE t 0"))


def test_tasks_it_asked_for_one_after_the_other(moment: int, tmp_path: Path) -> None:
    """They are one operation, and go back as one."""
    with Stage(tmp_path, 2, is_late=True) as stage:
        call(stage, "b", "TUBE.CREATE t fifo")
        call(stage, "b", "TUBE.MPUT t one two three")
        stage.send("a", [words("TUBE.TAKE t 0")] * 2)

        lose(stage, "a", moment)
        got = call(stage, "b", "TUBE.TAKE t 0 COUNT 5")
        assert [got.count(each) for each in (b"one", b"two", b"three")] == [1, 1, 1]


def test_tasks_that_several_asked_for_together(moment: int, tmp_path: Path) -> None:
    """Each was for its own session, and only what was for the one that went is for others."""
    with Stage(tmp_path, 2, {"session-ttr": "60"}, is_late=True) as stage:
        call(stage, "b", "TUBE.CREATE t fifo")
        call(stage, "b", "TUBE.MPUT t one two")
        for client in ("a", "c"):
            stage.send(client, [words("TUBE.TAKE t 0")])

        stage.go_on(moment)
        got = b"".join(stage.replies().values()) + stage.unsent("a")
        stage.leave("a")
        got += stage.replies().get("c", b"")
        got += call(stage, "b", "TUBE.TAKE t 0 COUNT 5")
        assert got.count(b"one") == got.count(b"two") == 1


def test_a_session_it_was_about_to_join(moment: int, tmp_path: Path) -> None:
    """It has left by the time it has joined: nobody is of the session."""
    with Stage(tmp_path, 2, is_late=True) as stage:
        call(stage, "b", "TUBE.CREATE t fifo")
        call(stage, "b", "TUBE.PUT t body")
        call(stage, "c", "TUBE.IDENTIFY shared")
        call(stage, "c", "TUBE.TAKE t 0")
        stage.send("a", [words("TUBE.IDENTIFY shared")])

        lose(stage, "a", moment)
        assert b"body" not in call(stage, "b", "TUBE.TAKE t 0")
        stage.leave("c")
        assert b"body" in call(stage, "b", "TUBE.TAKE t 0")
