"""Where clients connect: TCP, unix sockets, TLS.

The keys and certificates in tls/ were made for these tests and open nothing else.
"""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.server.broker import BrokerDidNotStart, RunningBroker, start_broker, wait_until
from tests.server.resp import TIMEOUT_S, Client
from tests.transcripts.stage import Stage, Wire

TLS = Path(__file__).parent / "tls"
CERTIFICATE, KEY = str(TLS / "certificate.pem"), str(TLS / "key.pem")
FLAGS = ("--tls-listen", "127.0.0.1:0", "--tls-cert", CERTIFICATE, "--tls-key", KEY)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A unix socket's path has room for about a hundred bytes; tmp_path may be longer."""
    with tempfile.TemporaryDirectory(prefix="q") as folder:
        yield Path(folder) / "s"


def over_unix(path: Path, own_name: bytes = b"") -> Client:
    sock = socket.socket(socket.AF_UNIX)
    if own_name:
        sock.bind(os.fsencode(path.parent) + b"/" + own_name)
    sock.connect(str(path))
    return Client(sock)


def over_tls(broker: RunningBroker, certificate: str = "", key: str = "") -> Client:
    context = ssl.create_default_context(cafile=CERTIFICATE)
    if certificate:
        context.load_cert_chain(certificate, key)
    port = int(broker.addresses[-1].rpartition(":")[2])
    sock = socket.create_connection(("127.0.0.1", port), timeout=30)
    try:
        return Client(context.wrap_socket(sock, server_hostname="localhost"))
    except OSError:
        sock.close()
        raise


# -- unix -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["listen", "tarantool-listen"])
def test_a_unix_socket_that_another_broker_listens_on_is_refused(
    tmp_path: Path, short_path: Path, name: str
) -> None:
    flags = (f"--{name}", f"unix:{short_path}")
    with start_broker(tmp_path / "one", *flags) as broker:
        with pytest.raises(BrokerDidNotStart) as caught:
            start_broker(tmp_path / "two", *flags)

        told = f"{name}: unix:{short_path} is in use; choose another address with --{name}"
        assert told in str(caught.value)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(short_path))
        with broker.connect() as client:
            assert client.call("PING") == b"PONG"


def test_a_unix_socket_is_as_good_as_tcp(tmp_path: Path, short_path: Path) -> None:
    with (
        start_broker(tmp_path, "--listen", f"unix:{short_path}") as broker,
        over_unix(short_path) as client,
        broker.connect() as other,
    ):
        client.call("QADD", "q", 60, "hello")

        assert other.call("QGET", "q", "g")[1] == b"hello"
        assert b" flags=U " in client.call("CLIENT", "INFO")
        assert b" flags=N " in other.call("CLIENT", "INFO")
        assert f"laddr={short_path}:0 ".encode() in client.call("CLIENT", "INFO")


@pytest.mark.parametrize("name", [b"\xff\xfe name", b"a\nid=1", b"a\x01"])
def test_a_client_on_a_unix_socket_of_any_name_is_one_line(
    tmp_path: Path, short_path: Path, name: bytes
) -> None:
    with (
        start_broker(tmp_path, "--listen", f"unix:{short_path}") as broker,
        broker.connect() as operator,
        broker.connect() as monitor,
        over_unix(short_path, name) as client,
    ):
        monitor.call("MONITOR")

        assert client.call("PING") == b"PONG"

        lines = operator.call("CLIENT", "LIST").splitlines()
        assert [line.split(b"=")[0] for line in lines] == [b"id"] * 3
        assert len({line.count(b" ") for line in lines}) == 1
        assert monitor.read().endswith(b'] "PING"\r\n')


