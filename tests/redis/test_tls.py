"""A store on a Redis that is reached over TLS, with a password."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from quinque.errors import NotDone
from quinque.stores.redis.store import RedisStore
from tests.conformance.work_words import add_one, take
from tests.servers.ports import ReservedPort
from tests.servers.redis_server import RedisServer

TLS = Path(__file__).parents[1] / "server" / "tls"
CERTIFICATE, KEY = TLS / "certificate.pem", TLS / "key.pem"
OTHER = TLS / "other-certificate.pem"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where a Redis speaks TLS."""
    with closing(ReservedPort()) as port:
        options = ["--tls-port", str(port.number), "--tls-auth-clients", "no"]
        options += ["--tls-cert-file", str(CERTIFICATE), "--tls-key-file", str(KEY)]
        options += ["--tls-ca-cert-file", str(CERTIFICATE)]
        with RedisServer(None, *options) as server:
            server.ask("ACL", "SETUSER", "me", "on", ">secret", "~*", "&*", "+@all")
            yield f"127.0.0.1:{port.number}"


def url(address: str, login: str = "me:secret", ca: Path = CERTIFICATE) -> str:
    return f"rediss://{login}@{address}?ssl_ca_certs={ca}&ssl_check_hostname=false"


def test_it_is_a_store_like_any_other(address: str) -> None:
    with closing(RedisStore(url(address))) as store:
        id = add_one(store)
        assert take(store)[0].message_id == id


@pytest.mark.parametrize(
    ("login", "ca"), [("me:wrong", CERTIFICATE), ("me:secret", OTHER)], ids=["password", "server"]
)
def test_who_is_not_let_in_or_not_trusted_is_told(address: str, login: str, ca: Path) -> None:
    with pytest.raises(NotDone) as refused:
        RedisStore(url(address, login, ca), timeout_s=0.2)
    assert "wrong" not in str(refused.value).replace("WRONGPASS", "")
