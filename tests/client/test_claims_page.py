"""docs/claims.md: its program reads and acks a whole claim, also one that needs several replies."""

from __future__ import annotations

import re

import pytest

import quinque
from tests.facts.pages import text_of
from tests.facts.repository import ROOT
from tests.server.broker import RunningBroker

PAGE = text_of(ROOT / "docs" / "claims.md")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_program_reads_every_message_that_it_acks(
    embedded_broker: RunningBroker, queue: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"redis://127.0.0.1:{embedded_broker.port}"
    [block] = BLOCK.findall(PAGE)
    program = block.replace("redis://localhost:4777", url).replace(
        'b"orders"', repr(queue.encode())
    )
    with quinque.connect(url) as queues:
        # The claim has room for one more after four of them, but the reply has not.
        jobs = queues.jobs(queue)
        ids = [jobs.add(b"x" * ((1 << 20) - 1)) for _ in range(5)]

        exec(compile(program, "docs/claims.md", "exec"), {})

        assert [jobs.show(id) for id in ids] == [None] * 5
    read = [line.split("'")[1] for line in capsys.readouterr().out.splitlines()]
    assert sorted(read) == sorted(ids)