def test_a_socket_left_by_a_killed_broker_is_no_obstacle(tmp_path: Path, short_path: Path) -> None:
    with start_broker(tmp_path, "--listen", f"unix:{short_path}") as broker:
        broker.kill()
        assert short_path.exists()

        broker.restart()

        with over_unix(short_path) as client:
            assert client.call("PING") == b"PONG"


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path, short_path: Path) -> None:
    short_path.write_text("precious")

    with pytest.raises(BrokerDidNotStart) as caught:
        start_broker(tmp_path, "--listen", f"unix:{short_path}")

    told = f"listen: cannot listen on unix:{short_path}: the file exists and is not a socket"
    assert told in str(caught.value)
    assert short_path.read_text() == "precious"


# -- TLS --------------------------------------------------------------------------------------


def test_tls_clients_and_plain_clients_share_one_broker(tmp_path: Path) -> None:
    with (
        start_broker(tmp_path, *FLAGS) as broker,
        over_tls(broker) as client,
        broker.connect() as other,
    ):
        body = b"x" * 300_000
        client.send("QADD", "q", 60, body)
        client.send("QGET", "q", "g")
        client.send("PING")

        assert len(client.value()) == 16
        assert client.value()[1] == body
        assert client.read() == b"+PONG\r\n"
        assert other.call("PING") == b"PONG"
        assert b" addr=127.0.0.1:" in client.call("CLIENT", "INFO")


def test_a_reader_over_tls_can_wait(tmp_path: Path) -> None:
    with (
        start_broker(tmp_path, *FLAGS) as broker,
        over_tls(broker) as client,
        broker.connect() as other,
    ):
        client.send("QNOTIFY", "g", 60, "q")
        other.call("QADD", "q", 60, "x")

        assert client.read() == b"$1\r\nq\r\n"


def test_a_tls_client_that_asks_and_says_goodbye_is_answered(tmp_path: Path) -> None:
    with start_broker(tmp_path, *FLAGS) as broker, over_tls(broker) as client:
        client.send("PING")
        client.send("QUIT")

        assert client.read_to_end() == b"+PONG\r\n+OK\r\n"


def test_a_tls_client_that_sends_broken_bytes_is_told_so(tmp_path: Path) -> None:
    with start_broker(tmp_path, *FLAGS) as broker, over_tls(broker) as client:
        client.send("PING")
        client.send_bytes(b"*x\r\n" + b"x" * 5_000_000)

        assert client.read_to_end().startswith(b"+PONG\r\n-ERR Protocol error: invalid multibulk")


class TlsWire(Wire):
    """A transport that cannot close one direction alone."""

    def can_write_eof(self) -> bool:
        return False


def test_a_tls_connection_with_broken_bytes_is_closed_at_once(tmp_path: Path) -> None:
    with Stage(tmp_path, 2) as stage:
        wire = TlsWire()
        stage.connect("a", wire).data_received(b"*x\r\n")

        stage.settle()

        assert wire.take().startswith(b"-ERR Protocol error: invalid multibulk length")
        assert wire.is_closed


def test_a_tls_client_that_leaves_is_nothing_to_speak_of(tmp_path: Path) -> None:
    with start_broker(tmp_path, *FLAGS) as broker:
        with over_tls(broker) as client:
            client.call("PING")
            assert isinstance(client.sock, ssl.SSLSocket)
            client.sock.unwrap()

        broker.stop()

        lines = [line for line in broker.log if "pure Python build" not in line]
        assert len(lines) == 4, "it started, listened, stops, stopped"


def test_a_plain_client_at_the_tls_port_hurts_nobody(tmp_path: Path) -> None:
    with start_broker(tmp_path, *FLAGS) as broker, over_tls(broker) as client:
        port = int(broker.addresses[-1].rpartition(":")[2])
        with Client(socket.create_connection(("127.0.0.1", port))) as lost:
            lost.send("PING")
            assert b"PONG" not in lost.read_to_end()

        assert client.call("PING") == b"PONG"


def test_silent_handshakes_count_as_clients(tmp_path: Path) -> None:
    with (
        start_broker(tmp_path, *FLAGS, "--max-clients", "10") as broker,
        broker.connect() as client,
        ExitStack() as silent,
    ):
        client.call("PING")
        port = int(broker.addresses[-1].rpartition(":")[2])
        socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
        for sock in socks:
            silent.enter_context(sock)

        wait_until(lambda: b"rejected_connections:34\r\n" in client.call("INFO", "stats"))
        for sock in socks:
            sock.close()

        # Those that are gone have left their places.
        with become_welcome(broker) as late:
            assert late.call("PING") == b"PONG"


