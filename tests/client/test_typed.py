"""What a type checker is told of the client; mypy reads these as a program's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import assert_type

import quinque
import quinque.aio
from tests.facts.repository import ROOT


def test_who_waits_for_ever_has_a_message_for_sure(tmp_path: Path) -> None:
    with quinque.open(tmp_path / "q", fsync="no") as queues:
        jobs = queues.jobs("q")
        jobs.add_many([b"one", b"two", b"three"])

        assert_type(jobs.take(), quinque.Job[bytes] | None)
        with assert_type(jobs.take(timeout=None), quinque.Job[bytes]) as job:
            assert job.body == b"two"
        for each in jobs:
            assert assert_type(each, quinque.Job[bytes]).body == b"three"
            break


async def awaited(queues: quinque.aio.Queues) -> None:
    assert_type(await queues.tube("q").take(None), quinque.aio.Task[bytes])
    assert_type(await queues.reliable("q").pop(None), quinque.aio.Element[bytes])
    assert_type(await queues.items("q").lease(30, None), quinque.aio.Item[bytes])
    async for event in queues.events("q").group("g"):
        assert_type(event, quinque.aio.Event[bytes])


class Orders:
    """A codec of a program's own."""

    def encode(self, value: tuple[str, int]) -> bytes:
        return f"{value[0]} {value[1]}".encode()

    def decode(self, body: bytes) -> tuple[str, int]:
        what, count = body.decode().split()
        return what, int(count)


def test_a_queue_has_the_type_of_its_codec(tmp_path: Path) -> None:
    with quinque.open(tmp_path / "q", fsync="no") as queues:
        orders = assert_type(queues.jobs("orders", codec=Orders()), quinque.Jobs[tuple[str, int]])
        orders.add(("books", 2))

        with orders.take(None) as order:
            what, count = assert_type(order.body, tuple[str, int])

    assert (what, count) == ("books", 2)


PROGRAM = """
from datetime import datetime, timedelta
from typing import Any, assert_type

import quinque
import quinque.aio
from quinque.worker import App, Message

queues = quinque.connect("redis://localhost")
assert_type(queues.jobs("q"), quinque.Jobs[bytes])
assert_type(queues.jobs("q", codec="json", ttl=60), quinque.Jobs[Any])
assert_type(queues.events("q", "msgpack"), quinque.Events[Any])
assert_type(queues.events("q").group("g"), quinque.Group[bytes])
assert_type(queues.reliable("q").pop(None).body, bytes)
assert_type(queues.items("q", codec="json"), quinque.Items[Any])
assert_type(queues.tube("q").take(), quinque.Task[bytes] | None)
assert_type(queues.jobs("q").peek(), list[quinque.WorkView])
assert_type(queues.jobs("q").peek()[0].id, str)
assert_type(queues.jobs("q").info(), quinque.QueueView | None)
assert_type(queues.events("q").info(), quinque.QueueCount | None)
assert_type(queues.tube("q").info(), quinque.TubeView | None)
assert_type(queues.reliable("q").inspect(), list[quinque.Inspected])
queues.jobs("q").ack(queues.jobs("q").peek())
queues.jobs("q").add("text", delay=timedelta(seconds=1))
queues.jobs("q").add(b"bytes", eta=datetime.now())

app = App("redis://localhost", password="x", retries=3, timeout_s=1.5)


@app.before
def begin(message: Message) -> int:
    return 1


@app.failed
def report(message: Message, error: BaseException) -> str:
    return "x"


assert_type(begin(Message("q", b"1", b"", 1)), int)
assert_type(report(Message("q", b"1", b"", 1), ValueError()), str)


async def main() -> None:
    assert_type(await app.run_async(), bool)
    async with quinque.aio.connect("redis://localhost") as awaited:
        assert_type((await awaited.jobs("q").take(None)).body, bytes)


queues.jobs("q").add(1)  # wrong
queues.jobs("q", codec="jsn")  # wrong
queues.jobs("q").ack(1)  # wrong
App("redis://localhost", pasword="x")  # wrong
app.before(lambda: None)  # wrong
"""


def test_a_type_checker_sees_what_is_promised(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    cache = str(ROOT / ".mypy_cache" / "programs")
    words = ["--strict", "--config-file", "", "--no-error-summary", "--cache-dir", cache]

    ended = subprocess.run(
        [sys.executable, "-m", "mypy", *words, str(program)],
        capture_output=True,
        text=True,
        env=os.environ | {"MYPYPATH": str(ROOT / "src")},
    )

    wrong = {
        number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")
    }
    errors = re.findall(r"^.*program\.py:(\d+): error: ", ended.stdout, re.MULTILINE)
    assert {int(number) for number in errors} == wrong, ended.stdout + ended.stderr
