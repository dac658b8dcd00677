"""Parse the URL of a broker.

Called by   broker.py.
Calls       nothing.

    redis://user:password@host:4777            one broker; rediss:// is the same over TLS
    redis://host:4777,host2:4777,[::1]:4777    several that share a store: any of them will do
    unix:///path/to/socket                     one on this machine

Not here: URLs of a store (stores/redis/urls.py).
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from quinque.errors import BadSetting
from quinque.model.urls import split_url

SCHEMES: Final = ("redis", "rediss", "unix")
_PORT: Final = 4777


class Address(NamedTuple):
    """A broker: a host and a port, or the path of a unix socket and port 0."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else self.host


class BrokerUrl(NamedTuple):
    """A parsed URL. Never print `username` and `password`."""

    scheme: str
    addresses: tuple[Address, ...]
    username: str
    password: str

    @property
    def shown(self) -> str:
        """The URL without user and password."""
        return f"{self.scheme}://{','.join(map(str, self.addresses))}"


def parse_broker_url(url: str) -> BrokerUrl:
    """Parse the URL. Raise BadSetting without the URL in its text, because it may have a
    password."""
    if not isinstance(url, str):
        raise BadSetting(
            f"url must be a str such as redis://localhost:{_PORT}, not {type(url).__name__}"
        )
    try:
        return _parse(split_url(url))
    except ValueError as error:
        # No `from`: the errors of urlsplit quote the part of the URL that is wrong.
        why = str(error) if isinstance(error, _BadUrl) else "the host or the port is invalid"
        raise BadSetting(f"url: not the URL of a broker: {why}") from None


class _BadUrl(ValueError):
    """An error that says what is wrong without a quote from the URL."""


def _parse(parts: SplitResult) -> BrokerUrl:
    if parts.scheme not in SCHEMES:
        raise _BadUrl("it must begin with redis://, rediss:// or unix://")
    if parts.query or parts.fragment:
        raise _BadUrl("it must have no options after ? or #")
    who, _, hosts = parts.netloc.rpartition("@")
    username, _, password = who.partition(":")
    if parts.scheme == "unix":
        if hosts or not parts.path.strip("/"):
            raise _BadUrl("unix:// must be followed by the path of a socket, which begins with /")
        addresses = [Address(_said(parts.path), 0)]
    else:
        if parts.path not in ("", "/", "/0"):
            raise _BadUrl("a broker has only database 0")
        addresses = [_address(text) for text in hosts.split(",")]
    return BrokerUrl(parts.scheme, tuple(addresses), _said(username), _said(password))


def _said(text: str) -> str:
    """Decode the percent-encoding. Bytes that are not UTF-8 become surrogates, as in texts of the
    system."""
    return unquote(text, errors="surrogateescape")


def _address(text: str) -> Address:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise _BadUrl("the host is missing")
    host, port = unquote(parts.hostname), _PORT if parts.port is None else parts.port
    host.encode("idna")  # the resolver encodes it in the same way: raise the ValueError now
    if not port:  # port 0 stands for a Unix socket
        raise _BadUrl("the port must be 1 or more")
    return Address(host, port)
