"""A broker as a process: its folder, its log, what it refuses to start with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quinque import __version__
from tests.server.broker import BrokerDidNotStart, start_broker


def test_a_folder_belongs_to_one_broker_at_a_time(tmp_path: Path) -> None:
    with start_broker(tmp_path, is_forked=False) as broker, broker.connect() as client:
        with pytest.raises(BrokerDidNotStart) as caught:
            start_broker(tmp_path, is_forked=False)

        assert str(tmp_path / "data") in str(caught.value)
        assert client.call("PING") == b"PONG", "the first one goes on"


def test_a_folder_is_free_again_when_its_broker_was_killed(tmp_path: Path) -> None:
    with start_broker(tmp_path, is_forked=False) as broker:
        broker.kill()

        broker.restart()

        with broker.connect() as client:
            assert client.call("PING") == b"PONG"


def test_a_folder_that_is_a_file_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("precious")

    with pytest.raises(BrokerDidNotStart) as caught:
        start_broker(tmp_path, is_forked=False)

    assert f"data directory {tmp_path / 'data'}" in str(caught.value)
    assert (tmp_path / "data").read_text() == "precious"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--max-clients", "many"), "max-clients (--max-clients): 'many'"),
        (("--max-client", "5"), "--max-client"),
        (("--config", "nosuch.toml"), "nosuch.toml"),
        (("--fsync", "sometimes"), "fsync"),
    ],
)
def test_a_wrong_setting_stops_the_start_and_is_named(
    tmp_path: Path, flags: tuple[str, ...], words: str
) -> None:
    with pytest.raises(BrokerDidNotStart) as caught:
        start_broker(tmp_path, *flags, is_forked=False)

    assert words in str(caught.value)
    assert not (tmp_path / "data").exists()


def test_the_log_tells_where_the_broker_listens_and_what_it_found(tmp_path: Path) -> None:
    with start_broker(tmp_path, is_forked=False) as broker:
        with broker.connect() as client:
            client.call("QADD", "q", 60, "x")

        broker.restart()

        assert broker.has_said(f"quinque {__version__} listens on 127.0.0.1:{broker.port}")
        assert broker.has_said("with 1 message in 1 queue")


def test_the_log_can_be_json_lines(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--log-json", is_forked=False) as broker:
        broker.stop()

        lines = [json.loads(line) for line in broker.log]

        assert {"ts", "level", "logger", "msg"} == set(lines[0])
        assert lines[-1]["msg"] == "stopped"
