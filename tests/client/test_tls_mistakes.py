"""A client that uses TLS where the broker does not, or the other way round, is told what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import quinque
from quinque import aio
from quinque.cli.main import main
from quinque.errors import QuinqueError
from tests.server.broker import start_broker

TLS = Path(__file__).parents[1] / "server" / "tls"
PLAIN_TO_TLS = "if it expects TLS, use rediss://"
TLS_TO_PLAIN = "this address does not use TLS: use redis://"
UNKNOWN_CA = "pass the file of its CA certificate (--ca, or ca= in Python)"


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """By mistake."""
    files = ("--tls-cert", str(TLS / "certificate.pem"), "--tls-key", str(TLS / "key.pem"))
    folder = tmp_path_factory.mktemp("tls")
    with start_broker(folder, "--tls-listen", "127.0.0.1:0", *files) as broker:
        ports = [int(address.rsplit(":", 1)[1]) for address in broker.addresses]
        [port] = [port for port in ports if port != broker.port]
        yield {
            PLAIN_TO_TLS: f"redis://localhost:{port}",
            TLS_TO_PLAIN: f"rediss://localhost:{broker.port}",
            UNKNOWN_CA: f"rediss://localhost:{port}",
        }


@pytest.mark.parametrize("told", [PLAIN_TO_TLS, TLS_TO_PLAIN, UNKNOWN_CA])
def test_a_client_is_told_what_to_do(urls: dict[str, str], told: str) -> None:
    async def add() -> None:
        async with aio.connect(urls[told], retries=0) as queues:
            await queues.jobs("q").add("x")

    with pytest.raises(QuinqueError) as failed:
        asyncio.run(add())
    with (
        pytest.raises(QuinqueError) as failed_too,
        quinque.connect(urls[told], retries=0) as queues,
    ):
        queues.jobs("q").add("x")

    assert told in str(failed.value)
    assert told in str(failed_too.value)


@pytest.mark.parametrize("command", [("queue", "ls"), ("cli", "PING")])
@pytest.mark.parametrize("told", [PLAIN_TO_TLS, TLS_TO_PLAIN, UNKNOWN_CA])
def test_the_command_line_tells_it_too(
    urls: dict[str, str], told: str, command: tuple[str, ...]
) -> None:
    result = CliRunner().invoke(main, [*command, "--url", urls[told]])

    assert (result.exit_code != 0, told in result.stderr) == (True, True)
