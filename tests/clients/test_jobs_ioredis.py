"""ioredis, on Node.js, drives the jobs family: each script of node/ checks by itself."""

from __future__ import annotations

import pytest

from tests.clients.programs import node
from tests.server.broker import RunningBroker


@pytest.mark.parametrize("script", ["jobs.js", "workers.js"])
def test_a_script_finds_everything_as_it_should_be(
    broker: RunningBroker, queue: str, script: str
) -> None:
    assert node(broker, script, queue) == "ok\n"
