"""Clients that wait for a task of one lane each: a lane that gets something wakes its own readers,
and those of any task, but not the readers of all other lanes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quinque.model.ops import Op
from quinque.model.tube_ops import TakeTasks
from tests.servers import stores
from tests.transcripts.stage import Stage

LATE = "late"  # an embedded store that answers later
LANES = 20


@pytest.fixture(params=[LATE, *stores.ALL])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    kind: str = request.param
    url = stores.empty_store_url(request, kind) if kind in stores.SHARED else ""
    with Stage(tmp_path, 2, is_late=kind == LATE, redis_url=url) as stage:
        yield stage


def call(stage: Stage, client: str, text: str) -> bytes:
    stage.send(client, [text.encode().split()])
    stage.settle()
    return stage.replies().get(client, b"")


def wait_for_each_lane(stage: Stage) -> None:
    for number in range(LANES):
        assert call(stage, f"reader {number}", f"TUBE.TAKE t LANE {number}") == b""


@pytest.mark.parametrize("kind", ["utube", "utubettl"])
def test_readers_of_other_lanes_are_not_asked_for(tmp_path: Path, kind: str) -> None:
    asked: list[Op] = []
    with Stage(tmp_path, 2) as stage:
        call(stage, "other", f"TUBE.CREATE t {kind}")
        wait_for_each_lane(stage)
        call(stage, "any", "TUBE.TAKE t")
        run = stage.store.run

        def note(op: Op) -> Any:
            asked.append(op)
            return run(op)

        stage.broker.waiters._run = note

        stage.send("other", [b"TUBE.PUT t body UTUBE 7".split()])
        stage.settle()

        assert set(stage.replies()) == {"other", "reader 7"}
        lanes = [op.lane for op in asked if isinstance(op, TakeTasks)]
        assert lanes == [b"7", None]


# For each way in which a lane gets something: what comes before, and what brings it.
WAYS = {
    "put": ([], "TUBE.PUT t body UTUBE 7"),
    "several": (["TUBE.PUT t first UTUBE 8", "TUBE.TAKE t 0"], "TUBE.PUT t body UTUBE 7"),
    "ack": (
        ["TUBE.PUT t first UTUBE 7", "TUBE.TAKE t 0", "TUBE.PUT t body UTUBE 7"],
        "TUBE.ACK t 0",
    ),
    "release": (["TUBE.PUT t body UTUBE 7", "TUBE.TAKE t 0"], "TUBE.RELEASE t 0"),
    "bury": (
        ["TUBE.PUT t first UTUBE 7", "TUBE.TAKE t 0", "TUBE.PUT t body UTUBE 7"],
        "TUBE.BURY t 0",
    ),
    "kick": (["TUBE.PUT t body UTUBE 7", "TUBE.BURY t 0"], "TUBE.KICK t 1"),
    "delete": (
        ["TUBE.PUT t first UTUBE 7", "TUBE.TAKE t 0", "TUBE.PUT t body UTUBE 7"],
        "TUBE.DELETE t 0",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_lane_that_gets_something_wakes_its_reader(stage: Stage, way: str) -> None:
    before, brings = WAYS[way]
    call(stage, "other", "TUBE.CREATE t utubettl")
    for text in before:
        assert call(stage, "other", text)[:1] != b"-"
    wait_for_each_lane(stage)

    stage.send("other", [brings.encode().split()])
    stage.settle()

    assert b"body" in stage.replies()["reader 7"]


def test_a_delayed_task_wakes_the_reader_of_its_lane(stage: Stage) -> None:
    call(stage, "other", "TUBE.CREATE t utubettl")
    call(stage, "other", "TUBE.PUT t body UTUBE 7 DELAY 5")
    wait_for_each_lane(stage)

    stage.pass_time(6_000)

    assert b"body" in stage.replies()["reader 7"]


def test_tasks_of_several_lanes_in_one_turn_wake_all_their_readers(stage: Stage) -> None:
    call(stage, "other", "TUBE.CREATE t utube")
    wait_for_each_lane(stage)

    for number in range(LANES):
        stage.send(f"putter {number}", [(b"TUBE.PUT t body UTUBE %d" % number).split()])
    stage.settle()

    replies = stage.replies()
    assert all(b"body" in replies[f"reader {number}"] for number in range(LANES))
