"""What a type checker is told of the client; mypy reads these as a program's."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import quinque
import quinque.aio


def test_who_waits_for_ever_has_a_message_for_sure(tmp_path: Path) -> None:
    with quinque.open(tmp_path / "q", fsync="no") as queues:
        jobs = queues.jobs("q")
        jobs.add_many([b"one", b"two", b"three"])

        assert_type(jobs.take(), quinque.Job | None)
        with assert_type(jobs.take(timeout=None), quinque.Job) as job:
            assert job.body == b"two"
        for each in jobs:
            assert assert_type(each, quinque.Job).body == b"three"
            break


async def awaited(queues: quinque.aio.Queues) -> None:
    assert_type(await queues.tube("q").take(None), quinque.aio.Task)
    assert_type(await queues.reliable("q").pop(None), quinque.aio.Element)
    assert_type(await queues.items("q").lease(30, None), quinque.aio.Item)
    async for event in queues.events("q").group("g"):
        assert_type(event, quinque.aio.Event)
