"""Where a Redis is: what a store's URL says.

Called by   routes.py, cli/serve.py (checks a URL).
Calls       redis-py, which knows the options of such URLs (TLS, for one).

    redis://user:password@host:6379/0       one server; rediss:// is the same over TLS
    unix:///path/to/socket?db=0             one server of this machine
    redis+sentinel://host:26379,host2/name  the primary that sentinels call by this name
    redis+cluster://host:6379,host2:6379    a cluster; any of its servers are enough to find all

Not here: who answers there (routes.py), connections (link.py).
"""

from __future__ import annotations

import ssl
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit

from redis.asyncio.connection import SSLConnection, parse_url

from quinque.errors import BadSetting

Kind = Literal["one", "sentinel", "cluster"]
SCHEMES: Final[dict[str, tuple[Kind, str]]] = {
    "redis": ("one", "redis"),
    "rediss": ("one", "rediss"),
    "unix": ("one", "unix"),
    "redis+sentinel": ("sentinel", "redis"),
    "rediss+sentinel": ("sentinel", "rediss"),
    "redis+cluster": ("cluster", "redis"),
    "rediss+cluster": ("cluster", "rediss"),
}

_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379


class Address(NamedTuple):
    """A server: a host and a port, or the path of a unix socket and port 0."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.port else self.host


class Login(NamedTuple):
    """How to be let in, the same at every server."""

    username: str = ""
    password: str = ""
    db: int = 0
    tls: ssl.SSLContext | None = None


class RedisUrl(NamedTuple):
    kind: Kind
    addresses: tuple[Address, ...]
    login: Login
    service: str = ""  # what sentinels call the primary
    sentinel_login: Login = Login()


def parse_store_url(url: str) -> RedisUrl:
    """What the URL says. Raises BadSetting, without the URL: it may hold a password."""
    try:
        parts = urlsplit(url)
        kind, scheme = SCHEMES[parts.scheme]
        return _parse(url, parts, kind, scheme)
    except (KeyError, ValueError) as error:
        why = f" ({error})" if isinstance(error, ValueError) else ""
        raise BadSetting(f"store: this is not the URL of a Redis{why}") from error


def _parse(url: str, parts: SplitResult, kind: Kind, scheme: str) -> RedisUrl:
    user, _, hosts = parts.netloc.rpartition("@")
    host = "" if scheme == "unix" else "host"
    known = dict[str, Any](parse_url(f"{scheme}://{user}@{host}{parts.path}?{parts.query}"))
    tls = _tls(known) if scheme == "rediss" else None
    login = Login(
        known.get("username") or "", known.get("password") or "", int(known.get("db") or 0), tls
    )
    if scheme == "unix":
        return RedisUrl(kind, (Address(known["path"], 0),), login)
    default_port = _SENTINEL_PORT if kind == "sentinel" else _PORT
    addresses = tuple(_address(text, default_port) for text in hosts.split(","))
    if kind != "sentinel":
        return RedisUrl(kind, addresses, login)
    service, _, db = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("after the sentinels comes /, and the name they know the primary by")
    sentinel_login = Login(
        str(known.get("sentinel_username") or ""), str(known.get("sentinel_password") or ""), 0, tls
    )
    return RedisUrl(kind, addresses, login._replace(db=int(db or 0)), service, sentinel_login)


def _address(text: str, default_port: int) -> Address:
    parts = urlsplit(f"//{text}")
    return Address(parts.hostname or "127.0.0.1", parts.port or default_port)


def _tls(known: dict[str, Any]) -> ssl.SSLContext:
    options = {name: value for name, value in known.items() if name.startswith("ssl_")}
    return SSLConnection(host="host", **options).ssl_context.get()
