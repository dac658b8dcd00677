"""ioredis, on Node.js: each script of node/ checks by itself and prints ok."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.programs import node
from tests.server.broker import RunningBroker, start_broker


@pytest.mark.parametrize("script", ["round_trip.js", "pipeline.js", "multi.js", "waiting.js"])
def test_a_script_finds_everything_as_it_should_be(
    broker: RunningBroker, queue: str, script: str
) -> None:
    assert node(broker, script, queue) == "ok\n"


def test_a_password_is_given_again_when_the_connection_was_lost(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--requirepass", "secret") as guarded:
        assert node(guarded, "password.js", "secret") == "ok\n"
