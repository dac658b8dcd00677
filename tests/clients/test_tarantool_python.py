"""tarantool, the client by Tarantool's makers, unchanged: connecting, users and rights, every call.

On the embedded store: what the store decides is played on all of them by test_asynctnt_queue.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tarantool

from tests.clients.tarantool_clients import connected
from tests.server.broker import RunningBroker, start_broker
from tests.server.iproto import LISTEN, tarantool_port

USERS = """
[users.default]
rights = ["read"]
[users.alice]
password = "open sesame"
rights = ["read", "write", "admin"]
[users.bob]
password = "let me in"
queues = ["bob*"]
[users.carol]
password-sha256 = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker with users; whoever is nobody may look."""
    folder = tmp_path_factory.mktemp("guarded")
    users = folder / "users.toml"
    users.write_text(USERS)
    with start_broker(folder, *LISTEN, "--users", str(users)) as running:
        yield running


@pytest.fixture
def alice(guarded: RunningBroker) -> Iterator[tarantool.Connection]:
    client = connected(guarded, user="alice", password="open sesame")
    yield client
    client.close()


def denied(client: tarantool.Connection, function: str, *args: object) -> tuple[int, str]:
    with pytest.raises(tarantool.DatabaseError) as caught:
        client.call(function, args)
    number, text = caught.value.args[:2]
    return number, text


def test_every_verb(alice: tarantool.Connection) -> None:
    def told(verb: str, *args: object) -> object:
        return alice.call(f"queue.tube.all:{verb}", args).data

    alice.eval("queue.create_tube('all', 'fifottl', {if_not_exists = true})")

    assert alice.ping(notime=True) == "Success"
    assert told("put", {"a": [1, b"\xff", None]}, {"pri": 1}) == [
        [0, "r", {"a": [1, b"\xff", None]}]
    ]
    assert told("take", 1) == [[0, "t", {"a": [1, b"\xff", None]}]]
    assert told("take", 0) == []
    assert told("touch", 0, 1.5) == [[0, "t", {"a": [1, b"\xff", None]}]]
    assert told("release", 0, {"delay": 60}) == [[0, "~", {"a": [1, b"\xff", None]}]]
    assert told("bury", 0) == told("peek", 0) == [[0, "!", {"a": [1, b"\xff", None]}]]
    assert told("kick", 10) == [1]
    assert told("take", None) == [[0, "t", {"a": [1, b"\xff", None]}]]
    assert told("ack", 0) == [[0, "-", {"a": [1, b"\xff", None]}]]
    assert told("put", "x") == [[1, "r", "x"]]
    assert told("delete", 1) == [[1, "-", "x"]]
    assert alice.call("queue.statistics", "all").data[0]["tasks"]["done"] == 2
    assert told("truncate") == told("release_all") == []
    assert told("drop") == [True]
    assert alice.eval("return queue.tube.all ~= nil").data == [False]


def test_the_old_call(guarded: RunningBroker) -> None:
    client = connected(guarded, user="alice", password="open sesame", call_16=True)

    client.call("queue.create_tube", "old", "fifo", {"if_not_exists": True})

    assert client.call("queue.tube.old:put", "x").data == [[0, "r", "x"]]
    assert client.call("queue.tube.old:kick", 3).data == [[0]]
    client.close()


def test_raw_session_ids_are_read_without_an_encoding(guarded: RunningBroker) -> None:
    raw = connected(guarded, user="alice", password="open sesame", encoding=None)

    [session] = raw.call("queue.identify").data

    assert isinstance(session, bytes)
    assert len(session) == 16
    assert raw.call("queue.identify", session).data == [session]
    raw.close()


@pytest.mark.parametrize(
    ("user", "password", "number", "text"),
    [
        ("alice", "wrong", 47, "User not found or supplied credentials are invalid"),
        ("nobody", "x", 47, "User not found or supplied credentials are invalid"),
        ("carol", "password", 47, "User not found or supplied credentials are invalid"),
    ],
)
def test_who_does_not_know_the_password_is_nobody(
    guarded: RunningBroker, user: str, password: str, number: int, text: str
) -> None:
    with pytest.raises(tarantool.DatabaseError) as caught:
        connected(guarded, user=user, password=password)

    assert f"({number}, " in repr(caught.value)
    assert text in str(caught.value)


def test_rights_are_those_of_the_commands(
    guarded: RunningBroker, alice: tarantool.Connection
) -> None:
    alice.call("queue.create_tube", "bobs", "fifo", {"if_not_exists": True})
    alice.call("queue.create_tube", "alices", "fifo", {"if_not_exists": True})
    guest = connected(guarded)
    bob = connected(guarded, user="bob", password="let me in")

    assert "alices" in guest.call("queue.tube").data[0]
    assert denied(guest, "queue.tube.bobs:put", 1) == (
        42,
        "User default has no permissions to run the 'tube.put' command: it needs the right 'write'",
    )
    assert bob.call("queue.tube.bobs:put", "x").data[0][1:] == ["r", "x"]
    assert "access queue 'alices'" in denied(bob, "queue.tube.alices:put", 1)[1]
    assert "access queue 'alices'" in denied(bob, "queue.statistics", "alices")[1]
    assert denied(bob, "queue.create_tube", "mine", "fifo")[0] == 42
    assert denied(bob, "queue.cfg", {"ttr": 1})[0] == 42
    assert bob.call("queue.tube").data == [["bobs"]]
    assert list(bob.call("queue.statistics").data[0]) == ["bobs"]
    guest.close()
    bob.close()


def test_nobody_calls_anything_where_a_password_is_required(
    guarded: RunningBroker, alice: tarantool.Connection
) -> None:
    with guarded.connect() as admin:
        admin.call("AUTH", "alice", "open sesame")
        admin.call("CONFIG", "SET", "requirepass", "secret")
        try:
            stranger = connected(guarded)
            guest = connected(guarded, user="guest", password="secret")

            assert stranger.ping(notime=True) == "Success"
            assert denied(stranger, "queue.tube.x:put", 1) == (
                42,
                "Execute access to function 'queue.tube.x:put' is denied for user 'guest'",
            )
            with pytest.raises(tarantool.DatabaseError):
                stranger.eval("queue.create_tube('x', 'fifo')")
            assert isinstance(guest.call("queue.tube").data[0], list)
            with pytest.raises(tarantool.DatabaseError):
                connected(guarded, user="guest", password="other")
            stranger.close()
            guest.close()
        finally:
            admin.call("CONFIG", "SET", "requirepass", "")


def test_a_connection_pool_finds_a_healthy_instance(guarded: RunningBroker) -> None:
    place = {"host": "127.0.0.1", "port": tarantool_port(guarded)}
    pool = tarantool.ConnectionPool([place], user="alice", password="open sesame")
    try:
        assert pool.call("queue.state", mode=tarantool.Mode.RW).data == ["RUNNING"]
    finally:
        pool.close()


def test_an_error_tells_more_than_its_text(alice: tarantool.Connection) -> None:
    with pytest.raises(tarantool.DatabaseError) as caught:
        alice.call("queue.tube.missing:put", 1)

    assert caught.value.extra_info.type == "ClientError"
    assert caught.value.extra_info.errcode == 33
    assert "is not defined" in caught.value.extra_info.message
