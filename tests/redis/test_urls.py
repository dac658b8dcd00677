"""Where a store is, as its URL says."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quinque.errors import BadSetting, StoreUnavailable
from quinque.stores.redis.routes import Routes
from quinque.stores.redis.store import RedisStore
from quinque.stores.redis.urls import Address, Login, parse_store_url
from tests.servers.patience import PATIENCE_S
from tests.servers.ports import ReservedPort
from tests.servers.redis_server import RedisServer


@pytest.mark.parametrize(
    ("url", "kind", "addresses"),
    [
        ("redis://there", "one", [("there", 6379)]),
        ("redis://there:7000/2", "one", [("there", 7000)]),
        ("redis://[::1]:7000", "one", [("::1", 7000)]),
        ("redis://", "one", [("127.0.0.1", 6379)]),
        ("unix:///run/redis.sock", "one", [("/run/redis.sock", 0)]),
        ("redis+cluster://a:1,b:2,c", "cluster", [("a", 1), ("b", 2), ("c", 6379)]),
        ("redis+sentinel://a,b:2/main", "sentinel", [("a", 26379), ("b", 2)]),
    ],
)
def test_which_servers(url: str, kind: str, addresses: list[tuple[str, int]]) -> None:
    found = parse_store_url(url)

    assert found.kind == kind
    assert list(found.addresses) == [Address(*address) for address in addresses]


@pytest.mark.parametrize(
    ("url", "login"),
    [
        ("redis://there", Login()),
        ("redis://:secret@there/3", Login("", "secret", 3)),
        ("redis://me:s%40c@there", Login("me", "s@c")),
        ("unix://me:secret@/run/redis.sock?db=4", Login("me", "secret", 4)),
        ("redis+cluster://me:secret@a,b", Login("me", "secret")),
        ("redis+sentinel://me:secret@a,b/main/5", Login("me", "secret", 5)),
    ],
)
def test_how_to_be_let_in(url: str, login: Login) -> None:
    assert parse_store_url(url).login == login


def test_sentinels_have_a_name_for_the_primary_and_may_have_a_password() -> None:
    found = parse_store_url("redis+sentinel://:a@there/main?sentinel_password=b")

    assert found.service == "main"
    assert (found.login.password, found.sentinel_login.password) == ("a", "b")


@pytest.mark.parametrize("scheme", ["rediss", "rediss+cluster"])
def test_tls(scheme: str) -> None:
    assert parse_store_url(f"{scheme}://there").login.tls is not None


@pytest.mark.parametrize(
    "url",
    [
        "http://there",
        "redis+sentinel://there",
        "redis://there:port",
        "redis://:secret@a:x",
        "redis://there/x",
        "redis://:secret/x@there",
        "redis://user:secret?x@there:6379/0",
        "redis://:secret#x@there",
        "redis://:1#secret@there",
    ],
)
def test_what_is_no_such_url_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(BadSetting, match="store: this is not the URL of a Redis") as refused:
        parse_store_url(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("password", ["[secret]", "secret\uff1ax"])
def test_a_password_may_have_brackets_and_characters_that_look_like_others(password: str) -> None:
    found = parse_store_url(f"redis://:{password}@there")

    assert (found.login.password, found.addresses[0].host) == (password, "there")


@pytest.mark.parametrize(
    "option", ["ssl_ca_certs=/there/is/none", "ssl_cert_reqs=maybe", "ssl_min_version=old"]
)
def test_tls_options_that_cannot_be_used_are_a_wrong_setting(option: str) -> None:
    with pytest.raises(BadSetting, match="store: cannot use its TLS options"):
        parse_store_url(f"rediss://:secret@there?{option}")


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """A Redis without cluster support, with a port."""
    with RedisServer(None) as running:
        yield running


def test_a_server_that_is_no_cluster_is_a_wrong_setting(
    server: RedisServer, tmp_path: Path
) -> None:
    url = f"redis+cluster://{server.address}"
    words = [sys.executable, "-m", "quinque", "serve", "--dir", str(tmp_path), "--store", url]
    words += ["--listen", "127.0.0.1:0"]

    serve = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)

    assert serve.returncode == 2
    assert "use redis:// instead of redis+cluster://" in serve.stderr


def test_a_cluster_that_does_not_answer_may_answer_later(server: RedisServer) -> None:
    nobody = ReservedPort()
    try:
        with pytest.raises(StoreUnavailable, match="cluster support disabled"):
            RedisStore(f"redis+cluster://{server.address},127.0.0.1:{nobody.number}")
    finally:
        nobody.close()


def test_a_cluster_that_cannot_be_reached_is_reported_once_in_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nobody = ReservedPort()

    async def play() -> None:
        url = parse_store_url(f"redis+cluster://127.0.0.1:{nobody.number}")
        routes = Routes(url, asyncio.get_running_loop(), PATIENCE_S)
        for _ in range(5):
            routes.look_again()
            assert routes._asking is not None
            await routes._asking

    asyncio.run(play())
    nobody.close()
    assert len(caplog.messages) == 1