def test_a_handshake_that_fails_is_logged_with_its_address(tmp_path: Path) -> None:
    with start_broker(tmp_path, *FLAGS) as broker:
        port = int(broker.addresses[-1].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as lost:
            host, own = lost.getsockname()
            lost.sendall(b"PING\r\n")

            broker.hear(f"TLS handshake with {host}:{own} failed: ")


def become_welcome(broker: RunningBroker) -> Client:
    """A client over TLS, as soon as the broker has room for one."""
    end_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return over_tls(broker)
        except OSError:
            assert time.monotonic() < end_s


def test_with_tls_ca_a_client_needs_a_certificate(tmp_path: Path) -> None:
    with start_broker(tmp_path, *FLAGS, "--tls-ca", CERTIFICATE) as broker:
        with over_tls(broker, CERTIFICATE, KEY) as client:
            assert client.call("PING") == b"PONG"

        other = str(TLS / "other-certificate.pem"), str(TLS / "other-key.pem")
        for certificate, key in (("", ""), other):
            # In TLS 1.3 a client learns only by reading that it was refused.
            with over_tls(broker, certificate, key) as client, pytest.raises((OSError, EOFError)):
                client.call("PING")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--tls-listen", "127.0.0.1:0"), "tls-listen"),
        (("--tls-cert", CERTIFICATE), "tls-cert"),
        ((*FLAGS[:4], "--tls-key", CERTIFICATE), "cannot use tls-cert, tls-key or tls-ca"),
        ((*FLAGS[:4], "--tls-key", "nosuch.pem"), "tls-key (--tls-key): cannot read"),
        (("--listen", "127.0.0.1:1x"), "listen"),
    ],
)
def test_a_listener_that_cannot_be_stops_the_start(
    tmp_path: Path, flags: tuple[str, ...], words: str
) -> None:
    with pytest.raises(BrokerDidNotStart) as caught:
        start_broker(tmp_path, *flags)

    assert words in str(caught.value)


def test_an_address_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "{}:{}".format(*taken.getsockname())

        with pytest.raises(BrokerDidNotStart) as caught:
            start_broker(tmp_path, "--listen", address)

    told = f"listen: {address} is in use; choose another address with --listen"
    assert told in str(caught.value)


# -- a broker that anyone can use ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["listen", "tls-listen", "tarantool-listen"])
def test_a_broker_that_any_machine_can_use_says_so(tmp_path: Path, name: str) -> None:
    flags = (*FLAGS[2:], "--tls-listen", "127.0.0.1:0", f"--{name}", "0.0.0.0:0")
    with start_broker(tmp_path, *flags) as broker:
        [told] = [line for line in broker.log if "WARNING" in line]

    assert "anyone who can connect to 0.0.0.0:" in told
    assert told.endswith(" can read and change all queues; set a password (requirepass) or users")


@pytest.mark.parametrize(
    "flags",
    [
        ("--listen", "[::1]:0"),
        ("--listen", "0.0.0.0:0", "--requirepass", "secret"),
        ("--listen", "0.0.0.0:0", "--users", "users.toml"),
        (*FLAGS[2:], "--tls-listen", "0.0.0.0:0", "--tls-ca", CERTIFICATE),
    ],
)
def test_a_broker_that_has_a_lock_or_is_of_this_machine_alone_does_not(
    tmp_path: Path, short_path: Path, flags: tuple[str, ...]
) -> None:
    (tmp_path / "users.toml").write_text('[users.ann]\npassword = "secret"\n')
    flags = tuple(str(tmp_path / flag) if flag == "users.toml" else flag for flag in flags)
    with start_broker(tmp_path, "--listen", f"unix:{short_path}", *flags) as broker:
        assert not broker.has_said("WARNING")
