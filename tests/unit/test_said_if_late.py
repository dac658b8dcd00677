"""A start that waits for Redis says so after a second."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from quinque.cli import serve
from quinque.cli.serve import open_store, said_if_late
from quinque.errors import NotDone
from quinque.server.config import Config
from quinque.stores.redis.urls import shown_store_url


class _Loop(asyncio.SelectorEventLoop):
    """Its clock stands still until a test moves it."""

    now_s = 0.0

    def time(self) -> float:
        return self.now_s


async def _pass(loop: _Loop, seconds: float) -> None:
    loop.now_s += seconds
    for _ in range(3):  # timers that are due run in the next turn
        await asyncio.sleep(0)


@pytest.mark.parametrize(("seconds", "lines"), [(0.9, 0), (1.1, 1), (60, 1)])
def test_a_line_is_logged_after_a_second(
    caplog: pytest.LogCaptureFixture, seconds: float, lines: int
) -> None:
    caplog.set_level(logging.INFO, "quinque")
    with asyncio.Runner(loop_factory=_Loop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, _Loop)

        async def work() -> None:
            with said_if_late(loop, "connecting to redis://h:1"):
                await _pass(loop, seconds)
            await _pass(loop, 60)

        runner.run(work())

    assert caplog.messages == ["connecting to redis://h:1"] * lines


def test_the_line_of_a_broker_has_no_password(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A server that accepts connections and does not answer: the line comes long before the end."""
    caplog.set_level(logging.INFO, "quinque")
    monkeypatch.setattr(serve, "_LATE_S", 0)

    async def work() -> None:
        held: list[asyncio.StreamWriter] = []
        silent = await asyncio.start_server(lambda _, to: held.append(to), "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        url = f"redis://me:secret@127.0.0.1:{port}/1?x=secret"
        config = Config(store=url, dir=str(tmp_path), store_timeout=0.05)
        with pytest.raises(NotDone):
            await open_store(config)
        silent.close()
        for writer in held:
            writer.close()
            await writer.wait_closed()
        assert caplog.messages[0] == f"connecting to redis://127.0.0.1:{port}/1"

    asyncio.run(work())


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("unix:///run/redis?password=p", "unix:///run/redis"),
        ("rediss+cluster://u:p@a:1,b:2", "rediss+cluster://a:1,b:2"),
        ("redis+sentinel://a,b/main/1?sentinel_password=p", "redis+sentinel://a,b/main/1"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert shown_store_url(url) == shown
