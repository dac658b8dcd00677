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
