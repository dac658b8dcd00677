"""Where a Redis is: what a store's URL says.

Called by   routes.py, cli/serve.py (checks a URL).
Calls       redis-py, which knows the options of TLS, where there is TLS: to import it takes as long
            as to start a broker.

    redis://user:password@host:6379/0       one server; rediss:// is the same over TLS
    unix:///path/to/socket?db=0             one server of this machine
    redis+sentinel://host:26379,host2/name  the primary that sentinels call by this name
    redis+cluster://host:6379,host2:6379    a cluster; any of its servers are enough to find all

Not here: who answers there (routes.py), connections (link.py).
"""

from __future__ import annotations

import ssl
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from quinque.errors import BadSetting
from quinque.errors.extras import package_missing
from quinque.model.urls import split_url

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

_SPECIAL: Final = (
    "a port must be a number; in a password, write characters that mean something in a URL as %XX"
)
_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379


class Address(NamedTuple):
    """A server: a host and a port, or the path of a unix socket and port 0."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.port else self.host


class Login(NamedTuple):
    """The login, which is the same at every server."""

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


class _Wrong(ValueError):
    """The text says why, and has nothing of the URL in it."""


def parse_store_url(url: str) -> RedisUrl:
    """Parse the URL. Raises BadSetting, without the URL: it may have a password."""
    try:
        parts = split_url(url)
        if parts.scheme not in SCHEMES:
            raise _Wrong("it begins with none of " + ", ".join(f"{it}://" for it in SCHEMES))
        if parts.fragment:
            raise _Wrong(_SPECIAL)
        return _parse(parts, *SCHEMES[parts.scheme])
    except ValueError as error:
        # Errors of the library may have a part of the password in them, so no other is shown.
        why = error if isinstance(error, _Wrong) else _SPECIAL
        raise BadSetting(f"store: this is not the URL of a Redis ({why})") from None


def shown_store_url(url: str) -> str:
    """The URL without user, password and options."""
    parts = split_url(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _parse(parts: SplitResult, kind: Kind, scheme: str) -> RedisUrl:
    options = dict(parse_qsl(parts.query))
    user, _, hosts = parts.netloc.rpartition("@")
    username, _, password = map(unquote, user.partition(":"))
    service, path = _service(parts.path) if kind == "sentinel" else ("", parts.path)
    if scheme == "unix":
        path = ""  # is not of a database
    tls = _tls(parts.query) if scheme == "rediss" else None
    login = Login(
        username or options.get("username", ""),
        password or options.get("password", ""),
        _database(options.get("db") or path.strip("/") or "0"),
        tls,
    )
    if scheme == "unix":
        return RedisUrl(kind, (Address(unquote(parts.path), 0),), login)
    default_port = _SENTINEL_PORT if kind == "sentinel" else _PORT
    addresses = tuple(_address(text, default_port) for text in hosts.split(","))
    if kind != "sentinel":
        return RedisUrl(kind, addresses, login)
    sentinel_login = Login(
        options.get("sentinel_username", ""), options.get("sentinel_password", ""), 0, tls
    )
    return RedisUrl(kind, addresses, login, service, sentinel_login)


def _service(path: str) -> tuple[str, str]:
    """The name of the primary, and what follows it."""
    name, _, rest = path.strip("/").partition("/")
    if not name:
        raise _Wrong("after the sentinels, write / and the name of the service")
    return name, rest


def _database(text: str) -> int:
    if not text.isdecimal():
        raise _Wrong("a database must be a number")
    return int(text)


def _address(text: str, default_port: int) -> Address:
    parts = urlsplit(f"//{text}")
    return Address(parts.hostname or "127.0.0.1", parts.port or default_port)


def _tls(query: str) -> ssl.SSLContext:
    """As the options say whose names begin with ssl_: those of redis-py."""
    try:
        from redis import RedisError
        from redis.asyncio.connection import SSLConnection, parse_url
    except ModuleNotFoundError as missing:
        raise package_missing(missing.name, "redis", "store is a URL with TLS") from missing
    try:
        known = dict[str, Any](parse_url(f"rediss://host?{query}"))
        options = {name: value for name, value in known.items() if name.startswith("ssl_")}
        return SSLConnection(host="host", **options).ssl_context.get()
    except (OSError, RedisError, ValueError) as error:
        raise BadSetting(f"store: cannot use its TLS options: {error}") from error
