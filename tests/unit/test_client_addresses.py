"""URLs of brokers: what they say, and that a wrong one is not quoted."""

from __future__ import annotations

import pytest

from quinque.client.addresses import Address, parse_broker_url
from quinque.client.login import login_words
from quinque.client.sync.broker import Broker
from quinque.errors import BadSetting


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("redis://one", [("one", 4777)]),
        ("redis://one:5000/", [("one", 5000)]),
        ("rediss://one:5000/0", [("one", 5000)]),
        ("redis://one:5000,two,[::1]:6000", [("one", 5000), ("two", 4777), ("::1", 6000)]),
        ("redis://[fe80::1%25eth0]:5000", [("fe80::1%eth0", 5000)]),
        ("unix:///run/quinque.sock", [("/run/quinque.sock", 0)]),
        ("unix://alice:secret@/run/a%20b.sock", [("/run/a b.sock", 0)]),
    ],
)
def test_a_url_names_brokers(url: str, addresses: list[tuple[str, int]]) -> None:
    assert list(parse_broker_url(url).addresses) == [Address(*each) for each in addresses]


def test_a_url_may_say_who_asks() -> None:
    told = parse_broker_url("redis://alice:p%40ss:word@one,two")

    assert (told.username, told.password) == ("alice", "p@ss:word")
    assert told.shown == "redis://one:4777,two:4777"
    assert parse_broker_url("redis://:%ff%41@one").password == "\udcffA"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://:secret@one", "it must begin with redis://, rediss:// or unix://"),
        ("one:4777", "it must begin with redis://, rediss:// or unix://"),
        ("redis://:secret@one?db=3", "it must have no options after ? or #"),
        ("redis://:secret@one/3", "a broker has only database 0"),
        ("redis://:secret@one,,two", "the host is missing"),
        ("redis://", "the host is missing"),
        ("redis://:secret@one:0", "the port must be 1 or more"),
        ("redis://:secret@one:port", "the host or the port is invalid"),
        (f"redis://:secret@{'long' * 16}", "the host or the port is invalid"),
        ("redis://:secret@\udcff", "the host or the port is invalid"),
        ("redis://:secret@[one", "the host or the port is invalid"),
        ("unix://socket", "unix:// must be followed by the path of a socket, which begins with /"),
    ],
)
def test_a_wrong_url_is_refused_and_not_quoted(url: str, why: str) -> None:
    with pytest.raises(BadSetting) as caught:
        Broker(url)

    assert str(caught.value) == f"url: not the URL of a broker: {why}"
    assert caught.value.__suppress_context__, "the text of another error may quote it"


def test_nobody_reads_a_password_in_a_broker() -> None:
    broker = Broker("redis://alice:secret@one,two")

    assert repr(broker) == "Broker('redis://one:4777,two:4777')"
    assert "secret" not in repr(Broker("redis://one", username="alice", password="secret"))


def test_files_for_tls_need_a_url_for_tls() -> None:
    with pytest.raises(BadSetting, match="ca, certificate and key require a rediss:// URL"):
        Broker("redis://one", ca="ca.pem")


def test_files_for_tls_that_cannot_be_used_are_named_with_the_reason() -> None:
    with pytest.raises(BadSetting, match=r"cannot read nosuch\.pem: No such file or directory"):
        Broker("rediss://one", ca="nosuch.pem")
    with pytest.raises(BadSetting, match=r"\.py: not valid PEM files for TLS"):
        Broker("rediss://one", ca=__file__)


def test_a_password_is_any_bytes() -> None:
    assert login_words("", "\udcff") == [b"\xff"]
    assert login_words("alice", "") == [b"alice", b""]
    assert login_words("", "") == []
    with pytest.raises(BadSetting) as caught:
        login_words("", "secret\ud800")
    assert "secret" not in str(caught.value)
