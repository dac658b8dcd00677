"""A user of Redis who lacks a right: the error names the right, and the broker stops or goes on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from quinque.errors import NoQueue, NotDone, StoreRefused, StoreUnavailable
from quinque.model.families import EVENTS, FAMILIES, ITEMS, JOBS, Family
from quinque.model.limits import NEVER_MS
from quinque.model.ops import Op, Put
from quinque.model.queue_ops import RenameQueue
from quinque.model.work_ops import Add, LookAt, Terms
from quinque.stores.redis.calls import Call
from quinque.stores.redis.rights import refusal, what_is_missing
from quinque.stores.redis.scripts import SCRIPTS, error_of
from quinque.stores.redis.store import RedisStore
from tests.conformance.test_wrong_type import ASKED, MADE
from tests.conformance.work_words import DAY_MS
from tests.facts.repository import ROOT
from tests.server.broker import BrokerDidNotStart, start_broker
from tests.server.resp import Refusal
from tests.servers.redis_server import RedisServer

LACKS = "the Redis user lacks the right {}; grant it with ACL SETUSER in Redis"
SHA = "script: 466377b980cd0cb022e404cc3b6892ae6479e3b0, on @user_script:{}."


def documented_rights() -> list[str]:
    """The rules of docs/redis.md."""
    text = (ROOT / "docs" / "redis.md").read_text()
    _, _, rest = text.partition("ACL SETUSER quinque on '>password' ")
    return shlex.split(rest.partition("\nOK\n")[0].replace("\\\n", " "))


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
def url(server: RedisServer) -> str:
    """An empty store for a user who has the documented rights."""
    server.flush()
    server.ask("ACL", "SETUSER", "u", "reset", "on", ">p", *documented_rights())
    return f"redis://u:p@{server.address}"


@pytest.fixture
def store(url: str) -> Iterator[RedisStore]:
    with closing(RedisStore(url, timeout_s=2.0)) as opened:
        yield opened


def grant(server: RedisServer, *rules: str) -> None:
    server.ask("ACL", "SETUSER", "u", *rules)


def ops_of(family: Family) -> list[Op]:
    return [*MADE[family](b"q"), *ASKED[family](b"q")]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_documented_rights_are_enough(
    server: RedisServer, store: RedisStore, family: Family
) -> None:
    grant(server, "~q:*")

    for op in ops_of(family):
        try:
            store.run(op)
        except NoQueue:  # it is renamed after it was deleted
            assert isinstance(op, RenameQueue)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize(
    ("rules", "right"),
    [
        (["-eval", "-evalsha"], "+eval"),
        (["resetkeys", "~other:*"], "~quinque:*"),
    ],
    ids=["command", "keys"],
)
def test_every_family_names_a_right_that_the_call_itself_needs(
    server: RedisServer, store: RedisStore, family: Family, rules: list[str], right: str
) -> None:
    grant(server, *rules)

    for op in ops_of(family):
        with pytest.raises(StoreRefused) as raised:
            store.run(op)
        assert LACKS.format(right) in str(raised.value).replace("+evalsha", "+eval"), op
        assert str(raised.value).endswith("; nothing was changed")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_family_names_a_right_that_a_script_needs(
    server: RedisServer, store: RedisStore, family: Family
) -> None:
    grant(server, "~q:*", "-hget", "-hmget", "-exists", "-llen")

    for op in ops_of(family):
        with pytest.raises((StoreRefused, StoreUnavailable)) as raised:
            store.run(op)
        assert "lacks the right +" in str(raised.value), op


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_right_that_is_granted_again_ends_the_error(
    server: RedisServer, store: RedisStore, family: Family
) -> None:
    grant(server, "-eval", "-evalsha", "~q:*")
    with pytest.raises(StoreRefused):
        store.run(MADE[family](b"q")[0])

    grant(server, "+eval", "+evalsha")
    for op in MADE[family](b"q"):
        store.run(op)


def test_the_keys_of_an_items_queue_are_named(store: RedisStore) -> None:
    for op in ops_of(ITEMS):
        with pytest.raises(StoreRefused) as raised:
            store.run(op)
        assert str(raised.value) == f"{LACKS.format('~q:*')}; nothing was changed"

    store.run(Put(EVENTS, b"q", [b"x"]))  # no queue of items took the name


def test_a_right_that_a_half_run_script_needs_leaves_the_effect_unknown(
    server: RedisServer, store: RedisStore
) -> None:
    grant(server, "-publish")

    with pytest.raises(StoreUnavailable, match=r"lacks the right \+publish.*effect is unknown"):
        store.run(Add(JOBS, b"w", [b"1"], Terms(DAY_MS)))


@pytest.mark.parametrize("command", ["wait", "role"])
def test_a_right_to_wait_for_replicas_is_named_before_anything_changes(
    server: RedisServer, store: RedisStore, command: str
) -> None:
    grant(server, f"-{command}")
    terms = Terms(DAY_MS, retry_ms=60_000, replicas=2)

    with pytest.raises(StoreRefused) as raised:
        store.run(Add(JOBS, b"w", [b"1"], terms, confirm_ms=NEVER_MS))

    assert str(raised.value) == f"{LACKS.format('+' + command)}; nothing was changed"
    assert store.run(LookAt(JOBS, b"w")) is None


@pytest.mark.parametrize(
    ("login", "rules", "told"),
    [
        ("u:wrong@", [], "Redis refuses the user or the password in the setting store"),
        ("", ["secret"], "Redis requires a password: put the user and the password into"),
        ("u:p@", ["-eval"], LACKS.format("+eval")),
        ("u:p@", ["-client|setname"], LACKS.format("+client|setname")),
        ("u:p@", ["-hgetall", "-smembers"], "lacks the right +"),
        ("u:p@", ["resetkeys"], LACKS.format("~quinque:*")),
    ],
    ids=["wrong", "none", "eval", "setname", "script", "keys"],
)
def test_a_store_does_not_open_and_says_so_at_once(
    server: RedisServer, url: str, login: str, rules: list[str], told: str
) -> None:
    if rules == ["secret"]:
        server.ask("ACL", "SETUSER", "default", "resetpass", ">secret")
    else:
        grant(server, *rules)
    try:
        # Without an end: an error that is retried would come never.
        with pytest.raises(StoreRefused) as raised:
            RedisStore(f"redis://{login}{server.address}", timeout_s=1e6)
    finally:
        server.ask("ACL", "SETUSER", "default", "nopass")

    assert told in str(raised.value)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_user_who_is_removed_is_named_in_every_family(
    server: RedisServer, store: RedisStore, family: Family
) -> None:
    server.ask("ACL", "DELUSER", "u")  # which closes the connections of that user

    with pytest.raises((StoreUnavailable, StoreRefused)):  # the connection is lost
        store.run(ops_of(family)[0])
    for op in ops_of(family):
        with pytest.raises(StoreRefused, match="Redis refuses the user or the password"):
            store.run(op)


def test_a_broker_that_may_not_subscribe_says_which_right_it_lacks(
    server: RedisServer, url: str, tmp_path: Path
) -> None:
    grant(server, "resetchannels")

    with start_broker(tmp_path, "--store", url) as broker:
        told = LACKS.format("&quinque:*")
        broker.hear(f"cannot receive wake-up notifications of other brokers: {told}")


def test_a_broker_does_not_start_without_the_password(
    server: RedisServer, url: str, tmp_path: Path
) -> None:
    wrong = url.replace("u:p", "u:secret-word")
    with pytest.raises(BrokerDidNotStart, match="Redis refuses the user or the password") as raised:
        start_broker(tmp_path, "--store", wrong)

    assert "secret-word" not in str(raised.value)


def test_clients_read_the_right(server: RedisServer, url: str, tmp_path: Path) -> None:
    with start_broker(tmp_path, "--store", url) as broker, broker.connect() as client:
        reply = client.call("WQ.ADD", "mails", "1", "x")
        assert isinstance(reply, Refusal)
        assert reply.text == f"NOTDONE {LACKS.format('~mails:*')}; nothing was changed"


# As the versions of Redis that are supported say it.
TEXTS = {
    "NOPERM this user has no permissions to run the 'hset' command": "+hset",
    "NOPERM User u has no permissions to run the 'cluster|slots' command": "+cluster|slots",
    "NOPERM this user has no permissions to access one of the keys used as arguments": "~quinque:*",
    "NOPERM No permissions to access a key": "~quinque:*",
    "NOPERM this user has no permissions to access one of the channels used as arguments": (
        "&quinque:*"
    ),
    "NOPERM No permissions to access a channel": "&quinque:*",
    "ERR The user executing the script can't publish to the channel mentioned in the command "
    + SHA.format(1): "&quinque:*",
    "NOPERM ACL failure in script: User u has no permissions to run the 'hset' command "
    + SHA.format(1): "+hset",
    "NOPERM ACL failure in script: User u has no permissions to access the 'a:queue' key "
    + SHA.format(1): "~quinque:*, or ~name:* of an items queue",
}


@pytest.mark.parametrize("text", TEXTS)
def test_each_text_of_redis_names_a_right(text: str) -> None:
    assert what_is_missing(text) == LACKS.format(TEXTS[text])


@pytest.mark.parametrize(
    "text",
    [
        "ERR The user executing the script can't run this command or subcommand " + SHA,
        (
            "ERR Error running script (call to f_46): @user_script:{0}: @user_script: {0}: The "
            "user executing the script can't run this command or subcommand"
        ),
    ],
    ids=["7.0", "6.2"],
)
def test_the_command_is_on_the_line_that_redis_names(text: str) -> None:
    lines = SCRIPTS["add"].text.decode().splitlines()
    set_line = next(at for at, line in enumerate(lines, 1) if "redis.call('PUBLISH'" in line)
    many_line = next(at for at, line in enumerate(lines, 1) if "redis.call(command, key" in line)
    call = Call("add", [b"k"], [])

    assert LACKS.format("+publish") in str(error_of(text.format(set_line), call))
    told = str(error_of(text.format(many_line), call))
    assert "lacks the right " in told
    assert "+hset" in told


def test_errors_that_pass_are_no_refusals() -> None:
    for text in ("LOADING Redis is loading", "ERR max number of clients reached", "BUSY x"):
        assert refusal(text) == ""
    assert refusal("ERR DB index is out of range") == "ERR DB index is out of range"
    assert isinstance(error_of("OOM command not allowed", Call("add", [b"k"], [])), NotDone)
    assert what_is_missing("ERR value is not an integer") == ""
