"""One connection to a broker for the prompt: it sends commands as typed, and returns replies as
sent.

Called by   cli/prompt.py.
Calls       client/addresses.py (URLs), client/login.py (TLS), the system (sockets).

Programs use client/, which retries, uses other brokers and makes results. Here a reply is not
changed, an error is a reply, a command may block without a limit, and this connection alone takes
tasks.

Not here: how replies look (cli/replies.py).
"""

from __future__ import annotations

import io
import select
import socket
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from quinque.client.addresses import Address, parse_broker_url
from quinque.client.login import login_words, tls_context, untrusted, why_closed
from quinque.errors import BadSetting, NotDone, OutcomeUnknown, error_told

_CONNECT_S: Final = 5.0
_SIGNALS_S: Final = 0.1  # within this time Ctrl-C takes effect


@dataclass(frozen=True)
class Status:
    """A simple string, which is shown without quotes."""

    text: bytes


@dataclass(frozen=True)
class Refusal:
    """An error reply."""

    text: str


class Verbatim(bytes):
    """A reply that is a text of several lines."""


class Line:
    """A connection that is opened for the first command, and again after it was lost."""

    def __init__(
        self,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        ca: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
    ) -> None:
        """Raises BadSetting."""
        told = parse_broker_url(url)
        self._addresses = told.addresses
        self._login = login_words(
            told.username if username is None else username,
            told.password if password is None else password,
        )
        if told.scheme != "rediss" and (ca or certificate or key):
            raise BadSetting("ca, certificate and key require a rediss:// URL")
        self._tls = tls_context(ca, certificate, key) if told.scheme == "rediss" else None
        self._certificate = certificate
        self._is_heard = False  # whether any byte was received on this connection
        self._sock: socket.socket | None = None
        self._replies: BinaryIO | None = None
        self.at = str(told.addresses[0])  # the address, for the prompt

    def ask(self, *words: bytes | str) -> Any:
        """Send a command and return the reply. Raises NotDone if it cannot connect, OutcomeUnknown
        if no reply came."""
        sock = self._connected()
        try:
            sock.sendall(_packed(words))
            return self._hear()
        except OSError as error:
            self.close()
            why = str(error) if self._is_heard else self._why(error)
            raise OutcomeUnknown(
                f"lost the connection to {self.at} ({why}); the request may have been carried out"
            ) from error
        except BaseException:  # interrupted: the next command would get this reply
            self.close()
            raise

    def listen(self) -> Iterator[Any]:
        """Yield messages that the broker sends without a request. Then the connection is closed.
        Raises NotDone if the broker closes it."""
        try:
            while True:
                yield self._hear()
        except OSError as error:
            raise NotDone(f"lost the connection to {self.at} ({error})") from error
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection. The next command opens another."""
        if self._sock is not None:
            assert self._replies is not None
            self._replies.close()
            self._sock.close()
            self._sock = None

    def _connected(self) -> socket.socket:
        if self._sock is not None:
            return self._sock
        failure: OSError | None = None
        for address in self._addresses:
            try:
                sock = _connect(address, self._tls)
            except ssl.SSLCertVerificationError as error:
                raise untrusted(address, error) from error
            except OSError as error:
                failure = error
                continue
            self.at, self._sock, self._is_heard = str(address), sock, False
            self._replies = io.BufferedReader(_Incoming(sock))
            self._log_in(sock)
            return sock
        assert failure is not None
        raise NotDone(f"no broker answers at {self.at} ({self._why(failure)})") from failure

    def _log_in(self, sock: socket.socket) -> None:
        if not self._login:
            return
        try:
            sock.sendall(_packed(["AUTH", *self._login]))
            reply = self._hear()
        except OSError as error:
            self.close()
            raise NotDone(f"no broker answers at {self.at} ({self._why(error)})") from error
        if isinstance(reply, Refusal):
            self.close()
            raise error_told(reply.text)

    def _hear(self) -> Any:
        assert self._replies is not None
        try:
            reply = _read(self._replies)
            self._is_heard = True
            return reply
        except ValueError as error:  # not a number where one must be
            raise ConnectionAbortedError("the server is not a Quinque broker") from error

    def _why(self, error: OSError) -> str:
        return why_closed(error, is_tls=self._tls is not None, certificate=self._certificate)


class _Incoming(io.RawIOBase):
    """The bytes that the broker sends. A signal that comes just before recv() would not interrupt
    it, so the wait is split into short ones."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        has_some = isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0
        while not has_some:
            has_some = bool(select.select([self._sock], [], [], _SIGNALS_S)[0])
        return self._sock.recv_into(buffer)


def _connect(address: Address, tls: ssl.SSLContext | None) -> socket.socket:
    if address.port:
        sock = socket.create_connection((address.host, address.port), _CONNECT_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if not address.port:
            sock.connect(address.host)
        if tls is not None:
            sock = tls.wrap_socket(sock, server_hostname=address.host)
    except OSError:
        sock.close()
        raise
    sock.settimeout(None)
    return sock


def _packed(words: Sequence[bytes | str]) -> bytes:
    encoded = [
        word.encode("utf-8", "surrogateescape") if isinstance(word, str) else word for word in words
    ]
    parts = [b"*%d\r\n" % len(encoded), *(b"$%d\r\n%b\r\n" % (len(it), it) for it in encoded)]
    return b"".join(parts)


def _read(replies: BinaryIO) -> Any:
    """Read one reply of RESP2 or RESP3. Raises OSError."""
    line = replies.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionResetError("the broker closed the connection")
    kind, rest = line[:1], line[1:-2]
    match kind:
        case b"+":
            return Status(rest)
        case b"-":
            return Refusal(rest.decode("utf-8", "backslashreplace"))
        case b":":
            return int(rest)
        case b"," | b"(":
            return Status(rest)
        case b"#":
            return rest == b"t"
        case b"_":
            return None
        case b"!":
            text = _read_bytes(replies, int(rest), is_verbatim=False)
            return Refusal(text.decode("utf-8", "backslashreplace"))
        case b"$":
            return None if rest == b"-1" else _read_bytes(replies, int(rest), is_verbatim=False)
        case b"=":
            return Verbatim(_read_bytes(replies, int(rest), is_verbatim=True))
        case b"*" | b"~" | b">":
            return None if rest == b"-1" else [_read(replies) for _ in range(int(rest))]
        case b"%":
            return dict(_read_pair(replies) for _ in range(int(rest)))
    raise ConnectionAbortedError("the server is not a Quinque broker")


def _read_bytes(replies: BinaryIO, size_bytes: int, is_verbatim: bool) -> bytes:
    data = replies.read(size_bytes + 2)
    if len(data) != size_bytes + 2:
        raise ConnectionResetError("the broker closed the connection")
    return data[4 if is_verbatim else 0 : -2]


def _read_pair(replies: BinaryIO) -> tuple[Any, Any]:
    name = _read(replies)
    return (name.text if isinstance(name, Status) else name), _read(replies)
